"""Every page on full, empty, broken and hostile tables: what it says, not only that it stands."""

import html
import json
import re
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pyarrow.parquet as pq
import pytest
from streamlit.testing.v1 import AppTest

from app import sentences
from app.answers.rows import ClusterRow
from app.queries import HOUR_MS, Questions
from rebalance_audit import __version__
from rebalance_audit.warehouse import behind
from rebalance_audit.warehouse.arrow_tables import rows_to_table
from rebalance_audit.warehouse.warehouse import Warehouse
from tests.app import gold_rows
from tests.app.gold_rows import CLUSTER, FILE_ID, HOSTILE_GROUP, HOSTILE_MARKDOWN, T0

MAIN = Path(__file__).resolve().parents[2] / "app" / "main.py"
VIEWS = (
    "home", "groups", "group", "rebalance", "evidence", "connect", "reassignments", "reassignment", "findings", "trust",
    "compare", "incident",
)  # fmt: skip
FAILED = "This page could not be shown."

Open = Callable[..., AppTest]


def shown(view: str, params: Mapping[str, str], unfolded: str | None = None, folded: str | None = None) -> AppTest:
    """A page as it is drawn without a fault. `unfolded`: the key of what is folded away at first; `folded`: of what is
    not."""
    at = AppTest.from_file(str(MAIN), default_timeout=60)
    if view != "home":
        at.switch_page(f"views/{view}.py")
    for name, value in params.items():
        at.query_params[name] = value
    if unfolded is not None:
        at.session_state[unfolded] = True
    if folded is not None:
        at.session_state[folded] = False
    at.run()
    assert not at.exception
    return at


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Open:
    def open_view(location: Path | None, view: str, now_ms: int = T0 + 60_000, **params: str) -> AppTest:
        monkeypatch.setattr("sys.argv", ["streamlit"])
        monkeypatch.setattr("app.clock.now_ms", lambda: now_ms)
        if location is None:
            monkeypatch.delenv("REBALANCE_AUDIT_WAREHOUSE", raising=False)
        else:
            monkeypatch.setenv("REBALANCE_AUDIT_WAREHOUSE", str(location))
        return shown(view, params)

    return open_view


def markup(at: AppTest) -> str:
    return "\n".join(h.value for h in at.html if not h.value.startswith("<style"))


def said(at: AppTest) -> str:
    """The page's own words, as a reader sees them, without its large tables: see `cells`."""
    words = re.sub(r'<div class="ra-phone">.*?</div></td></tr></tbody></table>', "", markup(at), flags=re.DOTALL)
    words = re.sub(r"<nav .*?</nav>\s*", "", words)
    found = html.unescape(re.sub(r"<[^>]+>", "", words))
    return re.sub(r"\s+", " ", found)


def cells(at: AppTest) -> str:
    return "\n".join(str(d.value.to_string()) for d in at.dataframe)


def links(at: AppTest) -> list[tuple[str, str]]:
    """Label and address of every link."""
    return [
        (plain(link.value).replace("\u2060", ""), f"{link.proto.page}?{link.proto.query_string}")
        for link in at.page_link
    ]


def pressed(at: AppTest, label: str) -> dict[str, str]:
    """The address after following a link from a page to itself."""
    next(b for b in at.button if plain(b.label) == label).click().run()
    assert not at.exception
    return dict(at.query_params)


def plain(label: str) -> str:
    return re.sub(r"\\(.)", r"\1", label)


# ---- what each page answers ------------------------------------------------------------------------------------------


def opening_lines(at: AppTest) -> list[dict[str, Any]]:
    """The lines that open in place, of all lists on the page, as the browser gets them."""
    found = [e.proto for e in at.get("bidi_component") if e.proto.component_name == "rebalance_audit_lines"]
    return [row for proto in found for row in json.loads(proto.json)["rows"]]


def test_home_says_first_what_is_going_on_and_what_it_cost(opened: Open, full_warehouse: Path) -> None:
    at = opened(full_warehouse, "home")
    text = said(at)
    answer = "What is wrong", "Whose doing", "What it cost", "What to do"
    assert [text.index(name) for name in answer] == sorted(text.index(name) for name in answer)
    assert (
        "c3 exceeded its poll interval \u00b7 lab-cluster (settled). 3 incidents open, 1 critical (2 settled)." in text
    )
    assert "Whose doingc3: a member exceeded its poll interval" in text
    assert "62.0 partition-seconds of downtime. All that is open: 86.9 partition-seconds." in text
    assert "2,041 rebalances of 2,006 groups cost 173 partition-seconds and 63.5 task-seconds" in text
    lines = opening_lines(at)
    assert [line["subject"].split()[0] for line in lines[:2]] == ["checkout", "orders"]
    storm = lines[0]
    assert storm["cause"].startswith("checkout rebalanced 31 times in 5 h 45 min: c3 exceeded its poll interval")
    assert (storm["cost"], storm["tone"]) == ("62.0 partition-seconds", "critical")
    assert any(name == "What to do:" for name, _ in storm["facts"])
    assert "2026-11-21 14:00 UTC" in text  # up to when each cluster was seen


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


def test_home_begins_with_a_time_that_shows_its_worst_incident(opened: Open, tmp_path: Path) -> None:
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
    assert dict(opened(tmp_path / "w", "home").query_params)["last"] == "7d"


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


def opened_reader(location: Path) -> Questions:
    reader = Questions.open(location)
    reader.refresh()
    return reader


