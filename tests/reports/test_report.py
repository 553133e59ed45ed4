from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import asdict, replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from rebalance_audit import cli
from rebalance_audit.domain.detect import detect_group
from rebalance_audit.domain.incidents import ClusterRows, incident_row, incidents_of
from rebalance_audit.domain.model import Finding
from rebalance_audit.domain.reassign.model import reassignment_row
from rebalance_audit.reports.report import read_report, report_dict, report_html, report_text
from rebalance_audit.warehouse.arrow_tables import rows_to_table
from rebalance_audit.warehouse.warehouse import Warehouse
from tests.app.reassignment_rows import waiting_for_broker_4
from tests.domain.detect.group_story import T0_MS, GroupStory, a_connect_cluster, a_group

HOUR = 3_600
EVIL = "x<script>alert(1)</script>\n\x1b[2J\u202e&\"'"


def _published(folder: Path, stories: Sequence[GroupStory], **more: list[dict[str, Any]]) -> Warehouse:
    """A warehouse with the stories' gold tables, published."""
    warehouse = Warehouse.open(folder, create=True)
    findings: list[Finding] = []
    groups = []
    found: list[tuple[str | None, Finding]] = []
    for story in stories:
        findings += detect_group(story.rebalances, story.tasks, seen_until_ms=story.seen_until_ms)
        found += [(story.group_id, f) for f in findings if f.subject == story.group_id]
        last = story.rebalances[-1]
        groups.append(
            {
                "cluster_id": last.cluster_id, "group_id": last.group_id, "group_type": last.group_type,
                "mode": last.mode, "assignor": last.assignor, "state": "Stable", "member_count": last.member_count,
            }
        )  # fmt: skip
    seen_until_ms = max(s.seen_until_ms or s.rebalances[-1].assigned_at_ms or 0 for s in stories)
    incidents, _ = incidents_of(
        ClusterRows(
            cluster_id=stories[0].rebalances[0].cluster_id, now_ms=seen_until_ms,
            groups={s.group_id: s.rebalances for s in stories}, findings=found,
        )
    )  # fmt: skip
    tables = {
        "gold.incident": [incident_row(i) for i in incidents],
        "gold.rebalance": [asdict(r) for s in stories for r in s.rebalances],
        "gold.finding": [asdict(f) for f in findings],
        "gold.group": groups,
        "gold.coverage": more.get("coverage", []),
        "silver.undecoded": more.get("undecoded", []),
        "gold.check": more.get("checks", []),
        "gold.reassignment": more.get("reassignments", []),
    }
    for name, rows in tables.items():
        if rows:
            warehouse.append(name, rows_to_table(name, rows))
    warehouse.publish({n: v for n in tables if n.startswith("gold.") and (v := warehouse.version(n)) is not None})
    return warehouse


def _orders() -> GroupStory:
    story = a_group().joins(
        "c1", "c2", "c3", at_s=0, resource_seconds_lower=0.0, resource_seconds_upper=0.0,
        resource_seconds_likely_lower=0.0, resource_seconds_likely_upper=0.0,
    )  # fmt: skip
    story.vanishes("c3", at_s=60, gone_pause_ms=12_310, broker_window_ms=1_310)
    return story.last(
        resource_seconds_lower=20.0, resource_seconds_estimate=24.8, resource_seconds_upper=27.5,
        resource_seconds_likely_lower=21.8, resource_seconds_likely_upper=26.8, pause_lower_ms=10_020,
        pause_estimate_ms=12_310, pause_upper_ms=13_400, pause_likely_lower_ms=11_900, pause_likely_upper_ms=12_700,
    )  # fmt: skip


