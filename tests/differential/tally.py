"""What a run compared, and where the two disagree."""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.differential.oracle import Answer, Case


@dataclass(frozen=True, slots=True)
class Disagreement:
    case: Case
    release: str
    what: str
    kafka: Answer
    ours: str

    def __str__(self) -> str:
        key, value = (None if part is None else part.hex() for part in (self.case.key, self.case.value))
        return (
            f"{self.release} {self.case.kind.name}: {self.what}\n  key {key}\n  value {value}\n"
            f"  Kafka: {self.kafka}\n  ours:  {self.ours}"
        )


@dataclass(slots=True)
class Tally:
    """What a run has seen; printed, so that a run that compared nothing cannot look like one that found nothing."""

    cases: int = 0
    comparisons: int = 0
    """A case with a release that knows its type."""
    accepted: int = 0
    refused: int = 0
    trailing: int = 0
    """Refused by us alone, for bytes after the end."""
    bad_utf8: int = 0
    """Refused by us alone, for text that is not UTF-8."""
    seen: set[tuple[str, int, int]] = field(default_factory=set)
    """Release, record type and value version that was read by both."""
    disagreements: list[Disagreement] = field(default_factory=list)

    def add(self, other: Tally) -> None:
        for name in ("cases", "comparisons", "accepted", "refused", "trailing", "bad_utf8"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.seen |= other.seen
        self.disagreements += other.disagreements

    def __str__(self) -> str:
        return (
            f"{self.cases:,} cases, {self.comparisons:,} comparisons: {self.accepted:,} read alike, "
            f"{self.refused:,} refused alike, by us alone {self.trailing:,} for trailing bytes and "
            f"{self.bad_utf8:,} for text that is not UTF-8; {len(self.seen)} types and versions; "
            f"{len(self.disagreements)} disagreements"
        )