def test_an_incident_has_its_story_its_chain_its_cost_and_the_runbook(opened: Open, full_warehouse: Path) -> None:
    reader = opened_reader(full_warehouse)
    storm = next(i for i in reader.incidents(group_id="checkout") if i.kind == "storm")
    at = opened(full_warehouse, "incident", cluster=CLUSTER, incident=storm.incident_id)
    text = said(at)
    assert text.startswith("Critical, open, settled \u00b7 lab-cluster")
    assert "checkout" in text
    assert "62.0 partition-seconds (31.0 \u2026 93.0)" in text
    assert "What to do:" in text
    assert "From the cause to its last consequence" in text
    assert re.search(r"checkout.{0,20}3162\.0 partition-seconds \(31\.0 … 93\.0\)", text)
    assert "Storm: more rebalances than the group's limit" in " ".join(m.value for m in at.markdown)
    copies = [c.value for c in at.code]
    assert copies[0].startswith("[critical, open, settled] checkout @ lab-cluster: checkout rebalanced 31 times")
    assert "## Time line" in copies[1]
    assert re.search(r"\| checkout \| \S+ \| 31 \| 62\.0 partition-seconds \(31\.0 … 93\.0\) \|", copies[1])
    assert ("Group checkout", "group?cluster=lab-cluster&group=checkout") in links(at)


def test_every_incident_has_a_page(opened: Open, full_warehouse: Path) -> None:
    for i in opened_reader(full_warehouse).incidents():
        text = said(opened(full_warehouse, "incident", cluster=i.cluster_id, incident=i.incident_id))
        assert FAILED not in text
        assert "Evidence" in text


def test_the_groups_table_counts_and_finds(opened: Open, full_warehouse: Path) -> None:
    at = opened(full_warehouse, "groups")
    assert "of 2,006 groups have open incidents; 2,006 rebalanced in that time." in said(at)
    assert at.dataframe[0].value["group"].head(1).tolist() == ["checkout"]  # the only critical one
    assert "The first 200 are listed" in said(at)
    assert "100 groups match." in said(opened(full_warehouse, "groups", search="svc-19"))
    assert "No group matches." in said(opened(full_warehouse, "groups", search="no such thing"))
    on_a_phone = opening_lines(at)
    assert len(on_a_phone) == 30
    assert on_a_phone[0]["subject"].startswith("checkout")
    assert on_a_phone[0]["cause"] == "1 critical open, 31 rebalances"
    assert on_a_phone[0]["cost"] == "62.0 partition-seconds"
    assert "1,976 more: search or filter for them." in said(at)
    eager = opened(full_warehouse, "groups", mode="eager", cluster=CLUSTER)
    assert set(eager.dataframe[0].value["mode"]) == {"eager"}


def test_a_search_in_the_address_is_the_same_search(opened: Open, full_warehouse: Path) -> None:
    at = opened(full_warehouse, "groups", search="checkout", care="1")
    assert at.dataframe[0].value["group"].tolist() == ["checkout"]


def test_a_groups_page_has_its_time_line_its_story_and_its_incidents(opened: Open, full_warehouse: Path) -> None:
    at = opened(full_warehouse, "group", cluster=CLUSTER, group="checkout")
    text = said(at)
    assert [line["subject"] for line in opening_lines(at)] == ["checkout"]
    assert "31 rebalances in 6 h, more than" not in text  # its findings are in the incident
    assert (
        "31 rebalances in 6 h, because a member exceeded its poll interval, always c3. "
        "They cost 62.0 partition-seconds (31.0 … 93.0)."
    ) in text
    assert "broker's own window" in text
    assert "c36" not in text


def test_a_shorter_time_in_the_address_shows_less(opened: Open, full_warehouse: Path) -> None:
    at = opened(
        full_warehouse, "group", **{"cluster": CLUSTER, "group": "checkout", "from": str(T0 - 3_600_000), "to": str(T0)}
    )
    assert "4 rebalances in 1 h" in said(at)
    at.segmented_control[0].set_value("all").run()
    assert "31 rebalances in 6 h" in said(at)
    assert at.query_params["last"] == "all"
    assert "from" not in at.query_params


def test_expected_rounds_are_called_so(opened: Open, full_warehouse: Path) -> None:
    at = opened(full_warehouse, "group", cluster=CLUSTER, group="payments")
    text = said(at)
    assert "the second round of a cooperative change" in cells(at)
    assert "the second round" not in text  # their sums are booked on what made it necessary
    assert "1 was part of the protocol's normal work, drawn as \u00b7." in text
    assert "6.0 partition-seconds (5.9 … no upper bound)" in text


def test_a_rebalance_shows_who_went_where_and_how_long_it_took(opened: Open, full_warehouse: Path) -> None:
    at = opened(full_warehouse, "rebalance", cluster=CLUSTER, rebalance="orders/7")
    text = said(at)
    assert "orders, generation 7" in text
    assert "It began because a member vanished (c3); a log line says so: c3 (/10.0.0.3) sent no heartbeat" in text
    assert "orders-4, orders-5 went from c3 to c2 and stood still 12.3 s (10.0 … 13.4)." in text
    assert "The longest downtime was 12.3 s (10.0 … 13.4); the broker's own window was 1.3 s, 9.4 times" in text
    assert "cost, all downtime summed24.9 partition-seconds (20.2 … 27.1)" in text
    assert "12.3 s (10.0 … 13.4)" in cells(at)
    found = links(at)
    assert any(label == f"log:broker-1/server.log#{FILE_ID}@88123" for label, _ in found)


