"""What is wrong with certificates, against a TLS listener that asks for one as a broker does. No JVM."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from infra.lab.security import STORE_PASSWORD, Authority, Certified
from ingest.refusals import refusal, tls_fault

FORMS = ("files", "both in one file", "PEM", "PKCS12")


def as_form(form: str, own: Certified) -> dict[str, str]:
    return {
        "files": {"ssl.certificate.location": str(own.certificate), "ssl.key.location": str(own.key)},
        "both in one file": {"ssl.certificate.location": str(own.both)},
        "PEM": {"ssl.certificate.pem": own.certificate.read_text(), "ssl.key.pem": own.key.read_text()},
        "PKCS12": {"ssl.keystore.location": str(own.store), "ssl.keystore.password": STORE_PASSWORD},
    }[form]


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("ca"), "ours")


@pytest.fixture(scope="module")
def config(authority: Authority) -> Iterator[dict[str, str]]:
    """Of a client without a certificate of its own."""
    server = authority.issue("broker")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(authority.certificate))
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_cert_chain(server.both)
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                plain, _ = listener.accept()
            except OSError:
                return
            with contextlib.suppress(OSError), context.wrap_socket(plain, server_side=True) as secured:
                secured.recv(1)

    threading.Thread(target=serve, daemon=True).start()
    yield {
        "bootstrap.servers": f"127.0.0.1:{listener.getsockname()[1]}",
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": str(authority.certificate),
    }
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()


@pytest.mark.parametrize("form", FORMS)
def test_our_own_certificate_is_shown_as_the_client_shows_it(
    config: dict[str, str], authority: Authority, tmp_path: Path, form: str
) -> None:
    assert tls_fault(config | as_form(form, authority.issue("us"))) is None
    other = Authority(tmp_path, "others").issue("stranger")
    fault = tls_fault(config | as_form(form, other))
    assert fault is not None
    assert "does not accept our certificate CN=stranger, issued by CN=others; use one of an authority" in fault


def test_a_wrong_password_is_not_laid_to_a_good_certificate(config: dict[str, str], authority: Authority) -> None:
    client = config | as_form("PKCS12", authority.issue("us")) | {"sasl.mechanism": "PLAIN", "sasl.username": "shop"}
    said = refusal(client, ["SASL authentication error: Authentication failed"])
    assert said == (
        f"{client['bootstrap.servers']} refused user 'shop' or the password (PLAIN); check both, and that the broker "
        "knows this user for PLAIN."
    )


def test_a_client_without_a_certificate_hears_that_one_is_asked_for(config: dict[str, str]) -> None:
    fault = tls_fault(config)
    assert fault is not None
    assert "asks for a client certificate and none is given; set ssl.keystore.location" in fault


def test_certificates_out_of_their_time_are_named(config: dict[str, str], authority: Authority) -> None:
    fault = tls_fault(config | as_form("files", authority.issue("late", days=-2)))
    assert fault is not None
    assert fault.startswith("Our own certificate CN=late expired on ")


def test_a_key_that_does_not_open_is_no_verdict_on_the_certificate(
    config: dict[str, str], authority: Authority
) -> None:
    us, other = authority.issue("us"), authority.issue("other")
    mixed = {"ssl.certificate.location": str(us.certificate), "ssl.key.location": str(other.key)}
    assert tls_fault(config | mixed) is None
