"""A member of one team looks at a warehouse that others share, some of them hostile: every page, every link that names
what is theirs, every download and every remembered answer. And who may answer."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

from app import access
from app.access import Visitor, parsed, visitor_of
from app.answers.rows import FindingFilter
from app.queries import Questions, asked_tables, opened
from rebalance_audit.domain.incidents import incident_row
from rebalance_audit.domain.incidents.responses import ResponseRefused, acknowledgement, silence
from rebalance_audit.domain.teams import Sight, TeamOf
from rebalance_audit.warehouse.arrow_tables import rows_to_table
from rebalance_audit.warehouse.warehouse import Warehouse
from tests.alerts.incidents import T_MS, an_incident
from tests.app import gold_rows
from tests.app.gold_rows import CLUSTER, HOSTILE_GROUP, T0
from tests.app.opening import shown

LISTS = ("home", "groups", "connect", "reassignments", "findings", "compare", "whatif", "trust")
SHARED = "in:0000000000000001"
RULES = {
    "claim": "groups",
    "members": {"orders": ["orders-people", "ada@example.org"], "others": ["other-people"], "nobody's": []},
    "auditors": ["audit-people"],
    "teams": [["orders", ["*"], ["orders"]], ["others", ["*"], ["*"]]],
    "names": {},
}
HIDDEN = ("checkout", "payments", "connect-lab", "svc-0", "alert(7)", "forged", "secret of the others")
"""What only other teams' rows hold: their groups, and what they call their clients and connectors."""
ADA = Visitor(name="ada@example.org", teams=frozenset({"orders"}))


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The stories of gold_rows, and an incident of two teams."""
    location = tmp_path_factory.mktemp("shared") / "w"
    warehouse = gold_rows.write(location, many=20)
    both = an_incident(
        1, cluster_id=CLUSTER, group_ids=("orders", "payments"), rebalance_ids=("orders/9", "payments/3"),
        culprits=("secret of the others",), title="secret of the others", story="secret of the others",
        advice="secret of the others", first_at_ms=T0 - 60_000, last_at_ms=T0, cost_seconds=12.0,
    )  # fmt: skip
    warehouse.append("gold.incident", rows_to_table("gold.incident", [incident_row(both)]))
    gold_rows.publish(warehouse)
    return location


@pytest.fixture
def member(monkeypatch: pytest.MonkeyPatch, shared: Path) -> Iterator[Callable[..., AppTest]]:
    """Opens a page as Ada, or as whoever is given."""
    monkeypatch.setenv(access.ENVIRONMENT_ACCESS, json.dumps(RULES))
    monkeypatch.setenv("REBALANCE_AUDIT_WAREHOUSE", str(shared))
    monkeypatch.setattr("sys.argv", ["streamlit"])
    monkeypatch.setattr("app.clock.now_ms", lambda: T0 + 60_000)
    monkeypatch.setattr("app.access.is_logged_in", lambda: True)  # Streamlit's own log-in is the browser test's
    access.rules.cache_clear()
    opened.cache_clear()

    def open_view(view: str, who: Visitor = ADA, **params: str) -> AppTest:
        monkeypatch.setattr("app.access.visitor", lambda: who)
        return shown(view, params)

    yield open_view
    access.rules.cache_clear()
    opened.cache_clear()


def everything(at: AppTest) -> str:
    """All that the browser is sent: texts, links, lists, pictures, tables."""
    sent = [str(getattr(node, "proto", "")) for node in at._tree if not _is_style(node)]
    return "\n".join(sent)


def _is_style(node: Any) -> bool:
    return str(getattr(node, "value", "")).startswith("<style")


def theirs(shared: Path) -> dict[str, list[dict[str, str]]]:
    """Addresses, by page, that name what belongs to other teams; a colleague may have sent the link."""
    reader = Questions.open(shared)
    reader.refresh()

    def of(sql: str, *names: str) -> list[dict[str, str]]:
        return [dict(zip(names, map(str, row.values()), strict=True)) for row in reader.rows(sql)]

    not_ours = "group_id <> 'orders' AND group_id NOT LIKE 'svc-%'"
    return {
        "group": of(f"SELECT cluster_id, group_id FROM gold.group WHERE {not_ours}", "cluster", "group"),
        "rebalance": of(
            f"SELECT cluster_id, rebalance_id FROM gold.rebalance WHERE {not_ours} LIMIT 12", "cluster", "rebalance"
        ),
        "incident": of(
            "SELECT cluster_id, incident_id FROM gold.incident WHERE NOT list_contains(group_ids, 'orders')",
            "cluster", "incident",
        ),
        "connect": of(f"SELECT cluster_id, group_id FROM gold.group WHERE {not_ours}", "cluster", "group"),
        "whatif": of(f"SELECT cluster_id, group_id FROM gold.group WHERE {not_ours}", "cluster", "group"),
        "compare": of(f"SELECT cluster_id, group_id FROM gold.group WHERE {not_ours}", "cluster", "group"),
        "evidence": of(
            "SELECT cluster_id, unnest(evidence) AS ref FROM gold.finding WHERE group_id <> 'orders' LIMIT 6",
            "cluster", "ref",
        ),
        "findings": of(
            "SELECT cluster_id, finding_id FROM gold.finding WHERE group_id IS DISTINCT FROM 'orders'",
            "cluster", "finding",
        ),
    }  # fmt: skip


def test_no_page_shows_what_is_other_teams(
    member: Callable[..., AppTest], shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[str] = []

    def take(frame: Callable[[], pd.DataFrame], name: str) -> None:
        taken.append(frame().to_csv() + frame().to_json())

    monkeypatch.setattr("app.page.downloads", take)
    days = {"last": "3650d"}
    for view in LISTS:
        _nothing_of_others(member(view, **days), view)
    mine = {"cluster": CLUSTER, "group": "orders"}
    assert "orders" in everything(member("groups", **days))
    _nothing_of_others(member("group", **mine, **days), "group")
    _nothing_of_others(member("incident", cluster=CLUSTER, incident=SHARED), "incident")
    assert len(taken) >= 3
    for one in taken:
        assert not [word for word in HIDDEN if word in one]


def test_no_link_leads_to_what_is_other_teams(member: Callable[..., AppTest], shared: Path) -> None:
    asked = 0
    for view, addresses in theirs(shared).items():
        for address in addresses:
            at = member(view, **address)
            named = {*address.values(), *(part for value in address.values() for part in value.split("/"))}
            # The page may repeat what its own address says; nothing else of theirs may be on it.
            words = [word for word in HIDDEN if not any(word in each for each in named)]
            found = [word for word in words if word in everything(at)]
            assert not found, (view, address, found)
            if view in ("group", "rebalance", "incident"):
                assert "Nothing is known of" in everything(at), (view, address)
            asked += 1
    assert asked > 20


def _nothing_of_others(at: AppTest, view: str) -> None:
    sent = everything(at)
    assert sent
    found = [word for word in HIDDEN if word in sent]
    assert not found, (view, found)


def test_an_answer_that_an_auditor_got_is_not_a_members(member: Callable[..., AppTest]) -> None:
    auditor = Visitor(name="eve@example.org", may_answer=False)
    for first, second in itertools.permutations((auditor, ADA)):
        opened.cache_clear()
        for who in (first, second):
            sent = everything(member("groups", who, last="3650d"))
            assert ("checkout" in sent) is (who is auditor)


def test_a_search_finds_what_is_ones_own(shared: Path) -> None:
    ours = reader_of(shared)
    assert [p.name for p in ours.places("orders") if p.kind == "group"] == ["orders"]
    for word in ("check", "pay", "connect", "svc", "secret", "script"):
        assert ours.places(word) == []


def test_an_incident_of_two_teams_is_shown_without_the_others_part(shared: Path) -> None:
    row = reader_of(shared).rows("SELECT * FROM gold.incident WHERE incident_id = ?", (SHARED,))[0]
    assert row["group_ids"] == ["orders"]
    assert row["culprits"] == row["finding_ids"] == row["evidence"] == row["chain"] == []
    assert row["cost_seconds"] is None
    assert "other teams" in row["title"]
    assert "secret" not in str(row)
    own = an_incident(1)
    assert own.title  # one that is a team's alone stays as it is
    (alone,) = reader_of(shared).rows(
        "SELECT title, cost_seconds FROM gold.incident WHERE list_contains(group_ids, 'orders') AND status = 'open'"
        " AND incident_id <> ?",
        (SHARED,),
    )
    assert "orders" in alone["title"]


def test_tables_without_a_group_are_empty_for_a_team(shared: Path) -> None:
    ours, all_of_it = reader_of(shared), Questions.open(shared)
    all_of_it.refresh()
    for table in ("gold.check", "gold.reassignment", "silver.undecoded", "gold.leader_election", "gold.quarantine"):
        assert ours.rows(f"SELECT count(*) AS n FROM {table}") == [{"n": 0}]
    assert all_of_it.rows("SELECT count(*) AS n FROM gold.reassignment") != [{"n": 0}]


def test_a_team_reads_which_table_its_pages_lack(tmp_path: Path) -> None:
    """Which rows are theirs stands in gold.group and gold.connect_task, whatever is asked."""
    gold_rows.write(tmp_path / "w", many=0)
    for file in (tmp_path / "w" / "gold" / "connect_task").glob("*.parquet"):
        file.unlink()
    ours = reader_of(tmp_path / "w")
    with asked_tables() as asked:
        assert ours.rows("SELECT DISTINCT group_id FROM gold.rebalance") == [{"group_id": "orders"}]
    assert [*ours.damaged(asked)] == ["gold.connect_task"]


def reader_of(location: Path, *, may_answer: bool = True) -> Questions:
    sight = Sight(TeamOf((("orders", ("*",), ("orders",)), ("others", ("*",), ("*",)))), frozenset({"orders"}))
    found = Questions(Warehouse.open(location), sight, may_answer=may_answer)
    found.refresh()
    return found


def test_who_answers_and_what_stays_with_their_name(tmp_path: Path) -> None:
    warehouse = gold_rows.write(tmp_path / "w", many=0)
    ours = reader_of(tmp_path / "w")
    (own,) = ours.rows("SELECT cluster_id, incident_id, group_ids, culprits FROM gold.incident WHERE status = 'open'")
    mine = an_incident(1, cluster_id=own["cluster_id"], incident_id=own["incident_id"])
    assert [r.by for r in ours.respond(acknowledgement(mine, "ada@example.org", T_MS, None))] == ["ada@example.org"]
    with pytest.raises(ResponseRefused, match="more than your team's groups"):
        ours.respond(acknowledgement(an_incident(7, cluster_id=CLUSTER), "ada@example.org", T_MS, None))
    with pytest.raises(ResponseRefused, match="more than your team's groups"):
        ours.respond(silence("*", "ada@example.org", T_MS, T_MS + 60_000, "quiet", None))
    with pytest.raises(ResponseRefused, match="changes nothing"):
        reader_of(tmp_path / "w", may_answer=False).respond(acknowledgement(mine, "eve", T_MS, None))
    everybodys = Questions(warehouse)
    everybodys.respond(silence("pay*", "pat of payments", T_MS, T_MS + 60_000, "known", CLUSTER))
    everybodys.respond(silence("ord*", "sam of operations", T_MS, T_MS + 60_000, "known", CLUSTER))
    assert {r.by for r in reader_of(tmp_path / "w").responses()} == {"ada@example.org", "sam of operations"}


@pytest.mark.parametrize(
    ("claims", "teams", "may_answer"),
    [
        ({"groups": ["orders-people", "tennis"]}, {"orders"}, True),
        ({"groups": "orders-people"}, {"orders"}, True),
        ({"groups": ["orders-people", "other-people"]}, {"orders", "others"}, True),
        ({"email": "ada@example.org", "email_verified": True}, {"orders"}, True),
        ({"email": "ada@example.org", "email_verified": False}, set(), True),
        ({"email": "ada@example.org"}, set(), True),
        ({"email": "ada@example.org", "email_verified": "true"}, set(), True),
        ({"groups": ["audit-people", "orders-people"]}, None, False),
        ({"groups": ["Orders-People"]}, set(), True),
        ({"name": "orders-people", "sub": "other-people"}, set(), True),
        ({}, set(), True),
    ],
)
def test_claims_make_teams(claims: dict[str, Any], teams: set[str] | None, may_answer: bool) -> None:
    found = visitor_of(parsed(json.dumps(RULES)), claims)
    assert found.teams == (None if teams is None else frozenset(teams))
    assert found.may_answer is may_answer


def test_who_is_not_logged_in_sees_nothing(shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(access.ENVIRONMENT_ACCESS, json.dumps(RULES))
    access.rules.cache_clear()
    opened.cache_clear()
    reader = opened(str(shared), replace(access.NOBODY))
    reader.refresh()
    assert reader.group_count() == 0
    assert reader.places("orders") == []
    access.rules.cache_clear()
    opened.cache_clear()


def test_hostile_patterns_and_names_meet_as_text() -> None:
    sight = Sight(TeamOf((("odd", ("*",), ("a[b]*",)), ("rest", ("*",), ("*",)))), frozenset({"odd"}))
    assert sight.of([("c", "ab-1"), ("c", "a[b]"), ("c", HOSTILE_GROUP)]) == [("c", "ab-1")]


# A team of connectors on workers that are another team's.

SINKS = Visitor(name="sam@example.org", teams=frozenset({"sinks"}))
CONNECT_RULES = RULES | {
    "members": {"sinks": ["sink-people"], "platform": ["platform-people"]},
    "teams": [["sinks", ["*"], []], ["platform", ["*"], ["connect-*"]]],
    "connectors": [["sinks", ["*"], ["connect-*"], ["sink", "broken"]]],
}
OTHERS_WORK = (
    "source-",
    "source failed",
    "source stood",
    "source and",
    "CN008 source",
    "alert(7)",
    "10.0.3.3:8083 lost",
    "checkout",
    "payments",
    "orders",
)
"""What is said of the connectors beside and of the workers, and the groups of others."""


@pytest.fixture(scope="module")
def workers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The stories of gold_rows; of the Connect cluster's incidents one is about `broken` alone, one about `source` too,
    one about `sink` and a rebalance of all, and one about `source`."""
    location = tmp_path_factory.mktemp("workers") / "w"
    warehouse = gold_rows.write(location, many=0)
    group: dict[str, Any] = {
        "cluster_id": CLUSTER,
        "group_ids": ("connect-lab",),
        "rebalance_ids": (),
        "first_at_ms": T0,
    }
    incidents = [
        an_incident(11, **group, connectors=("broken",), title="broken-0 failed", story="no route", last_at_ms=T0),
        an_incident(12, **group, connectors=("broken", "source"), title="source and broken ran twice", last_at_ms=T0),
        an_incident(
            13, **group | {"rebalance_ids": ("connect-lab/9",)}, connectors=("sink",), last_at_ms=T0,
            title="10.0.3.3:8083 lost", story="source stood still",
        ),
        an_incident(14, **group, connectors=("source",), title="source failed", last_at_ms=T0),
        an_incident(15, **group, connectors=(), title="10.0.3.3:8083 lost", last_at_ms=T0),
    ]  # fmt: skip
    warehouse.append("gold.incident", rows_to_table("gold.incident", [incident_row(i) for i in incidents]))
    about = [("CN007", ("broken",)), ("CN003", ("broken", "source")), ("CN008", ("source",)), ("CN001", ())]
    rows = [
        {
            "cluster_id": CLUSTER, "finding_id": f"f-{rule}", "rule_id": rule, "severity": "warning",
            "subject_type": "group", "subject": "connect-lab", "status": "open", "first_seen_at_ms": T0,
            "last_seen_at_ms": T0, "title": f"{rule} {' '.join(names)}", "group_id": "connect-lab",
            "connectors": list(names), "evidence": ["record:connect-status-0@12"],
        }
        for rule, names in about
    ]  # fmt: skip
    warehouse.append("gold.finding", rows_to_table("gold.finding", rows))
    gold_rows.publish(warehouse)
    return location


