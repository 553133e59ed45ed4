"""Why a connection was refused, in one sentence that says what to do.

librdkafka reports that a certificate was not accepted, but not why. So the listener is tried once more with Python's
own TLS. Causes seen with librdkafka 2.16 and Kafka 4.3: docs/connect-security.md.
"""

from __future__ import annotations

import os
import secrets
import socket
import ssl
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cryptography.x509 import Certificate

PROBE_S = 3.0
PROBED_ADDRESSES = 3
_EXPIRED, _NOT_YET_VALID, _OTHER_HOST, _OTHER_ADDRESS = 10, 9, 62, 64
"""OpenSSL's x509_vfy.h."""


def refusal(config: Mapping[str, Any], reported: Sequence[str]) -> str | None:
    """The sentence for what librdkafka reported while it tried to connect; None if nothing known explains it."""
    address = str(config.get("bootstrap.servers", ""))
    said = " ".join(reported)
    if "OAUTHBEARER token" in said:
        return _no_token(config, reported)
    protocol = _protocol(config)
    if "SSL" in protocol:
        if (fault := tls_fault(config)) is not None:
            return fault
    elif (door := _tls_answers(address)) is not None:
        return f"{door} speaks TLS and security.protocol is {protocol}; set it to SSL or SASL_SSL."
    if "mechanism handshake failed" in said:
        offered = said.rpartition("supported mechanisms:")[2].partition("(")[0].strip()
        if not offered:
            other = protocol.removeprefix("SASL_")
            return f"{address} does no SASL and security.protocol is {protocol}; set it to {other}."
        return f"{address} does not take sasl.mechanism {_mechanism(config)}; it takes {offered}."
    if "uthentication" in said and "SASL" in protocol:
        return _not_authenticated(address, config)
    return None


def guess(config: Mapping[str, Any]) -> str | None:
    """The likely reason, as a sentence, why a broker accepts the connection and closes it without an answer; None if
    nobody is there."""
    protocol = _protocol(config)
    for host, port in _addresses(config):
        try:
            socket.create_connection((host, port), PROBE_S).close()
        except OSError:
            continue
        other = protocol.removeprefix("SASL_") if "SASL" in protocol else f"SASL_{protocol}"
        return (
            f"{host}:{port} takes the connection and does not answer; if its listener is {other} and "
            f"not {protocol}, set security.protocol so"
        )
    return None


def settings_fault(config: Mapping[str, Any], said: str) -> str | None:
    """The sentence for settings that librdkafka refuses to start with; None for others than those about files and
    mechanisms."""
    for name in ("ssl.ca.location", "ssl.certificate.location", "ssl.key.location", "ssl.keystore.location"):
        path = str(config.get(name, ""))
        if path and not os.access(path, os.R_OK):
            java = ", Java's ssl.truststore.location," if name == "ssl.ca.location" else ""
            return (
                f"{name}{java} is {path}, which is not there or may not be read by this user; check the path and its "
                f"rights."
            )
    if "mac verify" in said or "maybe wrong password" in said:
        return f"ssl.keystore.password does not open {config.get('ssl.keystore.location')}; check it."
    if "key values mismatch" in said:
        return "The client's key does not belong to its certificate; give the two that were made together."
    if "bad decrypt" in said or "bad password" in said:
        return "ssl.key.password does not open the client's key; check it."
    for name, java in (
        ("ssl.ca.location", "ssl.truststore.location"), ("ssl.ca.pem", "ssl.truststore.certificates"),
        ("ssl.certificate.location", "ssl.keystore.location"),
    ):  # fmt: skip
        if f"{name} failed" in said or f"from {name}" in said:
            place = "" if name.endswith("pem") else f" is {config.get(name)}, which"
            return f"{name}, Java's {java},{place} holds no certificate in PEM that can be read; check what is there."
    if "ssl.keystore.location" in said:
        return f"ssl.keystore.location is {config.get('ssl.keystore.location')}, which is no PKCS12; check the path."
    if "No provider for SASL mechanism" in said:
        return (
            f"sasl.mechanism {_mechanism(config)} is not in this client, which has PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 "
            f"and OAUTHBEARER; set one of them."
        )
    return None


def principal(config: Mapping[str, Any]) -> str:
    """The user as the broker sees it, in the form kafka-acls.sh wants; `User:…` where only the broker knows."""
    for name in ("sasl.username", "sasl.oauthbearer.client.id"):
        if config.get(name):
            return f"User:{config[name]}"
    own = own_certificate(config)
    return "User:…" if own is None else f"User:{own.subject.rfc4514_string()}"


def _protocol(config: Mapping[str, Any]) -> str:
    return str(config.get("security.protocol", "plaintext")).upper()


def _mechanism(config: Mapping[str, Any]) -> str:
    return str(config.get("sasl.mechanism") or config.get("sasl.mechanisms") or "GSSAPI")


