"""The evidence of a golden capture in the order it came into being, piece by piece as a collector lands it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

from ingest.evidence import read_evidence
from rebalance_audit.domain.log_lines import read_head
from rebalance_audit.domain.model import SourceLine, SourceRecord

Arrival = tuple[list[SourceRecord], list[SourceLine]]


def arrivals(capture: Path, piece_ms: int = 300) -> Iterator[Arrival]:
    """Lines are on UTC, as those of the lab are; one without a head comes with the line before it."""
    evidence = read_evidence(capture)
    records = [(record.timestamp_ms, record) for record in evidence.records()]
    lines: list[tuple[int, SourceLine]] = []
    for line in evidence.lines():
        head = read_head(line.text)
        at_ms = lines[-1][0] if head is None and lines else 0
        if head is not None:
            at_ms = head.local_at_ms if head.at_ms is None else head.at_ms
        lines.append((at_ms, line))
    both = sorted([*records, *lines], key=lambda pair: pair[0])  # stable: a partition and a file keep their order
    for _, piece in groupby(both, key=lambda pair: pair[0] // piece_ms):
        items = [item for _, item in piece]
        new = [item for item in items if isinstance(item, SourceLine)]
        yield (
            [item for item in items if isinstance(item, SourceRecord)],
            sorted(new, key=lambda line: (line.node, line.file_id, line.byte)),
        )
