"""Whose doing an incident is, in words that hold no code of a table."""

from dataclasses import replace
from datetime import UTC

import pytest

from app import sentences, words
from app.answers.runbook import rule_name
from rebalance_audit.domain.detect import TABLE_RULES
from rebalance_audit.domain.detect.reassignments import REASSIGNMENT_RULES
from rebalance_audit.domain.detect.rules import GROUP_RULES
from rebalance_audit.domain.reassign.advice import BLOCKER_PHRASES
from rebalance_audit.domain.tables.reassignments import REASSIGNMENT_BLOCKERS
from tests.app.test_copies import LOST, URL

MOVE = replace(LOST, kind="reassignment", culprits=("broker 4",))


def whose(**parts: object) -> str:
    return words.plain(sentences.whose_doing(replace(LOST, **parts)))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("blocker", "said"),
    [
        ("broker_down", "broker 4: a broker was down or fenced"),
        ("disk_failed", "broker 4: the disk with a new copy failed"),
        ("old_replica_out_of_sync", "broker 4: a replica that stays was not in sync"),
        ("throttle", "not a broker's: the throttle held up copying to broker 4"),
        ("adding_and_removing_overlap", "whoever asked for it: the move adds and removes broker 4 at once"),
    ],
)
def test_a_reassignment_is_the_doing_of_brokers_or_of_who_asked_for_it(blocker: str, said: str) -> None:
    assert words.plain(sentences.whose_doing(replace(MOVE, root_cause=blocker))) == said


@pytest.mark.parametrize("cause", [*REASSIGNMENT_BLOCKERS, *GROUP_RULES, *REASSIGNMENT_RULES, *TABLE_RULES])
@pytest.mark.parametrize("culprits", [(), ("broker 4",)])
def test_no_code_stands_alone(cause: str, culprits: tuple[str, ...]) -> None:
    kind = "reassignment" if cause in REASSIGNMENT_BLOCKERS else "evidence"
    said = whose(kind=kind, root_cause=cause, culprits=culprits)
    assert "_" not in said
    assert said != cause
    assert f": {cause}" not in said
    if cause in REASSIGNMENT_BLOCKERS:
        assert cause in BLOCKER_PHRASES
    else:
        assert rule_name(cause).lower() in said.lower()


def test_what_no_member_did_is_no_members_doing() -> None:
    assert whose(kind="reassignment", root_cause="controller_unavailable", culprits=()) == (
        "no single broker: there was no active controller"
    )
    eager = whose(kind="configuration", root_cause="CN006", culprits=())
    assert eager == "no single member or broker: eager Connect (CN006)"
    assert whose(kind="evidence", root_cause="TR004", culprits=()) == (
        "no single member or broker: contradiction (TR004)"
    )
    broken = whose(kind="configuration", root_cause="RB017", culprits=())
    assert broken == "the members that the title names: broken subscription (RB017)"


def test_an_administrator_removed_members_and_not_they_themselves() -> None:
    removed = replace(LOST, kind="removal", root_cause="member_removed_by_admin", culprits=("a2-instance", "a1"))
    assert sentences.whose_doing(removed) == "<b>an administrator</b> removed a2-instance, a1"
    text = sentences.postmortem(removed, "shop", [], 0, UTC, URL)
    assert "\n\nan administrator removed a2-instance, a1 (said by a log line)\n\n" in text


def test_a_name_is_text_on_a_page() -> None:
    assert "&lt;b&gt;x" in sentences.whose_doing(replace(LOST, culprits=("<b>x",)))


def test_members_are_said_to_have_done_it_themselves_and_not_what_another_one_did() -> None:
    parts = {"kind": "member_fault", "root_cause": "member_poll_timeout"}
    assert whose(**parts, culprits=("c1",)) == "c1: exceeded its poll interval"
    assert whose(**parts, culprits=("c1", "c2")) == "c1, c2: exceeded their poll interval"
    both = whose(**parts, culprits=("c1", "c2"), title="c1 exceeded its poll interval; c2 sent no heartbeat")
    assert both == "c1, c2: what each did, the title says"
