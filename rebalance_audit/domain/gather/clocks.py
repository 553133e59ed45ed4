"""Makes a node's log times, which are local and without a zone, into instants.

Kafka prints the JVM's local time and no zone. The zone is configured, or inferred from lines that belong to records
(whose times are UTC), or assumed to be UTC; every result says which.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from enum import StrEnum
from functools import lru_cache
from typing import Any
from zoneinfo import ZoneInfo

from rebalance_audit.domain.model import GroupRecord, LogEvent, LogKind

CLOCK_APART_MS = 1_000
"""Less is no fault: a line follows its record by some ms, under load by tenths of a second
(docs/measured.md#lines-and-records)."""
_MIN_PAIRS = 3
"""So many lines that belong to records show it: one or two may be chance."""
_EPOCH = datetime(1970, 1, 1)
_BY_RECORD_TIME = (LogKind.ASSIGNMENT_RECEIVED, LogKind.CLIENT_SYNCED, LogKind.WORKER_JOINED)
PAIRED_KINDS = (*_BY_RECORD_TIME, LogKind.STABILIZED, LogKind.EMPTIED, LogKind.EPOCH_BUMPED)
"""Lines that belong to a record; see `pairs_by_node`."""
NO_OFFSET: tuple[tuple[int, int], ...] = ((0, 0),)


class ZoneSource(StrEnum):
    CONFIGURED = "configured"
    INFERRED = "inferred"
    """From lines that belong to records; also where these overruled a configured zone."""
    ASSUMED = "assumed"
    """Nothing was known: UTC."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeClock:
    """How a node's local times become UTC."""

    source: ZoneSource
    zone: str | None = None
    """The configured zone or offset."""
    offsets: tuple[tuple[int, int], ...] = NO_OFFSET
    """(valid from this UTC instant on, local time less UTC), in order; one entry unless the clocks were changed."""
    skew_ms: int | None = None
    """Median of what is left after the offset: the node's clock less the records' clock, plus the usual delay of the
    line after the record."""
    spread_ms: int | None = None
    """Median distance of the pairs from `skew_ms`."""
    pair_count: int = 0
    agreeing_count: int = 0
    """Pairs that support the offset. The others were outliers."""

    @property
    def utc_offset_ms(self) -> int:
        """The offset in force at the end; of a configured zone see `to_utc_ms`."""
        return self.offsets[-1][1]

    @property
    def is_apart(self) -> bool:
        """Whether the node's clock is plainly off, and always by about the same."""
        if self.skew_ms is None or abs(self.skew_ms) <= CLOCK_APART_MS or self.agreeing_count < _MIN_PAIRS:
            return False
        return 2 * (self.spread_ms or 0) <= abs(self.skew_ms)

    def to_utc_ms(self, local_at_ms: int, *, not_before_ms: int | None = None) -> int:
        """The instant of a local time, put right where the clock is plainly off.

        When clocks go back an hour of local times comes twice: the earlier instant is taken unless it is before
        `not_before_ms`, the instant of the line before in the same file.
        """
        if self.is_apart:
            local_at_ms -= self.skew_ms or 0
        if self.zone is not None:
            return to_utc_ms(local_at_ms, self.zone, not_before_ms=not_before_ms)
        if len(self.offsets) == 1:
            return local_at_ms - self.offsets[0][1]
        instants = [
            local_at_ms - offset_ms
            for at, (from_ms, offset_ms) in enumerate(self.offsets)
            if (at == 0 or local_at_ms - offset_ms >= from_ms)
            and (at + 1 == len(self.offsets) or local_at_ms - offset_ms < self.offsets[at + 1][0])
        ]
        if not instants:  # a local time that the change left out
            return local_at_ms - self.offsets[-1][1]
        if not_before_ms is not None:
            instants = [instant for instant in instants if instant >= not_before_ms] or instants[-1:]
        return instants[0]


def to_utc_ms(local_at_ms: int, zone: str, *, not_before_ms: int | None = None) -> int:
    """The instant of a local time in a zone: a name (`Europe/Berlin`, `UTC`) or an offset (`+02:00`, `-0330`).

    Of the two instants in the hour that a change repeats, as in `NodeClock.to_utc_ms`; a time that a change left out
    is read with the offset before the change. Raises ValueError for a zone that is not known.
    """
    fixed_ms = _fixed_offset_ms(zone)
    if fixed_ms is not None:
        return local_at_ms - fixed_ms
    zone_info = zone_of(zone)
    naive = _EPOCH + timedelta(milliseconds=local_at_ms)
    first = _instant_ms(naive.replace(tzinfo=zone_info, fold=0))
    if not_before_ms is None or first >= not_before_ms:
        return first
    second = _instant_ms(naive.replace(tzinfo=zone_info, fold=1))
    return second if second >= first else first


def _instant_ms(moment: datetime) -> int:
    offset = moment.utcoffset() or timedelta(0)
    return (moment.replace(tzinfo=None) - _EPOCH - offset) // timedelta(milliseconds=1)


@lru_cache(maxsize=64)
def _fixed_offset_ms(zone: str) -> int | None:
    """Local time less UTC, where it is always the same."""
    zone_info = zone_of(zone)
    offset = zone_info.utcoffset(None) if isinstance(zone_info, timezone) else None
    return None if offset is None else offset // timedelta(milliseconds=1)


@lru_cache(maxsize=64)
def zone_of(zone: str) -> tzinfo:
    """`Europe/Berlin`, `UTC` or `+02:00`. Raises ValueError with a sentence's beginning."""
    text = zone.strip()
    if text.upper() in ("UTC", "Z", "GMT"):
        return UTC
    if text[:1] in ("+", "-"):
        digits = text[1:].replace(":", "")
        if not digits.isdigit() or len(digits) not in (1, 2, 4):
            raise ValueError(f"{zone!r} is neither a zone like Europe/Berlin nor an offset like +02:00")
        hours, minutes = (int(digits), 0) if len(digits) <= 2 else (int(digits[:2]), int(digits[2:]))
        delta = timedelta(hours=hours, minutes=minutes)
        if minutes > 59 or delta > timedelta(hours=18):
            raise ValueError(f"{zone!r} is more than any zone is away from UTC")
        return timezone(-delta if text[0] == "-" else delta)
    try:
        return ZoneInfo(text)
    except (KeyError, ValueError, OSError) as error:
        raise ValueError(f"{zone!r} is neither a zone like Europe/Berlin nor an offset like +02:00") from error


def pairs_by_node(events: Iterable[LogEvent], records: Iterable[GroupRecord]) -> dict[str, list[tuple[int, int]]]:
    """For each node, (local time of a line, UTC time of the record it belongs to).

    `Stabilized` belongs to currentStateTimestamp, `Assignment received` and `is now empty` to the record's own time,
    `Bumped group epoch` to the epoch record. Members' lines follow the record: a consumer's `Successfully synced group`
    and a Connect worker's `Joined group` by 7 ms in the median, which stays in their skew.
    A number that was written more than once gives a pair with each: the wrong ones are outliers. Lines that could be
    forged have no say.
    """
    return paired(
        ((event.node, event.local_at_ms, subject_of(event)) for event in events),
        (said for record in records for said in instants_of(record)),
    )


def paired(
    lines: Iterable[tuple[str, int, Hashable | None]], answers: Iterable[tuple[Hashable, int]]
) -> dict[str, list[tuple[int, int]]]:
    """By node, pairs of a line's local time and the instant of the record that it belongs to. `lines`: (node, local
    time, `subject_of` the line). `answers`: what `instants_of` gives for all records."""
    instants: dict[Hashable, list[int]] = defaultdict(list)
    for subject, at_ms in answers:
        instants[subject].append(at_ms)
    pairs: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for node, local_at_ms, said in lines:
        if said is not None:
            pairs[node] += ((local_at_ms, at_ms) for at_ms in instants.get(said, ()))
    return {node: of_node for node, of_node in pairs.items() if of_node}


def subject_of(line: LogEvent) -> Hashable | None:
    """(kind of line, group, number); None if the line has no say."""
    if line.could_be_forged or line.group_id is None:
        return None
    number = line.fields.get("group_epoch" if line.kind is LogKind.EPOCH_BUMPED else "generation_id")
    return line.kind, line.group_id, number


def instants_of(group_record: GroupRecord) -> list[tuple[Hashable, int]]:
    """The subjects of the log lines that belong to this record, each with its instant by the record."""
    record: Any = group_record.record
    value, group_id = record.value, record.key.group_id
    if value is None:
        return []
    if record.name == "GroupMetadata":
        has_members, stable_at_ms = bool(value.members), value.current_state_timestamp
        return instants_of_generation(group_id, value.generation, group_record.at_ms, stable_at_ms, has_members)
    if record.name in EPOCH_RECORDS:
        return instants_of_epoch(group_id, value.epoch, group_record.at_ms)
    return []


EPOCH_RECORDS = ("ConsumerGroupMetadata", "ShareGroupMetadata", "StreamsGroupMetadata")


def instants_of_generation(
    group_id: str, generation: int, at_ms: int, stable_at_ms: int | None, has_members: bool
) -> list[tuple[Hashable, int]]:
    """As `instants_of`, for a GroupMetadata record of this generation. `stable_at_ms`: its currentStateTimestamp."""
    if not has_members:
        return [((LogKind.EMPTIED, group_id, generation), at_ms)]
    found: list[tuple[Hashable, int]] = [((kind, group_id, generation), at_ms) for kind in _BY_RECORD_TIME]
    if stable_at_ms is not None:
        found.append(((LogKind.STABILIZED, group_id, generation), stable_at_ms))
    return found


def instants_of_epoch(group_id: str, epoch: int, at_ms: int) -> list[tuple[Hashable, int]]:
    """As `instants_of`, for a record of EPOCH_RECORDS with this epoch."""
    return [((LogKind.EPOCH_BUMPED, group_id, epoch), at_ms)]
