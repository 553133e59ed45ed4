from __future__ import annotations

import json
import re
import unicodedata
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rebalance_audit.domain.causes import Cause
from rebalance_audit.domain.detect import detect_group
from rebalance_audit.domain.explain.group import explain, explain_dict, explain_text, one_line
from rebalance_audit.domain.explain.layout import aside, cells, hanging
from rebalance_audit.domain.kinds import (
    EvidenceTier,
    FindingStatus,
    MemberChange,
    Mode,
    MovementKind,
    ResourceType,
    Severity,
)
from rebalance_audit.domain.model import Finding, Member, Movement, Rebalance, Trigger
from tests.domain.detect.group_story import T0_MS, a_connect_cluster, a_group

AT_MS = 1_763_733_791_000  # 2025-11-21 14:03:11 UTC


def _movement(partition: int, kind: str, old: str, new: str, pause: tuple[int, int, int | None]) -> Movement:
    return Movement(
        resource_type=ResourceType.PARTITION, resource=f"orders-{partition}", topic="orders", partition=partition,
        kind=MovementKind(kind),
        from_member_id=f"{old}-id", to_member_id=f"{new}-id", from_client_id=old, to_client_id=new,
        pause_lower_ms=pause[0], pause_estimate_ms=pause[1], pause_upper_ms=pause[2], pause_tier=EvidenceTier.LOGGED,
    )  # fmt: skip


def _killed_member() -> list[Rebalance]:
    """c3 is killed; c1 takes its two partitions; c1 and c2 get their own back."""
    members = (
        Member(member_id="c1-id", client_id="c1", client_host="/10.0.0.7", is_leader=True),
        Member(member_id="c2-id", client_id="c2", client_host="/10.0.0.8"),
        Member(
            member_id="c3-id",
            client_id="c3",
            client_host="/10.0.0.9",
            change=MemberChange.LEFT,
            session_timeout_ms=10_000,
        ),
    )
    before = Rebalance(
        cluster_id="a", rebalance_id="orders:6", group_id="orders", protocol_type="consumer", generation_id=6,
        mode=Mode.EAGER,
        assignor="range", member_count=3, trigger=Cause.MEMBER_JOINED, trigger_tier=EvidenceTier.LOGGED,
        assigned_at_ms=AT_MS - 600_000,
        resource_seconds_lower=0.0, resource_seconds_estimate=0.0, resource_seconds_upper=0.0,
        evidence=("record:__consumer_offsets-7@228",),
    )  # fmt: skip
    killed = Rebalance(
        cluster_id="a", rebalance_id="orders:7", group_id="orders", protocol_type="consumer", generation_id=7,
        mode=Mode.EAGER,
        assignor="range", member_count=2, trigger=Cause.MEMBER_SESSION_EXPIRED, trigger_tier=EvidenceTier.LOGGED,
        started_at_ms=AT_MS,
        assigned_at_ms=AT_MS + 1_310, broker_window_ms=1_310, pause_lower_ms=10_020, pause_estimate_ms=12_310,
        pause_upper_ms=13_400, resource_seconds_lower=20.1, resource_seconds_estimate=24.9, resource_seconds_upper=27.0,
        triggers=(
            Trigger(
                trigger=Cause.MEMBER_SESSION_EXPIRED, tier=EvidenceTier.LOGGED, members=("c3-id",),
                detail="no heartbeat for its session timeout", evidence=("log:kafka-1/server.log#ab12@88123",),
            ),
        ),
        members=members,
        movements=(
            *(_movement(p, "returned", owner, owner, (30, 50, 90)) for p, owner in enumerate(("c1", "c1", "c2", "c2"))),
            _movement(4, "moved", "c3", "c1", (10_020, 12_310, 13_400)),
            _movement(5, "moved", "c3", "c1", (10_010, 12_300, 13_400)),
        ),
        evidence=("record:__consumer_offsets-7@231", "record:__consumer_offsets-7@228"),
    )  # fmt: skip
    return [before, killed]


