"""Incident, groups, group, rebalance and evidence: what each page answers."""

import json
import re
from dataclasses import replace
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from app import sentences
from rebalance_audit.warehouse.arrow_tables import rows_to_table
from tests.app import gold_rows
from tests.app.gold_rows import CLUSTER, FILE_ID, HOSTILE_GROUP, T0
from tests.app.opening import (
    FAILED,
    Open,
    cells,
    chosen,
    filters,
    links,
    long_tables,
    markup,
    opened_reader,
    opening_lines,
    pressed,
    said,
)


def test_an_incident_has_its_story_its_chain_its_cost_and_the_runbook(opened: Open, full_warehouse: Path) -> None:
    reader = opened_reader(full_warehouse)
    storm = next(i for i in reader.incidents(group_id="checkout") if i.kind == "storm")
    at = opened(full_warehouse, "incident", cluster=CLUSTER, incident=storm.incident_id)
    text = said(at)
    assert re.match(r"Critical, open, no event since \d{4}-\d\d-\d\d \d\d:\d\d UTC \u00b7 lab-cluster", text)
    heads = re.findall(r'<h1 class="ra-title">(.*?)</h1>', markup(at))
    assert len(heads) == 1
    assert heads[0].startswith("checkout rebalanced 31 times in ")
    assert "checkout" in text
    assert "62.0 partition-seconds (31.0 \u2026 93.0)" in text
    assert "Its rebalances began because a member exceeded its poll interval (28 times)" in text
    told = replace(storm, title="x rebalanced 9 times", story="x rebalanced 9 times. It took 9 rebalances.")
    began = "Its rebalances began because a member exceeded its poll interval."
    assert sentences.story(told) == f"{began} It took 9 rebalances."
    assert "Whose doingc3 on host /10.0.1.3: exceeded its poll interval" in text
    assert [text.index(n) for n in ("Whose doing", "What it cost", "What to do")] == sorted(
        text.index(n) for n in ("Whose doing", "What it cost", "What to do")
    )
    assert "From the cause to its last consequence" in text
    assert re.search(r"checkout.{0,20}3162\.0 partition-seconds \(31\.0 … 93\.0\)", text)
    assert "Storm: more rebalances than the group's limit" in " ".join(m.value for m in at.markdown)
    copies = [c.value for c in at.code]
    assert copies[0].startswith("[critical, open, no event since ")
    assert "] checkout @ lab-cluster: checkout rebalanced 31 times" in copies[0]
    assert "## Time line" in copies[1]
    assert re.search(r"\| checkout \| \S+ \| 31 \| 62\.0 partition-seconds \(31\.0 … 93\.0\) \|", copies[1])
    assert ("Group checkout", "group?cluster=lab-cluster&group=checkout") in links(at)


def test_an_incident_that_lasts_says_once_that_its_cost_is_not_known(opened: Open, tmp_path: Path) -> None:
    warehouse = gold_rows.write(tmp_path / "w", many=0)
    storm = next(i for i in warehouse.read("gold.incident").to_pylist() if i["finding_ids"] == ["f-storm"])
    (end,) = {c.last_at_ms for c in opened_reader(tmp_path / "w").clusters() if c.cluster_id == CLUSTER}
    assert end is not None
    one = {**storm, "incident_id": "in:lasts", "rebalance_ids": [], "still": "down", "title": "c9 vanished"}
    one |= {name: None for name in storm if name.startswith("cost_")}
    one |= {"story": "c9 vanished. It took 1 rebalance; what it cost is not known. It was still going on."}
    one |= {"first_at_ms": end - 23 * 3_600_000 - 45 * 60_000}
    warehouse.append("gold.incident", rows_to_table("gold.incident", [one]))
    gold_rows.publish(warehouse)
    text = said(opened(tmp_path / "w", "incident", cluster=CLUSTER, incident="in:lasts"))
    assert "What it costnot known while it lasts (23 h 45 min so far)" in text
    assert "It took 1 rebalance. It was still going on." in text
    assert text.count("not known") == 1
    assert "not known while it lasts (23 h 45 min so far)" in said(opened(tmp_path / "w", "home"))


def test_every_incident_has_a_page(opened: Open, full_warehouse: Path) -> None:
    for i in opened_reader(full_warehouse).incidents():
        text = said(opened(full_warehouse, "incident", cluster=i.cluster_id, incident=i.incident_id))
        assert FAILED not in text
        assert "Evidence" in text


def test_the_groups_table_counts_and_finds(opened: Open, full_warehouse: Path) -> None:
    at = opened(full_warehouse, "groups")
    assert "of 2,006 groups have open incidents; 2,006 rebalanced in that time." in said(at)
    assert long_tables(at)[0]["group"].head(1).tolist() == ["checkout"]  # the only critical one
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
    assert set(long_tables(eager)[0]["mode"]) == {"eager"}


def test_filters_offer_what_is_there_and_show_what_the_address_names(opened: Open, full_warehouse: Path) -> None:
    shown = filters(opened(full_warehouse, "groups", mode="eager", care="1", cluster="elsewhere"))
    assert shown["now"] == {"mode": "eager", "care": "1"}
    options = {choice["name"]: [value for value, _ in choice["options"]] for choice in shown["choices"]}
    assert options["severity"] == ["critical", "warning"]
    assert "eager" in options["mode"]
    assert [flag["name"] for flag in shown["flags"]] == ["care"]


