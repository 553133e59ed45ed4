"""docs/log_lines.md says what the code understands."""

from __future__ import annotations

from pathlib import Path

import pytest

from rebalance_audit.domain.log_lines import clients, connect_worker, java_coordinator, scala_coordinator
from rebalance_audit.domain.log_lines.controller_events import ControllerKind
from rebalance_audit.domain.log_lines.controller_forms import BROKER, KRAFT, LEADER, ZOOKEEPER
from rebalance_audit.domain.log_lines.rules import Rules
from rebalance_audit.domain.model import LogKind

PAGE = (Path(__file__).parents[3] / "docs" / "log_lines.md").read_text(encoding="utf-8")
TABLES: list[Rules] = [
    scala_coordinator.RULES,
    java_coordinator.RULES,
    connect_worker.GROUP_RULES,
    connect_worker.TASK_RULES,
    clients.RULES,
]
FORMS = [(rule.kind.value, rule.template.text) for table in TABLES for rule in table.all()]
FORMS += [("partitions_changed_in_bulk", "<context:word>: changing <count:int> partition(s)")]
FORMS += [(form[0].value, form[1]) for form in (*ZOOKEEPER, *BROKER, *LEADER, *KRAFT)]


@pytest.mark.parametrize(("kind", "form"), FORMS)
def test_every_form_is_on_the_page(kind: str, form: str) -> None:
    shown = form.replace("|", "\\|").replace("\n", "⏎").replace("\t", "⇥").replace("`", "ˋ")
    assert f"| `{kind}` | `{shown}` |" in PAGE


def test_every_kind_of_event_has_a_form() -> None:
    kinds = {kind for kind, _ in FORMS}
    assert {kind.value for kind in LogKind} | {kind.value for kind in ControllerKind} == kinds


def test_every_trigger_of_a_reason_is_on_the_page() -> None:
    for trigger in (
        "member_joined",
        "member_left",
        "member_poll_timeout",
        "member_removed_by_admin",
        "member_session_expired",
        "member_sync_timeout",
        "member_dropped_at_rebalance_timeout",
        "subscription_changed",
        "leader_rejoined",
        "cooperative_follow_up",
        "topic_metadata_changed",
        "streams_follow_up",
        "streams_probing",
        "client_requested",
        "static_member_replaced",
        "assignor_changed",
        "append_failed",
        "coordinator_failover",
        "group_converted",
    ):
        assert f"`{trigger}`" in PAGE
