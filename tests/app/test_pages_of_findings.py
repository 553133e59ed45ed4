"""Findings, compare and trust: what each page answers."""

import json
import re
from pathlib import Path

from app.queries import HOUR_MS
from rebalance_audit.domain.detect.client_advice import WEIGH_STATIC
from rebalance_audit.warehouse import behind
from rebalance_audit.warehouse.arrow_tables import rows_to_table
from rebalance_audit.warehouse.warehouse import Warehouse
from tests.app import gold_rows
from tests.app.gold_rows import CLUSTER, T0
from tests.app.opening import Open, followed, links, opening_lines, said


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
    assert "nobody @ lab-cluster, which the address names, is not here." in said(unknown)
    assert "Too little was seen to say" not in said(unknown)


def test_compare_of_one_group_offers_its_own_changes(opened: Open, full_warehouse: Path) -> None:
    """A mark was told for groups called orders*, another for all of its cluster, and none for the other cluster."""
    one = json.dumps([CLUSTER, "orders"])
    at = opened(full_warehouse, "compare", a=one)
    assert "Changes that are known of orders @ lab-cluster" in said(at)
    assert any("v2.3 of orders" in label for label, _ in links(at))
    assert not any(
        "v2.3 of orders" in label
        for label, _ in links(opened(full_warehouse, "compare", a=json.dumps([CLUSTER, "checkout"])))
    )
    other = opened(full_warehouse, "compare", a=json.dumps(["fleet", "svc-0001"]))
    assert "No change of svc-0001 @ fleet is known." in said(other)


def test_compare_opens_with_a_question_and_claims_nothing(opened: Open, full_warehouse: Path) -> None:
    text = said(opened(full_warehouse, "compare"))
    assert "What changed, and for which groups?" in text
    assert "got better" not in text
    assert "got worse" not in text


def test_findings_are_counted_filtered_and_opened(opened: Open, full_warehouse: Path) -> None:
    at = opened(full_warehouse, "findings")
    assert "5 findings are open, 1 resolved." in said(at)
    assert len(opening_lines(at)) == 6
    followed(at, "?rule=RB007")
    (line,) = opening_lines(at)
    assert line["subject"].startswith("RB007 Session expiry \u00b7 ")
    assert "c3 sent no heartbeat until its session expired" in line["cause"]
    assert line["cost"].endswith(", open")
    followed(at, "?rule=RB007&status=resolved")
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


def test_advice_says_what_a_replay_of_that_group_says(opened: Open, tmp_path: Path) -> None:
    key = {"cluster_id": "blue", "group_id": "app"}
    found = {
        **key, "finding_id": "f", "rule_id": "RB007", "severity": "warning", "subject_type": "group", "subject": "app",
        "status": "open", "first_seen_at_ms": T0, "last_seen_at_ms": T0 + HOUR_MS, "title": "c3 vanished",
        "detail": "", "numbers": "{}", "evidence": ["record:__consumer_offsets-1@1"],
        "advice": f"A group.instance.id spares the others, {WEIGH_STATIC}.",
    }  # fmt: skip
    replay = {
        **key, "place": 4, "settings": ["group.instance.id=auto"], "saved_seconds": -43.3,
        "saved_lower_seconds": -59.9, "saved_upper_seconds": -36.6, "rebalances_replayed": 9, "why": "",
    }  # fmt: skip
    group = {**key, "group_type": "classic", "state": "Stable", "rebalance_count": 1}
    seen = {
        "cluster_id": "blue", "source": "record:__consumer_offsets-1", "kind": "record", "from_position": 0,
        "to_position": 9, "from_at_ms": T0, "to_at_ms": T0 + HOUR_MS, "is_gap": False, "problem_code": "none",
    }  # fmt: skip
    warehouse = Warehouse.open(tmp_path / "w", create=True)
    tables = {"gold.finding": found, "gold.whatif": replay, "gold.group": group, "gold.coverage": seen}
    for name, row in tables.items():
        warehouse.append(name, rows_to_table(name, [row]))
    gold_rows.publish(warehouse)
    warehouse.publish(warehouse.published() | {"gold.whatif": warehouse.version("gold.whatif") or 0})
    text = said(opened(tmp_path / "w", "findings", cluster="blue", finding="f"))
    assert "this group would have stood still for 43.3 partition-seconds (likely 36.6 to 59.9) more" in text
    assert "weighs both" not in text


def test_the_finding_of_members_that_a_broker_expired_does_not_send_anybody_to_their_hosts(
    opened: Open, tmp_path: Path
) -> None:
    warehouse = gold_rows.write(tmp_path / "w", many=0)
    finding = next(f for f in warehouse.read("gold.finding").to_pylist() if f["finding_id"] == "f-storm")
    incident = next(i for i in warehouse.read("gold.incident").to_pylist() if i["finding_ids"] == ["f-storm"])
    own = {**finding, "rule_id": "RB007", "advice": "Look at host /10.0.0.9 (c3) for a kill."}
    both = [{**own, "finding_id": "f-broker"}, {**own, "finding_id": "f-member"}]
    broker = {**incident, "incident_id": "in:broker", "kind": "coordinator", "culprits": ["broker 1"]}
    broker |= {"finding_ids": ["f-broker"], "rebalance_ids": [], "advice": "Look for what held up broker 1."}
    warehouse.append("gold.finding", rows_to_table("gold.finding", both))
    warehouse.append("gold.incident", rows_to_table("gold.incident", [broker]))
    gold_rows.publish(warehouse)
    text = said(opened(tmp_path / "w", "findings", cluster=CLUSTER, finding="f-broker"))
    assert "Look for what held up broker 1." in text
    assert "10.0.0.9 (c3) for a kill" not in text
    assert "10.0.0.9 (c3) for a kill" in said(opened(tmp_path / "w", "findings", cluster=CLUSTER, finding="f-member"))


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


def test_what_is_not_known_is_said_and_never_a_zero(opened: Open, full_warehouse: Path) -> None:
    at = opened(full_warehouse, "group", cluster=CLUSTER, group="unknowns")
    text = said(at)
    assert "What that cost is not known: no evidence shows who stood still, or for how long." in text
    assert "Not seen: 1 number skipped, and nothing says why; 1 rebalance with incomplete evidence" in text
    one = said(opened(full_warehouse, "rebalance", cluster=CLUSTER, rebalance="unknowns/3"))
    assert "Why it began is not known: no evidence names the cause." in one
    assert "longest downtimenot known: no evidence of when it stopped or went on" in one
    assert "began not known: no log line says" in one.replace("began", "began ")
    assert "None" not in one
    assert "nan" not in one


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
    for heading in ("Seen over time", "What contradicts the rest", "Rebalances with missing evidence"):
        assert heading in text
    assert "Evidence of 3 rebalances is missing." in text
    missing = re.search(r"rebalanceswhat was not seen(.*?)3 rebalances\.", text)
    assert missing is not None
    assert "every record and line of it" in missing[1]
    assert "the coordinator's log lines" in missing[1]
