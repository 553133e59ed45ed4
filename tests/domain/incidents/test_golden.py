"""Golden captures: their incidents are those an operator would name: none split, none merged, none invented."""

from __future__ import annotations

import json
import math
from functools import cache
from pathlib import Path

import pytest

from rebalance_audit.domain.detect import detect_group, detect_reassignments
from rebalance_audit.domain.incidents import ClusterRows, Incident, has_cost, incidents_of
from rebalance_audit.domain.measure.pauses import measure
from rebalance_audit.domain.model import ConnectTask, Finding, Rebalance
from rebalance_audit.domain.numbers import cost_of
from rebalance_audit.domain.reassign.model import Reassignment
from rebalance_audit.domain.reconstruct import reconstruct
from tests.captures import CAPTURES, GOLDEN, gathered, name_of
from tests.domain.incidents.by_hand import BY_HAND, ON_A_RELEASE, STATES, Described
from tests.domain.reassign.scores import history_of

DESCRIBED = [c for c in CAPTURES if c.name in BY_HAND]
HEARTBEAT_MS = 3_000
"""heartbeat.interval.ms by default: a member's last sign of life is at most that long before its death."""


@cache
def rows_of(capture: Path) -> ClusterRows:
    groups: dict[str, tuple[Rebalance, ...]] = {}
    tasks: list[ConnectTask] = []
    findings: list[tuple[str | None, Finding]] = []
    reassignments: tuple[Reassignment, ...] = ()
    times = [0]
    for evidence in gathered(capture).groups:
        found = reconstruct(evidence)
        rebalances = tuple(measure(r) for r in found.rebalances)
        groups[evidence.group_id] = rebalances
        tasks += found.connect_tasks
        findings += [(evidence.group_id, f) for f in detect_group(rebalances, found.connect_tasks)]
        times += [r.ended_at_ms or 0 for r in rebalances]
    if capture.name.startswith("reassign_"):
        history = history_of(capture)
        reassignments = history.reassignments
        findings += [(None, f) for f in detect_reassignments(history)]
        times.append(history.seen_until_ms or 0)
    return ClusterRows(
        cluster_id="lab", now_ms=max(times), groups=groups, tasks=tasks, reassignments=reassignments,
        findings=findings,
    )  # fmt: skip


def by_hand(capture: Path) -> tuple[Described, ...]:
    return ON_A_RELEASE.get(name_of(capture), BY_HAND[capture.name])


def number(r: Rebalance) -> str:
    count = r.generation_id if r.generation_id is not None else r.group_epoch
    return f"{count}.{r.rewrite_seq}" if r.rewrite_seq else str(count)


def scenario(capture: Path) -> dict[str, list[dict[str, object]]]:
    read: dict[str, list[dict[str, object]]] = json.loads((capture / "truth/scenario.json").read_text())
    return read


def found_in(capture: Path) -> list[Incident]:
    return incidents_of(rows_of(capture))[0]


def shape(capture: Path, incident: Incident) -> Described:
    """The incident as somebody would write it down who calls workers by the names of the scenario."""
    by_id = {r.rebalance_id: r for rs in rows_of(capture).groups.values() for r in rs}
    workers = {str(w["worker_url"]): str(w["client"]) for w in scenario(capture).get("workers", ())}
    return Described(
        kind=incident.kind,
        cause=incident.root_cause,
        culprits=tuple(sorted(workers.get(c, c) for c in incident.culprits)),
        rebalances=tuple(number(by_id[i]) for i in incident.rebalance_ids),
        attempts=len(incident.reassignment_ids),
        expected=incident.expected,
    )


