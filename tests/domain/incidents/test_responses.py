"""Answers to incidents: the first acknowledgement stands, a silence covers all groups of an incident or none of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rebalance_audit.domain.incidents import Incident
from rebalance_audit.domain.incidents.responses import (
    ResponseRefused,
    acknowledged_words,
    acknowledgement,
    response_of,
    response_row,
    silence,
    silenced_words,
    standing,
    standing_words,
)

T0 = 1_763_733_791_000  # 2025-11-21 14:03:11 UTC
HOUR = 3_600_000
TROUBLE = Incident(
    cluster_id="prod", incident_id="in:1", kind="storm", root_cause="member_poll_timeout", root_cause_tier="logged",
    group_ids=("orders", "orders-audit"), first_at_ms=T0, last_at_ms=T0, status="open", expected=False,
    severity="warning", title="t", story="s",
)  # fmt: skip


def test_the_first_of_two_who_acknowledge_stands_and_the_second_is_kept() -> None:
    anna = acknowledgement(TROUBLE, " anna ", T0 + 1, "rolling back")
    ben = acknowledgement(TROUBLE, "ben", T0 + 2, None)
    for order in ([anna, ben], [ben, anna]):
        stands = standing(TROUBLE, order, T0 + 3)
        assert (stands.acknowledged, stands.also) == (anna, (ben,))
    assert acknowledged_words(stands) == "acknowledged by anna at 2025-11-21 14:03:11 UTC: rolling back; also by ben"
    assert response_of(response_row(anna)) == anna


def test_in_the_same_millisecond_all_readers_agree_on_the_first() -> None:
    both = [acknowledgement(TROUBLE, name, T0, None) for name in ("anna", "ben")]
    assert standing(TROUBLE, both, T0).acknowledged == standing(TROUBLE, both[::-1], T0).acknowledged


def test_an_acknowledgement_is_of_one_incident_of_one_cluster() -> None:
    other = acknowledgement(replace(TROUBLE, cluster_id="test"), "anna", T0, None)
    assert standing_words(standing(TROUBLE, [other], T0)) == []


@pytest.mark.parametrize(
    ("pattern", "cluster_id", "is_covered"),
    [
        ("orders*", None, True), ("*", None, True), ("orders*", "prod", True), ("in:1", "prod", True),
        ("orders", None, False), ("orders*", "test", False), ("ORDERS*", None, False), ("in:2", None, False),
    ],
)  # fmt: skip
def test_a_silence_covers_an_incident_if_it_fits_all_its_groups(
    pattern: str, cluster_id: str | None, is_covered: bool
) -> None:
    made = silence(pattern, "anna", T0, T0 + HOUR, "planned", cluster_id)
    assert (standing(TROUBLE, [made], T0 + 1).silenced == made) is is_covered


def test_an_incident_of_no_group_is_silenced_by_its_culprits() -> None:
    moved = replace(TROUBLE, group_ids=(), culprits=("broker 4",))
    made = silence("broker *", "anna", T0, T0 + HOUR, "planned")
    assert standing(moved, [made], T0).silenced == made
    assert standing(replace(moved, culprits=()), [made], T0).silenced is None


def test_a_silence_ends_at_its_end_and_the_last_of_a_pattern_stands() -> None:
    made = silence("orders*", "anna", T0, T0 + HOUR, "planned")
    assert silenced_words(standing(TROUBLE, [made], T0 + HOUR - 1)) == (
        "alerts silenced by anna until 2025-11-21 15:03:11 UTC: planned"
    )
    assert standing(TROUBLE, [made], T0 + HOUR).silenced is None
    lifted = silence("orders*", "ben", T0 + 5, T0 + 5, "done early")
    assert standing(TROUBLE, [made, lifted], T0 + 6).silenced is None
    assert standing(TROUBLE, [made, lifted], T0 + 4).silenced == made


@pytest.mark.parametrize(
    ("until_ms", "reason", "pattern", "why"),
    [
        (None, "planned", "*", "A silence needs an end; say until when, as 2h or 2026-11-21T14:00."),
        (T0 + 1, None, "*", "A silence needs a reason; say why, for those who look for the alert."),
        (T0 - 1, "planned", "*", "which is past"),
        (T0 + 400 * 24 * HOUR, "planned", "*", "within a year"),
        (10**18, "planned", "*", "within a year"),
        (T0 + 1, " ", "*", "The reason is empty"),
        (T0 + 1, "planned", "", "The pattern is empty"),
        (T0 + 1, "planned", "x" * 250, "The pattern has 250 characters"),
    ],
)
def test_what_is_no_silence_is_refused(until_ms: int | None, reason: str | None, pattern: str, why: str) -> None:
    with pytest.raises(ResponseRefused) as refused:
        silence(pattern, "anna", T0, until_ms, reason)
    assert why in str(refused.value)


def test_hostile_names_and_reasons_stay_on_their_line() -> None:
    made = acknowledgement(TROUBLE, "a\x1b[2J\nb", T0, "x" * 500)
    said = acknowledged_words(standing(TROUBLE, [made], T0)) or ""
    assert said.startswith("acknowledged by a\\x1b[2J\\nb at ")
    assert len(said) < 300