def test_a_killed_member_is_explained_as_the_design_shows_it() -> None:
    text = explain_text(
        explain("orders", _killed_member(), not_seen=("logs of kafka-2 were not given",), latest=1),
        width=100,
        bounds=True,
    )
    assert text == (
        "orders   consumer group, classic, eager (range), 2 members\n"
        "2 rebalances in all, in 10 min 1 s; 24.9 partition-seconds lost.\n"
        "Hard bounds of what was lost, which no truth passes: [20.1 … 27.0].\n"
        "\n"
        "2025-11-21 14:03:12 UTC  generation 6 → 7   a member's session expired       worst partition 12.31 s\n"
        "   c3 (/10.0.0.9) sent no heartbeat for its session timeout of 10 s                           logged\n"
        "   orders-4, orders-5   c3 → c1                 stood still 12.31 s  [10.02 … 13.40]          logged\n"
        "   orders-0 … orders-3  back to the same owner  stood still 0.05 s  [0.03 … 0.09]             logged\n"
        "   (the broker's own window 1.31 s, which is no pause)\n"
        "   evidence  record:__consumer_offsets-7@231   record:__consumer_offsets-7@228\n"
        "\n"
        "1 older rebalance left out.\n"
        "\n"
        "Not seen: logs of kafka-2 were not given.\n"
    )


def test_a_pause_is_shown_with_its_likely_range_and_with_hard_bounds_only_if_asked() -> None:
    before, killed = _killed_member()
    moved = replace(killed.movements[4], pause_likely_lower_ms=11_900, pause_likely_upper_ms=12_720)
    likely = replace(killed, resource_seconds_likely_lower=24.0, resource_seconds_likely_upper=25.8, movements=(moved,))
    explanation = explain("orders", [before, likely])
    text = explain_text(explanation)
    assert "24.9 (likely 24.0 to 25.8) partition-seconds lost." in text
    assert "stood still 12.31 s  (likely 11.90 to 12.72) " in text
    assert "10.02" not in text
    assert "stood still 12.31 s  (likely 11.90 to 12.72)  [10.02 … 13.40]" in explain_text(explanation, bounds=True)
    [shown] = explain_dict(explanation)["rebalances"][0]["movements"]
    assert (shown["pause_likely_lower_ms"], shown["pause_lower_ms"]) == (11_900, 10_020)


def test_one_line_says_when_which_why_who_and_how_bad() -> None:
    assert one_line(_killed_member()[1]) == (
        "2025-11-21 14:03:12 UTC  generation 7  a member's session expired: c3 (/10.0.0.9)  worst partition 12.31 s"
    )


def test_the_newest_rebalance_comes_first_unless_asked_otherwise() -> None:
    rows = _killed_member()
    assert [s.rebalance_id for s in explain("orders", rows).rebalances] == ["orders:7", "orders:6"]
    assert [s.rebalance_id for s in explain("orders", rows, oldest_first=True).rebalances] == ["orders:6", "orders:7"]


def test_a_pause_that_nothing_bounds_says_so() -> None:
    before, killed = _killed_member()
    unbounded = replace(
        killed, resource_seconds_upper=None, movements=(_movement(4, "moved", "c3", "c1", (10_020, 12_310, None)),)
    )
    text = explain_text(explain("orders", [before, unbounded]), bounds=True)
    assert "stood still 12.31 s  [10.02 … no upper bound]" in text
    assert "which no truth passes: [20.1 … no upper bound]." in text
    assert "Not seen: when 1 resumption happened at the latest (nothing bounds those pauses)." in text


def test_two_owners_at_once_are_not_called_a_pause() -> None:
    before, killed = _killed_member()
    overlap = replace(_movement(4, "moved", "c3", "c1", (-2_100, -2_000, -1_900)), overlap_ms=2_000)
    text = explain_text(explain("orders", [before, replace(killed, movements=(overlap,))]))
    assert "two owners at once for 2.00 s" in text
    assert "stood still" not in text


def test_a_run_of_skipped_numbers_is_one_entry_between_its_neighbours() -> None:
    story = a_group().joins("c1", at_s=0).skips(40).joins("c2", at_s=600)
    text = explain_text(explain("orders", story.rebalances))
    assert "between 2025-11-21 04:40:00 UTC and 2025-11-21 04:50:00 UTC  generations 2 … 41   not seen\n" in text
    assert "generation 1 → 42   a member joined" in text
    assert text.startswith(
        "orders   consumer group, classic, eager (range), 2 members\n2 rebalances in all, in 10 min;"
    )


def test_nothing_seen_is_said_with_what_was_looked_at() -> None:
    text = explain_text(explain("nobody", [], seen_from_ms=AT_MS, seen_until_ms=AT_MS + 60_000))
    assert text == (
        "nobody   no rebalance in the evidence\nNo rebalance of this group was seen. The evidence covers "
        "2025-11-21 14:03:11 UTC to 2025-11-21 14:04:11 UTC.\n"
    )


def test_two_members_of_one_client_id_are_distinguished_by_their_hosts() -> None:
    before, killed = _killed_member()
    twins = tuple(replace(m, client_id="same") for m in killed.members)
    text = explain_text(explain("orders", [before, replace(killed, members=twins)]))
    assert "c3@10.0.0.9 → c1@10.0.0.7" in text