def _not_authenticated(address: str, config: Mapping[str, Any]) -> str:
    mechanism = _mechanism(config)
    if mechanism == "OAUTHBEARER":
        return (
            f"{address} refused the token (OAUTHBEARER); check that it is of the issuer and audience that the broker "
            f"expects, and not expired."
        )
    return (
        f"{address} refused user {str(config.get('sasl.username', ''))!r} or the password ({mechanism}); check both, "
        f"and that the broker knows this user for {mechanism}."
    )


def _no_token(config: Mapping[str, Any], reported: Sequence[str]) -> str:
    endpoint = config.get("sasl.oauthbearer.token.endpoint.url", "the token endpoint")
    why = next((text for text in reported if "oken" in text or "oauth" in text.lower()), "").rstrip(".")
    return (
        f"No token from {endpoint} for client {str(config.get('sasl.oauthbearer.client.id', ''))!r} ({why}); check the "
        f"address, the client's id and its secret."
    )


# ---- TLS


def tls_fault(config: Mapping[str, Any]) -> str | None:
    """The fault between this client's certificates and the first brokers, as a sentence; None if there is none."""
    if (own := own_certificate(config)) is not None:
        if own.not_valid_after_utc < datetime.now(UTC):
            return f"Our own certificate {_named(own)} expired on {_day(own.not_valid_after_utc)}; have it renewed."
        if own.not_valid_before_utc > datetime.now(UTC):
            return (
                f"Our own certificate {_named(own)} is valid from {_day(own.not_valid_before_utc)} on; check the clock."
            )
    for host, port in _addresses(config):
        if (fault := _fault_of(host, port, config, own)) is not None:
            return fault
    return None


def _fault_of(host: str, port: int, config: Mapping[str, Any], own: Certificate | None) -> str | None:
    try:
        context = _context(config)
    except (OSError, ssl.SSLError, ValueError) as error:
        place = config.get("ssl.ca.location") or "ssl.ca.pem"
        return f"The trusted certificates in {place} cannot be read ({error}); check ssl.truststore.location."
    is_shown = own is not None and _shows_own(context, config)
    try:
        with (
            socket.create_connection((host, port), PROBE_S) as plain,
            context.wrap_socket(plain, server_hostname=host) as secured,
        ):
            # With TLS 1.3 a broker refuses after our side is done, so the refusal is what there is to read.
            secured.settimeout(0.5)
            secured.recv(1)
    except ssl.SSLCertVerificationError as error:
        return _not_trusted(host, port, error)
    except TimeoutError:
        return None
    except ssl.SSLError as error:
        reason = str(error.reason or error)
        if "CERTIFICATE" in reason or "UNKNOWN_CA" in reason:
            if own is None:
                return (
                    f"{host}:{port} asks for a client certificate and none is given; set ssl.keystore.location to one "
                    f"that the broker's authority issued."
                )
            if not is_shown:
                return None
            return (
                f"{host}:{port} does not accept our certificate {_named(own)}, issued by "
                f"{own.issuer.rfc4514_string()}; use one of an authority that the broker trusts."
            )
        if "WRONG_VERSION" in reason or "RECORD" in reason or "HTTP" in reason:
            return (
                f"{host}:{port} speaks no TLS and security.protocol is {_protocol(config)}; set it to "
                f"{_protocol(config).replace('SSL', 'PLAINTEXT')}, or use its TLS port."
            )
        return (
            f"{host}:{port} broke off the TLS handshake ({reason}); check the TLS versions and ciphers of both sides."
        )
    except OSError:
        return None  # the connection was closed, or nobody listens: another function reports that
    return None


def _context(config: Mapping[str, Any]) -> ssl.SSLContext:
    context = ssl.create_default_context(
        cafile=config.get("ssl.ca.location") or None, cadata=config.get("ssl.ca.pem") or None
    )
    # What librdkafka asks of a chain, whatever Python: from 3.13 on its default is stricter, and takes partial chains.
    context.verify_flags &= ~(ssl.VERIFY_X509_STRICT | ssl.VERIFY_X509_PARTIAL_CHAIN)
    context.check_hostname = config.get("ssl.endpoint.identification.algorithm", "https") != "none"
    return context