def test_a_link_from_a_page_to_itself_changes_the_address_too(opened: Open, full_warehouse: Path) -> None:
    at = opened(full_warehouse, "rebalance", cluster=CLUSTER, rebalance="orders/7")
    assert pressed(at, "Rebalance before") == {"cluster": CLUSTER, "rebalance": "orders/6"}
    assert "orders, generation 6" in said(at)


def test_a_revocation_round_has_no_pause_of_its_own(opened: Open, full_warehouse: Path) -> None:
    at = opened(full_warehouse, "rebalance", cluster=CLUSTER, rebalance="payments/4")
    text = said(at)
    assert "2 partitions stopped here and had no new owner yet: the rebalance that hands them on shows how long" in text
    assert "longest downtimecounted in the rebalance that assigns it again" in text
    assert "nothing stood still" not in text.lower()
    assert "none yet: it has no new owner here" in cells(at)


def test_a_record_stands_decoded_beside_its_bytes(opened: Open, full_warehouse: Path) -> None:
    at = opened(full_warehouse, "evidence", cluster=CLUSTER, ref="record:__consumer_offsets-7@231")
    text = said(at)
    assert "This is the GroupMetadata record of group orders: offset 231 of __consumer_offsets, partition 7" in text
    assert "key, 10 bytes" in text
    assert "000000 00 02 00 06 6f 72 64 65 72 73" in text
    assert "generation7" in text
    assert "partitionsorders-0 … orders-2" in text
    assert "Nothing that was seen." in text
    assert ("orders, generation 7", "rebalance?cluster=lab-cluster&rebalance=orders%2F7") in links(at)


def test_a_broken_record_is_shown_with_its_fault(opened: Open, full_warehouse: Path) -> None:
    at = opened(full_warehouse, "evidence", cluster=CLUSTER, ref="record:__consumer_offsets-7@229")
    assert "It could not be read: short_buffer at byte" in said(at)
    assert 'class="ra-fault"' in markup(at)


def test_a_log_line_stands_in_its_surroundings_with_what_was_read_marked(opened: Open, full_warehouse: Path) -> None:
    at = opened(full_warehouse, "evidence", cluster=CLUSTER, ref=f"log:broker-1/server.log#{FILE_ID}@88123")
    assert '<mark title="generation_id">6</mark>' in markup(at)
    text = said(at)
    assert "Its time is local: +1 h from UTC, inferred. In your zone: 2026-11-21 13:50:00.000 UTC." in text
    assert "Stabilized group orders generation 7" in text


def test_what_did_not_move_is_not_said_to_move_for_nothing(opened: Open, full_warehouse: Path) -> None:
    at = opened(full_warehouse, "rebalance", cluster=CLUSTER, rebalance="orders/7")
    moved = next(d.value for d in at.dataframe if "avoidable" in d.value)
    assert set(moved.loc[moved["what"] == "returned", "avoidable"]) == {"did not move"}
    assert "did not move" not in set(moved.loc[moved["what"] == "moved", "avoidable"])


def test_connect_shows_waiting_by_design_from_a_fault(opened: Open, full_warehouse: Path) -> None:
    at = opened(full_warehouse, "connect")
    text = said(at)
    assert 'class="ra-title">connect-lab<' in markup(at)
    assert "3 of 9 tasks and connectors did not run at some time: 963 task-seconds in all, 43.0 of them" in text
    assert "The longest: broken-0 did not run for 15 min: failed." in text
    assert (
        "1 task or connector is still not running at the end of the evidence: broken-0, failed: "
        "org.apache.kafka.connect.errors.ConnectException: <b>no</b> route." in text
    )
    history = at.dataframe[0].value
    waiting = history[history["state"] == "waiting, by design"]
    assert waiting["for"].tolist() == ["21.5 s", "21.5 s"]
    at.selectbox[0].set_value("sink-2").run()
    assert at.dataframe[0].value["state"].tolist() == [
        "running",
        "lost with its worker",
        "waiting, by design",
        "running",
    ]
    assert at.query_params["task"] == "sink-2"


def test_reassignments_say_first_whether_it_moves_and_what_to_type(opened: Open, full_warehouse: Path) -> None:
    at = opened(full_warehouse, "reassignments")
    text = said(at)
    assert "No: 3 of 4 partitions that move are stalled." in text
    assert "Stalled orders-4, orders-5: broker 4, where it should go, is down or fenced." in text
    assert at.code[0].value.startswith('echo \'{"version": 1, "partitions": [{"topic": "orders", "partition": 4')
    assert "Nothing is ever run from here" in text
    assert "Info Broker 2 does not lead 3 of the 9 partitions it is preferred for" in text
    assert at.dataframe[0].value["state"].head(4).tolist() == ["stalled", "stalled", "stalled", "moving"]
    at.text_input[0].set_value("ORDERS-4").run()
    assert at.dataframe[0].value["partition"].tolist() == ["orders-4"]
    assert at.query_params["search"] == "ORDERS-4"
    at.selectbox[0].set_value("completed").run()
    assert "None matches." in said(at)


def test_one_reassignment_shows_its_ladder_and_the_groups_in_time_with_it(opened: Open, full_warehouse: Path) -> None:
    at = opened(full_warehouse, "reassignment", cluster=CLUSTER, reassignment="__consumer_offsets-7@700")
    text = said(at)
    assert "It completed after 12.1 s: __consumer_offsets-7 went from [1, 2] to [3, 2]." in text
    assert "the leader moved" in text
    assert "It holds orders: the group's coordinator moved with it. 3.0 s later orders began to rebalance" in text
    link = (
        "metadata:broker-1@731, record of the metadata log",
        "evidence?cluster=lab-cluster&ref=metadata%3Abroker-1%40731",
    )
    assert any((label, address.split("&reassignment")[0]) == link for label, address in links(at))


