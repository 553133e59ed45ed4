"""Who looks again only where `due` says that time may have changed something finds what looking each time finds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from random import Random

import pytest

from rebalance_audit.domain.detect import DEFAULT, Limits, detect_group, is_calm
from rebalance_audit.domain.detect.due import longest_hold_ms, may_begin, may_differ, only_ends, quiet_ms, shown_until
from rebalance_audit.domain.detect.history import History
from rebalance_audit.domain.kinds import FindingStatus
from rebalance_audit.domain.model import Finding, Rebalance
from tests.domain.detect.group_story import T0_MS, GroupStory

MINUTE_MS = 60_000
CLIENTS = ("c1", "c2", "c3", "c4")


@pytest.mark.parametrize(
    ("lasted_ms", "shown_ms"),
    [
        (0, 0),
        (59_999, 0),
        (60_000, 60_000),
        (31 * MINUTE_MS + 1, 31 * MINUTE_MS),
        (33 * MINUTE_MS, 32 * MINUTE_MS),
        (63 * MINUTE_MS, 62 * MINUTE_MS),
        (24 * 60 * MINUTE_MS, 22 * 64 * MINUTE_MS),
        (-5, 0),
    ],
)
def test_a_length_is_shown_in_steps_that_grow_with_it(lasted_ms: int, shown_ms: int) -> None:
    assert shown_until(T0_MS, T0_MS + lasted_ms) == T0_MS + shown_ms


def test_a_length_once_shown_is_never_shorter_later() -> None:
    shown = [shown_until(0, at_ms) for at_ms in range(0, 40 * 3_600_000, 7_001)]
    assert shown == sorted(shown)
    assert all(0 <= at_ms - shown_ms <= max(MINUTE_MS, at_ms / 16) for at_ms, shown_ms in zip(
        range(0, 40 * 3_600_000, 7_001), shown, strict=True
    ))  # fmt: skip


def a_life(random: Random) -> GroupStory:
    """Two days of a group in which all kinds of things go wrong, by chance."""
    story = GroupStory("orders", mode="cooperative", assignor="cooperative-sticky").joins(*CLIENTS, at_s=0)
    here, at_s = set(CLIENTS), 0.0
    for _ in range(40):
        at_s += random.choice((5, 30, 90, 400, 2_000, 9_000)) * random.uniform(0.5, 1.5)
        who = random.choice(CLIENTS)
        if random.random() < 0.05:  # a storm
            for _ in range(8):
                at_s += 20
                story.meets_again(at_s=at_s, because="leader_rejoined")
        if random.random() < 0.15:
            story.becomes(mode=random.choice(("eager", "cooperative")))
        if who not in here:
            story.joins(who, at_s=at_s, unassigned_count=random.choice((0, 0, 3)))
            here.add(who)
            continue
        random.choice((story.leaves, story.vanishes, story.exceeds_poll_interval))(who, at_s=at_s)
        here.discard(who)
    return story


def looks_at_a_life(seed: int) -> Iterator[tuple[Limits, list[Rebalance], int, int]]:
    """The limits, what has happened by now, and the moments of the look before and of this one."""
    random = Random(seed)
    story, limits = a_life(random), random.choice((DEFAULT, Limits(settled_ms=150_000, quiet_ms=700_000)))
    last_ms = story.rebalances[-1].assigned_at_ms or 0
    before_ms, now_ms = 0, T0_MS
    while now_ms < last_ms + 3 * 3_600_000:
        now_ms += random.choice((1_000, 20_000, 61_000, 300_000, 4_000_000))
        yield limits, [r for r in story.rebalances if (r.assigned_at_ms or 0) <= now_ms], before_ms, now_ms
        before_ms = now_ms


def test_looking_again_only_when_due_finds_the_same() -> None:
    skipped = 0
    rules: set[str] = set()
    for seed in range(8):
        known: list[Finding] = []
        seen: list[Rebalance] = []
        for limits, news, before_ms, now_ms in looks_at_a_life(seed):
            expected = detect_group(news, (), limits, seen_until_ms=now_ms)
            if news != seen or is_due(known, seen, before_ms, now_ms, limits):
                known, seen = expected, news
            else:
                skipped += 1
                assert known == expected, (seed, now_ms)
            rules |= {f.rule_id for f in known}
    assert skipped > 300
    assert rules >= {"RB001", "RB002", "RB005", "RB006", "RB007", "RB013"}


def test_a_fault_that_is_over_differs_in_that_alone() -> None:
    """Who resolves such findings without the history, judges others where more may change, and does not look for what
    begins in a calm group, finds the same."""
    ended: set[str] = set()
    judged = skipped = 0
    for seed in range(8):
        known: list[Finding] = []
        seen: list[Rebalance] = []
        for limits, news, before_ms, now_ms in looks_at_a_life(seed):
            expected = detect_group(news, (), limits, seen_until_ms=now_ms)
            others = [f for f in known if not only_ends(f.rule_id)]
            waiting = [] if is_calm(seen, (), limits) else seen
            if news != seen or is_due(others, waiting, before_ms, now_ms, limits):
                known, seen = expected, news
                judged += 1
            else:
                skipped += 1
            for at, f in enumerate(known):
                quiet = now_ms - f.last_seen_at_ms > quiet_ms(f.rule_id, limits)
                if f.status == "open" and only_ends(f.rule_id) and quiet:
                    known[at] = replace(f, status=FindingStatus.RESOLVED)
                    ended.add(f.rule_id)
            assert known == expected, (seed, now_ms)
    assert judged > 100
    assert skipped > 300
    assert ended >= {"RB001", "RB006", "RB007"}


def test_a_storm_is_over_after_a_time_of_its_own() -> None:
    story = GroupStory("orders").joins(*CLIENTS, at_s=0)
    for turn in range(1, 13):
        story.meets_again(at_s=20 * turn, because="leader_rejoined")
    last_ms = story.rebalances[-1].assigned_at_ms or 0
    for quiet_for_ms in (DEFAULT.quiet_ms + 1, DEFAULT.storm_quiet_ms, DEFAULT.storm_quiet_ms + 1):
        found = detect_group(story.rebalances, seen_until_ms=last_ms + quiet_for_ms)
        (storm,) = (f for f in found if f.rule_id == "RB001")
        is_over = last_ms + quiet_for_ms - storm.last_seen_at_ms > quiet_ms(storm.rule_id, DEFAULT)
        assert (storm.status == "resolved") == is_over == (quiet_for_ms > DEFAULT.storm_quiet_ms)


def is_due(known: list[Finding], seen: list[Rebalance], before_ms: int, now_ms: int, limits: Limits) -> bool:
    of_findings = (
        may_differ(f.rule_id, f.first_seen_at_ms, f.last_seen_at_ms, before_ms, now_ms, limits)
        for f in known
        if f.status == "open"
    )
    steps = History(seen, (), limits).steps if seen else ()
    return any(of_findings) or any(may_begin(s.first_at_ms, s.at_ms, before_ms, now_ms, limits) for s in steps)


def test_nothing_begins_that_began_longer_ago() -> None:
    limits = Limits(quiet_ms=5_000_000)
    longest_ms = longest_hold_ms([{"group": "orders", "quiet_ms": 5_000_000}, {"storm_short_count": 3}])
    for age_ms in range(longest_ms + 1, longest_ms + 9_000_000, 9_973):
        assert not may_begin(T0_MS, T0_MS, T0_MS + age_ms, T0_MS + age_ms + 30_000, limits)


def test_a_rule_that_counts_from_other_instants_is_always_due() -> None:
    assert may_differ("RB012", T0_MS, T0_MS, T0_MS + 1, T0_MS + 2, DEFAULT)
    assert not may_differ("RB012", T0_MS, T0_MS, T0_MS + 1, T0_MS + 1, DEFAULT)
