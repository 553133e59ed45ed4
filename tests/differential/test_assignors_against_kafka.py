"""Each assignor beside Kafka's own class, on generated groups."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.differential.assignors import ALL, AssignorOracle, asked_of_consumers, compare
from tests.differential.counted import LINES
from tests.domain.replay.assignors import endless

pytestmark = pytest.mark.differential

GROUPS = int(os.environ.get("DIFFERENTIAL_GROUPS", "2000"))
SEED = int(os.environ.get("DIFFERENTIAL_SEED", "1"))


@pytest.fixture(scope="module")
def oracle() -> Iterator[AssignorOracle]:
    with AssignorOracle() as running:
        yield running


@pytest.mark.parametrize("assignor", ALL)
def test_every_generated_group_is_assigned_as_kafka_assigns_it(oracle: AssignorOracle, assignor: str) -> None:
    counted = compare(oracle, assignor, GROUPS, SEED)
    LINES.append(f"{assignor}: {counted}")
    assert not counted.disagreements, "\n".join(counted.disagreements)
    assert counted.groups == GROUPS
    assert counted.alike > GROUPS * 0.95


def test_where_kafkas_sticky_assignor_never_ends_ours_says_so(oracle: AssignorOracle) -> None:
    # The oracle gives up after 30 s; a group of this size takes Kafka a millisecond.
    asked = asked_of_consumers("sticky", endless.TOPICS, endless.SUBSCRIBERS)
    (answer,) = oracle.answers([asked.question])
    assert "never ends" in asked.expected["error"]
    assert "no answer" in answer["error"]
