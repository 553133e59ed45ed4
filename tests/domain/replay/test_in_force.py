"""What settings were, as the lab set them, beside those that are asked for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from rebalance_audit.domain.client_families import ClientFamily
from rebalance_audit.domain.measure.pauses import measure
from rebalance_audit.domain.reconstruct import reconstruct
from rebalance_audit.domain.replay.in_force import families_in, in_force_of
from rebalance_audit.domain.replay.requests import NAMES
from rebalance_audit.domain.replay.situation import Situation, situation_of
from rebalance_audit.domain.replay.whatif import option_of
from tests.captures import gathered

PAIRS = Path(__file__).parents[2] / "pairs"


def situation(capture: str, group: str) -> Situation:
    (evidence,) = (g for g in gathered(PAIRS / capture).groups if g.group_id == group)
    rows = [measure(r) for r in reconstruct(evidence).rebalances]
    return situation_of(rows, (rows[-1].ended_at_ms or 0) + 1_000)


@pytest.mark.parametrize(
    ("capture", "group", "was"),
    [
        # infra/lab/pairs.py: sessions of 10 s, heartbeats of 3 s, restarts of 5.2 s; members are busy beyond 6 s.
        ("l43-2", "stalls.range.librdkafka.1", {
            "group.instance.id": "none", "session.timeout.ms": "6000", "max.poll.interval.ms": "6000",
            "heartbeat.interval.ms": "3000", "partition.assignment.strategy": "range", "group.protocol": "classic",
            "members": "3", "group.initial.rebalance.delay.ms": "0", "group.remote.assignor": None,
            "connect.protocol": None, "deploy.order": None, "max.poll.records": None,
        }),
        ("l43-2", "deploy.static.librdkafka.2", {
            "group.instance.id": "one for each member", "session.timeout.ms": "30000", "deploy.order": None,
            "internal.leave.group.on.close": None, "deploy.gap": None,
        }),
        ("l43-0", "deploy.range.librdkafka.1", {"deploy.order": "one-by-one"}),
        ("l43-0", "deploy.one-static.librdkafka.1", {"group.instance.id": "d2-instance"}),
        ("l43-0", "deploy.at-once.librdkafka.1", {"deploy.order": "all-at-once"}),
        ("k43-session", "deaths.consumer-session.librdkafka.4", {
            "group.protocol": "consumer", "group.consumer.session.timeout.ms": "20000",
            "group.consumer.heartbeat.interval.ms": "2000", "group.remote.assignor": "uniform",
            "session.timeout.ms": None, "heartbeat.interval.ms": None, "partition.assignment.strategy": None,
        }),
        ("c-bounce-workers-1", "bounce.workers.connect.1", {
            "connect.protocol": "sessioned", "scheduled.rebalance.max.delay.ms": "20000",
            "partition.assignment.strategy": None,
        }),
        ("c-bounce-eager-1", "bounce.eager.connect.1", {
            "connect.protocol": "eager", "scheduled.rebalance.max.delay.ms": None,
        }),
    ],
)  # fmt: skip
def test_what_a_setting_was_is_as_the_lab_set_it_or_not_known(
    capture: str, group: str, was: dict[str, str | None]
) -> None:
    shown = in_force_of(situation(capture, group), NAMES)
    assert {name: shown.get(name) for name in was} == was


def test_members_that_differ_are_said_with_both_ends() -> None:
    found = situation("l43-2", "stalls.range.librdkafka.1")
    first, *others = found.script.lives
    found.script = replace(found.script, lives=(replace(first, session_timeout_ms=45_000), *others))
    assert in_force_of(found, ["session.timeout.ms"]) == {"session.timeout.ms": "6000 to 45000"}
    found.script = replace(found.script, lives=(replace(first, session_timeout_ms=None), *others))
    assert in_force_of(found, ["session.timeout.ms"]) == {}


def test_a_rebalance_timeout_is_the_poll_interval_in_some_libraries_alone() -> None:
    found = situation("j43-1-0", "deploy.range.java.1")
    assert in_force_of(found, ["max.poll.interval.ms"]) == {"max.poll.interval.ms": "300000"}
    found.script = replace(
        found.script, lives=tuple(replace(life, libraries=("java", "sarama")) for life in found.script.lives)
    )
    assert in_force_of(found, ["max.poll.interval.ms"]) == {}


def test_one_member_of_any_library_makes_the_group_one_of_any() -> None:
    found = situation("j43-1-0", "deploy.range.java.1").script
    assert families_in(found) == {ClientFamily.JAVA}
    first, *others = found.lives
    assert len(families_in(replace(found, lives=(replace(first, libraries=None), *others)))) == len(ClientFamily)


def test_nobody_saves_more_than_there_is_to_lose() -> None:
    """Half of the stalls' cost is heartbeats that others waited for; a longer poll interval saves nearly all."""
    found = situation("l43-2", "stalls.range.librdkafka.1")
    option = option_of(found, ["max.poll.interval.ms=30000"])
    saved, upper, left = option.saved_seconds, option.saved_upper_seconds, option.cost_seconds
    assert saved is not None
    assert upper is not None
    assert left is not None
    assert saved > 0
    assert upper <= saved + left + 0.5