def _billing() -> GroupStory:
    story = a_group("billing", mode="cooperative", assignor="cooperative-sticky").joins("b1", at_s=30)
    story.joins("b2", at_s=90).meets_again(at_s=93, because="cooperative_follow_up", expected=True)
    for rebalance in range(len(story.rebalances)):
        story.rebalances[rebalance] = replace(
            story.rebalances[rebalance],
            resource_seconds_lower=0.5, resource_seconds_estimate=1.0, resource_seconds_upper=None,
            resource_seconds_likely_lower=0.5, resource_seconds_likely_upper=1.5,
        )  # fmt: skip
    return story


@pytest.fixture
def warehouse(tmp_path: Path) -> Warehouse:
    coverage = {
        "cluster_id": "cluster-a", "source": "record:__consumer_offsets-7", "kind": "record", "from_position": 10,
        "to_position": 20, "is_gap": True, "problem_code": "unreadable", "problem": "the checksum of a batch is wrong",
    }  # fmt: skip
    undecoded = [
        {
            "cluster_id": "cluster-a",
            "ref": f"record:__consumer_offsets-7@{n}",
            "reason": "unknown_record_type",
            "part": "key",
        }
        for n in (15, 16)
    ]
    return _published(tmp_path, [_orders(), _billing()], coverage=[coverage], undecoded=undecoded)


def test_the_numbers_are_those_of_the_tables(warehouse: Warehouse) -> None:
    report = read_report(warehouse)
    assert (report.group_count, report.rebalance_count, report.expected_count) == (2, 5, 1)
    assert report.cost.estimate == pytest.approx(24.8 + 3.0)
    assert report.cost.upper is None, "one pause has no upper bound, so the sum has none"
    # orders 3.0 below and 2.0 above, billing three times 0.5 below and above, two fifths of it together:
    # 0.4 · 1.5² + 0.6 · 3 · 0.5² = 1.35; √(3² + 1.35), √(2² + 1.35)
    assert report.cost.likely_lower == pytest.approx(27.8 - 10.35**0.5)
    assert report.cost.likely_upper == pytest.approx(27.8 + 5.35**0.5)
    assert (report.from_ms, report.to_ms) == (T0_MS, T0_MS + 93_000)
    assert [(g.group_id, g.rebalance_count, g.expected_count, g.cost.estimate) for g in report.groups] == [
        ("orders", 2, 0, 24.8),
        ("billing", 3, 1, 3.0),
    ]
    assert report.groups[0].worst_pause_ms == 12_310
    assert report.groups[0].longest_window_ms == 1_310
    assert report.groups[0].open_finding_count == 1
    assert [(c.trigger, c.rebalance_count) for c in report.causes] == [
        ("member_joined", 4),  # the round that followed, too
        ("member_session_expired", 1),
    ]
    assert sum(b.rebalance_count for b in report.buckets) == 5
    assert [f["rule_id"] for f in report.open_findings] == ["RB007"]


def test_the_text_says_incidents_first_then_groups_causes_and_what_was_not_seen(warehouse: Warehouse) -> None:
    text = report_text(read_report(warehouse), width=170, bounds=True)
    assert text.splitlines()[:2] == [
        "5 rebalances of 2 groups (1 of them the protocol's own work); 27.8 partition-seconds "
        "(likely 24.6 to 30.1) [21.5 … no upper bound] lost.",
        "2025-11-21 04:40:00 UTC to 2025-11-21 04:41:33 UTC (1 min 33 s).",
    ]
    places = [text.index(word) for word in ("Incidents", "Open findings", "Worst groups", "Causes", "Not seen")]
    assert places == sorted(places)
    assert "RB007 warning   c3 (/10.0.0.9) of orders sent no heartbeat for the session timeout of 10 s" in text
    assert re.search(
        r"orders +eager +2 +2 +12\.3 s +24\.8 \(likely 21\.8 to 26\.8\) \[20\.0 … 27\.5\] +a member's session expired",
        text,
    )
    assert "record:__consumer_offsets-7: the checksum of a batch is wrong (from 10 to 20)" in text
    assert "2 records could not be read: unknown record type, for instance record:__consumer_offsets-7@15" in text