def test_open_findings_come_first_with_their_advice_and_old_ones_without() -> None:
    def finding(rule_id: str, severity: str, status: str) -> Finding:
        return Finding(
            cluster_id="a", finding_id=rule_id, rule_id=rule_id, severity=Severity(severity), subject_type="group",
            subject="orders", status=FindingStatus(status), first_seen_at_ms=1, last_seen_at_ms=2,
            title=f"{rule_id} happened",
            advice=f"do {rule_id}", evidence=("record:t-0@1",),
        )  # fmt: skip

    findings = [
        finding("OLD", "critical", "resolved"),
        finding("NEW", "warning", "open"),
        finding("BAD", "critical", "open"),
    ]
    lines = explain_text(explain("orders", _killed_member(), findings)).splitlines()
    shown = [line for line in lines if "happened" in line or "→ do" in line]
    assert shown == [
        "BAD (critical)  BAD happened", "                → do BAD",
        "NEW (warning)  NEW happened", "               → do NEW",
        "OLD (critical, over)  OLD happened",
    ]  # fmt: skip


def test_a_restarting_member_could_have_been_static() -> None:
    story = a_group().joins("c1", "c2", at_s=0)
    for i in range(3):
        story.leaves("c2", at_s=1_440 * (i + 1)).joins("c2", at_s=1_440 * (i + 1) + 20)
    said = " ".join(explain("orders", story.rebalances).would_have_helped)
    assert said == (
        "c2 (/10.0.0.9) left and came back (3 times in all), away for at most 20 s: a group.instance.id with a longer "
        "session timeout would have spared up to 6 of 7 rebalances, but its partitions wait for it: "
        "`rebalance-audit whatif` weighs both."
    )


@pytest.mark.parametrize(("old", "new"), [("c2-1f26", "c2-8dcb"), ("c2-8dcb", "c2-1f26")])
def test_a_restart_within_one_rebalance_counts_whatever_its_member_ids(old: str, new: str) -> None:
    """As seen on 4.3.0 in a deploy: it left, and joined 1.1 s later in the generation that its leaving began."""
    [rebalance] = a_group().joins("c1", "c2", at_s=0).rebalances[-1:]
    members = sorted(
        (
            Member(member_id="c1-id", client_id="c1", client_host="/10.0.0.7"),
            Member(member_id=old, client_id="c2", client_host="/10.0.0.8", change=MemberChange.LEFT),
            Member(member_id=new, client_id="c2", client_host="/10.0.0.8", change=MemberChange.JOINED),
        ),
        key=lambda member: member.member_id,
    )
    restarted = replace(
        rebalance, rebalance_id="orders:9", generation_id=9, trigger=Cause.MEMBER_LEFT, members=tuple(members),
        started_at_ms=AT_MS, assigned_at_ms=AT_MS + 2_400,
    )  # fmt: skip
    [said] = explain("orders", [restarted]).would_have_helped[:1]
    assert said.startswith("c2 (/10.0.0.8) left and came back (once in all), away for at most 2.4 s: ")
    assert "would have spared up to 1 of 1 rebalance," in said


@pytest.mark.parametrize(
    ("libraries", "setting"), [(None, "max.poll.interval.ms"), (("kafka-python",), "max_poll_interval_ms")]
)
def test_a_poll_timeout_names_the_setting_as_the_client_does(libraries: tuple[str, ...] | None, setting: str) -> None:
    put_out = a_group().joins("c1", "c2", at_s=0).exceeds_poll_interval("c2", at_s=60).rebalances[-1]
    [member_id] = put_out.triggers[0].members
    gone = Member(member_id=member_id, client_id="c2", change=MemberChange.LEFT, client_libraries=libraries)
    text = explain_text(explain("g", [replace(put_out, members=(*put_out.members, gone))]))
    assert f"c2 took longer between two polls than its {setting} " in text


def test_a_static_member_would_have_been_put_out_by_its_poll_interval_all_the_same() -> None:
    story = (
        a_group().joins("c1", "c2", at_s=0).exceeds_poll_interval("c2", at_s=60, comes_back=False).joins("c2", at_s=70)
    )
    assert not any("group.instance.id" in hint for hint in explain("orders", story.rebalances).would_have_helped)


def test_reasons_every_client_gives_are_left_out_and_others_are_shown() -> None:
    before, killed = _killed_member()
    for detail, said in (
        ("need to re-join with the given member-id: c3-6470dab3-de1b-439c-9388-1bca9dc658a4", "c3 (/10.0.0.9) joined"),
        ("deploy 4711", "c3 (/10.0.0.9) joined (deploy 4711)"),
    ):
        cause = replace(killed.triggers[0], trigger=Cause.MEMBER_JOINED, detail=detail)
        (shown,) = explain("orders", [before, replace(killed, triggers=(cause,))], latest=1).rebalances[0].causes
        assert shown.text == said


