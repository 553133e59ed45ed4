"""Advice of stored findings and incidents beside gold.whatif."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from deltalake.exceptions import DeltaError

from rebalance_audit.domain.detect.client_advice import WEIGH_STATIC
from rebalance_audit.warehouse.advice import advise, advised, weigh
from rebalance_audit.warehouse.storage import TableGoneError
from rebalance_audit.warehouse.warehouse import Warehouse
from tests.alerts.incidents import an_incident

ADVICE = f"A group.instance.id spares the others, {WEIGH_STATIC}."
SAID = "replayed with group.instance.id=auto, this group would have stood still for 43.3 partition-seconds (likely"


class Stored:
    def __init__(self) -> None:
        self.asked: list[Sequence[Any]] = []

    def __call__(self, sql: str, params: Sequence[Any]) -> list[dict[str, Any]]:
        self.asked.append(params)
        row = {
            "cluster_id": "a",
            "group_id": "orders",
            "settings": ["group.instance.id=auto"],
            "saved_seconds": -43.3,
            "saved_lower_seconds": -59.9,
            "saved_upper_seconds": -36.6,
        }
        nothing = dict.fromkeys(("saved_seconds", "saved_lower_seconds", "saved_upper_seconds"))
        return [row, row | {"cluster_id": "b", "settings": []} | nothing]


def finding(**more: Any) -> dict[str, Any]:
    return {"cluster_id": "a", "subject_type": "group", "subject": "orders", "advice": ADVICE} | more


def incident(*groups: str) -> dict[str, Any]:
    return {"cluster_id": "a", "group_ids": list(groups), "advice": ADVICE}


def test_a_replay_is_of_one_group_of_one_cluster() -> None:
    rows = [
        finding(),
        incident("orders"),
        finding(cluster_id="b"),
        finding(subject="billing"),
        finding(subject_type="broker"),
        incident("orders", "billing"),
        incident(),
    ]
    weigh(rows, Stored())
    assert [SAID in row["advice"] for row in rows] == [True, True, False, False, False, False, False]
    assert "a replay of this group predicts nothing, `rebalance-audit whatif orders` says why" in rows[2]["advice"]
    assert "to weigh it for this group, run `rebalance-audit whatif billing`" in rows[3]["advice"]
    assert all(row["advice"] == ADVICE for row in rows[4:])


def test_nothing_is_asked_where_no_advice_is_about_what_was_replayed() -> None:
    stored = Stored()
    weigh([finding(advice=None), finding(advice="Look at that host."), finding(subject_type="topic")], stored)
    assert stored.asked == []


def test_one_question_is_asked_for_all_rows_and_of_their_groups_alone() -> None:
    stored = Stored()
    weigh([finding(), finding(subject="billing"), incident("orders")], stored)
    ((groups, _),) = stored.asked
    assert groups == ["billing", "orders"]


def test_members_that_a_broker_expired_send_nobody_to_their_hosts() -> None:
    asked: list[Sequence[Any]] = []

    def ask(sql: str, params: Sequence[Any]) -> list[dict[str, Any]]:
        asked.append(params)
        return [{"cluster_id": "a", "finding_id": "f", "advice": "Look for what held up broker 1."}]

    own = {"cluster_id": "a", "finding_id": "f", "rule_id": "RB007", "subject_type": "group", "subject": "orders"}
    own |= {"advice": "Look at host /10.0.0.9."}
    rows = [own, own | {"finding_id": "g"}, own | {"cluster_id": "b"}, own | {"rule_id": "RB006"}, incident("orders")]
    rows[-1]["advice"] = None
    advise(rows, ask)
    theirs, brokers = "Look at host /10.0.0.9.", "Look for what held up broker 1."
    assert [row["advice"] for row in rows] == [brokers, theirs, theirs, theirs, None]
    assert asked == [[["a", "b"]]]


@pytest.mark.parametrize("fault", [duckdb.IOException("gone"), TableGoneError("gone"), OSError("away"), DeltaError()])
def test_what_cannot_be_read_leaves_the_advice_of_an_alert_as_it_is_stored(fault: Exception, tmp_path: Path) -> None:
    class Damaged(Warehouse):
        def query(self, *args: Any, **kwargs: Any) -> pa.Table:
            raise fault

    (sent,) = advised([an_incident(cluster_id="a", advice=ADVICE)], Damaged.open(tmp_path, create=True))
    assert sent.advice == ADVICE