def of_connectors(location: Path, *teams: str) -> Questions:
    team_of = parsed(json.dumps(CONNECT_RULES)).team_of
    found = Questions(Warehouse.open(location), Sight(team_of, frozenset(teams)))
    found.refresh()
    return found


def _values(reader: Questions, column: str, table: str) -> list[Any]:
    return [row["v"] for row in reader.rows(f"SELECT DISTINCT {column} AS v FROM {table} ORDER BY 1")]


def test_a_team_of_connectors_sees_their_tasks_and_no_others(workers: Path) -> None:
    sinks, platform = of_connectors(workers, "sinks"), of_connectors(workers, "platform")
    assert _values(sinks, "connector", "gold.connect_task") == ["broken", "sink"]
    assert set(_values(platform, "connector", "gold.connect_task")) > {"broken", "sink", "source"}
    for table in ("gold.group", "gold.rebalance", "gold.movement", "silver.group_event", "bronze.record"):
        assert sinks.rows(f"SELECT count(*) AS n FROM {table}") == [{"n": 0}], table
    assert [f.finding_id for f in sinks.findings(FindingFilter())] == ["f-CN007"]
    assert {"f-CN007", "f-CN003", "f-CN008", "f-CN001"} <= {f.finding_id for f in platform.findings(FindingFilter())}
    assert of_connectors(workers, "nobody's").rows("SELECT count(*) AS n FROM gold.connect_task") == [{"n": 0}]
    both = of_connectors(workers, "sinks", "platform")
    assert _values(both, "connector", "gold.connect_task") == _values(platform, "connector", "gold.connect_task")


