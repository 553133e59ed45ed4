"""Less evidence makes answers wider or unknown, never wrong: every golden capture with parts of it lost by chance.

Logs are rotated away, not collected from every broker, or end in the middle of a rebalance; a topic that is read for
the first time was compacted long ago.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import TypeAlias

import pytest

from ingest.evidence import read_evidence
from rebalance_audit.domain.gather.groups import gather
from rebalance_audit.domain.measure.pauses import measure
from rebalance_audit.domain.model import SourceLine, SourceRecord
from rebalance_audit.domain.reconstruct import reconstruct
from tests.captures import CAPTURES, name_of
from tests.score import score_of
from tests.truth import scenario

Lines: TypeAlias = Sequence[SourceLine]
Records: TypeAlias = Sequence[SourceRecord]

WITH_GROUPS = [
    capture
    for capture in CAPTURES
    # A group that is converted uses its numbers twice, and the truth does not say which of them a row is.
    if (groups := scenario(capture).get("groups")) and all(g["group_type"] != "mixed" for g in groups.values())
]
SEEDS = range(2)


def without_a_node(lines: Lines, records: Records, random: Random) -> tuple[Lines, Records]:
    nodes = sorted({line.node for line in lines})
    lost = set(random.sample(nodes, random.randint(1, len(nodes) - 1))) if len(nodes) > 1 else set()
    return [line for line in lines if line.node not in lost], records


def without_a_stretch_of_lines(lines: Lines, records: Records, random: Random) -> tuple[Lines, Records]:
    begin = random.randrange(len(lines) + 1)
    end = begin + random.randrange(len(lines) // 2 + 1)
    return [*lines[:begin], *lines[end:]], records


def without_the_first_lines(lines: Lines, records: Records, random: Random) -> tuple[Lines, Records]:
    return lines[random.randrange(len(lines) + 1) :], records


def without_the_last_lines(lines: Lines, records: Records, random: Random) -> tuple[Lines, Records]:
    return lines[: random.randrange(len(lines) + 1)], records


def without_the_first_records(lines: Lines, records: Records, random: Random) -> tuple[Lines, Records]:
    return lines, [record for of_partition in parted(records) for record in of_partition[cut(of_partition, random) :]]


def compacted(lines: Lines, records: Records, random: Random) -> tuple[Lines, Records]:
    """Up to some offset of each partition the last record of each key is left."""
    last = {(r.topic, r.partition, r.key): r.offset for r in records}
    kept = []
    for of_partition in parted(records):
        at = cut(of_partition, random)
        head = [r for r in of_partition[:at] if last[r.topic, r.partition, r.key] == r.offset]
        kept += [*head, *of_partition[at:]]
    return lines, kept


def parted(records: Records) -> list[list[SourceRecord]]:
    by_partition: dict[tuple[str, int], list[SourceRecord]] = {}
    for record in records:
        by_partition.setdefault((record.topic, record.partition), []).append(record)
    return list(by_partition.values())


def cut(of_partition: Records, random: Random) -> int:
    return random.randrange(len(of_partition))


LOSSES: tuple[Callable[[Lines, Records, Random], tuple[Lines, Records]], ...] = (
    without_a_node,
    without_a_stretch_of_lines,
    without_the_first_lines,
    without_the_last_lines,
    without_the_first_records,
    compacted,
)


@pytest.mark.parametrize("capture", WITH_GROUPS, ids=name_of)
def test_nothing_becomes_wrong(capture: Path) -> None:
    source = read_evidence(capture)
    lines, records = list(source.lines()), list(source.records())
    for loss in LOSSES:
        for seed in SEEDS:
            some_lines, some_records = loss(lines, records, Random(seed))
            groups = {g.group_id: reconstruct(g) for g in gather(some_records, some_lines).groups}
            measured = {
                g: replace(found, rebalances=tuple(measure(row) for row in found.rebalances))
                for g, found in groups.items()
            }
            tally = score_of(capture, "all", measured)
            how = f"{loss.__name__}, seed {seed}"
            wrong = [x for x in tally.remarks if ", was " in x and "unknown, was" not in x]
            assert tally.wrong == 0, (how, wrong)
            outside = [
                f"{pause.resource} {pause.pause_ms} ms, not in [{shown.pause_lower_ms} {shown.pause_upper_ms}]"
                for pause, shown, _ in tally.pauses.outside
            ]
            assert not outside, (how, outside)