def test_what_is_wrong_is_said_before_normal_work_with_its_cost(warehouse: Warehouse) -> None:
    lines = report_text(read_report(warehouse), width=160, bounds=True).splitlines()
    at = lines.index("Incidents")
    # its session of 10 s ended at 04:41:00: that long before it was last known to live
    assert lines[at + 1].startswith(
        "  warning, open    2025-11-21 04:40:50 UTC  c3 (/10.0.0.9) of orders sent no heartbeat until its session "
    )
    rest = " ".join(line.strip() for line in lines[at + 1 : at + 3])
    assert "; 24.8 partition-seconds (likely 21.8 to 26.8) [20.0 … 27.5] lost; no event since 2025-11-21 04:41:" in rest
    assert lines[at + 3].startswith("  normal work      ")


def test_a_report_on_old_evidence_says_since_when_it_is_not_known_how_an_incident_stands(tmp_path: Path) -> None:
    ended_ms = 1_763_700_060_000
    coverage = {
        "cluster_id": "cluster-a", "source": "record:__consumer_offsets-7", "kind": "record", "from_position": 1,
        "to_position": 20, "to_at_ms": ended_ms, "is_gap": False, "problem_code": "none",
    }  # fmt: skip
    warehouse = _published(tmp_path, [_orders()], coverage=[coverage])
    assert "not known since" not in report_text(read_report(warehouse, now_ms=ended_ms + 60_000))
    report = read_report(warehouse, now_ms=ended_ms + 7_200_000)
    said = "state not known since 2025-11-21 04:41:00 UTC"
    assert f"; {said}" in " ".join(report_text(report, width=160).split())
    assert f"open, {said}" in report_html(report)


def test_the_costs_of_the_causes_add_up_to_the_headline_also_with_static_members(tmp_path: Path) -> None:
    story = _orders().comes_back_under_its_instance_id("c1", at_s=100)
    story.last(resource_seconds_lower=1.0, resource_seconds_estimate=18.8, resource_seconds_upper=20.0)
    report = read_report(_published(tmp_path, [story]))
    assert report.cost.estimate == pytest.approx(24.8 + 18.8)
    assert sum(c.cost.estimate or 0 for c in report.causes) == pytest.approx(report.cost.estimate)
    assert sum(g.cost.estimate or 0 for g in report.groups) == pytest.approx(report.cost.estimate)
    assert {c.trigger: c.rebalance_count for c in report.causes}["static_member_replaced"] == 0
    assert sum(i["cost_seconds"] or 0 for i in report.incidents) == pytest.approx(report.cost.estimate)


