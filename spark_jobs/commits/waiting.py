"""Commits that wait. Beside a busy cluster all groups commit all the time and few rebalance: a run that may leave
commits for later (`Run.may_wait`) folds those of groups whose rebalances somebody waits for, and no others.

A run that may not wait folds them all. Until then the tables say what they would say if the others had not come yet
(decision 0060).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rebalance_audit.warehouse.queries import cursor
from rebalance_audit.warehouse.storage import relation
from rebalance_audit.warehouse.warehouse import Warehouse
from spark_jobs.commits.keys import groups_of_commits
from spark_jobs.group_rows import Place
from spark_jobs.task_files import Flags, Numbers, flags_of, numbers_of

LEAST_RECORDS = 2_000
"""With fewer new records nothing waits: to fold their commits costs less than to come back for them."""
MOST_RECORDS = 1_000_000
"""The most commits that wait: in memory one takes 120 bytes."""
NOTE = "commits-folded-ahead"
"""The note of the groups whose commits do not wait."""
_RECORDS, _MARKS = "bronze.record", "silver.commit_mark"
AWAITED_MS = 15_000
"""How long after the last evidence of a group its first commits are folded at once. Consumers commit every 5 s."""


class ReadCommits(NamedTuple):
    """Commits that one run read."""

    version: int
    """The version of bronze.record up to which it read."""
    rows: pa.RecordBatch
    """As `record_files.commits_in` gives them."""
    groups: pa.DictionaryArray
    """The group of each."""


@dataclass(slots=True)
class WaitingCommits:
    """The commits that wait, as a process that goes on knows them. Of the next process a note tells which groups are
    `done`. If that is lost, too, it costs work: commits that are in marks already come to marks once more, and such
    groups are folded again from bronze."""

    since: int
    """The version of bronze.record up to which the commits of all groups are in marks."""
    until: int
    """The version up to which commits are kept here."""
    kept: list[ReadCommits] = field(default_factory=list)
    done: dict[Place, int] = field(default_factory=dict)
    """Groups whose commits are in marks up to a later version."""
    asked_at_ms: dict[Place, int] = field(default_factory=dict)
    """Groups that somebody waits for: the time of the records that came with the last evidence of each."""
    due: set[Place] = field(default_factory=set)
    """Those about which the last news says something new."""
    _seen: dict[Place, set[bytes]] = field(default_factory=dict)
    """The keys with which a group committed since its last evidence: its pause ends with the first commit of each."""

    @property
    def row_count(self) -> int:
        return sum(len(some.rows) for some in self.kept)

    def add(self, until: int, batches: Iterable[pa.RecordBatch], named: Iterable[Place]) -> None:
        """Add the commits and the evidence of these groups that came up to this version."""
        fresh = [ReadCommits(until, batch, groups_of_commits(batch)) for batch in batches if len(batch)]
        spans = [pc.min_max(some.rows["timestamp_ms"]).as_py() for some in fresh]
        now_ms = max([*(span["max"] for span in spans), *self.asked_at_ms.values()], default=0)
        # A round that took long has commits from long before its end, which end pauses as well.
        begin_ms = min([span["min"] for span in spans], default=now_ms)
        asked = {place: at_ms for place, at_ms in self.asked_at_ms.items() if begin_ms - at_ms <= AWAITED_MS}
        self.due = set(named)
        self.asked_at_ms = asked | dict.fromkeys(self.due, now_ms)
        # Of the commits that came with a group's evidence some may be earlier.
        self._seen = {place: self._seen.get(place, set()) for place in self.asked_at_ms if place not in self.due}
        for place, keys in _keys_of(self._seen, fresh).items():
            if not keys <= self._seen[place]:
                self._seen[place] |= keys
                self.due.add(place)
        self.kept += fresh
        self.until = until

    def of_due(self) -> list[pa.RecordBatch]:
        """The commits of the groups that are due which are in no mark yet."""
        from_version = {place: self.done.get(place, self.since) for place in self.due}
        found = []
        for version, rows, groups in self.kept:
            known = numbers_by_row(rows, groups, from_version, without=version)
            if (chosen := known < version).any():
                found.append(rows.filter(pa.array(chosen)))
        return found

    def folded(self) -> None:
        """Forget the commits that `of_due` gave: they are in marks now."""
        self.done |= dict.fromkeys(self.due, self.until)


def _keys_of(places: Collection[Place], fresh: Sequence[ReadCommits]) -> dict[Place, set[bytes]]:
    """The keys with which these groups commit."""
    found: dict[Place, set[bytes]] = {}
    for _, rows, groups in fresh:
        chosen = pa.array(numbers_by_row(rows, groups, dict.fromkeys(places, 1), without=0) > 0)
        columns = rows["cluster_id"].filter(chosen), groups.filter(chosen), rows["key"].filter(chosen)
        for cluster_id, group_id, key in zip(
            *(column.cast(column.type.value_type).to_pylist() for column in columns), strict=True
        ):
            found.setdefault((cluster_id, group_id), set()).add(key)
    return found


_WAITING: WeakKeyDictionary[Warehouse, WaitingCommits] = WeakKeyDictionary()


def known_waiting(warehouse: Warehouse, since: int, until: int) -> WaitingCommits | None:
    """The commits between these versions of bronze.record that wait, as far as this process knows."""
    known = _WAITING.get(warehouse)
    return known if known is not None and (known.since, known.until) == (since, until) else None


def keep_waiting(warehouse: Warehouse, waiting: WaitingCommits | None) -> None:
    """After the commit of these marks: a note behind them costs work, one before them would lose commits."""
    if waiting is None:
        _WAITING.pop(warehouse, None)
        warehouse.forget(NOTE)
        return
    _WAITING[warehouse] = waiting
    done = [[*place, version] for place, version in sorted(waiting.done.items())]
    of_tables = {"tables": _tables_of(warehouse), "marks": warehouse.version(_MARKS)}
    warehouse.remember(NOTE, {**of_tables, "since": waiting.since, "done": done})


def _done_before(warehouse: Warehouse, since: int) -> dict[Place, int]:
    """The groups whose commits after this version of bronze.record are in marks up to a later one: by the memory of
    this process, or by the note of an earlier one."""
    known = _WAITING.get(warehouse)
    if known is not None and known.since == since:
        return dict(known.done)
    note = warehouse.recall(NOTE)
    if note.get("since") != since or note["tables"] != _tables_of(warehouse):
        return {}
    if note["marks"] > (warehouse.version(_MARKS) or 0):
        return {}  # tables of an earlier time were put back
    return {(cluster_id, group_id): version for cluster_id, group_id, version in note["done"]}


def _tables_of(warehouse: Warehouse) -> list[str | None]:
    return [warehouse.table_id(table) for table in (_RECORDS, _MARKS)]


@dataclass(frozen=True, slots=True)
class Unfolded:
    """Tells commits that are in no mark yet from those that are, by the file that they came in."""

    versions: Mapping[str, int]
    """The version of bronze.record that each file came with."""
    done: Mapping[Place, int]

    def chosen(self, file: str, rows: pa.RecordBatch) -> pa.RecordBatch:
        if not self.done:
            return rows
        is_new = numbers_by_row(rows, groups_of_commits(rows), self.done, without=-1) < self.versions[file]
        return rows if is_new.all() else rows.filter(pa.array(is_new))


ALL_UNFOLDED = Unfolded({}, {})


def unfolded_of(warehouse: Warehouse, since: int, until: int) -> Unfolded:
    """The commits between these versions of bronze.record that are in no mark yet, as far as that is known."""
    if not (done := _done_before(warehouse, since)):
        return ALL_UNFOLDED
    changes = warehouse.changes(_RECORDS, since, until) or ()
    return Unfolded({file: change.version for change in changes for file in change.added}, done)


def groups_named(event_files: Sequence[str]) -> set[Place] | None:
    """The groups that these events name; None if one names none."""
    if not event_files:
        return set()
    with cursor() as db:
        found = db.execute(f"SELECT DISTINCT cluster_id, group_id FROM {relation(event_files)}").fetchall()
    return None if any(group_id is None for _, group_id in found) else set(found)


def numbers_by_row(
    rows: pa.RecordBatch, groups: pa.DictionaryArray, numbers: Mapping[Place, int], *, without: int
) -> Numbers:
    """The number of each row's group, `without` where it has none."""
    found = np.full(len(rows), without, np.int64)
    names = pa.array(sorted({group_id for _, group_id in numbers}), pa.string())
    may_have: Flags = flags_of(groups, lambda distinct: pc.is_in(distinct, names))
    if (at := np.flatnonzero(may_have)).size:
        # Few rows, with the names of few groups: those of all are not made Python's.
        clusters, some = rows["cluster_id"].take(pa.array(at)), groups.take(pa.array(at)).cast(pa.string())
        places = {place: number for number, place in enumerate(numbers)}
        found[at] = np.array([*numbers.values(), without], np.int64)[numbers_of(clusters, some, places)]
    return found
