"""Addresses that name nothing, and times that are none."""

from pathlib import Path

import pytest

from tests.app.gold_rows import CLUSTER
from tests.app.opening import Open, said


@pytest.mark.parametrize(
    ("view", "params", "answer"),
    [
        ("group", {}, "The address names no group."),
        ("group", {"cluster": CLUSTER, "group": "nobody"}, "Nothing is known of group nobody"),
        ("rebalance", {}, "The address names no rebalance."),
        ("rebalance", {"cluster": "x", "rebalance": "y"}, "Nothing is known of rebalance y"),
        ("reassignment", {}, "The address names no reassignment."),
        ("reassignment", {"cluster": "x", "reassignment": "y"}, "Nothing is known of reassignment y in cluster x"),
        ("evidence", {"cluster": CLUSTER, "ref": "metadata:broker-1@812"}, "Its bytes are not in this warehouse"),
        ("evidence", {}, "The address names none."),
        ("evidence", {"cluster": CLUSTER, "ref": "<b>"}, "<b> is no reference to a record or a log line."),
        ("evidence", {"cluster": CLUSTER, "ref": "record:t-0@5"}, "Its bytes are not in this warehouse"),
        ("findings", {"cluster": CLUSTER, "finding": "zz"}, "Nothing is known of finding zz"),
        ("group", {"cluster": CLUSTER, "group": "orders", "from": "x", "to": "-1"}, "2 rebalances in 1 h"),
        (
            "group",
            {"cluster": CLUSTER, "group": "orders", "from": "9", "to": "99"},
            "No rebalance in this time; the last was 2026-11-21",
        ),
    ],
)
def test_a_wrong_address_is_answered_kindly(
    opened: Open, full_warehouse: Path, view: str, params: dict[str, str], answer: str
) -> None:
    assert answer in said(opened(full_warehouse, view, **params))