def test_a_group_that_nobody_knows_is_refused_with_names_that_are_near(
    warehouse: Warehouse, capfd: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(["report", "-w", warehouse.location, "-g", "order"]) == 2
    printed = capfd.readouterr()
    assert (printed.out, printed.err.count("\n")) == ("", 1)
    assert "There is no group 'order'" in printed.err
    assert "did you mean orders?" in printed.err
    assert cli.run(["report", "-w", warehouse.location, "-g", "billing"]) == 0


def test_one_group_and_one_period_can_be_asked_for(warehouse: Warehouse) -> None:
    assert [g.group_id for g in read_report(warehouse, group_id="billing").groups] == ["billing"]
    late = read_report(warehouse, from_ms=T0_MS + 90_000)
    assert late.rebalance_count == 2
    assert (late.from_ms, late.to_ms) == (T0_MS + 90_000, T0_MS + 93_000)
    assert read_report(warehouse, to_ms=T0_MS).rebalance_count == 0


def test_a_period_says_which_incidents_are_not_of_it_alone(warehouse: Warehouse) -> None:
    """c3's is open, so it stands in each later period, and billing's goes on in it: both with their whole cost."""
    assert read_report(warehouse).longer_incident_count == 0
    late = read_report(warehouse, from_ms=T0_MS + 90_000)
    assert [i["cost_seconds"] for i in late.incidents if i["first_at_ms"] < T0_MS + 90_000] == [24.8, 3.0]
    assert late.longer_incident_count == 2
    assert [f["rule_id"] for f in late.open_findings] == ["RB007"], "its finding stands there as long as it is open"
    said = "2 of them began before this period or went on after it, and count whole."
    assert said in report_text(late)
    assert said in report_html(late)


def test_a_group_id_is_a_value_never_sql(warehouse: Warehouse) -> None:
    assert read_report(warehouse, group_id="x' OR '1'='1").rebalance_count == 0


def test_json_is_json(warehouse: Warehouse) -> None:
    row = json.loads(json.dumps(report_dict(read_report(warehouse))))
    assert row["groups"][0]["cost"] == {
        "lower": 20.0, "estimate": 24.8, "upper": 27.5, "likely_lower": 21.8, "likely_upper": 26.8,
    }  # fmt: skip
    assert row["open_findings"][0]["subject"] == "orders"


class _Page(HTMLParser):
    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self._open: list[str] = []
        self.feed(html)
        self.close()
        self.unclosed = self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "br", "rect", "line", "link"):
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in ("rect", "line"):
            assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def test_the_page_shows_the_same_numbers(warehouse: Warehouse) -> None:
    page = _Page(report_html(read_report(warehouse)))
    text = " ".join(" ".join(page.words).split())
    assert page.unclosed == []
    for said in (
        "5 rebalances of 2 groups", "c3 (/10.0.0.9) of orders sent no heartbeat until its session",
        "24.8 likely 21.8 to 26.8",
        "12.3 s, likely 11.9 to 12.7 s", "1.3 s", "a member's session expired", "the checksum of a batch is wrong",
    ):  # fmt: skip
        assert said in text, said


def test_the_page_needs_nothing_else(warehouse: Warehouse) -> None:
    html = report_html(read_report(warehouse))
    page = _Page(html)
    assert not [tag for tag, _ in page.tags if tag in ("script", "link", "img", "iframe", "object")]
    for tag, attributes in page.tags:
        assert not any(name.startswith("on") or name == "src" for name in attributes), tag
        assert not (attributes.get("href") or "").startswith(("http", "//", "javascript"))
    assert "url(" not in html
    assert "@import" not in html


def test_hostile_text_stays_text(tmp_path: Path) -> None:
    story = a_group(EVIL, assignor=EVIL).joins("c1", EVIL, at_s=0).vanishes(EVIL, at_s=60)
    gap = {
        "cluster_id": EVIL, "source": EVIL, "kind": "log", "from_position": 0, "is_gap": True,
        "problem_code": "unreadable", "problem": EVIL,
    }  # fmt: skip
    report = read_report(_published(tmp_path, [story], coverage=[gap]))
    html = report_html(report)
    assert "<script" not in html
    for text in (html, report_text(report)):
        assert not set(text) & {"\x1b", "\u202e"}
    assert _Page(html).unclosed == []


def test_an_empty_warehouse_gives_a_report_that_says_so(tmp_path: Path) -> None:
    report = read_report(Warehouse.open(tmp_path, create=True))
    assert report_text(report) == (
        "No rebalance was seen in this period.\nNo time is covered.\n\nNo findings.\n\nNot seen\n"
        "  Nothing is known to be missing: every source was read without a gap.\n"
    )
    page = _Page(report_html(report))
    assert page.unclosed == []
    assert "No incident is in evidence." in " ".join(page.words)