def test_a_group_shows_the_moves_it_hangs_on(opened: Open, full_warehouse: Path) -> None:
    text = said(opened(full_warehouse, "group", cluster=CLUSTER, group="orders"))
    assert "1 rebalance began in time with a change of a leader, within 5.0 s after it; it was the coordinator" in text
    assert "partitions it hangs on" in text
    assert "a leader changed" not in said(opened(full_warehouse, "group", cluster=CLUSTER, group="checkout"))


def test_connect_shows_its_stories_in_plain_words(opened: Open, full_warehouse: Path) -> None:
    at = opened(full_warehouse, "connect")
    text = said(at)
    assert (
        "Worker 10.0.3.3:8083 went and did not come back: its 2 connectors and tasks waited 21.5 s, then moved." in text
    )
    assert "Connect waits for its return and leaves sink-2, source-1 unassigned for up to 20 s" in text
    assert text.index("Who ran what, when") < text.index("did not come back")  # the picture before the prose
    assert ("Generation 9", "rebalance?cluster=lab-cluster&rebalance=connect-lab%2F9&last=all") in links(at)
    assert pressed(at, "Look closer")["by"] == "workers"


def test_connect_shows_whose_change_stopped_whose_work(opened: Open, full_warehouse: Path) -> None:
    text = said(opened(full_warehouse, "connect"))
    assert (
        "1 of 1 change of a connector stopped work of others, who had changed nothing; the worst, of source, 2 tasks "
        "and connectors for up to 400 ms: 0.5 task-seconds in all." in text
    )
    assert "source: connector source created" in text
    assert "sink: 1 task or connector, up to 400 ms" in text
    assert "at least 2.5 task-seconds" in text


def test_of_evidence_that_ended_long_ago_nothing_is_said_about_now(opened: Open, full_warehouse: Path) -> None:
    text = said(opened(full_warehouse, "home", now_ms=T0 + 2 * 3_600_000))
    assert "checkout rebalanced 31 times in 5 h 45 min" in text
    assert "The newest evidence is 2 h old." in text


def test_the_price_of_the_eager_protocol_is_a_lower_bound(opened: Open, full_warehouse: Path) -> None:
    text = said(opened(full_warehouse, "rebalance", cluster=CLUSTER, rebalance="connect-lab/8"))
    assert "had everything stoppedat least 2.5 task-seconds, as under the eager protocol" in text


def test_a_groups_page_shows_its_pause_beside_the_brokers_window(opened: Open, full_warehouse: Path) -> None:
    text = said(opened(full_warehouse, "group", cluster=CLUSTER, group="orders"))
    assert "Clients stood still for" in text
    assert "It is wrong by a factor of" in text
    assert "Clients stood still" not in said(opened(full_warehouse, "home"))


def test_two_groups_are_compared_number_by_number(opened: Open, full_warehouse: Path) -> None:
    sides = {"a": json.dumps([CLUSTER, "checkout"]), "b": json.dumps([CLUSTER, "orders"])}
    text = said(opened(full_warehouse, "compare", **sides))
    assert "31 rebalances in 6 h before, 2 rebalances in 1 h after. A difference is not yet a cause." in text
    assert "Before: checkout @ lab-cluster, 6 h" in text
    assert "longest downtime, median" in text


def test_one_group_is_compared_before_and_after_the_moment_in_the_address(opened: Open, full_warehouse: Path) -> None:
    one = json.dumps([CLUSTER, "checkout"])
    at = opened(full_warehouse, "compare", a=one, b=one, at=str(T0 - 3_600_000))
    assert "27 rebalances in 5 h before, 4 rebalances in 1 h after." in said(at)
    unknown = opened(full_warehouse, "compare", a=json.dumps([CLUSTER, "nobody"]), b="not json", at="x")
    assert "Too little was seen to say" in said(unknown)


def test_compare_opens_with_a_question_and_claims_nothing(opened: Open, full_warehouse: Path) -> None:
    text = said(opened(full_warehouse, "compare"))
    assert "What changed, and for which groups?" in text
    assert "got better" not in text
    assert "got worse" not in text


def test_findings_are_counted_filtered_and_opened(opened: Open, full_warehouse: Path) -> None:
    at = opened(full_warehouse, "findings")
    assert "5 findings are open, 1 resolved." in said(at)
    assert len(opening_lines(at)) == 6
    at.selectbox[2].set_value("RB007").run()
    (line,) = opening_lines(at)
    assert line["subject"].startswith("RB007 Session expiry \u00b7 ")
    assert "c3 vanished without leaving" in line["cause"]
    assert line["cost"].endswith(", open")
    at.selectbox[0].set_value("resolved").run()
    assert "No finding matches all of these." in said(at)


