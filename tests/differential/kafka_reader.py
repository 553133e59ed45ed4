"""A reader that tolerates what Kafka's classes do, and knows what a release knows."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from rebalance_audit.domain.wire import DecodeError, DecodeReason, Reader, UnknownTags

REPLACED = re.compile("\ufffd+")
_TAG_SINCE = {
    "read_classic": (3, 8),
    "read_topic_id": (4, 1),
    "read_hash": (4, 1),
    "read_validated": (4, 2),
    "read_configs": (4, 2),
    "read_timestamp": (4, 3),
    "read_epochs": (4, 3),
    "read_stored": (4, 4),
    "read_failed": (4, 4),
}
"""From which release on Kafka knows a tagged field, by the name of our function that reads it."""


@dataclass(frozen=True, slots=True)
class Release:
    number: tuple[int, int]
    types: frozenset[int]
    layouts: Mapping[int, str]
    """Of the types with several."""
    checks_value_version: bool = True
    """Otherwise a version it does not know is read as its newest."""
    reads_legacy_commits_of: range = range(1)
    """Value versions of type 0, which only Kafka 0.8.2 wrote, as version 0."""


NEWEST = (4, 4)


class KafkaReader(Reader):
    """Tolerates what Kafka does, and knows the tagged fields of one release."""

    __slots__ = ("release", "replaced")

    def __init__(
        self,
        buf: bytes,
        at: int = 0,
        *,
        flexible: bool = False,
        part: str = "value",
        release: tuple[int, int] = (4, 3),
    ) -> None:
        Reader.__init__(self, buf, at, flexible=flexible, part=part)
        self.release = release
        self.replaced = False

    def nullable_string(self, field: str) -> str | None:
        start = self.at
        try:
            return Reader.nullable_string(self, field)
        except DecodeError as refused:
            if refused.reason is not DecodeReason.BAD_UTF8:
                raise
            end, self.at, self.replaced = self.at, start, True
            self.uvarint(field) if self.flexible else self.int16(field)  # its length
            text, self.at = self.buf[self.at : end].decode("utf-8", "replace"), end
            return text

    def tags(self, known: Mapping[int, Callable[[Reader], None]]) -> UnknownTags:
        return Reader.tags(
            self, {tag: read for tag, read in known.items() if _TAG_SINCE[read.__name__] <= self.release}
        )