def test_a_failed_data_check_and_unknown_causes_are_shown(tmp_path: Path) -> None:
    story = a_group().joins("c1", at_s=0).meets_again(at_s=60, because="unknown", is_complete_evidence=False)
    check = {
        "batch_id": "7", "table_name": "gold.rebalance", "check_name": "pause bounds in order", "is_fatal": False,
        "success": False, "checked_count": 90, "unexpected_count": 2,
    }  # fmt: skip
    old = {**check, "batch_id": "publish:rebalance@9", "check_name": "repaired since"}
    repaired = {**old, "batch_id": "publish:rebalance@10", "success": True}
    text = report_text(read_report(_published(tmp_path, [story], checks=[old, repaired, check])))
    assert "Data check failed: gold.rebalance: pause bounds in order (2 of 90 rows)" in text
    assert "repaired since" not in text
    assert "The cause of 1 rebalance is not known: no log line says it." in text
    assert "The evidence of 1 rebalance is incomplete." in text


def test_a_cost_that_nobody_knows_is_said_beside_the_sum_of_the_others(tmp_path: Path) -> None:
    """As in a share group, whose records do not show when a member stops."""
    story = a_group().joins("c1", at_s=0).meets_again(
        at_s=60, because="leader_rejoined", moved_count=2, returned_count=0, resource_count=4,
        resource_seconds_lower=None, resource_seconds_estimate=None, resource_seconds_upper=None,
    )  # fmt: skip
    report = read_report(_published(tmp_path, [story]))
    assert report_dict(report)["unknown_cost_count"] == 1
    text = " ".join(report_text(report).split())
    assert "The cost of 1 rebalance is not known: something stopped, and no evidence shows for how long." in text
    assert "Nothing is known to be missing" not in text


def test_groups_of_one_name_in_two_clusters_are_two(tmp_path: Path) -> None:
    one, other = a_group().joins("c1", at_s=0), a_group().joins("c1", at_s=10)
    other.rebalances = [replace(r, cluster_id="cluster-b") for r in other.rebalances]
    report = read_report(_published(tmp_path, [one, other]))
    assert {g.cluster_id for g in report.groups} == {"cluster-a", "cluster-b"}
    assert report.cluster_ids == ("cluster-a", "cluster-b")
    assert report.group_count == 2


def test_of_two_clusters_each_name_says_where(tmp_path: Path) -> None:
    one, other = a_group().joins("c1", at_s=0), a_group().joins("c1", at_s=10)
    other.rebalances = [replace(r, cluster_id="cluster-b") for r in other.rebalances]
    text = report_text(read_report(_published(tmp_path, [one, other])))
    assert "orders @ cluster-a" in text
    assert "orders @ cluster-b" in text


def test_reassignments_are_shown_and_what_stands_still_comes_first(tmp_path: Path) -> None:
    stuck = waiting_for_broker_4("orders", 0)
    assert stuck.started_at_ms is not None
    done = replace(
        stuck, reassignment_id="orders-1@9", partition=1, outcome="completed", stalled_since_ms=None, blocked_by=None,
        ended_at_ms=stuck.started_at_ms + 61_000,
    )  # fmt: skip
    warehouse = _published(tmp_path, [_orders()], reassignments=[reassignment_row(r) for r in (done, stuck)])
    report = read_report(warehouse)
    assert report.reassignments == (replace(stuck, steps=()), replace(done, steps=()))
    assert report.reassignment_counts == {"completed": 1, "stalled": 1}
    text = report_text(report, width=300)
    assert "2 reassignments of a partition: 1 completed, 1 stalled" in text
    first, second = text[text.index("\nReassignments\n") :].splitlines()[2:4]
    assert "orders-0 [1,2] → [3,4] has been stalled: broker 4, where it should go, is down or fenced" in first
    assert "orders-1 [1,2] → [3,4] completed" in second
    assert "after 1 min 1 s" in second
    words = " ".join(_Page(report_html(report)).words)
    assert "To do: Start broker 4, or cancel the reassignment: " in words
    assert not read_report(warehouse, group_id="orders").reassignments
    assert read_report(warehouse, from_ms=stuck.started_at_ms + 61_001).reassignment_counts == {"stalled": 1}