def _shows_own(context: ssl.SSLContext, config: Mapping[str, Any]) -> bool:
    """Have our certificate shown to a broker that asks for one; False if it or its key cannot be read."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.serialization import pkcs12

    password = str(config.get("ssl.key.password", ""))
    try:
        if config.get("ssl.certificate.location"):
            key = config.get("ssl.key.location") or config["ssl.certificate.location"]
            context.load_cert_chain(str(config["ssl.certificate.location"]), str(key), lambda: password)
            return True
        if config.get("ssl.certificate.pem"):
            text = f"{config['ssl.certificate.pem']}\n{config.get('ssl.key.pem', '')}\n".encode()
        else:
            store = Path(str(config["ssl.keystore.location"])).read_bytes()
            opened = str(config.get("ssl.keystore.password", "")).encode() or None
            private, certificate, more = pkcs12.load_key_and_certificates(store, opened)
            if private is None or certificate is None:
                return False
            # Python takes files only, and no key lies on a disk as it is.
            password = secrets.token_hex()
            text = private.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.BestAvailableEncryption(password.encode()),
            ) + b"".join(each.public_bytes(serialization.Encoding.PEM) for each in (certificate, *more))
        with tempfile.NamedTemporaryFile(suffix=".pem") as file:  # for this user alone
            file.write(text)
            file.flush()
            context.load_cert_chain(file.name, password=lambda: password)
    except (OSError, ValueError):  # ssl.SSLError is an OSError
        return False
    return True


def _not_trusted(host: str, port: int, error: ssl.SSLCertVerificationError) -> str:
    shown = _shown_by(host, port)
    named = "" if shown is None else f" {_named(shown)}"
    of_time = error.verify_code in (_EXPIRED, _NOT_YET_VALID)
    if of_time and shown is not None and shown.not_valid_before_utc < datetime.now(UTC) < shown.not_valid_after_utc:
        authority = (
            f"An authority of the certificate{named} of {host}:{port}, issued by {shown.issuer.rfc4514_string()},"
        )
        if error.verify_code == _NOT_YET_VALID:
            return f"{authority} is not valid yet; check this machine's clock and the authority's certificate."
        return (
            f"{authority} expired; have the authority's certificate renewed, and name the new one in "
            f"ssl.truststore.location."
        )
    if error.verify_code == _EXPIRED:
        when = "" if shown is None else f" on {_day(shown.not_valid_after_utc)}"
        return f"The certificate{named} of {host}:{port} expired{when}; have the broker's certificate renewed."
    if error.verify_code == _NOT_YET_VALID:
        when = "yet" if shown is None else f"before {_day(shown.not_valid_before_utc)}"
        return f"The certificate{named} of {host}:{port} is not valid {when}; check this machine's clock."
    if error.verify_code in (_OTHER_HOST, _OTHER_ADDRESS):
        names = "" if shown is None else f" but for {', '.join(_hosts(shown)) or 'no host'}"
        return (
            f"The certificate{named} of {host}:{port} is not for {host}{names}; connect by a name that it has, or have "
            f"{host} added to it."
        )
    issuer = "" if shown is None else f", issued by {shown.issuer.rfc4514_string()},"
    return (
        f"The certificate{named} of {host}:{port}{issuer} is of an authority that is not trusted here "
        f"({error.verify_message}); set ssl.truststore.location to the certificate of that authority."
    )


def _shown_by(host: str, port: int) -> Certificate | None:
    """The certificate that a broker shows, trusted or not: only to name it."""
    from cryptography import x509

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        with (
            socket.create_connection((host, port), PROBE_S) as plain,
            context.wrap_socket(plain, server_hostname=host) as secured,
        ):
            shown = secured.getpeercert(binary_form=True)
            return x509.load_der_x509_certificate(shown) if shown else None
    except (OSError, ValueError):
        return None


def _tls_answers(address: str) -> str | None:
    """The first address that speaks TLS."""
    return next((f"{host}:{port}" for host, port in _split(address) if _shown_by(host, port) is not None), None)


def own_certificate(config: Mapping[str, Any]) -> Certificate | None:
    """The client's certificate that these settings name; None without one, or if it cannot be read."""
    from cryptography import x509
    from cryptography.hazmat.primitives.serialization import pkcs12

    try:
        if config.get("ssl.certificate.pem"):
            return x509.load_pem_x509_certificate(str(config["ssl.certificate.pem"]).encode())
        if config.get("ssl.certificate.location"):
            return x509.load_pem_x509_certificate(Path(str(config["ssl.certificate.location"])).read_bytes())
        if config.get("ssl.keystore.location"):
            password = str(config.get("ssl.keystore.password", "")).encode() or None
            store = Path(str(config["ssl.keystore.location"])).read_bytes()
            return pkcs12.load_key_and_certificates(store, password)[1]
    except (OSError, ValueError):
        return None
    return None


def _named(certificate: Certificate) -> str:
    return certificate.subject.rfc4514_string() or f"number {certificate.serial_number:x}"


def _hosts(certificate: Certificate) -> list[str]:
    from cryptography import x509

    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return []
    return [str(name.value) for name in names if isinstance(name, x509.DNSName | x509.IPAddress)][:5]


def _day(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M} UTC"


def _addresses(config: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    return iter(_split(str(config.get("bootstrap.servers", ""))))


def _split(address: str) -> list[tuple[str, int]]:
    """Host and port of the first brokers; 9092 without a port, as librdkafka has it."""
    found = []
    for each in address.split(",")[:PROBED_ADDRESSES]:
        host, _, port = each.strip().rpartition("://")[2].rpartition(":")
        if not host:
            host, port = port, "9092"
        if port.isdigit():
            found.append((host.strip("[]"), int(port)))
    return found