@pytest.mark.parametrize("capture", DESCRIBED, ids=name_of)
def test_each_incident_is_whole_and_none_is_invented(capture: Path) -> None:
    incidents = found_in(capture)
    assert [i.root_cause for i in incidents if not i.rebalance_ids and not i.reassignment_ids] == [
        *STATES.get(capture.name, ())
    ]
    found = [shape(capture, i) for i in incidents if i.rebalance_ids or i.reassignment_ids]
    wanted = [
        Described(
            kind=t.kind, cause=t.cause, culprits=tuple(sorted(t.culprits)), rebalances=t.rebalances,
            attempts=t.attempts, expected=t.expected,
        )
        for t in by_hand(capture)
    ]  # fmt: skip
    assert sorted(found, key=repr) == sorted(wanted, key=repr)


@pytest.mark.parametrize("capture", [c for c in DESCRIBED if not c.name.startswith("reassign_")], ids=name_of)
def test_it_begins_with_what_was_done_and_ends_before_what_was_done_next(capture: Path) -> None:
    actions = scenario(capture)["actions"]
    times = [int(str(a["at_ms"])) for a in actions]
    kills = ("kill", "freeze", "close")
    for expected in by_hand(capture):
        incident = next(i for i in found_in(capture) if shape(capture, i).rebalances == expected.rebalances)
        slack_ms = (
            HEARTBEAT_MS if expected.cause.endswith("expired") and actions[expected.first]["action"] in kills else 0
        )
        is_started = actions[expected.first]["action"] == "found running"
        assert is_started or incident.first_at_ms >= times[expected.first] - slack_ms
        is_known = capture.name != "share_group_of_many"  # nothing written says how long its session is
        if expected.cause.endswith("expired") and is_known:  # the cause is the kill, long before the session ends
            assert incident.first_at_ms <= times[expected.first] + 1_000
        assert incident.last_at_ms >= times[expected.last]
        if expected.last + 1 < len(times) and expected.kind != "scaling":
            assert incident.last_at_ms <= times[expected.last + 1] + 30_000


@pytest.mark.parametrize("name", ["3.9.1/offsets_disk_lost", "4.0.0/disk_is_full"])
def test_members_that_had_joined_anew_before_their_old_ids_expired_are_not_blamed(name: str) -> None:
    """A broker's disk was lost or full; of librdkafka and kafka-go all three ids expired, of which one was killed."""
    killed = {str(a["subject"]) for a in scenario(GOLDEN / name)["actions"] if a["action"] == "kill"}
    faults = [i for i in found_in(GOLDEN / name) if i.kind == "member_fault"]
    assert sorted(c for i in faults for c in i.culprits) == sorted(killed)
    assert not [i.title for i in faults if any(f"{who[0]}{n}" in i.title for who in killed for n in (1, 3))]


@pytest.mark.parametrize("capture", CAPTURES, ids=name_of)
def test_every_rebalance_with_a_cost_is_in_exactly_one_incident_and_the_costs_add_up(capture: Path) -> None:
    incidents = found_in(capture)
    rebalances = [r for rs in rows_of(capture).groups.values() for r in rs]
    booked = [i for incident in incidents for i in incident.rebalance_ids]
    assert len(booked) == len(set(booked))
    assert {r.rebalance_id for r in rebalances if has_cost(r)} <= set(booked)
    total = cost_of(rebalances)
    for name, expected in (("cost_seconds", total.estimate or 0), ("cost_lower_seconds", total.lower or 0)):
        assert math.isclose(math.fsum(getattr(i, name) or 0 for i in incidents), expected, rel_tol=1e-9, abs_tol=1e-9)
    uppers = [i.cost_upper_seconds for i in incidents if i.cost_seconds is not None]
    if total.upper is None:
        assert not uppers or None in uppers
    else:
        assert math.isclose(math.fsum(u or 0 for u in uppers), total.upper, abs_tol=1e-9)


@pytest.mark.parametrize("capture", CAPTURES, ids=name_of)
def test_every_incident_names_its_evidence_and_shows_its_story(capture: Path) -> None:
    for incident in found_in(capture):
        assert incident.evidence
        assert incident.title
        assert incident.story.count(". ") >= 1
        assert incident.first_at_ms <= incident.last_at_ms
        assert [link.at_ms for link in incident.chain] == sorted(link.at_ms for link in incident.chain)
        assert all(link.evidence for link in incident.chain)
        assert "\n" not in incident.title + incident.story


