"""What is wrong with certificates, against a TLS listener that asks for one as a broker does. No JVM."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from infra.lab.security import STORE_PASSWORD, Authority, Certified
from ingest.broker import LiveCluster
from ingest.client_config import from_java
from ingest.errors import Misconfigured
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


@contextlib.contextmanager
def broker_showing(server: Certified, *, clients_of: Authority | None = None) -> Iterator[str]:
    """A listener with that certificate, which asks for one of that authority's."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    if clients_of is not None:
        context.load_verify_locations(str(clients_of.certificate))
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
    try:
        yield f"127.0.0.1:{listener.getsockname()[1]}"
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()


@pytest.fixture(scope="module")
def config(authority: Authority) -> Iterator[dict[str, str]]:
    """Of a client without a certificate of its own."""
    with broker_showing(authority.issue("broker"), clients_of=authority) as address:
        yield {
            "bootstrap.servers": address,
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(authority.certificate),
        }


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


def in_days(days: int) -> str:
    return f"{datetime.now(UTC) + timedelta(days=days):%Y-%m-%d}"


def test_our_own_certificate_out_of_its_time_is_named(config: dict[str, str], authority: Authority) -> None:
    for own, says in (
        (authority.issue("late", days=-2), f"CN=late expired on {in_days(-2)}"),
        (authority.issue("early", from_days=3), f"CN=early is valid from {in_days(3)}"),
    ):
        for form in FORMS:
            assert (tls_fault(config | as_form(form, own)) or "").startswith(f"Our own certificate {says} ")


def test_a_brokers_certificate_out_of_its_time_is_named_and_an_authoritys_is_not_laid_to_it(
    authority: Authority, tmp_path: Path
) -> None:
    old, new = Authority(tmp_path, "old", days=-1), Authority(tmp_path, "new", from_days=1)
    for of, server, says in (
        (authority, authority.issue("late", days=-2), f"The certificate CN=late of HOST expired on {in_days(-2)} "),
        (authority, authority.issue("early", from_days=3), f"The certificate CN=early of HOST is not valid before "
                                                           f"{in_days(3)} "),
        (old, old.issue("good"), "An authority of the certificate CN=good of HOST, issued by CN=old, expired; "),
        (new, new.issue("well"), "An authority of the certificate CN=well of HOST, issued by CN=new, is not valid "
                                 "yet; "),
    ):  # fmt: skip
        with broker_showing(server) as address:
            client = {"bootstrap.servers": address, "security.protocol": "SSL", "ssl.ca.location": str(of.certificate)}
            assert (tls_fault(client) or "").startswith(says.replace("HOST", address)), tls_fault(client)


def test_the_client_says_it_in_one_sentence(authority: Authority) -> None:
    with broker_showing(authority.issue("late", days=-2)) as address:
        client = {"bootstrap.servers": address, "security.protocol": "SSL"}
        with pytest.raises(
            Misconfigured, match=f"^The certificate CN=late of {address} expired on .*; have the broker"
        ):
            LiveCluster(client | {"ssl.ca.location": str(authority.certificate)}, timeout_s=1)


@pytest.mark.parametrize("content", [b"", b"no certificate\n", b"-----BEGIN CERTIFICATE-----\nAAAA\n", None])
def test_a_store_that_cannot_be_read_is_named_in_one_sentence(
    config: dict[str, str], authority: Authority, tmp_path: Path, content: bytes | None
) -> None:
    """None: it is a key where a certificate is wanted."""
    store, own = tmp_path / "store", authority.issue("us")
    store.write_bytes(own.key.read_bytes() if content is None else content)
    trusted, shown = "ssl.truststore.location", {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(store)}
    for properties, java, name in (
        ({trusted: str(store), "ssl.truststore.type": "PEM"}, trusted, "ssl.ca.location"),
        ({trusted: config["ssl.ca.location"], **shown}, "ssl.keystore.location", "ssl.certificate.location"),
    ):
        client = from_java({"security.protocol": "SSL", **properties}, place="client.properties")
        with pytest.raises(Misconfigured) as raised:
            LiveCluster({**client, "bootstrap.servers": config["bootstrap.servers"]}, timeout_s=1)
        assert str(raised.value) == (
            f"{name}, Java's {java}, is {store}, which holds no certificate in PEM that can be read; check what is "
            "there."
        )


def test_a_pkcs12_that_cannot_be_opened_is_named(config: dict[str, str], authority: Authority, tmp_path: Path) -> None:
    (garbage := tmp_path / "store.p12").write_bytes(b"0garbage")
    for store, password in ((garbage, STORE_PASSWORD), (authority.store, "wrong"), (tmp_path / "none.p12", "")):
        trusted = {"ssl.truststore.location": str(store), "ssl.truststore.password": password}
        with pytest.raises(Misconfigured, match=f"the truststore {store} cannot be opened .*; check ssl.truststore"):
            from_java({"security.protocol": "SSL", **trusted}, place="client.properties")
    own = {"ssl.keystore.location": str(garbage), "ssl.keystore.password": STORE_PASSWORD}
    with pytest.raises(Misconfigured, match=f"^ssl.keystore.location is {garbage}, which is no PKCS12; check the path"):
        LiveCluster({**config, **own, "security.protocol": "SSL"}, timeout_s=1)


def test_a_key_that_does_not_open_is_no_verdict_on_the_certificate(
    config: dict[str, str], authority: Authority
) -> None:
    us, other = authority.issue("us"), authority.issue("other")
    mixed = {"ssl.certificate.location": str(us.certificate), "ssl.key.location": str(other.key)}
    assert tls_fault(config | mixed) is None