def test_findings_are_narrowed_by_cluster_team_and_time(opened: Open, tmp_path: Path) -> None:
    """Four, an hour long, each of another cluster, team and day; the last is still open, and goes on."""
    groups, found = [], []
    for n, (cluster, team) in enumerate((("blue", "pay"), ("blue", "shop"), ("green", "pay"), ("green", "shop"))):
        from_ms = T0 + n * 24 * HOUR_MS
        key = {"cluster_id": cluster, "group_id": f"app-{n}"}
        groups.append({**key, "team": team, "group_type": "classic", "state": "Stable", "rebalance_count": 1})
        found.append(
            {
                **key, "finding_id": f"f{n}", "rule_id": "RB007", "severity": "warning", "subject_type": "group",
                "subject": f"app-{n}", "status": "open" if n == 3 else "resolved", "first_seen_at_ms": from_ms,
                "last_seen_at_ms": from_ms + HOUR_MS, "title": f"app-{n} lost a member", "detail": "", "numbers": "{}",
                "evidence": ["record:__consumer_offsets-1@1"],
            }
        )  # fmt: skip
    coverage = [
        {
            "cluster_id": c, "source": "record:__consumer_offsets-1", "kind": "record", "from_position": 0,
            "to_position": 9, "from_at_ms": T0, "to_at_ms": T0 + 96 * HOUR_MS, "is_gap": False, "problem_code": "none",
        }
        for c in ("blue", "green")
    ]  # fmt: skip
    warehouse = Warehouse.open(tmp_path / "w", create=True)
    for name, rows in (("gold.group", groups), ("gold.finding", found), ("gold.coverage", coverage)):
        warehouse.append(name, rows_to_table(name, rows))
    gold_rows.publish(warehouse)

    def listed(**params: str) -> list[str]:
        at = opened(tmp_path / "w", "findings", **params)
        text = said(at)
        assert "1 finding is open, 3 resolved." in text
        names = [line["cause"].removesuffix(" lost a member") for line in opening_lines(at)]
        assert (f"{len(names)} of 4 match." in text) == (len(names) < 4)
        return names

    day = 24 * HOUR_MS
    assert listed() == listed(last="all") == ["app-3", "app-2", "app-1", "app-0"]
    assert listed(of="blue") == ["app-1", "app-0"]
    assert listed(team="pay") == ["app-2", "app-0"]
    assert listed(of="green", team="shop") == ["app-3"]
    assert listed(**{"from": str(T0 + day - 1), "to": str(T0 + 2 * day - 1)}) == ["app-1"]
    assert listed(**{"from": str(T0 + HOUR_MS), "to": str(T0 + day - 1)}) == ["app-0"], "it ends as the time begins"
    assert listed(**{"from": str(T0 + HOUR_MS + 1), "to": str(T0 + day - 1)}) == []
    assert listed(last="6h") == ["app-3"], "what is open goes on"
    assert listed(of="blue", last="6h") == []
    assert listed(of="elsewhere") == ["app-3", "app-2", "app-1", "app-0"], "no such cluster: no choice was made"


def test_one_finding_shows_its_numbers_and_evidence(opened: Open, full_warehouse: Path) -> None:
    at = opened(full_warehouse, "findings", cluster=CLUSTER, finding="f-storm")
    text = said(at)
    assert "rebalance count31" in text
    assert "6 h" in text
    assert (
        "record:__consumer_offsets-3@1030",
        "evidence?cluster=lab-cluster&ref=record%3A__consumer_offsets-3%401030",
    ) in links(at)


def test_trust_says_what_was_not_seen(opened: Open, full_warehouse: Path) -> None:
    at = opened(full_warehouse, "trust")
    text = said(at)
    assert (
        "2 gaps in 3 sources. 1 record or line could not be read. Evidence of 3 rebalances is missing. 1 check failed."
        in text
    )
    assert "Offsets 0 to 199 were compacted away before they were read." in text
    assert "+1:00 h" in text
    assert "inferred" in text
    assert (
        "Of 3 records and lines: 1 event, 1 commit, 0 that say nothing of groups or partitions, 1 not understood."
        in text
    )
    assert "1 of 2 checks hold." in text


# ---- unknown, empty, broken ------------------------------------------------------------------------------------------


def test_what_is_not_known_is_said_and_never_a_zero(opened: Open, full_warehouse: Path) -> None:
    at = opened(full_warehouse, "group", cluster=CLUSTER, group="unknowns")
    text = said(at)
    assert "What that cost is not known: no evidence shows who stood still, or for how long." in text
    assert "Not seen: 1 number skipped, and nothing says why; 1 rebalance with evidence missing around" in text
    one = said(opened(full_warehouse, "rebalance", cluster=CLUSTER, rebalance="unknowns/3"))
    assert "Why it began is not known: no evidence names the cause." in one
    assert "longest downtimenot known: no evidence of when it stopped or went on" in one
    assert "began not known: no log line says" in one.replace("began", "began ")
    assert "None" not in one
    assert "nan" not in one


@pytest.mark.parametrize("view", VIEWS)
def test_every_page_says_how_to_begin_when_no_warehouse_is_given(opened: Open, view: str) -> None:
    text = said(opened(None, view))
    assert "No warehouse was given." in text
    assert "rebalance-audit ui --warehouse FOLDER" in text


@pytest.mark.parametrize("view", VIEWS)
def test_every_page_says_where_no_warehouse_is(opened: Open, view: str, tmp_path: Path) -> None:
    text = said(opened(tmp_path / "nowhere", view))
    assert "The warehouse cannot be read." in text
    assert "There is no warehouse at" in text
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize("view", VIEWS)
def test_every_page_refuses_a_newer_warehouse_in_one_sentence(opened: Open, view: str, newer_warehouse: Path) -> None:
    assert "was written by a newer version" in said(opened(newer_warehouse, view))


@pytest.mark.parametrize(
    "view", [v for v in VIEWS if v not in ("connect", "evidence", "reassignments", "reassignment")]
)
def test_an_empty_warehouse_says_what_to_do_next(opened: Open, view: str, empty_warehouse: Path) -> None:
    text = said(opened(empty_warehouse, view))
    assert "Nothing has been audited yet" in text
    assert "rebalance-audit import FOLDER --warehouse" in text


