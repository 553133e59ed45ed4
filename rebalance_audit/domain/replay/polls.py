"""How many records a full poll holds and how long they take, by the commits of a member that was too slow for its poll
interval: what another `max.poll.records` would have made of that.

Java's consumer commits in a poll, once the auto-commit interval is over, what the polls before returned
(ConsumerCoordinator.maybeAutoCommitOffsetsAsync). Two commits of a member that are further apart than two such
intervals enclose one poll that took longer than one, and at times short ones before it; where the application commits
after each poll, just that one. A poll is taken for full where two are of the same size, or one of Kafka's default.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from rebalance_audit.domain.causes import Cause
from rebalance_audit.domain.model import CommitMark, Member, Rebalance

DEFAULT_RECORDS = 500
"""max.poll.records of clients that set nothing."""
SINGLE_POLL_MS = 10_000
"""Commits of short polls are less far apart: twice the default of auto.commit.interval.ms."""
Resource = tuple[str, int]
Commit = tuple[int, int]
"""(record timestamp, position)."""


@dataclass(frozen=True, slots=True)
class FullPoll:
    """A poll of as many records as `max.poll.records` allows."""

    records: int
    took_ms: int
    """From this poll to the next, where the member was not too slow."""

    def shortened_ms(self, busy_ms: float, records: int, share: float) -> float:
        """How long the poll that took too long, `busy_ms`, would have taken with fewer records.

        `share` 0: all of its records were slow. 1: they took as long as before, and a single one all the rest.
        """
        fewer = records / self.records
        all_slow_ms = busy_ms * fewer
        one_slow_ms = max(all_slow_ms, busy_ms - self.took_ms * (1 - fewer))
        return all_slow_ms + share * (one_slow_ms - all_slow_ms)


def full_polls(rows: Sequence[Rebalance], marks: Collection[CommitMark]) -> dict[str, FullPoll]:
    """By the id of each member that was put out for its poll interval, where its commits before that show it.

    `rows` in the order they happened. Commits belong to who owned the partitions between two rows.
    """
    by_resource: dict[Resource, list[CommitMark]] = defaultdict(list)
    for mark in marks:
        by_resource[mark.topic, mark.partition].append(mark)
    found: dict[str, FullPoll] = {}
    since_ms = 0
    for row in rows:
        until_ms = row.started_at_ms or row.joined_at_ms or row.assigned_at_ms or row.ended_at_ms or since_ms
        for member in _too_slow(row):
            full = _full(list(_polls(member, by_resource, since_ms, until_ms)))
            if full is not None:
                found[member.member_id] = full
        since_ms = max(since_ms, row.assigned_at_ms or row.ended_at_ms or until_ms)
    return found


def _too_slow(row: Rebalance) -> Iterator[Member]:
    put_out = {m for t in row.triggers if t.trigger == Cause.MEMBER_POLL_TIMEOUT for m in t.members}
    yield from (member for member in row.members if member.member_id in put_out)


def _polls(
    member: Member, by_resource: Mapping[Resource, Sequence[CommitMark]], since_ms: int, until_ms: int
) -> Iterator[tuple[int, int]]:
    """(records, ms) between two commits of all of its partitions."""
    owned = [_resource(text) for text in member.owned_before or ()]
    records: Counter[Commit] = Counter()
    seen: Counter[Commit] = Counter()
    for resource in owned:
        for (from_ms, position), (to_ms, next_position) in _neighbours(by_resource.get(resource, ())):
            if since_ms <= from_ms and to_ms <= until_ms and to_ms - from_ms >= SINGLE_POLL_MS:
                records[from_ms, to_ms] += next_position - position
                seen[from_ms, to_ms] += 1
    for (from_ms, to_ms), count in sorted(seen.items()):
        if count == len(owned):
            yield records[from_ms, to_ms], to_ms - from_ms


def _neighbours(marks: Sequence[CommitMark]) -> Iterator[tuple[Commit, Commit]]:
    """Commits of one partition that follow each other, as far as a stretch keeps them."""
    for mark in marks:
        pairs = {
            (mark.first_at_ms, mark.first_position, mark.next_at_ms, mark.next_position),
            (mark.gap_from_at_ms, mark.gap_from_position, mark.gap_to_at_ms, mark.gap_to_position),
            (mark.gap_to_at_ms, mark.gap_to_position, mark.after_at_ms, mark.after_position),
        }
        before_gap = {mark.first_at_ms: 1, mark.next_at_ms: 2}.get(mark.gap_from_at_ms)
        if before_gap is not None and mark.commit_count == before_gap + 3:
            pairs.add((mark.after_at_ms, mark.after_position, mark.last_at_ms, mark.last_position))
        for from_ms, position, to_ms, next_position in pairs:
            if from_ms is not None and position is not None and to_ms is not None and next_position is not None:
                yield (from_ms, position), (to_ms, next_position)


def _full(polls: Sequence[tuple[int, int]]) -> FullPoll | None:
    sizes = Counter(records for records, _ in polls)
    full = max((size for size, count in sizes.items() if count > 1 or size == DEFAULT_RECORDS), default=0)
    if full == 0:
        return None
    took = sorted(ms for records, ms in polls if records == full)
    return FullPoll(full, took[len(took) // 2])


def _resource(text: str) -> Resource:
    topic, _, number = text.rpartition("-")
    return topic, int(number)
