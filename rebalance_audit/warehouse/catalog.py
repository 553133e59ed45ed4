"""A reader that stays open: it binds the tables of each publication once, not once per query. The columns of
`gold.rebalance` that queries over a fleet need are kept in memory as `flat.rebalance`, those of `gold.incident` as
`flat.incident`. For all columns of a few rebalances there is `near.rebalance`, which reads the files that hold them.
The causes that rebalances are booked on (`numbers.booked`) are kept in memory as `flat.booking`. Rows that are just in
(`lay_over`) lie over the tables in each of these.

Measured with 1,000,000 rebalances in docs/benchmarks.md. Files never change, so a new publication reads only its new
files.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import threading
import weakref
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

import duckdb
import pyarrow as pa

from rebalance_audit.domain import numbers
from rebalance_audit.domain.teams import Sight
from rebalance_audit.warehouse import just_in
from rebalance_audit.warehouse.just_in import JustInRows
from rebalance_audit.warehouse.narrowing import ASKING, narrowed, needed
from rebalance_audit.warehouse.queries import close, shared_database
from rebalance_audit.warehouse.storage import relation
from rebalance_audit.warehouse.warehouse import Warehouse

FLAT = "flat.rebalance"
FLAT_COLUMNS = (
    "cluster_id", "rebalance_id", "group_id", "generation_id", "group_epoch", "rewrite_seq", "protocol_type", "kind",
    "outcome", "trigger", "expected", "started_at_ms", "started_lower_ms", "joined_at_ms", "assigned_at_ms",
    "ended_at_ms", "broker_window_ms", "pause_estimate_ms", "resource_seconds_estimate", "resource_count",
    "moved_count", "returned_count", "revoked_count", "assigned_count", "restarted_count", "avoidable_moved_count",
    "is_complete_evidence",
)  # fmt: skip
"""Each costs 0.2 ms per file of 1,000 rows to read."""
FLAT_BOOKING = "flat.booking"
BOOKING_OF = "hash({0}.cluster_id, {0}.rebalance_id)"
"""A rebalance's `booking` in `flat.booking`, a hash, since a join by two texts takes twice as long. In about
one of 10^7 warehouses with 10^6 rebalances, two of these share a hash."""
FLAT_INCIDENT = "flat.incident"
INCIDENT_COLUMNS = (
    "cluster_id", "incident_id", "kind", "root_cause", "root_cause_tier", "culprits", "hosts", "group_ids",
    "first_at_ms", "last_at_ms", "status", "still", "expected", "severity", "cost_seconds", "cost_lower_seconds",
    "cost_upper_seconds", "cost_likely_lower_seconds", "cost_likely_upper_seconds", "title", "story", "advice",
    "finding_ids",
)  # fmt: skip
"""What a list of incidents shows, beside `unit` and the `bookings` of its rebalances."""
FLAT_GROUP = "flat.group"
GROUP_COLUMNS = (
    "cluster_id", "group_id", "team", "group_type", "protocol_type", "state", "mode", "assignor", "member_count",
    "resource_count", "rebalance_count", "resource_seconds_estimate", "open_finding_count", "last_rebalance_at_ms",
)  # fmt: skip
"""What lists of groups show. Their files hold some fifty rows: a question over 170,000 groups opened 3,300 of them."""
FLAT_TOPIC = "flat.topic"
"""Each `topic` that members of a group subscribed to, once for each file: few beside the members, who write it anew in
each rebalance."""
NEAR = "near.rebalance"
Near = tuple[str, tuple[Any, ...]]
"""A condition on `r`, a row of `flat.rebalance`, and its parameters."""
EVERYWHERE: Near = ("TRUE", ())
_GROUPS = "gold.group"
_TASKS = "gold.connect_task"
_GROUP_KEYS = ("cluster_id", "group_id")
_OF = "gold.rebalance"
_INCIDENTS = "gold.incident"
_MEMBERS = "gold.rebalance_member"
MOST_FLAT_ROWS = 5_000_000
"""Chosen: about 250 MB. A larger table is read from its files, as every other table is."""
MOST_FLAT_INCIDENTS = 500_000
"""Chosen in the same way; incidents are larger, since they hold their texts."""
MOST_MEMBERS = 100_000_000
"""Of whom the topics are kept. Chosen: 6,000,000 have 30,000 of them, in bench/app.py's fleet."""
_THREADS = max(1, (os.cpu_count() or 1) // 2)
_COMPRESSED_FROM = 100_000
"""It is worth compressing rows if at least this many arrive at once."""
_COMPRESSED_AFTER_S = 30.0
"""Chosen: compressing takes as long as reading, and by then the first page has been shown."""


def _rebalances(source: str, also: str) -> str:
    return f"SELECT {', '.join(FLAT_COLUMNS)}{also} FROM {source}"


def _bookings(source: str, also: str) -> str:
    booked = numbers.booked(incidents=source, also=also)
    return f"SELECT {BOOKING_OF.format('b')} AS booking, cause, first_at_ms, last_at_ms{also} FROM {booked} b"


def _incidents(source: str, also: str) -> str:
    booking = BOOKING_OF.format("{'cluster_id': i.cluster_id, 'rebalance_id': r}")
    return (
        f"SELECT {', '.join(INCIDENT_COLUMNS)}, coalesce(unit, 'resource') AS unit, "
        f"list_transform(rebalance_ids, r -> {booking}) AS bookings{also} FROM {source} i"
    )


def _groups(source: str, also: str) -> str:
    return f"SELECT {', '.join(GROUP_COLUMNS)}{also} FROM {source}"


def _topics(source: str, also: str) -> str:
    return f"SELECT DISTINCT cluster_id, group_id, unnest(subscribed_topics) AS topic{also} FROM {source}"


@dataclass(frozen=True, slots=True)
class _Flat:
    """A table of `flat`."""

    of: str
    select: Callable[[str, str], str]
    """SQL for its rows out of rows of `of`, with more columns of these."""
    kept: str
    """Where the rows lie in memory, each with the number of its file."""


_MADE = {
    FLAT: _Flat(_OF, _rebalances, "kept.rebalance"),
    FLAT_BOOKING: _Flat(_INCIDENTS, _bookings, "kept.booking"),
    FLAT_INCIDENT: _Flat(_INCIDENTS, _incidents, "kept.incident"),
    FLAT_GROUP: _Flat(_GROUPS, _groups, 'kept."group"'),
    FLAT_TOPIC: _Flat(_MEMBERS, _topics, "kept.topic"),
}


def _compress(db: duckdb.DuckDBPyConnection) -> None:
    with closing(db), contextlib.suppress(duckdb.Error):  # closed meanwhile, or another writes: then it stays as it is
        db.execute("CHECKPOINT kept")


@dataclass(slots=True, eq=False)
class _Publication:
    """The database `name` has a view of each table that a query named, over the files in `bound`."""

    name: str
    versions: dict[str, int]
    is_laid_over: bool
    bound: dict[str, tuple[str, ...]] = field(default_factory=dict)
    kept: set[str] = field(default_factory=set)
    """Which of `flat` lie in memory."""
    readers: int = 0


class Catalog:
    """Answers SQL queries over one warehouse, from any thread. A query takes half of the cores, so that a query of
    another reader finds one free."""

    def __init__(self, warehouse: Warehouse, sight: Sight | None = None) -> None:
        """`sight`: the groups and connectors that are seen; all without one."""
        self._warehouse, self._sight = warehouse, sight
        self._lock = threading.Lock()
        self._db: duckdb.DuckDBPyConnection | None = None
        self._names = itertools.count()
        self._publications: list[_Publication] = []
        """The newest last; older ones only while somebody reads them."""
        self._numbers: dict[str, dict[str, int]] = {flat: {} for flat in _MADE}
        """The number of each file whose rows are in memory."""
        self._next_number = 0
        self._groups_just_in: tuple[str, ...] | None = None
        """The groups whose rows are just in; None while no rows ever were."""
        self._judged: dict[tuple[str, ...], bool] = {}
        """Cluster and group, or cluster, group and connector, and whether they may be seen: patterns are asked once for
        each."""

    def lay_over(self, rows: JustInRows) -> None:
        """From here on these rows, and no other ones, lie over those of any publication."""
        with self._lock:
            if not rows and self._groups_just_in is None:
                return
            with closing(self._opened().cursor()) as own:
                just_in.put(own, rows)
            self._groups_just_in = tuple(sorted(group_id for _, group_id in rows.ids(_GROUPS)))

    def query(
        self,
        sql: str,
        params: Sequence[Any] = (),
        without: Collection[str] = (),
        near: Near = EVERYWHERE,
    ) -> pa.Table:
        """Like `Warehouse.query`, and the SQL may also name `flat.rebalance`, `flat.booking`, `flat.incident`,
        `flat.group`, `flat.topic` and `near.rebalance`. `near.rebalance` has every row of `gold.rebalance` for which
        `near` is true, and other rows of the same files.
        """
        versions = self._warehouse.published()
        files = self._warehouse.seen_files(self.asked_of(sql), without, versions)
        judged = {} if self._sight is None else self._warehouse.seen_files([_GROUPS, _TASKS], without, versions)
        with self._lock:
            publication = self._of(versions)
            if self._sight is not None:
                of_groups, of_connectors = self._sight.of, self._sight.of_connectors
                self._see(publication, "groups", _GROUPS, _GROUP_KEYS, tuple(judged[_GROUPS]), of_groups)
                keys = (*_GROUP_KEYS, "connector")
                self._see(publication, "connectors", _TASKS, keys, tuple(judged[_TASKS]), of_connectors)
            # Tables that other views need come first.
            for name, its_files in sorted(files.items(), key=lambda each: (each[0] in ASKING, each[0])):
                self._bind(publication, name, tuple(its_files))
            if FLAT in sql or NEAR in sql:
                self._bind_flat(publication, FLAT, tuple(files[_OF]))
            for flat in (FLAT_BOOKING, FLAT_INCIDENT, FLAT_GROUP, FLAT_TOPIC):
                if flat in sql:
                    self._bind_flat(publication, flat, tuple(files[_MADE[flat].of]))
            publication.readers += 1
        try:
            with closing(self._opened().cursor()) as db:
                db.execute(f"USE {publication.name}")
                if NEAR in sql:
                    sql = sql.replace(NEAR, self._near(db, publication, *near))
                return db.execute(sql, list(params)).to_arrow_table()
        finally:
            with self._lock:
                publication.readers -= 1
                self._let_go()

    def asked_of(self, sql: str) -> set[str]:
        """The tables that an answer rests on: those that the SQL names, and those that say which rows may be seen."""
        named = {*self._warehouse.mentioned(sql), *(made.of for flat, made in _MADE.items() if flat in sql)}
        if NEAR in sql:
            named.add(_OF)
        return named if self._sight is None else needed(named) | {_GROUPS, _TASKS}

    def _opened(self) -> duckdb.DuckDBPyConnection:
        if self._db is None:
            self._db = shared_database(threads=_THREADS)
            weakref.finalize(self, close, self._db)
            self._db.execute("SET parquet_metadata_cache = true")
            self._db.execute("ATTACH ':memory:' AS kept (COMPRESS)")
        return self._db

    def _of(self, versions: dict[str, int]) -> _Publication:
        is_laid_over = self._groups_just_in is not None
        last = self._publications[-1] if self._publications else None
        if last is None or last.versions != versions or last.is_laid_over != is_laid_over:
            made = _Publication(f"publication_{next(self._names)}", versions, is_laid_over)
            db = self._opened()
            db.execute(f"ATTACH ':memory:' AS {made.name}")
            for layer in ("bronze", "silver", "gold", "flat", "seen"):
                db.execute(f"CREATE SCHEMA {made.name}.{layer}")
            self._publications.append(made)
            self._let_go()
        return self._publications[-1]

    def _bind(self, publication: _Publication, name: str, files: tuple[str, ...]) -> None:
        if publication.bound.get(name) == files:
            return
        source = self._source(publication, name, files)
        selected = f"SELECT * FROM {source}"
        if self._sight is not None:
            selected = narrowed(name, self._warehouse.schema(name).names, source, publication.name)
        self._opened().execute(f"CREATE OR REPLACE VIEW {publication.name}.{name} AS {selected}")
        publication.bound[name] = files

    def _see(
        self,
        publication: _Publication,
        what: str,
        table: str,
        columns: tuple[str, ...],
        files: tuple[str, ...],
        of: Callable[[Iterable[Any]], list[Any]],
    ) -> None:
        """`seen.groups` or `seen.connectors` of this publication: of what `table` has, what `of` leaves."""
        known_by = (*files, *(self._groups_just_in or ()))
        if publication.bound.get(f"seen.{what}") == known_by:
            return
        source = self._source(publication, table, files)
        with closing(self._opened().cursor()) as own:
            there = own.execute(f"SELECT DISTINCT {', '.join(columns)} FROM {source}").fetchall()
            new = [each for each in there if each not in self._judged]
            theirs = set(of(new))
            self._judged |= {each: each in theirs for each in new}
            found = [each for each in there if self._judged[each]]
            schema = pa.schema([(name, pa.string()) for name in columns])
            arrays = {name: [each[place] for each in found] for place, name in enumerate(columns)}
            own.register("found", pa.table(arrays, schema=schema))
            own.execute(f"CREATE OR REPLACE TABLE {publication.name}.seen.{what} AS SELECT * FROM found")
        publication.bound[f"seen.{what}"] = known_by

    def _source(self, publication: _Publication, name: str, files: tuple[str, ...]) -> str:
        stored = relation(files) if files else self._empty(name)
        return just_in.laid_over(name, stored) if publication.is_laid_over else stored

    def _empty(self, name: str) -> str:
        db, kept = self._opened(), f'kept."{name}"'
        with closing(db.cursor()) as own:
            own.register("empty", self._warehouse.schema(name).empty_table())
            own.execute(f"CREATE OR REPLACE TABLE {kept} AS SELECT * FROM empty")
        return kept

    def _bind_flat(self, publication: _Publication, flat: str, files: tuple[str, ...]) -> None:
        if publication.bound.get(flat) == files:
            return
        made = _MADE[flat]
        if self._sight is None and self._keep(flat, files):
            publication.kept.add(flat)
            listed = ", ".join(str(self._numbers[flat][file]) for file in files) or "NULL"
            source = f"SELECT * EXCLUDE (file) FROM {made.kept} WHERE file IN ({listed})"
            if publication.is_laid_over:
                source = self._kept_over(flat, source)
        else:
            publication.kept.discard(flat)
            source = made.select(f"{publication.name}.{made.of}", "")
        self._opened().execute(f"CREATE OR REPLACE VIEW {publication.name}.{flat} AS {source}")
        publication.bound[flat] = files

    def _kept_over(self, flat: str, source: str) -> str:
        made = _MADE[flat]
        fresh = made.select(just_in.of(made.of), "")
        if flat == FLAT_BOOKING:  # a row of it has no key of its incident
            return f"SELECT t.* FROM ({source}) t ANTI JOIN ({fresh}) USING (booking) UNION ALL BY NAME {fresh}"
        if flat == FLAT_TOPIC:
            return f"{source} UNION BY NAME {fresh}"
        return just_in.kept_over(made.of, source, fresh)

    def _near(
        self, db: duckdb.DuckDBPyConnection, publication: _Publication, condition: str, params: Sequence[Any]
    ) -> str:
        """The files with rows that meet the condition; all files if the rows are not in memory."""
        with self._lock:
            known = self._numbers[FLAT]
            file_of = {known[f]: f for f in publication.bound[FLAT] if f in known}
        if FLAT not in publication.kept:
            return _OF
        found = db.execute(f"SELECT DISTINCT file FROM kept.rebalance r WHERE {condition}", list(params)).fetchall()
        files = sorted(file_of[number] for (number,) in found if number in file_of)
        stored = relation(files) if files else f"(SELECT * FROM {_OF} LIMIT 0)"
        return just_in.laid_over(_OF, stored) if publication.is_laid_over else stored

    def _keep(self, flat: str, files: tuple[str, ...]) -> bool:
        """Reads the rows of these files into memory if they are not there. Returns whether all of them are now."""
        db, made, known = self._opened(), _MADE[flat], self._numbers[flat]
        new = [file for file in files if file not in known]
        most = {FLAT_INCIDENT: MOST_FLAT_INCIDENTS, FLAT_TOPIC: MOST_MEMBERS}
        if self._count(files) > most.get(flat, MOST_FLAT_ROWS):
            return False
        if not known:
            empty = made.select(f"(SELECT *, 0::INTEGER AS file FROM {self._empty(made.of)})", ", file")
            db.execute(f"CREATE OR REPLACE TABLE {made.kept} AS {empty}")
        if not new:
            return True
        at = {file: self._next_number + i for i, file in enumerate(new)}
        self._next_number += len(new)
        with closing(db.cursor()) as own:
            own.register("numbers", pa.table({"filename": [*at], "file": pa.array(at.values(), pa.int32())}))
            before = self._rows_kept(flat)
            if not before:  # nobody can be served yet
                own.execute(f"SET threads = {os.cpu_count() or 1}")
            rows = f"(SELECT * FROM {relation(new, with_name=True)} JOIN numbers USING (filename))"
            own.execute(f"INSERT INTO {made.kept} {made.select(rows, ', file')}")
            own.execute(f"SET threads = {_THREADS}")
        arrived = self._rows_kept(flat) - before
        known |= at
        if arrived >= _COMPRESSED_FROM:
            later = threading.Timer(_COMPRESSED_AFTER_S, _compress, (db.cursor(),))
            later.daemon = True
            later.start()
        return True

    def _count(self, files: tuple[str, ...]) -> int:
        """By the files' footers."""
        row = self._opened().execute(f"SELECT count(*) FROM {relation(files)}").fetchone() if files else None
        return int(row[0]) if row else 0

    def _rows_kept(self, flat: str) -> int:
        row = self._opened().execute(f"SELECT count(*) FROM {_MADE[flat].kept}").fetchone()
        return int(row[0]) if row else 0

    def _let_go(self) -> None:
        """Drops publications that nobody reads any more, and the rows in memory that only those had."""
        for publication in [p for p in self._publications[:-1] if not p.readers]:
            self._publications.remove(publication)
            self._opened().execute(f"DETACH {publication.name}")
        for flat, known in self._numbers.items():
            if flat not in self._publications[-1].bound:
                continue  # it will want most of what is there
            wanted = {file for p in self._publications for file in p.bound.get(flat, ())}
            if gone := known.keys() - wanted:
                listed = ", ".join(str(known.pop(file)) for file in gone)
                self._opened().execute(f"DELETE FROM {_MADE[flat].kept} WHERE file IN ({listed})")
