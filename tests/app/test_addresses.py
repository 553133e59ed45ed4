"""Addresses that name nothing, and times that are none."""

from pathlib import Path

import pytest

from tests.app.gold_rows import CLUSTER
from tests.app.opening import Open, links, said


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


@pytest.mark.parametrize(
    ("view", "params", "answer"),
    [
        ("home", {"last": "banana"}, "The address asks for last=banana, which cannot be shown"),
        ("home", {"from": "9", "to": "3"}, "The address asks for from=9&to=3, which cannot be shown"),
        ("groups", {"zone": "Mars/<b>"}, "The address asks for zone=Mars/<b>, which cannot be shown"),
        ("findings", {"rule": "ZZ999"}, "ZZ999, which the address names, is not here."),
        ("groups", {"mode": "<i>"}, "<i>, which the address names, is not here."),
        ("home", {"since": "zzz"}, "The address asks for since=zzz, which cannot be shown"),
        ("findings", {"cluster": "nope"}, "nope, which the address names, is not here."),
        ("findings", {"finding": "nope"}, "nope, which the address names, is not here."),
        ("compare", {"a": '["nope","x"]', "b": "[null,null]"}, "x @ nope, which the address names, is not here."),
        ("compare", {"a": "[null,null]", "b": '["nope",null]'}, "nope, which the address names, is not here."),
        ("compare", {"a": "[1]"}, "[1], which the address names, is not here."),
        ("connect", {"cluster": "zz"}, "zz, which the address names, is not here."),
        ("connect", {"cluster": CLUSTER, "group": "no"}, f"no @ {CLUSTER}, which the address names, is not here."),
    ],
)
def test_what_an_address_asks_for_in_vain_is_said(
    opened: Open, full_warehouse: Path, view: str, params: dict[str, str], answer: str
) -> None:
    page = opened(full_warehouse, view, **params)
    assert answer in said(page)
    odd = {name: value for name, value in params.items() if name in ("last", "zone", "since", "a", "b")}
    assert not odd.items() & dict(page.query_params).items()  # nor does a copied link ask for it


def test_findings_of_a_cluster_that_is_there_are_its_own(opened: Open, full_warehouse: Path) -> None:
    page = opened(full_warehouse, "findings", cluster=CLUSTER)
    assert "is not here" not in said(page)
    assert page.query_params["of"] == CLUSTER


def test_compare_claims_nothing_about_groups_that_are_not_here(opened: Open, full_warehouse: Path) -> None:
    page = said(opened(full_warehouse, "compare", a='["nope","x"]', b='["nope","x"]'))
    assert "What changed, and for which groups?" in page


def test_a_cluster_alone_leads_to_its_own_workers(opened: Open, full_warehouse: Path) -> None:
    assert "is not here" not in said(opened(full_warehouse, "connect", cluster=CLUSTER))


def test_from_an_unknown_incident_one_comes_to_all_incidents(opened: Open, full_warehouse: Path) -> None:
    page = opened(full_warehouse, "incident", cluster=CLUSTER, incident="zz")
    assert [label for label, _ in links(page)] == ["All incidents"]
