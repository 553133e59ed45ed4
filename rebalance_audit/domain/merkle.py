"""The Merkle tree of a log that only grows, as RFC 6962 (section 2.1) hashes it.

A leaf is hashed after a byte 0x00 and an inner node after 0x01, so that neither can be shown as the other. Of n leaves,
the left subtree holds the largest power of two below n.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256

EMPTY = sha256(b"").digest()
"""The root of a log without leaves."""


def leaf_hash(content: bytes) -> bytes:
    return sha256(b"\x00" + content).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    return sha256(b"\x01" + left + right).digest()


@dataclass(frozen=True, slots=True)
class Frontier:
    """The part of a log's tree that is needed to add leaves to it: one hash per bit that is set in its size, the
    largest subtree first."""

    size: int = 0
    hashes: tuple[bytes, ...] = ()

    def __post_init__(self) -> None:
        if len(self.hashes) != self.size.bit_count():
            raise ValueError(
                f"a log of {self.size} leaves has {self.size.bit_count()} subtrees, not {len(self.hashes)}"
            )

    def with_leaf(self, hashed: bytes) -> Frontier:
        """The frontier after one more leaf. `hashed`: the leaf's hash."""
        rest = list(self.hashes)
        size = self.size
        while size & 1:  # two subtrees of one height become one
            hashed = node_hash(rest.pop(), hashed)
            size >>= 1
        return Frontier(self.size + 1, (*rest, hashed))

    def with_leaves(self, hashes: Iterable[bytes]) -> Frontier:
        grown = self
        for hashed in hashes:
            grown = grown.with_leaf(hashed)
        return grown

    @property
    def root(self) -> bytes:
        if not self.hashes:
            return EMPTY
        *others, root = self.hashes
        for left in reversed(others):
            root = node_hash(left, root)
        return root


def roots(hashes: Sequence[bytes], sizes: Iterable[int]) -> dict[int, bytes]:
    """The root of the first n leaves, for each of these sizes that the log has."""
    wanted = {size for size in sizes if 0 <= size <= len(hashes)}
    frontier = Frontier()
    found = {0: frontier.root} if 0 in wanted else {}
    for hashed in hashes:
        frontier = frontier.with_leaf(hashed)
        if frontier.size in wanted:
            found[frontier.size] = frontier.root
    return found
