"""Home: what is wrong first, its lists and links, and the time it begins with."""

import csv
import io
import json
import re
from pathlib import Path

import pytest

from app import sentences
from app.answers.rows import ClusterRow
from app.queries import Questions
from rebalance_audit.warehouse.arrow_tables import rows_to_table
from tests.app import gold_rows
from tests.app.gold_rows import CLUSTER, T0
from tests.app.opening import Open, links, opened_reader, opening_lines, said


def test_home_says_first_what_is_going_on_and_what_it_cost(opened: Open, full_warehouse: Path) -> None:
    at = opened(full_warehouse, "home")
    text = said(at)
    answer = "What is wrong", "Whose doing", "What it cost", "What to do", "All that is open"
    assert [text.index(name) for name in answer] == sorted(text.index(name) for name in answer)
    assert "c3 (/10.0.1.3) exceeded its poll interval in cluster lab-cluster (no event since " in text
    assert "All that is open3 incidents open, 1 critical; cost: 86.9 partition-seconds." in text
    assert "Whose doingc3 on host /10.0.1.3: exceeded its poll interval" in text
    assert "What it cost62.0 partition-seconds of downtime A partition that stands still" in text
    assert text.count("A partition that stands still for 1 min costs 60.") == 1
    assert "2,041 rebalances of 2,006 groups cost 173 partition-seconds and 63.5 task-seconds" in text
    lines = opening_lines(at)
    assert [line["subject"].split()[0] for line in lines[:2]] == ["checkout", "orders"]
    storm = lines[0]
    assert storm["cause"].startswith(
        "checkout rebalanced 31 times in 5 h 45 min: c3 (/10.0.1.3) exceeded its poll interval"
    )
    assert (storm["cost"], storm["tone"]) == ("62.0 partition-seconds", "critical")
    assert any(name == "What to do:" for name, _ in storm["facts"])
    assert "2026-11-21 14:00 UTC" in text  # up to when each cluster was seen


@pytest.mark.parametrize("still", ["down", "empty", "waiting"])
def test_what_stands_still_now_comes_before_what_cost_more_and_is_quiet(
    opened: Open, tmp_path: Path, still: str
) -> None:
    """At night: the group that nobody reads any more before the storm that is over by itself."""
    warehouse = gold_rows.write(tmp_path / "w", many=0)
    storm = next(i for i in warehouse.read("gold.incident").to_pylist() if i["finding_ids"] == ["f-storm"])
    one = {**storm, "incident_id": "in:now", "finding_ids": [], "rebalance_ids": [], "severity": "warning"}
    one |= {"still": still, "cost_seconds": None if still == "empty" else 1.5}
    one |= {"group_ids": ["parcels"], "title": "p1 of parcels vanished"}
    warehouse.append("gold.incident", rows_to_table("gold.incident", [one]))
    gold_rows.publish(warehouse)
    at = opened(tmp_path / "w", "home")
    assert [line["subject"].split()[0] for line in opening_lines(at)[:2]] == ["parcels", "checkout"]
    cost = "downtime not known" if still == "empty" else "1.5 partition-seconds of downtime"
    assert cost in said(at)
    # also where only what all cost is known
    assert said(at).count("A partition that stands still for 1 min costs 60.") == 1


def test_home_names_the_host_of_whose_doing_it_is(opened: Open, tmp_path: Path) -> None:
    """Unless the culprit's name says it, where several run under one client id."""
    warehouse = gold_rows.write(tmp_path / "w", many=0)
    storm = next(i for i in warehouse.read("gold.incident").to_pylist() if i["finding_ids"] == ["f-storm"])
    one = {**storm, "incident_id": "in:now", "finding_ids": [], "rebalance_ids": [], "still": "down"}
    one |= {"culprits": ["p1", "shop (/10.0.0.8)"], "hosts": ["/10.0.0.7", "/10.0.0.8"]}
    warehouse.append("gold.incident", rows_to_table("gold.incident", [one]))
    gold_rows.publish(warehouse)
    assert "Whose doingp1, shop (/10.0.0.8) on host /10.0.0.7: " in said(opened(tmp_path / "w", "home"))


def test_home_names_what_cost_most_in_the_time_if_that_is_another(opened: Open, tmp_path: Path) -> None:
    """What is open comes first, however little it cost; what cost far more and is over must not be missed."""
    warehouse = gold_rows.write(tmp_path / "w", many=0)
    assert "Costliest" not in said(opened(tmp_path / "w", "home"))
    storm = next(i for i in warehouse.read("gold.incident").to_pylist() if i["finding_ids"] == ["f-storm"])
    one = {**storm, "incident_id": "in:most", "finding_ids": [], "rebalance_ids": [], "cost_seconds": 7_000.0}
    one |= {"status": "over", "still": "nothing", "severity": "info", "title": "w9 of parcels vanished"}
    meant = {**one, "incident_id": "in:meant", "cost_seconds": 9_000.0, "expected": True, "title": "Deploy of parcels"}
    warehouse.append("gold.incident", rows_to_table("gold.incident", [one, meant]))
    gold_rows.publish(warehouse)
    at = opened(tmp_path / "w", "home")
    assert "Costliest (over)w9 of parcels vanished (lab-cluster, 7,000 partition-seconds)" in said(at)