def test_without_the_metadata_log_the_page_says_what_to_give(opened: Open, empty_warehouse: Path) -> None:
    text = said(opened(empty_warehouse, "reassignments"))
    assert "No reassignment and no change of a leader was seen." in text
    assert "__cluster_metadata-0" in text


def test_without_connect_the_page_says_what_to_give(opened: Open, empty_warehouse: Path) -> None:
    assert "No Connect cluster was seen" in said(opened(empty_warehouse, "connect"))


def test_a_table_that_is_gone_is_no_quiet_fleet(opened: Open, tmp_path: Path) -> None:
    gold_rows.write(tmp_path / "w", many=0)
    shutil.rmtree(tmp_path / "w" / "gold" / "incident")
    for view in ("home", "groups"):
        text = said(opened(tmp_path / "w", view))
        assert "A table cannot be read. What rests on it is not known here, and not zero." in text
        what = "gold.incident (incidents: what happened, whose doing it was, what it cost)"
        assert f"{what} was there at the last publication and is not any more; restore it from a backup" in text


def test_lost_files_are_said_and_nothing_else_breaks(opened: Open, tmp_path: Path) -> None:
    gold_rows.write(tmp_path / "w", many=0)
    for file in (tmp_path / "w" / "gold" / "movement").glob("*.parquet"):
        file.unlink()
    text = said(opened(tmp_path / "w", "rebalance", cluster=CLUSTER, rebalance="orders/7"))
    assert "A table cannot be read." in text
    assert re.search(
        r"gold\.movement \(what moved in [\w ,]+\) lacks a file, part-\w+\.parquet; restore it from a backup", text
    )
    assert "generation 7" in text  # what the other tables say of it is there
    assert "SELECT" not in text
    assert "3 incidents open, 1 critical" in said(opened(tmp_path / "w", "home"))


def test_a_page_names_the_damaged_tables_that_it_asks_and_no_others(opened: Open, tmp_path: Path) -> None:
    gold_rows.write(tmp_path / "w", many=0)
    for file in (tmp_path / "w" / "gold" / "connect_task").glob("*.parquet"):
        file.unlink()
    for _ in range(2):  # also where all answers are remembered
        assert "gold.connect_task (" in said(opened(tmp_path / "w", "connect"))
        for view in ("home", "groups", "trust"):
            assert "cannot be read" not in said(opened(tmp_path / "w", view))


LOST = [
    # the table, the page, what it must not say without it, what it says
    ("incident", "home", "No incident open", "Which incidents are open is not known: gold.incident cannot be read."),
    ("incident", "home", "0 open", "Not known: gold.incident cannot be read."),
    ("incident", "groups", "0 of", "Which groups have open incidents is not known: gold.incident cannot be read"),
    ("incident", "group", "None.", "Its incidents Not known: gold.incident cannot be read."),
    ("incident", "incident", "Nothing is known of", "is not known: gold.incident cannot be read."),
    ("rebalance", "home", "No rebalance in this time", "Not known: gold.rebalance cannot be read."),
    ("rebalance", "groups", "0 rebalanced", "how many rebalanced is not known, since gold.rebalance cannot be read"),
    ("rebalance", "group", "none of its rebalances was seen", "Not known: gold.rebalance cannot be read."),
    ("rebalance", "rebalance", "Nothing is known of", "is not known: gold.rebalance cannot be read."),
    ("movement", "rebalance", "No resource stopped", "What moved Not known: gold.movement cannot be read."),
    ("rebalance_member", "rebalance", "no record of", "before and after Not known: gold.rebalance_member cannot"),
    ("rebalance_member", "group", "No member is known", "Not known: gold.rebalance_member cannot be read."),
    ("finding", "findings", "Nothing was found", "Not known: gold.finding cannot be read."),
    ("connect_task", "connect", "No task was seen", "Not known: gold.connect_task cannot be read."),
    ("reassignment", "reassignments", "Nothing is moving", "Not known: gold.reassignment cannot be read."),
    ("leader_election", "reassignments", "leaders None", "Not known: gold.leader_election cannot be read."),
    (
        "coverage",
        "trust",
        "Nothing is known to be missing",
        "What was seen is not known: gold.coverage cannot be read.",
    ),
    ("check", "trust", "No check has run", "Whether the checks hold is not known: gold.check cannot be read."),
    ("group", "home", "Nothing has been audited yet", "3 incidents open, 1 critical"),
    ("group", "groups", "No group matches", "Not known: gold.group cannot be read."),
    ("group", "rebalance", "Nothing has been audited yet", "In numbers"),
]


@pytest.mark.parametrize(("table", "view", "lie", "truth"), LOST, ids=lambda text: re.sub(r"\W+", "-", text)[:24])
def test_what_a_lost_table_held_is_not_known_rather_than_none(
    opened: Open, tmp_path: Path, table: str, view: str, lie: str, truth: str
) -> None:
    gold_rows.write(tmp_path / "w", many=0)
    found = Questions.open(tmp_path / "w").rows("SELECT incident_id FROM gold.incident ORDER BY 1")[0]["incident_id"]
    params = {
        "group": {"cluster": CLUSTER, "group": "orders"},
        "rebalance": {"cluster": CLUSTER, "rebalance": "orders/7"},
        "incident": {"cluster": CLUSTER, "incident": found},
        "connect": {"cluster": CLUSTER, "group": "connect-lab"},
    }.get(view, {})
    lost = list((tmp_path / "w" / "gold" / table).rglob("*.parquet"))
    assert lost
    for file in lost:
        file.unlink()
    text = said(opened(tmp_path / "w", view, **params))
    assert lie not in text
    assert truth in text
    assert FAILED not in text