def test_an_incident_of_ones_own_connector_is_whole_and_of_more_is_not(workers: Path) -> None:
    rows = of_connectors(workers, "sinks").rows("SELECT * FROM gold.incident ORDER BY incident_id")
    seen = {row["incident_id"][-2:]: row for row in rows}
    assert set(seen) == {"0b", "0c", "0d"}
    assert (seen["0b"]["title"], seen["0b"]["group_ids"]) == ("broken-0 failed", ["connect-lab"])
    assert seen["0c"]["connectors"] == ["broken"]
    for part in (seen["0c"], seen["0d"]):
        assert "other teams" in part["title"]
        assert not [word for word in OTHERS_WORK if word in str(part)], part
        assert part["group_ids"] == part["rebalance_ids"] == part["culprits"] == []


def test_no_page_of_a_team_of_connectors_shows_the_others_beside(
    member: Callable[..., AppTest], workers: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(access.ENVIRONMENT_ACCESS, json.dumps(CONNECT_RULES))
    monkeypatch.setenv("REBALANCE_AUDIT_WAREHOUSE", str(workers))
    taken: list[str] = []
    monkeypatch.setattr("app.page.downloads", lambda frame, name: taken.append(frame().to_csv()))
    own = {"cluster": CLUSTER, "group": "connect-lab"}
    asked = [(view, {"last": "3650d"}) for view in LISTS]
    asked += [("connect", own | {"last": "3650d", "by": by}) for by in ("tasks", "workers")]
    asked += [(view, own) for view in ("group", "whatif", "compare")]
    asked += [("incident", {"cluster": CLUSTER, "incident": f"in:{n:016x}"}) for n in (11, 12, 13, 14, 15)]
    asked += [("findings", {"cluster": CLUSTER, "finding": f"f-{rule}"}) for rule in ("CN007", "CN003", "CN008")]
    for view, params in asked:
        sent = everything(member(view, SINKS, **params))
        found = [word for word in OTHERS_WORK if word in sent]
        assert not found, (view, params, found)
    assert "broken-0" in everything(member("connect", SINKS, **own, last="3650d"))
    assert "broken-0 failed" in everything(member("incident", SINKS, cluster=CLUSTER, incident=f"in:{11:016x}"))
    assert not [word for word in OTHERS_WORK for one in taken if word in one]


def test_who_asked_before_does_not_matter_to_a_team_of_connectors(
    member: Callable[..., AppTest], workers: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(access.ENVIRONMENT_ACCESS, json.dumps(CONNECT_RULES))
    monkeypatch.setenv("REBALANCE_AUDIT_WAREHOUSE", str(workers))
    platform = Visitor(name="pat@example.org", teams=frozenset({"platform"}))
    for first, second in itertools.permutations((platform, SINKS)):
        opened.cache_clear()
        access.rules.cache_clear()
        for who in (first, second):
            sent = everything(member("connect", who, cluster=CLUSTER, group="connect-lab", last="3650d"))
            assert ("source-" in sent) is (who is platform)