def test_partitions_that_only_stopped_and_went_on_are_what_cooperation_saves() -> None:
    before, killed = _killed_member()
    slow = replace(killed, movements=tuple(_movement(p, "returned", "c1", "c1", (900, 1_000, 1_100)) for p in range(4)))
    assert explain("orders", [before, slow]).would_have_helped == (
        "A cooperative assignor or group.protocol=consumer would have spared 4.0 partition-seconds: 4 partitions "
        "stopped only to go back to the same owner, but what moves then waits for a second rebalance: "
        "`rebalance-audit whatif` weighs both.",
    )


def test_nothing_would_have_helped_where_nothing_was_lost() -> None:
    story = a_group(mode="cooperative", assignor="cooperative-sticky").joins("c1", at_s=0).joins("c2", at_s=60)
    assert explain("orders", story.rebalances).would_have_helped == ()


def test_a_connect_cluster_is_shown_in_workers_and_tasks() -> None:
    story = a_connect_cluster().joins("w1", "w2", at_s=0)
    story.leaves("w2", at_s=60, connect_delay_ms=300_000, unassigned_count=3, assigned={"w1": ("t-0",)})
    text = explain_text(explain("connect-a", story.rebalances))
    assert text.startswith("connect-a   Connect cluster, incremental (sessioned), 1 worker\n")
    assert "worker w2:8083 left" in text
    assert "Connect waits up to 5 min before it hands out what has no worker" in text
    assert "3 connectors and tasks without an owner after it" in text


def test_hostile_text_cannot_move_the_cursor_or_forge_a_line() -> None:
    evil = "x\n2025-11-21 14:03:11 UTC  generation 8\x1b[2J\u202e"
    before, killed = _killed_member()
    members = tuple(replace(m, client_id=evil, client_host=evil) for m in killed.members)
    cause = replace(killed.triggers[0], trigger=Cause.MEMBER_LEFT, detail=evil)
    text = explain_text(explain(evil, [before, replace(killed, members=members, triggers=(cause,), evidence=(evil,))]))
    assert not any(unicodedata.category(c).startswith("C") for c in text.replace("\n", ""))
    assert "\n2025-11-21 14:03:11 UTC  generation 8" not in text


def test_json_says_the_same_with_names_and_numbers_apart() -> None:
    row = json.loads(json.dumps(explain_dict(explain("orders", _killed_member()))))
    newest = row["rebalances"][0]
    assert row["group_id"] == "orders"
    assert newest["rebalance_id"] == "orders:7"
    assert newest["pause_estimate_ms"] == 12_310
    assert newest["movements"][0]["resource_names"] == ["orders-4", "orders-5"]
    assert newest["causes"][0] == {
        "trigger": "member_session_expired",
        "text": "c3 (/10.0.0.9) sent no heartbeat for its session timeout of 10 s",
        "tier": "logged",
        "evidence": ["log:kafka-1/server.log#ab12@88123"],
    }


@settings(max_examples=40)
@given(st.integers(min_value=40, max_value=160))
def test_no_line_is_wider_than_the_terminal_unless_a_word_is(width: int) -> None:
    story = a_group().joins("c1", "c2", "c3", at_s=0).vanishes("c3", at_s=60, gone_pause_ms=12_310, broker_window_ms=99)
    for line in explain_text(explain("orders", story.rebalances, detect_group(story.rebalances)), width).splitlines():
        assert cells(line) <= width or max(len(w) for w in line.split()) > width - 20


def test_wide_characters_take_two_columns() -> None:
    assert cells("接続") == 4
    assert cells("e\u0301") == 1
    assert aside("接続", "ok", 10) == ["接続    ok"]
    assert hanging("one two three", 8, 2) == ["one two", "  three"]


def test_times_are_those_of_the_evidence() -> None:
    story = a_group().joins("c1", at_s=0)
    assert explain("orders", story.rebalances).rebalances[0].at_ms == T0_MS


def test_no_line_of_a_terminal_ends_between_a_number_and_its_unit() -> None:
    text = "stood still 10.52 s (likely 9.14 to 11.90 s), in 3 steps, for 39 min 53 s"
    for width in range(12, 60):
        lines = hanging(text, width, 2)
        assert " ".join(line.strip() for line in lines) == text
        assert not [line for line in lines if re.match(r"\s*(s|min)\b", line)], width
