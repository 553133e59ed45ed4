"""Movements by lines of members' steps: against what the clients of the captures saw, and by hand."""

from __future__ import annotations

import pytest

from rebalance_audit.domain.kinds import MovementKind
from rebalance_audit.domain.model import LogEvent, LogKind, log_ref
from rebalance_audit.domain.reconstruct.epochs.steps import ByLines, Place, steps_of_lines
from tests.captures import GOLDEN
from tests.score import score

TOPIC = "Zr3P1oRtRl2fS0zCh5uFCw"


@pytest.mark.parametrize("version", ["3.7.2", "3.8.1"])
def test_members_steps_show_every_hand_over_of_early_access(version: str) -> None:
    tally = score(GOLDEN / version / "kip848_early_access", "logs")
    assert (tally.found, tally.missed, tally.invented) == (6, 0, 0)
    assert (tally.steps_exact, tally.steps, tally.steps_wrong) == (16, 16, 0)
    assert (tally.pauses.inside, tally.pauses.pauses) == (10, 10)


def a_line(at_s: int, kind: LogKind, **fields: object) -> LogEvent:
    ref = log_ref("n1", "server.log", "f", at_s)
    at_ms = at_s * 1_000
    return LogEvent(kind=kind, ref=ref, node="n1", local_at_ms=at_ms, at_ms=at_ms, group_id="g", fields=fields)


def a_step(at_s: int, member: str, epoch: int, given: str, revoked: str = "") -> LogEvent:
    texts = {"assigned_text": f"[{given}]", "revoked_text": f"[{revoked}]"}
    return a_line(at_s, LogKind.MEMBER_STATE_CHANGED, member_id=member, member_epoch=epoch, **texts)


def an_epoch(at_s: int, number: int) -> LogEvent:
    return a_line(at_s, LogKind.EPOCH_BUMPED, group_epoch=number)


def shown(epochs: dict[Place, ByLines], number: int) -> list[tuple[str, str, str | None, str | None]]:
    moved = epochs[number, 0].movements.values()
    return [(m.resource, m.kind, m.from_member_id, m.to_member_id) for m in moved]


NAMED = a_line(
    1, LogKind.TOPIC_METADATA_COMPUTED, metadata=f"{{orders=TopicMetadata(id={TOPIC}, name=orders, numPartitions=2)}}"
)


def test_what_is_taken_away_goes_to_its_new_owner_in_the_new_owners_epoch() -> None:
    epochs = steps_of_lines(
        [
            NAMED,
            an_epoch(2, 1),
            a_step(3, "m1", 1, f"{TOPIC}-0, {TOPIC}-1"),
            an_epoch(10, 2),
            a_step(11, "m2", 2, ""),
            a_step(12, "m1", 1, f"{TOPIC}-0", f"{TOPIC}-1"),
            a_step(14, "m1", 2, f"{TOPIC}-0"),
            a_step(15, "m2", 2, f"{TOPIC}-1"),
        ],
        {},
    )
    assert shown(epochs, 1) == [("orders-0", "assigned", None, "m1"), ("orders-1", "assigned", None, "m1")]
    assert shown(epochs, 2) == [("orders-1", "moved", "m1", "m2")]
    marks = epochs[2, 0].movements["orders-1"].stop_marks
    assert [(m.bound, m.at_ms) for m in marks] == [("lower", 11_990), ("estimate", 12_000), ("upper", 14_010)]
    assert epochs[2, 0].resource_count == 2


def test_a_member_that_joins_again_under_its_id_may_have_worked_until_then() -> None:
    epochs = steps_of_lines(
        [
            NAMED,
            an_epoch(2, 1),
            a_step(3, "m1", 1, f"{TOPIC}-0"),
            a_line(20, LogKind.MODERN_MEMBER_LEFT, member_id="m1"),
            an_epoch(21, 2),
            a_step(22, "m2", 2, f"{TOPIC}-0"),
            a_line(30, LogKind.MODERN_MEMBER_JOINED, member_id="m1"),
        ],
        {},
    )
    upper = next(m for m in epochs[2, 0].movements["orders-0"].stop_marks if m.bound == "upper")
    assert upper.at_ms == 30_010


def test_a_topic_that_no_line_names_keeps_its_id_and_a_cut_step_says_nothing() -> None:
    cut = a_line(4, LogKind.MEMBER_STATE_CHANGED, member_id="m1", to_text="CurrentAssignment(memberEpoch=1, assigned")
    epochs = steps_of_lines([an_epoch(2, 1), a_step(3, "m1", 1, f"{TOPIC}-0"), cut], {})
    assert shown(epochs, 1) == [(f"{TOPIC}-0", MovementKind.ASSIGNED, None, "m1")]


def test_before_its_history_is_known_nothing_is_said_to_have_had_no_owner() -> None:
    epochs = steps_of_lines([NAMED, an_epoch(2, 7), a_step(3, "m1", 7, f"{TOPIC}-0")], {})
    assert shown(epochs, 7) == []


def test_tasks_of_streams_are_read_from_its_own_form() -> None:
    task = a_line(
        3, LogKind.MEMBER_STATE_CHANGED, member_id="m1", member_epoch=2, group_type="streams",
        assigned_text="(active=[0-1@2, 1-0@2], standby=[0-7], warmup=[0-8])",
        revoked_text="(active=[0-2@1], standby=[], warmup=[])",
    )  # fmt: skip
    epochs = steps_of_lines([an_epoch(2, 2), task], {})
    assert [r for r, *_ in shown(epochs, 2)] == ["0_1", "1_0"]