def test_a_killed_worker_its_session_the_delay_and_the_round_that_spreads_its_tasks_are_one_chain() -> None:
    capture = GOLDEN / "4.3.0" / "connect_worker_lost"
    (lost,) = found_in(capture)
    killed_ms = next(int(str(a["at_ms"])) for a in scenario(capture)["actions"] if a["action"] == "kill")
    sign, missed, spread = lost.chain
    assert killed_ms - HEARTBEAT_MS <= sign.at_ms <= killed_ms
    assert "last known to live" in sign.what
    assert "a member's session expired" in missed.what
    assert "Connect leaves what it ran unassigned for up to 20 s" in missed.what
    assert "Connect's scheduled delay ended" in spread.what
    assert lost.cost_seconds == pytest.approx(91.647)
    assert lost.severity == "warning"


def test_a_member_that_is_killed_before_the_second_round_of_a_join_is_a_fault_of_its_own() -> None:
    (capture,) = (c for c in CAPTURES if c.name == "killed_in_the_follow_up")
    faults = [i for i in found_in(capture) if not i.expected]
    killed = {"r-librdkafka": "r1", "s-sarama": "s1", "f-franz-go": "f1", "p-kafka-python": "p1"}
    assert {g: i.culprits for i in faults for g in i.group_ids} == {g: (who,) for g, who in killed.items()}
    assert {(i.kind, i.root_cause) for i in faults} == {("member_fault", "member_session_expired")}
    assert all((i.cost_seconds or 0) > 10 for i in faults)  # four partitions that wait for a session of 10 s


OF_SEVERAL_GROUPS = {
    "one_client_id_for_all": [
        "scaling 1 2 3 4: {} began: shop joined",
        "deploy 5 6 7: shop of 4 groups (r-librdkafka, s-sarama and 2 more) was restarted or replaced",
        "member_fault 8 9 10: shop of 4 groups (r-librdkafka, s-sarama and 2 more) sent no heartbeat until its session "
        "expired",
    ],
    "sarama_commits_rarely": [
        "scaling 1 2 3: {} began: e1, e2 and e3 joined",
        "scaling 1 2 3 4 5: {} began: c1, c2 and c3 joined",
        "deploy 4 5 8: e2 of {} was restarted; e1 left",
        "deploy 6 7 8 12: c2 of {} was restarted; c1 left",
        "member_fault 6 7: e3 of {} sent no heartbeat until its session expired",
        "member_fault 9 10 11: c3 of {} sent no heartbeat until its session expired",
    ],
    "commits_in_transactions": [
        "scaling 1 2 3: {} began: j1, j2 and j3 joined",
        "scaling 1 2 3: {} began: r1, r2 and r3 joined",
        "deploy 4 5 8: j1 of {} was restarted; j3 left",
        "deploy 4 5 8: r1 of {} was restarted; r3 left",
        "member_fault 6 7: j2 of {} sent no heartbeat until its session expired",
        "member_fault 6 7: r2 of {} sent no heartbeat until its session expired",
    ],
    "partitions_added_in_deploy": [
        *(f"scaling 1 2 3: {{}} began: {x}1, {x}2 and {x}3 joined" for x in "apjr"),
        *(f"deploy 4 6 7 8 9 10: Deploy of {{}}: {x}1, {x}2 and {x}3 were restarted" for x in "apjr"),
        "subscription 5: 4 groups (a-aiokafka, j-java and 2 more): topics or partitions changed",
    ],
    "shift_of_five": [
        "scaling 1 2: {} began: f1, f2 and 2 more joined",
        "scaling 1 2: {} began: k1 and k2 joined",
        "scaling 1 2 3: {} began: r1, r2 and r3 joined",
        "scaling 1 2 3: {} began: s1, s2 and s3 joined",
        "scaling 3: {} scaled up: p2 joined",
        "scaling 5: {} scaled up: p3 joined",
        "member_fault 3: f2 and f4 of {} sent no heartbeat until their session expired",
        "member_fault 3 4 5: k2 and k1 of {} sent no heartbeat until their session expired",
        "member_fault 4 5 6 7: r2 and r3 of {} sent no heartbeat until their session expired",
        "member_fault 5 6: s1 of {} sent no heartbeat until its session expired",
        "member_fault 6: p2 of {} sent no heartbeat until its session expired",
        "deploy 4 7: p1 of {} was restarted",
        "deploy 4 7: s2 of {} was replaced by s4; s3 left",
        "deploy 8: r1 of {} was replaced by r4",
        "scaling 4: {} scaled down: f1 left",
    ],
}
"""Kind, generations and title of each incident; {} is its group. What cost nothing is none."""


