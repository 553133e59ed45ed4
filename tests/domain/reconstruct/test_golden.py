"""Captures of real clusters against what their clients saw: generations, causes, movements, pauses.

The expected values are the scenario's own script (what the driver did, who was killed) and the clients' callbacks.
"""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

import pytest

from rebalance_audit.domain.measure import measure
from rebalance_audit.domain.model import Rebalance
from rebalance_audit.domain.reconstruct import reconstruct
from tests.captures import CAPTURES, gathered, name_of
from tests.score import steps_of
from tests.truth import as_known, client_events, group_of_clients, scenario, score_pauses, true_pauses, true_steps

CONSUMER_CAPTURES = [c for c in CAPTURES if "connect" not in c.name and scenario(c).get("groups")]
WATCHED = [c for c in CONSUMER_CAPTURES if "share" not in c.name]
"""Share consumers are not told what they are given."""
SERVER_SIDE = ("kip848", "streams")
LEAST_RIGHT_WITHOUT_LINES = 0.8
"""Silence longer than both the session and max.poll.interval.ms leaves two ways to have gone: `unknown`, not wrong."""


def rebalances(capture: Path, *, with_lines: bool = True) -> dict[str, list[Rebalance]]:
    groups = gathered(capture, with_lines=with_lines).groups
    return {g.group_id: [measure(r) for r in reconstruct(g).rebalances] for g in groups}


def seen_by(x: dict[str, Any], with_lines: bool) -> str:
    """A generation that never got a record is a number missing to who sees records alone."""
    return "missing" if x["outcome"] == "superseded" and not with_lines else x["outcome"]


@pytest.mark.parametrize("capture", CONSUMER_CAPTURES, ids=name_of)
@pytest.mark.parametrize("with_lines", [True, False], ids=["with-logs", "records-only"])
class TestConsumerGroups:
    def test_every_rebalance_is_found_and_none_invented(self, capture: Path, with_lines: bool) -> None:
        found = rebalances(capture, with_lines=with_lines)
        groups = scenario(capture)["groups"]
        for group_id, expected in groups.items():
            told = [(r.generation_id or r.group_epoch, r.kind, r.outcome) for r in found[group_id]]
            assert told == [(x["number"], x["kind"], seen_by(x, with_lines)) for x in expected["rebalances"]]
            for r, x in zip(found[group_id], expected["rebalances"], strict=True):
                assert r.mode == x.get("mode", expected["mode"]) or r.outcome in ("superseded", "missing"), x
        assert not [r for group_id in found.keys() - groups.keys() for r in found[group_id]]

    def test_no_cause_is_wrong(self, capture: Path, with_lines: bool) -> None:
        found = rebalances(capture, with_lines=with_lines)
        for group_id, expected in scenario(capture)["groups"].items():
            for rebalance, x in zip(found[group_id], expected["rebalances"], strict=True):
                allowed = {x["trigger"], x.get("or_trigger")} | (set() if with_lines else {"unknown"})
                assert rebalance.trigger in allowed, (x["number"], rebalance.triggers)

    def test_members_are_those_of_the_script(self, capture: Path, with_lines: bool) -> None:
        story = scenario(capture)
        names = {c["client"]: c.get("known_as") or c.get("client_id", c["client"]) for c in story["clients"]}
        found = rebalances(capture, with_lines=with_lines)
        for group_id, expected in story["groups"].items():
            for rebalance, x in zip(found[group_id], expected["rebalances"], strict=True):
                after = sorted(m.client_id or "" for m in rebalance.members if m.change != "left")
                streams = [f"{names[m]}-StreamThread-1-consumer" for m in x["members"]]
                assert after in (sorted(names[m] for m in x["members"]), sorted(streams)), x["number"]


@pytest.mark.parametrize("capture", WATCHED, ids=name_of)
@pytest.mark.parametrize("with_lines", [True, False], ids=["with-logs", "records-only"])
class TestWhatClientsSaw:
    def test_every_hand_over_is_told_and_none_invented(self, capture: Path, with_lines: bool) -> None:
        found = rebalances(capture, with_lines=with_lines)
        _, steps = as_known(capture, (), true_steps(client_events(capture), group_of_clients(capture)))
        assert steps_of(r for rows in found.values() for r in rows) == steps

    def test_the_clients_pauses_lie_inside_the_bounds(self, capture: Path, with_lines: bool) -> None:
        found = rebalances(capture, with_lines=with_lines)
        events, groups = client_events(capture), group_of_clients(capture)
        truth, _ = as_known(capture, true_pauses(events, groups), {})
        score = score_pauses([r for rows in found.values() for r in rows], truth)
        assert truth
        assert not score.unmatched
        assert not score.outside
        limit_ms = 150 if capture.name.startswith(SERVER_SIDE) else 50
        assert statistics.median(score.errors_ms) <= limit_ms


def test_records_alone_tell_most_causes() -> None:
    right = total = 0
    for capture in CONSUMER_CAPTURES:
        found = rebalances(capture, with_lines=False)
        for group_id, expected in scenario(capture)["groups"].items():
            for rebalance, x in zip(found[group_id], expected["rebalances"], strict=True):
                right += rebalance.trigger in {x["trigger"], x.get("or_trigger")}
                total += 1
    assert right / total >= LEAST_RIGHT_WITHOUT_LINES
