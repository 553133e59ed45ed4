"""A guarded broker: certificates (right, expired, of another host, of another authority), listeners with TLS and
SASL, and rights. Keys live in the run folder and are worth nothing elsewhere."""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import pkcs12
from cryptography.x509.oid import NameOID

STORE_PASSWORD = "lab-store-password"
LISTENERS = {
    "TLS": "SSL", "MUTUAL": "SSL", "EXPIRED": "SSL", "ELSEWHERE": "SSL", "SASL": "SASL_SSL", "OPEN": "SASL_PLAINTEXT",
}  # fmt: skip
"""Doors of the guarded broker: TLS; client certificates required; a server certificate that expired, and one of another
host; SASL over TLS and without."""
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
_SECURITY = "org.apache.kafka.common.security"


@dataclass(frozen=True, slots=True)
class Certified:
    """A certificate with its key, as the files that clients and brokers take."""

    certificate: Path
    key: Path
    both: Path
    """PEM, certificate before key: Kafka's PEM keystore."""
    store: Path
    """PKCS12, under STORE_PASSWORD."""


class Authority:
    """A certificate authority of its own."""

    def __init__(self, folder: Path, name: str, *, from_days: int = -100, days: int = 100) -> None:
        """Valid from so many days from now until so many."""
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        subject = _name(name)
        now = datetime.datetime.now(datetime.UTC)
        self._certificate = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(subject)
            .public_key(self._key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now + datetime.timedelta(days=from_days))
            .not_valid_after(now + datetime.timedelta(days=days))
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .sign(self._key, hashes.SHA256())
        )
        self.certificate = folder / f"{name}.pem"
        self.certificate.write_bytes(self._certificate.public_bytes(serialization.Encoding.PEM))
        self.store = folder / f"{name}.p12"
        trusted = pkcs12.serialize_java_truststore(
            [pkcs12.PKCS12Certificate(self._certificate, b"ca")],
            serialization.BestAvailableEncryption(STORE_PASSWORD.encode()),
        )
        self.store.write_bytes(trusted)

    def issue(self, name: str, *, host: str = "localhost", from_days: int = -95, days: int = 90) -> Certified:
        """Valid from so many days from now until so many; below 0 it was so long ago."""
        key = ec.generate_private_key(ec.SECP256R1())
        now = datetime.datetime.now(datetime.UTC)
        names: list[x509.GeneralName] = [x509.DNSName(host)]
        if host == "localhost":
            names.append(x509.IPAddress(ipaddress.ip_address("127.0.0.1")))
        certificate = (
            x509.CertificateBuilder()
            .subject_name(_name(name))
            .issuer_name(self._certificate.subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now + datetime.timedelta(days=from_days))
            .not_valid_after(now + datetime.timedelta(days=days))
            .add_extension(x509.SubjectAlternativeName(names), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        made = Certified(*(self._folder / f"{name}{end}" for end in (".crt", ".key", ".pem", ".p12")))
        made.certificate.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        made.key.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
        made.both.write_bytes(made.certificate.read_bytes() + made.key.read_bytes())
        made.store.write_bytes(
            pkcs12.serialize_key_and_certificates(
                name.encode(), key, certificate, [self._certificate],
                serialization.BestAvailableEncryption(STORE_PASSWORD.encode()),
            )
        )  # fmt: skip
        return made


def _name(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def guarded_properties(
    authority: Authority, servers: Mapping[str, Certified], users: Mapping[str, str], *, jwks_url: str, audience: str
) -> dict[str, str]:
    """Broker settings for LISTENERS and ACLs. `servers`: a listener's own certificate, and "" for all others; `users`:
    name to password for PLAIN (those of SCRAM are made by an admin client)."""
    settings = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",  # the lab's own listener
    }
    for listener, protocol in LISTENERS.items():
        door = f"listener.name.{listener.lower()}"
        if protocol.endswith("SSL"):
            server = servers.get(listener, servers[""])
            settings |= {
                f"{door}.ssl.keystore.type": "PKCS12",
                f"{door}.ssl.keystore.location": str(server.store),
                f"{door}.ssl.keystore.password": STORE_PASSWORD,
                f"{door}.ssl.key.password": STORE_PASSWORD,
                f"{door}.ssl.truststore.type": "PEM",
                f"{door}.ssl.truststore.location": str(authority.certificate),
                f"{door}.ssl.client.auth": "required" if listener == "MUTUAL" else "none",
            }
        if protocol.startswith("SASL"):
            plain = " ".join(f'user_{name}="{password}"' for name, password in users.items())
            settings |= {
                f"{door}.sasl.enabled.mechanisms": "PLAIN" if listener == "OPEN" else ",".join(MECHANISMS),
                f"{door}.plain.sasl.jaas.config": f"{_SECURITY}.plain.PlainLoginModule required {plain};",
                f"{door}.scram-sha-256.sasl.jaas.config": f"{_SECURITY}.scram.ScramLoginModule required;",
                f"{door}.scram-sha-512.sasl.jaas.config": f"{_SECURITY}.scram.ScramLoginModule required;",
                f"{door}.oauthbearer.sasl.jaas.config": f"{_SECURITY}.oauthbearer.OAuthBearerLoginModule required;",
                f"{door}.oauthbearer.sasl.server.callback.handler.class": (
                    f"{_SECURITY}.oauthbearer.OAuthBearerValidatorCallbackHandler"
                ),
                f"{door}.oauthbearer.sasl.oauthbearer.jwks.endpoint.url": jwks_url,
                f"{door}.oauthbearer.sasl.oauthbearer.expected.audience": audience,
            }
    return settings


def oauth_flags(*urls: str) -> list[str]:
    """Java flags without which Kafka's OAUTHBEARER asks no URL."""
    return [f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={','.join(urls)}"]
