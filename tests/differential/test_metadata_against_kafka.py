"""Records of the metadata log beside Kafka's classes of three releases."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.differential.counted import LINES
from tests.differential.metadata import batches, captured_cases, compare
from tests.differential.oracle import RELEASES, Oracle
from tests.differential.tally import Tally
from tests.domain.metadata.encoder import LAYOUTS

pytestmark = pytest.mark.differential

CASES = int(os.environ.get("DIFFERENTIAL_CASES", "50000"))
SEED = int(os.environ.get("DIFFERENTIAL_SEED", "1"))


@pytest.fixture(scope="module")
def oracle() -> Iterator[Oracle]:
    with Oracle() as each:
        yield each


def test_captured_logs_and_checkpoints_are_read_as_kafka_reads_them(oracle: Oracle) -> None:
    tally, cases = Tally(), list(captured_cases())
    for case, answer in zip(cases, oracle.ask(cases), strict=True):
        compare(case, answer, RELEASES, tally)
    LINES.append(f"captured metadata: {tally}")
    assert not tally.disagreements, "\n".join(map(str, tally.disagreements[:5]))
    assert tally.cases > 500


def test_generated_and_damaged_records_are_read_or_refused_as_kafka_does(oracle: Oracle) -> None:
    tally = Tally()
    for cases, answers in oracle.ask_all(batches(SEED, CASES)):
        for case, answer in zip(cases, answers, strict=True):
            compare(case, answer, RELEASES, tally)
    LINES.append(f"generated metadata: {tally}")
    assert not tally.disagreements, "\n".join(map(str, tally.disagreements[:5]))
    if CASES >= 50_000:
        read_by_some = {(number, version) for _, number, version in tally.seen}
        assert read_by_some >= LAYOUTS.keys() - {(29, 0)}  # which no released Kafka has