def test_rows_of_another_shape_cost_their_part_of_the_page(opened: Open, tmp_path: Path) -> None:
    gold_rows.write(tmp_path / "w", many=0)
    (file,) = (tmp_path / "w" / "gold" / "check").glob("*.parquet")
    pq.write_table(pq.read_table(file).drop_columns(["check_name"]), file)
    text = said(opened(tmp_path / "w", "trust"))
    assert "A table cannot be read." in text
    assert "gold.check (checks of the tables) has no column check_name: another release wrote it" in text
    assert "What was seen, source by source" in text
    assert "Whether the checks hold is not known: gold.check cannot be read." in text
    assert "No check has run yet" not in text
    assert FAILED not in text


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


# ---- hostile text ----------------------------------------------------------------------------------------------------

PAGES = [
    ("home", {}),
    ("groups", {}),
    ("group", {"cluster": CLUSTER, "group": HOSTILE_GROUP}),
    ("rebalance", {"cluster": CLUSTER, "rebalance": "hostile/1"}),
    ("findings", {}),
    ("findings", {"cluster": CLUSTER, "finding": "f-forged"}),
    ("trust", {}),
    ("connect", {}),
    ("connect", {"by": "workers"}),
    ("rebalance", {"cluster": CLUSTER, "rebalance": "connect-lab/8"}),
    ("compare", {}),
    ("compare", {"a": json.dumps([CLUSTER, HOSTILE_GROUP]), "b": json.dumps([CLUSTER, "orders"])}),
    ("reassignments", {}),
    ("reassignment", {"cluster": CLUSTER, "reassignment": "hostile@1"}),
    ("evidence", {"cluster": CLUSTER, "ref": "record:__consumer_offsets-2@5"}),
]


@pytest.mark.parametrize(("view", "params"), PAGES)
def test_no_clients_text_becomes_markup(opened: Open, full_warehouse: Path, view: str, params: dict[str, str]) -> None:
    at = opened(full_warehouse, view, **params)
    assert FAILED not in said(at)
    for tag in ("<script", "<img", "<u>", "onerror=alert(3)>"):
        assert tag not in markup(at)
    for label in [*(link.value for link in at.page_link), *(b.label for b in at.button)]:
        assert "](" not in label
        assert ":smile:" not in label
        assert "<" not in re.sub(r"\\<", "", label)
    for other in [*at.markdown, *at.title, *at.header, *at.subheader, *at.caption]:
        assert HOSTILE_MARKDOWN[:8] not in other.value
        assert "<script" not in other.value


def test_hostile_text_is_shown_as_what_it_is(opened: Open, full_warehouse: Path) -> None:
    text = said(opened(full_warehouse, "rebalance", cluster=CLUSTER, rebalance="hostile/1"))
    assert "<script>alert(1)</script>‹LF›[…" in text
    assert "</p><script>alert(4)</script>‹ESC›[31mred." in text
    assert "1 partition had two owners at once, for up to 1.5 s." in text


@pytest.mark.parametrize(
    ("view", "params"), [("connect", {}), ("rebalance", {"cluster": CLUSTER, "rebalance": "connect-lab/8"})]
)
def test_no_cell_of_a_table_is_a_formula(opened: Open, full_warehouse: Path, view: str, params: dict[str, str]) -> None:
    at = opened(full_warehouse, view, **params)
    texts = [v for d in at.dataframe for v in d.value.to_numpy().ravel() if isinstance(v, str)]
    assert any(v.startswith("'=HYPERLINK(1)<script>") for v in texts)
    assert not [v for v in texts if v.startswith(("=", "+", "-", "@"))]


def test_a_contradicted_record_says_so(opened: Open, full_warehouse: Path) -> None:
    text = said(opened(full_warehouse, "evidence", cluster=CLUSTER, ref="record:__consumer_offsets-2@5"))
    assert "TR004: a log line <b>contradicts</b> the records" in text


@pytest.mark.parametrize(("view", "params"), PAGES)
def test_no_page_says_none_or_nan(opened: Open, full_warehouse: Path, view: str, params: dict[str, str]) -> None:
    text = said(opened(full_warehouse, view, **params))
    assert not re.search(r"\b(None|nan|NaN|NaT)\b", text.replace("None: this number", ""))


def test_trust_says_that_the_tables_are_behind(opened: Open, tmp_path: Path) -> None:
    warehouse = Warehouse.open(tmp_path / "w", create=True)
    assert "The tables are behind" not in said(opened(tmp_path / "w", "trust"))
    since_ms = 1_795_000_000_000
    behind.keep(warehouse, behind.Behind(said_at_ms=since_ms + 46_000, since_ms=since_ms, round_ms=46_000))
    text = said(opened(tmp_path / "w", "trust"))
    assert "The tables are behind" in text
    assert "The last round of the stages took 46" in text
    behind.keep(warehouse, behind.Behind(said_at_ms=since_ms + 50_000))
    assert "The tables are behind" not in said(opened(tmp_path / "w", "trust"))


