"""User data of Kafka Streams' assignor beside Kafka's classes of three releases."""

from __future__ import annotations

import os

import pytest

from tests.differential.__main__ import STREAMS_ONE_IN, run_streams
from tests.differential.counted import LINES
from tests.differential.oracle import RELEASES, Kind
from tests.differential.streams import written_cases

pytestmark = pytest.mark.differential

CASES = int(os.environ.get("DIFFERENTIAL_CASES", "50000"))
SEED = int(os.environ.get("DIFFERENTIAL_SEED", "1"))


def test_what_kafka_wrote_and_generated_and_damaged_user_data_is_read_as_kafka_reads_it() -> None:
    tally = run_streams(CASES // STREAMS_ONE_IN, SEED)
    LINES.append(f"Streams user data: {tally}")
    assert not tally.disagreements, "\n".join(map(str, tally.disagreements[:5]))
    assert tally.cases > len(list(written_cases()))
    kinds = (Kind.STREAMS_SUBSCRIPTION, Kind.STREAMS_ASSIGNMENT)
    every_version = {
        (release, int(kind), version) for release in RELEASES for kind in kinds for version in range(1, 12)
    }
    assert tally.seen >= every_version
