"""Signed heads: what the log of evidence is at one moment, under an Ed25519 key that is not in the warehouse."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rebalance_audit.warehouse.storage import WarehouseError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

ENVIRONMENT_KEY = "REBALANCE_AUDIT_KEY"
"""The file with the private key, PEM; `commands.options` has both names as well, since a help text loads no tables."""
ENVIRONMENT_HEADS = "REBALANCE_AUDIT_HEADS"
"""The second place of the heads: a folder or an object-store URL that the warehouse's writer does not share."""


@dataclass(frozen=True, slots=True)
class Head:
    """The first `size` leaves of the log have this root."""

    log: str
    size: int
    root: str
    at_ms: int
    key: str | None = None
    """The public key, raw, hexadecimal; null if nobody signed."""
    signature: str | None = None

    @property
    def message(self) -> bytes:
        """The bytes that are signed: the whole head but its signature."""
        return canonical({name: value for name, value in asdict(self).items() if name != "signature"})

    @property
    def line(self) -> bytes:
        return canonical(asdict(self)) + b"\n"

    @property
    def is_signature_good(self) -> bool:
        """Whether it was made with `key`. An unsigned head has no good one."""
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

        try:
            public = Ed25519PublicKey.from_public_bytes(bytes.fromhex(self.key or ""))
            public.verify(bytes.fromhex(self.signature or ""), self.message)
        except (InvalidSignature, ValueError):
            return False
        return True


def canonical(content: Mapping[str, Any]) -> bytes:
    """JSON in one form: sorted names, no blanks, ASCII."""
    return json.dumps(content, sort_keys=True, separators=(",", ":")).encode("ascii")


def head_of(text: bytes, place: str) -> Head:
    """Raises WarehouseError that names the place."""
    try:
        stated = json.loads(text)
        return Head(
            log=str(stated["log"]), size=int(stated["size"]), root=str(stated["root"]), at_ms=int(stated["at_ms"]),
            key=stated["key"], signature=stated["signature"],
        )  # fmt: skip
    except (ValueError, KeyError, TypeError):
        raise WarehouseError(f"{place} is no head of a log of evidence; restore it from the second place.") from None


def signed(head: Head, key: Ed25519PrivateKey) -> Head:
    unsigned = Head(log=head.log, size=head.size, root=head.root, at_ms=head.at_ms, key=public_text(key))
    return Head(**{**asdict(unsigned), "signature": key.sign(unsigned.message).hex()})


def public_text(key: Ed25519PrivateKey) -> str:
    return key.public_key().public_bytes_raw().hex()


def private_key(file: str | os.PathLike[str]) -> Ed25519PrivateKey:
    """Raises WarehouseError."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        found = load_pem_private_key(Path(file).read_bytes(), password=None)
    except (OSError, ValueError, TypeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no private key in PEM without a password"
        raise WarehouseError(
            f"The key {file} cannot be read: {why}; make one with `rebalance-audit audit key`."
        ) from None
    if not isinstance(found, Ed25519PrivateKey):
        raise WarehouseError(f"The key {file} is no Ed25519 key; make one with `rebalance-audit audit key`.")
    return found


def public_key(file: str | os.PathLike[str]) -> str:
    """The public key of a PEM file with a public or a private key. Raises WarehouseError."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    try:
        found = load_pem_public_key(Path(file).read_bytes())
    except OSError as error:
        raise WarehouseError(f"The key {file} cannot be read: {error.strerror}; check the path.") from None
    except ValueError:
        return public_text(private_key(file))
    if not isinstance(found, Ed25519PublicKey):
        raise WarehouseError(f"The key {file} is no Ed25519 key; give the one that signs the heads.")
    return found.public_bytes_raw().hex()


def make_key(file: str | os.PathLike[str]) -> str:
    """A new private key there, for its owner alone, and the public one beside it (`.pub`). The public key's text."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    key = Ed25519PrivateKey.generate()
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    try:
        with open(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as made:
            made.write(secret)
    except FileExistsError:
        raise WarehouseError(f"{file} is there already; a key is never overwritten, give another name.") from None
    public = key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    Path(f"{os.fspath(file)}.pub").write_bytes(public)
    return public_text(key)