@pytest.mark.parametrize("capture", [c for c in CAPTURES if c.name in OF_SEVERAL_GROUPS], ids=name_of)
def test_groups_side_by_side_have_their_incidents_each(capture: Path) -> None:
    by_id = {r.rebalance_id: r for rs in rows_of(capture).groups.values() for r in rs}
    found = set()
    for i in found_in(capture):
        numbers = " ".join(dict.fromkeys(number(by_id[r]) for r in i.rebalance_ids))
        title = i.title.replace(i.group_ids[0], "{}") if len(i.group_ids) == 1 else i.title
        found.add(f"{i.kind} {numbers}: {title}")
    assert found == set(OF_SEVERAL_GROUPS[capture.name])


def test_members_that_failed_in_different_ways_are_each_told_by_their_own() -> None:
    (capture,) = (c for c in CAPTURES if c.name == "members_in_other_zones")
    (fault,) = (i for i in found_in(capture) if not i.expected)
    assert fault.title == "z2 of zones-app exceeded its poll interval; z3 sent no heartbeat until its session expired"


def test_a_connector_that_rewrites_its_tasks_by_itself_is_one_incident() -> None:
    """MirrorMaker 2 whose two aliases are one cluster: its topics are found anew every five seconds."""
    (loop,) = found_in(GOLDEN / "4.1.1" / "mirror_maker_loop")
    assert (loop.kind, loop.culprits) == ("configuration", ("MirrorSourceConnector",))
    assert loop.title == "MirrorSourceConnector rewrote its own task configurations on src-mm2"
    assert (loop.advice or "").startswith("Nobody sent a change.")
    assert [i.rpartition("/")[2] for i in loop.rebalance_ids] == ["7", "8", "9", "10", "11"]


def test_generations_that_cannot_be_written_are_all_symptoms_of_one_storm() -> None:
    capture = GOLDEN / "3.9.1" / "group_cannot_be_written"
    storm, *others = sorted(found_in(capture), key=lambda i: i.expected)
    rules = {f.finding_id: f.rule_id for _, f in rows_of(capture).findings}
    assert (storm.kind, storm.root_cause) == ("storm", "append_failed")
    assert {"RB001", "RB014", "RB016"} <= {rules[f] for f in storm.finding_ids}
    assert storm.title.endswith("the coordinator could not write the group record")
    assert storm.story.count("could not write the group record") == 1
    assert (storm.advice or "").startswith("The offsets topic could not be written: ")
    assert storm.culprits == (), "no member had a part in it"
    assert all(i.expected for i in others)


def test_a_few_generations_that_cannot_be_written_are_the_coordinators_incident() -> None:
    """Its coordinator waits 5 s for each, so there were four: no storm."""
    trouble, *others = sorted(found_in(GOLDEN / "4.3.0" / "group_cannot_be_written"), key=lambda i: i.expected)
    assert (trouble.kind, trouble.root_cause, len(trouble.rebalance_ids)) == ("coordinator", "append_failed", 4)
    assert all(i.expected for i in others)