def test_many_rebalances_are_cut_and_the_rest_is_counted(tmp_path: Path) -> None:
    story = a_group().joins("c1", "c2", at_s=0)
    for i in range(40):
        story.meets_again(at_s=HOUR * (i + 1), because="topic_metadata_changed")
    report = read_report(_published(tmp_path, [story, a_connect_cluster().joins("w1", at_s=0)]))
    shown = [r for r in report.rebalances if r.group_id == "orders"]
    assert len(shown) == 25
    assert shown[0].number == "generation 41", "the newest comes first"
    assert "The newest 25;" in report_html(report)
    assert len(report.buckets) == 41
    assert report.bucket_ms == 3_600_000


def test_settings_that_would_have_saved_the_most_are_listed_and_only_if_they_stand_out(tmp_path: Path) -> None:
    warehouse = _published(tmp_path / "w", [_orders()])
    rows: list[dict[str, Any]] = [
        {
            "cluster_id": "c1", "group_id": group, "place": 1, "settings": ["heartbeat.interval.ms=1000"],
            "saved_seconds": 12.0, "saved_lower_seconds": lower, "saved_upper_seconds": 14.0, "rebalances_replayed": 9,
            "why": f"saves 12.0 s{EVIL}", "beyond_pauses_seconds": 35.4,
        }
        for group, lower in (("orders-app", 8.0), ("billing", -1.0))
    ]  # fmt: skip
    warehouse.append("gold.whatif", rows_to_table("gold.whatif", rows))
    warehouse.publish(warehouse.published() | {"gold.whatif": warehouse.version("gold.whatif") or 0})
    report = read_report(warehouse)
    assert [c["group_id"] for c in report.changes] == ["orders-app"]
    text, page = report_text(report), report_html(report)
    assert "Settings that would have saved the most" in text
    assert "heartbeat.interval.ms=1000" in text
    assert "\x1b" not in text
    assert "Settings that would have saved the most" in page
    assert "<script>" not in page
    assert all("35.4 s of what was measured are no pause elsewhere" in " ".join(said.split()) for said in (text, page))


def test_advice_says_what_a_replay_of_that_group_says(tmp_path: Path) -> None:
    """The others' advice says where to ask; a replay of another cluster's group of that name is none of this one."""
    warehouse = _published(tmp_path / "w", [_orders()])
    told = read_report(warehouse)
    to_ask = "to weigh it for this group, run `rebalance-audit whatif orders`"
    assert any(to_ask in (f["advice"] or "") for f in told.open_findings)
    assert any(to_ask in (i["advice"] or "") for i in told.incidents)
    numbers = {"saved_seconds": -43.3, "saved_lower_seconds": -59.9, "saved_upper_seconds": -36.6}
    cluster = told.open_findings[0]["cluster_id"]
    rows: list[dict[str, Any]] = [
        {"cluster_id": cluster_id, "group_id": "orders", "place": 4, "settings": ["group.instance.id=auto"],
         "rebalances_replayed": 9, "why": "", **numbers, **more}
        for cluster_id, more in ((cluster, {}), ("another", {"saved_upper_seconds": 1.0}))
    ]  # fmt: skip
    warehouse.append("gold.whatif", rows_to_table("gold.whatif", rows))
    warehouse.publish(warehouse.published() | {"gold.whatif": warehouse.version("gold.whatif") or 0})
    report = read_report(warehouse)
    said = (
        "but its partitions wait for it: replayed with group.instance.id=auto, this group would have stood still for "
        "43.3 partition-seconds (likely 36.6 to 59.9) more"
    )
    assert [said in (f["advice"] or "") for f in report.open_findings] == [
        to_ask in (f["advice"] or "") for f in told.open_findings
    ]
    assert any(said in (i["advice"] or "") for i in report.incidents)
    assert said in " ".join(report_text(report).split())
