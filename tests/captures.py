"""The golden captures, and everything known about their groups."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from ingest.evidence import read_evidence
from rebalance_audit.domain.gather.groups import Gathered, gather

GOLDEN = Path(__file__).parent / "golden"
CAPTURES = sorted(path.parent for path in GOLDEN.glob("*/*/origin.json"))
ROOT = GOLDEN.parents[1]


def kept() -> list[Path]:
    """The golden ones, those in `not_yet` of which something is still wrong, and those in `captures/` that are not in
    the repository; of several of one name the first."""
    folders = [*CAPTURES, *(p.parent for p in sorted((ROOT / "tests/not_yet").glob("*/*/origin.json")))]
    folders += [path.parent for path in sorted((ROOT / "captures").glob("**/origin.json"))]
    by_name = {name_of(folder): folder for folder in reversed(folders)}
    return [folder for folder in folders if by_name[name_of(folder)] == folder]


def name_of(capture: Path) -> str:
    return f"{capture.parent.name}-{capture.name}"


@cache
def gathered(capture: Path, *, with_lines: bool = True) -> Gathered:
    """All groups of a capture, as `explain` sees them."""
    evidence = read_evidence(capture)
    return gather(evidence.records(), evidence.lines() if with_lines else ())