def test_trust_says_whether_the_log_of_evidence_is_whole(opened: Open, tmp_path: Path) -> None:
    location = tmp_path / "w"
    warehouse = gold_rows.write(location, many=0)
    assert "No log of evidence was begun yet" in said(opened(location, "trust"))
    with warehouse.lease("a test"):
        pass
    (leaves,) = (location / "audit" / "leaves").iterdir()
    count = len(leaves.read_text().splitlines())
    whole = said(opened(location, "trust"))
    assert f"The log of evidence is whole: {count} leaves until" in whole
    assert "Nobody signed its head" in whole
    leaves.write_text(leaves.read_text().replace("gold.rebalance", "gold.rebalancf", 1))
    bent = warehouse.read("gold.coverage").to_pylist()[0]
    warehouse.append("gold.coverage", rows_to_table("gold.coverage", [{**bent, "source": "log:another/one"}]))
    gold_rows.publish(warehouse)  # answers are kept until something new is published
    text = said(opened(location, "trust"))
    assert "The log of evidence was changed" in text
    assert "of the log was changed: its hash is not the one beside it." in text


def test_trust_shows_contradictions_what_is_incomplete_and_time_to_scale(opened: Open, full_warehouse: Path) -> None:
    at = opened(full_warehouse, "trust")
    text = said(at)
    for heading in ("Seen over time", "What contradicts the rest", "Rebalances of which evidence is missing"):
        assert heading in text
    assert "Evidence of 3 rebalances is missing." in text
    missing = re.search(r"rebalanceswhat was not seen(.*?)3 rebalances\.", text)
    assert missing is not None
    assert "every record and line of it" in missing[1]
    assert "the coordinator's log lines" in missing[1]


def test_a_cluster_whose_evidence_ended_is_named_beside_those_that_look_fresh() -> None:
    hour = 3_600_000

    def cluster(name: str, last_at_ms: int | None) -> ClusterRow:
        counts = dict.fromkeys(("group", "rebalance", "reassignment", "open_finding", "gap", "source"), 1)
        return ClusterRow(
            cluster_id=name, first_at_ms=0, last_at_ms=last_at_ms, **{f"{k}_count": v for k, v in counts.items()}
        )

    fresh = [cluster("a", 10 * hour), cluster("b", 9 * hour)]
    assert sentences.ended_early(fresh) is None
    assert sentences.ended_early([]) is None
    early = sentences.ended_early([*fresh, cluster("<b>", 9 * hour - 1), cluster("dead", None)])
    assert early == (
        "Evidence of 1 of 4 clusters ends more than an hour before the newest: <code>&lt;b&gt;</code>. What happened "
        "there since is not known. Of 1 cluster no evidence with a time was seen."
    )


def test_pages_lead_to_other_tools_by_the_settings_templates(
    opened: Open, full_warehouse: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    templates = [
        ["Grafana", "https://grafana.example/d/x?var-group={group}&from={from_ms}&to={to_ms}"],
        ["Topic", "https://lag.example/{cluster}/{topic}"],
    ]
    monkeypatch.setenv("REBALANCE_AUDIT_LINKS", json.dumps(templates))

    def outward(view: str, **params: str) -> list[str]:
        return [e.proto.url for e in opened(full_warehouse, view, **params).get("link_button")]

    (address,) = outward("group", cluster=CLUSTER, group=HOSTILE_GROUP)
    found = parse_qs(urlsplit(address).query)
    assert found["var-group"] == [HOSTILE_GROUP]
    assert int(found["from"][0]) < int(found["to"][0])
    assert outward("connect")[0].startswith("https://grafana.example/d/x?var-group=connect-lab&from=")
    assert outward("group", cluster=CLUSTER, group="orders", **{"from": "1", "to": "5"})[0].endswith("&from=1&to=5")


def test_an_incident_shows_when_whom_it_was_sent_to(opened: Open, tmp_path: Path) -> None:
    warehouse = gold_rows.write(tmp_path / "w", many=0)
    row = next(r for r in warehouse.read("gold.incident").to_pylist() if "orders" in r["group_ids"])
    about = {"cluster": row["cluster_id"], "incident": row["incident_id"]}
    assert "Alerts" not in said(opened(tmp_path / "w", "incident", **about))
    note = {"at_ms": row["first_at_ms"] + 1_000, "target": "https://hook/<b>", "what": "open", "is_sent": False}
    sent = note | {"at_ms": row["last_at_ms"] + 86_400_000, "is_sent": True}
    state = tmp_path / "w" / "notes" / "alerts.json"
    state.parent.mkdir(exist_ok=True)
    state.write_text(json.dumps({"version": 2, "delivered": {}, "sent": {row["incident_id"]: [note, sent]}}))
    text = said(opened(tmp_path / "w", "incident", **about))
    assert re.search(r"Alerts ?whentowhat.*https://hook/<b>opened; not delivered yet.*https://hook/<b>opened", text)
    state.write_text("{")
    assert "What was sent to people is not known" in said(opened(tmp_path / "w", "incident", **about))


def test_a_wrong_query_of_ours_is_not_blamed_on_the_warehouse(
    opened: Open, full_warehouse: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Questions, "undecoded_counts", lambda self: self.rows("SELECT nonsense FROM gold.incident"))
    text = said(opened(full_warehouse, "trust"))
    assert FAILED in text
    assert f"The fault is ours: it is in this page of rebalance-audit {__version__} (BinderException)" in text
    assert "The warehouse cannot be read." not in text


def test_a_part_that_fails_costs_itself_and_not_the_page(
    opened: Open, full_warehouse: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fragment's error is Streamlit's box, with a traceback, unless somebody catches it."""
    monkeypatch.setattr(Questions, "groups", lambda self, span: self.rows("SELECT nonsense FROM gold.incident"))
    at = opened(full_warehouse, "groups")
    text = said(at)
    assert "Which groups need care?" in text
    assert "This part of the page cannot be shown. The fault is ours: it is in this part of the page" in text
    assert "nonsense" not in text
    assert FAILED not in text
    assert not at.exception
