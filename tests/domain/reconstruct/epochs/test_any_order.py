"""KIP-848 groups: order of arrival, repeated delivery and late lines do not matter, whatever a history holds."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from rebalance_audit.domain.measure.pauses import measure
from rebalance_audit.domain.model import LogKind
from rebalance_audit.domain.reconstruct import reconstruct
from tests.domain.reconstruct.classic.test_any_order import shuffled

from .stories import ConsumerGroupStory

T0 = 1_800_000_000_000
STEPS = (
    "join", "leave", "fence", "pause", "return", "topics", "stuck", "commit", "back", "delete", "cut", "forge", "rack",
)  # fmt: skip


class Group:
    """A group whose members, but for one that is stuck, follow each epoch at once."""

    def __init__(self) -> None:
        self.story, self.epoch, self.at_ms, self.count = ConsumerGroupStory("evil\ngroup"), 1, T0, 0
        self.members: list[str] = []
        self.away: list[str] = []
        self.stuck: str | None = None

    def new_epoch(self, number: int | None = None) -> None:
        self.epoch = self.epoch + 1 if number is None else number
        self.story.epoch(self.epoch, at_ms=self.at_ms)
        if not self.members:
            return
        self.story.target(self.epoch, at_ms=self.at_ms + 1)
        for place, member in enumerate(self.members):
            if member != self.stuck and member not in self.away:
                mine = [p for p in range(4) if p % len(self.members) == place]
                self.story.holds(member, mine, at_ms=self.at_ms + 5 + place, epoch=self.epoch)

    def step(self, step: str, *, has_line: bool) -> None:
        story, at_ms = self.story, self.at_ms
        one = self.members[0] if self.members else None
        match step:
            case "join":
                self.count += 1
                self.members.append(f"m{self.count}")
                story.member(self.members[-1], at_ms=at_ms, instance=f"i{self.count}" if self.count % 2 else None)
                self.new_epoch()
            case "leave" | "fence" if one is not None:
                if has_line:
                    kind = LogKind.MODERN_MEMBER_LEFT if step == "leave" else LogKind.MEMBER_FENCED
                    story.says(kind, at_ms=at_ms, member_id=one, reason="the member session expired")
                self.members.remove(one)
                story.gone(one, at_ms=at_ms)
                self.new_epoch()
            case "pause" if one is not None:
                self.away.append(one)
                story.holds(one, [0], at_ms=at_ms, epoch=-2)
            case "return" if one is not None and one in self.away:
                self.count += 1
                again, instance = f"m{self.count}", f"i{one[1:]}" if int(one[1:]) % 2 else None
                self.members[0] = again
                story.gone(one, at_ms=at_ms).member(again, at_ms=at_ms, instance=instance)
                story.holds(again, [0], at_ms=at_ms, epoch=self.epoch)
            case "rack" if one is not None:
                story.member(one, at_ms=at_ms, rack="b")
            case "topics":
                self.new_epoch()
            case "stuck" if one is not None:
                self.stuck = one
            case "back" if self.members:
                story.member(self.members[-1], at_ms=at_ms)
            case "commit":
                story.commit(self.count % 4, at_ms=at_ms)
            case "delete" if not self.members:
                story.deleted(at_ms=at_ms)
                self.epoch = 1
            case "cut":
                self.new_epoch(max(self.epoch - 2, 1))
            case "forge":
                story.says(LogKind.EPOCH_BUMPED, at_ms=at_ms, group_epoch=self.epoch + 7, metadata_hash=1)


@st.composite
def histories(draw: st.DrawFn) -> ConsumerGroupStory:
    group = Group()
    for step in draw(st.lists(st.sampled_from(STEPS), min_size=1, max_size=14)):
        group.at_ms += draw(st.integers(1, 20_000))
        group.step(step, has_line=draw(st.booleans()))
    return group.story


@settings(max_examples=120)
@given(story=histories(), seed=st.integers(0, 1 << 16))
def test_any_order_of_arrival_gives_the_same_rows(story: ConsumerGroupStory, seed: int) -> None:
    expected = reconstruct(story.evidence())
    assert reconstruct(shuffled(story.evidence(), seed)) == expected
    assert reconstruct(shuffled(story.evidence(), seed, repeat=True)) == expected


@settings(max_examples=120)
@given(story=histories())
def test_every_row_has_a_key_of_its_own_and_bounds_that_agree(story: ConsumerGroupStory) -> None:
    found = [measure(r) for r in reconstruct(story.evidence()).rebalances]
    assert len({r.rebalance_id for r in found}) == len(found)
    for r in found:
        assert len({m.resource for m in r.movements}) == len(r.movements)
        assert len({m.member_id for m in r.members}) == len(r.members)
        assert all(t.evidence for t in r.triggers if t.tier in ("recorded", "logged"))
        for m in r.movements:
            numbers = [n for n in (m.pause_lower_ms, m.pause_estimate_ms, m.pause_upper_ms) if n is not None]
            assert numbers == sorted(numbers)


@settings(max_examples=80)
@given(story=histories(), cut=st.integers(0, 100))
def test_lines_that_come_later_neither_rename_nor_remove_what_records_show(story: ConsumerGroupStory, cut: int) -> None:
    evidence = story.evidence()
    early = reconstruct(replace(evidence, lines=evidence.lines[: cut * len(evidence.lines) // 100]))
    lasting = {r.rebalance_id for r in early.rebalances if r.outcome == "completed"}
    assert lasting <= {r.rebalance_id for r in reconstruct(evidence).rebalances}


@settings(max_examples=80)
@given(story=histories())
def test_an_epoch_that_goes_back_is_a_contradiction_unless_the_group_was_deleted(story: ConsumerGroupStory) -> None:
    numbers: list[int] = []
    cuts = 0
    for record in story.records:
        if record.record.name != "ConsumerGroupMetadata":
            continue
        if record.record.value is None:
            numbers = []
            continue
        cuts += bool(numbers) and record.record.value.epoch <= numbers[-1]
        numbers.append(record.record.value.epoch)
    found = [c for c in reconstruct(story.evidence()).contradictions if "stands after" in c.detail]
    assert len(found) == cuts