def test_who_joined_before_a_group_was_stuck_is_not_said_to_have_done_that(opened: Open, tmp_path: Path) -> None:
    warehouse = gold_rows.write(tmp_path / "w", many=0)
    storm = next(i for i in warehouse.read("gold.incident").to_pylist() if i["finding_ids"] == ["f-storm"])
    stuck = {**storm, "incident_id": "in:now", "finding_ids": [], "rebalance_ids": [], "still": "down"}
    stuck |= {
        "kind": "scaling",
        "root_cause": "member_joined",
        "culprits": ["w1"],
        "hosts": [],
        "title": "parcels has been rebalancing for 9 min",
    }
    warehouse.append("gold.incident", rows_to_table("gold.incident", [stuck]))
    gold_rows.publish(warehouse)
    assert "Whose doingnot known (it began as w1 joined)" in said(opened(tmp_path / "w", "home"))


def test_where_nothing_is_open_the_unit_is_explained_beside_the_first_cost(opened: Open, tmp_path: Path) -> None:
    warehouse = gold_rows.write(tmp_path / "w", many=0)
    over = [{**i, "status": "over", "still": "nothing"} for i in warehouse.read("gold.incident").to_pylist()]
    warehouse.replace("gold.incident", rows_to_table("gold.incident", over), None)
    gold_rows.publish(warehouse)
    text = said(opened(tmp_path / "w", "home"))
    assert text.count("stands still for 1 min costs 60.") == 1


def test_where_partitions_and_tasks_stand_still_both_are_explained(opened: Open, tmp_path: Path) -> None:
    """The first incident's cost is not known, and that of all that is open is in two units."""
    warehouse = gold_rows.write(tmp_path / "w", many=0)
    storm = next(i for i in warehouse.read("gold.incident").to_pylist() if i["finding_ids"] == ["f-storm"])
    one = {**storm, "finding_ids": [], "rebalance_ids": []}
    both = [
        {**one, "incident_id": "in:now", "still": "empty", "cost_seconds": None},
        {**one, "incident_id": "in:task", "cost_seconds": 1.5, "unit": "task"},
    ]
    warehouse.append("gold.incident", rows_to_table("gold.incident", both))
    gold_rows.publish(warehouse)
    text = said(opened(tmp_path / "w", "home"))
    assert "partition-seconds and 1.5 task-seconds. A partition or task that stands still for 1 min costs 60." in text


def test_homes_numbers_are_not_those_of_a_list_that_is_cut(opened: Open, tmp_path: Path) -> None:
    warehouse = gold_rows.write(tmp_path / "w", many=0)
    one = warehouse.read("gold.incident").to_pylist()[0]
    many = [
        {**one, "incident_id": f"in:{n}", "status": "open", "expected": False, "severity": "critical"}
        for n in range(300)
    ]
    warehouse.append("gold.incident", rows_to_table("gold.incident", many))
    gold_rows.publish(warehouse)
    at = opened(tmp_path / "w", "home")
    open_now = int(re.search(r"(\d+) incidents open, (\d+) critical", said(at))[1])  # type: ignore[index]
    assert open_now >= 300
    assert f"{open_now - 12:,} more open" in [e.label for e in at.expander]


