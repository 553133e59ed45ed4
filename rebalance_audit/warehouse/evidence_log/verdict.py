"""What a verification of the log of evidence found."""

from __future__ import annotations

from dataclasses import dataclass, field

from rebalance_audit.warehouse.evidence_log.stated import Fault
from rebalance_audit.warehouse.signing import Head


@dataclass(slots=True)
class Verdict:
    head: Head
    faults: list[Fault] = field(default_factory=list)
    leaves: int = 0
    publications: int = 0
    files: int = 0
    rows: int = 0
    """Rows of bronze."""
    heads: int = 0
    """In the second place."""
    clock_back: list[str] = field(default_factory=list)
    """A sentence for each leaf with a time before that of the leaf before it."""
    unwitnessed: int = 0
    """Leaves after the newest head in the second place."""
    not_yet: list[str] = field(default_factory=list)
    """Tables with evidence or answers that no leaf speaks of yet: the next run adds it."""