def test_a_search_in_the_address_is_the_same_search(opened: Open, full_warehouse: Path) -> None:
    at = opened(full_warehouse, "groups", search="checkout", care="1")
    assert long_tables(at)[0]["group"].tolist() == ["checkout"]


def test_a_groups_page_has_its_time_line_its_story_and_its_incidents(opened: Open, full_warehouse: Path) -> None:
    at = opened(full_warehouse, "group", cluster=CLUSTER, group="checkout")
    text = said(at)
    assert [line["subject"] for line in opening_lines(at)] == ["checkout"]
    assert "31 rebalances in 6 h, more than" not in text  # its findings are in the incident
    assert (
        "31 rebalances in 6 h, because a member exceeded its poll interval, always c3. "
        "They cost 62.0 partition-seconds (31.0 … 93.0)."
    ) in text
    assert "broker's window" in text
    assert "c36" not in text


def test_a_shorter_time_in_the_address_shows_less(opened: Open, full_warehouse: Path) -> None:
    at = opened(
        full_warehouse, "group", **{"cluster": CLUSTER, "group": "checkout", "from": str(T0 - 3_600_000), "to": str(T0)}
    )
    assert "4 rebalances in 1 h" in said(at)
    there = chosen(at, "all")
    assert "31 rebalances in 6 h" in said(at)
    assert there["last"] == "all"
    assert "from" not in there


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
    assert (
        "It began because a member's session expired (c3); a log line says so: c3 (/10.0.0.3) sent no heartbeat" in text
    )
    assert "orders-4, orders-5 went from c3 to c2 and stood still 12.3 s (10.0 … 13.4)." in text
    assert (
        "The longest downtime was 12.3 s (10.0 … 13.4); the broker's log alone would make it 1.3 s, 9.4 times" in text
    )
    assert "cost, all downtime summed24.9 partition-seconds (20.2 … 27.1)" in text
    assert "12.3 s (10.0 … 13.4)" in cells(at)
    found = links(at)
    assert any(label == f"log:broker-1/server.log#{FILE_ID}@88123" for label, _ in found)


def test_what_a_rebalance_that_has_not_ended_moved_is_not_known(opened: Open, tmp_path: Path) -> None:
    warehouse = gold_rows.write(tmp_path / "w", many=0)
    own = next(r for r in warehouse.read("gold.rebalance").to_pylist() if r["group_id"] == "orders" and r["triggers"])
    numbers = [name for name in own if name.endswith("_count") or name.startswith(("pause_", "resource_seconds_"))]
    joined = own["triggers"][0] | {"trigger": "member_joined", "members": ["w1-a708854f-6e45-4e90-8a43-003bcab1c4bb"]}
    open_ = {**own, **dict.fromkeys(numbers), "rebalance_id": "lab-cluster/orders/99", "outcome": "open"}
    open_ |= {"trigger": "member_joined", "triggers": [joined], "assigned_at_ms": None, "generation_id": 99}
    warehouse.append("gold.rebalance", rows_to_table("gold.rebalance", [open_]))
    gold_rows.publish(warehouse)
    text = said(opened(tmp_path / "w", "rebalance", cluster=CLUSTER, rebalance=open_["rebalance_id"]))
    assert "because a member joined (w1);" in text
    assert "It has not ended: it still runs, or the evidence ends inside it." in text
    assert "partitionsnot known: no assignment was recorded" in text
    assert re.search(r"What moved\s?Not known: no assignment was recorded\.", text)
    assert "none changed" not in text


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
    moved = next(table for table in long_tables(at) if "avoidable" in table)
    assert set(moved.loc[moved["what"] == "returned", "avoidable"]) == {"did not move"}
    assert "did not move" not in set(moved.loc[moved["what"] == "moved", "avoidable"])


def test_a_group_shows_the_moves_it_hangs_on(opened: Open, full_warehouse: Path) -> None:
    text = said(opened(full_warehouse, "group", cluster=CLUSTER, group="orders"))
    assert "1 rebalance began within 5.0 s after a leader changed; it was the coordinator" in text
    assert "partitions it hangs on" in text
    assert "a leader changed" not in said(opened(full_warehouse, "group", cluster=CLUSTER, group="checkout"))


def test_a_groups_page_shows_its_pause_beside_the_brokers_window(opened: Open, full_warehouse: Path) -> None:
    text = said(opened(full_warehouse, "group", cluster=CLUSTER, group="orders"))
    assert "Clients stood still for" in text
    assert "That is off by a factor of" in text
    assert "Clients stood still" not in said(opened(full_warehouse, "home"))


def test_a_contradicted_record_says_so(opened: Open, full_warehouse: Path) -> None:
    text = said(opened(full_warehouse, "evidence", cluster=CLUSTER, ref="record:__consumer_offsets-2@5"))
    assert "TR004: a log line <b>contradicts</b> the records" in text


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