def test_all_incidents_of_home_can_be_taken_away(
    opened: Open, full_warehouse: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: dict[str, bytes] = {}
    monkeypatch.setattr(
        "app.page.saying.st.download_button", lambda label, data, *_, **__: taken.update({label: data()})
    )
    opened(full_warehouse, "home", last="all")
    stored = Questions.open(full_warehouse).rows("SELECT incident_id, cost_seconds FROM gold.incident")
    costs = {row["incident_id"]: row["cost_seconds"] for row in stored}
    rows = json.loads(taken["JSON"])
    assert {row["incident_id"]: row["cost_seconds"] for row in rows} == pytest.approx(costs)
    assert len(list(csv.DictReader(io.StringIO(taken["CSV"].decode())))) == len(rows)


def test_sixty_alike_do_not_hide_the_others_on_home(opened: Open, tmp_path: Path) -> None:
    warehouse = gold_rows.write(tmp_path / "w", many=0)
    storm = next(i for i in warehouse.read("gold.incident").to_pylist() if i["finding_ids"] == ["f-storm"])
    finding = next(f for f in warehouse.read("gold.finding").to_pylist() if f["finding_id"] == "f-storm")
    alike = [f"in:{n}" for n in range(60)]
    findings = [{**finding, "finding_id": f"of {i}", "rule_id": "RB011"} for i in alike]
    stuck = {**storm, "cost_seconds": None, "root_cause": "member_joined", "rebalance_ids": []}
    incidents = [{**stuck, "incident_id": i, "finding_ids": [f"of {i}"]} for i in alike]
    warehouse.append("gold.finding", rows_to_table("gold.finding", findings))
    warehouse.append("gold.incident", rows_to_table("gold.incident", incidents))
    gold_rows.publish(warehouse)
    at = opened(tmp_path / "w", "home")
    shown = [row["key"].rpartition("/")[2] for row in opening_lines(at)][:12]
    assert shown[0] == storm["incident_id"]  # the costliest critical one
    assert [i in alike for i in shown] == [False, *[True] * 3, *[False] * 2, *[True] * 6]
    assert "60 Stuck rebalance" in [label for label, _ in links(at)]


def test_of_those_that_nobody_knows_the_cost_of_the_one_stuck_longest_is_the_worst(
    opened: Open, tmp_path: Path
) -> None:
    warehouse = gold_rows.write(tmp_path / "w", many=0)
    storm = next(i for i in warehouse.read("gold.incident").to_pylist() if i["finding_ids"] == ["f-storm"])
    unknown = {"cost_seconds": None, "rebalance_ids": [], "finding_ids": [], "culprits": [], "group_ids": ["stuck"]}
    alike = [
        {**storm, **unknown, "incident_id": f"in:{n}", "title": f"stuck {n}",
         "first_at_ms": storm["first_at_ms"] - 60_000 * n, "last_at_ms": storm["last_at_ms"] - 60_000 * n}
        for n in (1, 3, 2)
    ]  # fmt: skip
    warehouse.append("gold.incident", rows_to_table("gold.incident", alike))
    gold_rows.publish(warehouse)
    shown = [row["cause"] for row in opening_lines(opened(tmp_path / "w", "home"))]
    assert [cause for cause in shown if cause.startswith("stuck ")] == ["stuck 3", "stuck 2", "stuck 1"]


def test_sixty_alike_that_are_over_do_not_hide_the_others_on_home(opened: Open, tmp_path: Path) -> None:
    warehouse = gold_rows.write(tmp_path / "w", many=0)
    storm = next(i for i in warehouse.read("gold.incident").to_pylist() if i["finding_ids"] == ["f-storm"])
    over = {**storm, "status": "over", "cost_seconds": 1e6, "rebalance_ids": [], "finding_ids": []}
    incidents = [{**over, "incident_id": f"alike:{n}", "root_cause": "member_joined"} for n in range(60)]
    incidents.append({**over, "incident_id": "other", "root_cause": "member_left", "cost_seconds": 1e5})
    warehouse.append("gold.incident", rows_to_table("gold.incident", incidents))
    gold_rows.publish(warehouse)
    shown = [row["key"].rpartition("/")[2] for row in opening_lines(opened(tmp_path / "w", "home"))]
    first = next(place for place, key in enumerate(shown) if key.startswith("alike:"))
    assert [key.partition(":")[0] for key in shown[first : first + 4]] == ["alike", "alike", "alike", "other"]


def test_home_and_groups_begin_with_a_time_that_shows_the_worst_incident(opened: Open, tmp_path: Path) -> None:
    warehouse = gold_rows.write(tmp_path / "w", many=0)
    rows = warehouse.read("gold.incident").to_pylist()
    old = max(r["first_at_ms"] for r in rows) - 5 * 86_400_000
    worse = {**rows[0], "incident_id": "in:old", "status": "open", "severity": "critical", "expected": False}
    worse |= {"cost_seconds": 1e6, "first_at_ms": old, "last_at_ms": old + 1, "rebalance_ids": [], "finding_ids": []}
    coverage = warehouse.read("gold.coverage").to_pylist()[0]
    warehouse.append("gold.incident", rows_to_table("gold.incident", [worse]))
    long_ago = {"source": "log:long/ago", "from_at_ms": old - 20 * 86_400_000, "to_at_ms": old}
    warehouse.append("gold.coverage", rows_to_table("gold.coverage", [{**coverage, **long_ago}]))
    gold_rows.publish(warehouse)
    for view in ("home", "groups"):
        assert dict(opened(tmp_path / "w", view).query_params)["last"] == "7d"


def test_homes_links_hold_the_whole_state(opened: Open, full_warehouse: Path) -> None:
    hour = {"from": str(T0 - 3_600_000), "to": str(T0), "zone": "Asia/Tokyo"}
    at = opened(full_warehouse, "home", **hour)
    assert ("All groups", f"groups?from={T0 - 3_600_000}&to={T0}&zone=Asia%2FTokyo") in links(at)
    link = opening_lines(at)[0]["links"][0]
    assert link["href"].startswith("incident?cluster=lab-cluster&incident=")
    assert link["href"].endswith(f"&from={T0 - 3_600_000}&to={T0}&zone=Asia%2FTokyo")
    assert "2026-11-21 23:00 JST" in said(at)


def test_the_default_time_is_written_into_the_address(opened: Open, full_warehouse: Path) -> None:
    at = opened(full_warehouse, "home")
    assert at.query_params["last"] == "24h"
    assert ("All groups", "groups?last=24h") in links(at)


@pytest.mark.parametrize(
    ("params", "said_of_it"),
    [
        ({"last": "90m"}, "1 h 30 min"),
        ({"last": "99999999d"}, "6 h"),
        ({"last": "<b>"}, "6 h"),
        ({"last": "-3h"}, "6 h"),
        ({"from": "9", "to": "3"}, "6 h"),
        ({"from": str(T0 - 1_800_000)}, "30 min"),
    ],
)
def test_any_time_in_the_address_is_shown_and_an_odd_one_is_the_default(
    opened: Open, full_warehouse: Path, params: dict[str, str], said_of_it: str
) -> None:
    text = said(opened(full_warehouse, "group", cluster=CLUSTER, group="checkout", **params))
    assert f" in {said_of_it}" in text


def test_the_cost_since_a_deploy_stands_beside_as_long_a_time_before(opened: Open, full_warehouse: Path) -> None:
    at = opened(full_warehouse, "home")
    mark = opened_reader(full_warehouse).marks(cluster_id=CLUSTER, group_ids=["orders"])[0]
    assert mark.text == "v2.3 of orders"
    at = opened(full_warehouse, "home", **{"from": str(mark.at_ms), "since": mark.mark_id})
    text = said(at)
    assert "Since v2.3 of orders, 30 min:" in text
    assert "In as long a time before:" in text


def test_a_mark_that_was_found_in_evidence_leads_to_its_own_incident(full_warehouse: Path) -> None:
    reader = opened_reader(full_warehouse)
    found = {m.text: reader.incident_of_mark(m) for m in reader.marks()}
    assert found["v2.3 of orders"] is None  # somebody said so; no incident is known to be it


def test_of_evidence_that_ended_long_ago_nothing_is_said_about_now(opened: Open, full_warehouse: Path) -> None:
    text = said(opened(full_warehouse, "home", now_ms=T0 + 2 * 3_600_000))
    assert "checkout rebalanced 31 times in 5 h 45 min" in text
    assert "Old evidence. It ends 2026-11-21 14:00 UTC, 2 h ago." in text


def test_where_the_evidence_of_its_cluster_ended_early_home_says_when(opened: Open, tmp_path: Path) -> None:
    warehouse = gold_rows.write(tmp_path / "w", many=0)
    last = max(warehouse.read("gold.rebalance").to_pylist(), key=lambda r: r["assigned_at_ms"] or 0)
    later = {k: v + 3_600_000 if k.endswith("_at_ms") and v is not None else v for k, v in last.items()}
    later |= {"cluster_id": "later", "rebalance_id": "later/g/1"}
    warehouse.append("gold.rebalance", rows_to_table("gold.rebalance", [later]))
    gold_rows.publish(warehouse)
    text = said(opened(tmp_path / "w", "home", now_ms=T0 + 3 * 3_600_000))
    assert "in cluster lab-cluster (state not known since 14:00)" in text
    assert "3 incidents open, 1 critical, state not known since their evidence ended" in text


def test_a_cluster_whose_evidence_ended_is_named_beside_those_that_look_fresh() -> None:
    hour = 3_600_000

    def cluster(name: str, last_at_ms: int | None) -> ClusterRow:
        counts = dict.fromkeys(("group", "rebalance", "reassignment", "open_incident", "gap", "source"), 1)
        return ClusterRow(
            cluster_id=name, first_at_ms=0, last_at_ms=last_at_ms, **{f"{k}_count": v for k, v in counts.items()}
        )

    bound = 10 * hour - 15 * 60_000  # what is younger than 15 min is not old anywhere on the page
    fresh = [cluster("a", 10 * hour), cluster("b", bound + 1)]
    assert sentences.ended_early(fresh) is None
    assert sentences.ended_early([]) is None
    early = sentences.ended_early([*fresh, cluster("<b>", bound), cluster("dead", None)])
    assert early == (
        "Evidence of 1 of 4 clusters ends 15 min or more before the newest: <code>&lt;b&gt;</code>. What happened "
        "there since is not known. Of 1 cluster no evidence with a time was seen."
    )
