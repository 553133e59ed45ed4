"""The golden captures, and everything known about their groups."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from ingest.evidence import read_evidence
from rebalance_audit.domain.gather.groups import Gathered, gather

GOLDEN = Path(__file__).parent / "golden"
CAPTURES = sorted(path.parent for path in GOLDEN.glob("*/*/origin.json"))


def name_of(capture: Path) -> str:
    return f"{capture.parent.name}-{capture.name}"


@cache
def gathered(capture: Path, *, with_lines: bool = True) -> Gathered:
    """All groups of a capture, as `explain` sees them."""
    evidence = read_evidence(capture)
    return gather(evidence.records(), evidence.lines() if with_lines else ())
