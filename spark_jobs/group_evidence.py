"""Facts from the events of a whole cluster: the clocks of nodes, and the end of the evidence.

Small results of wide scans, so DuckDB makes them on the driver.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Hashable, Iterator, Sequence, Set
from dataclasses import asdict, dataclass, field
from functools import partial
from sys import intern
from typing import Any
from weakref import WeakKeyDictionary

import duckdb
import pyarrow as pa

from rebalance_audit.domain.gather.clocks import (
    PAIRED_KINDS,
    NodeClock,
    infer_utc_offset_ms,
    instants_of,
    paired,
    subject_of,
)
from rebalance_audit.domain.gather.groups import event_of_row
from rebalance_audit.domain.model import GroupRecord, LogEvent, node_of_log
from rebalance_audit.warehouse.queries import cursor
from rebalance_audit.warehouse.row_groups import footer
from rebalance_audit.warehouse.storage import relation
from rebalance_audit.warehouse.warehouse import Warehouse
from spark_jobs import kept_votes
from spark_jobs.group_rows import places_table, rows_of_groups
from spark_jobs.kept_folds import folded
from spark_jobs.kept_votes import Answers, Number, Stretch, Versions, Voter, Votes

PAIRS_PER_STRETCH = 20
STRETCH_MS = 6 * 3_600_000
"""For each node, each kind of line with a generation or epoch and each stretch of six hours, a limited number of lines
votes on the node's clock: enough to outvote outliers, few enough to decode again. Which lines vote depends on the
evidence alone, not on when it came."""

_ROWS_AT_ONCE = 2_000

Clocks = dict[str, dict[str, NodeClock]]
"""By cluster and node."""


@dataclass(frozen=True, slots=True)
class NodePairs:
    """The events that show the clock of one node."""

    cluster_id: str
    node: str
    zone: str | None
    """The configured zone."""
    pairs: tuple[tuple[int, int], ...]
    """(local time of a line, UTC time of the record it belongs to)."""
    first_ref: str | None
    """One of these lines."""
    clock: NodeClock
    """What they show, worked out once: stages of a run ask five times."""


def node_clocks(warehouse: Warehouse, event_version: int | None, source_version: int | None) -> Clocks:
    """The clock of every node with log events."""
    found: Clocks = defaultdict(dict)
    for known in node_pairs(warehouse, event_version, source_version):
        found[known.cluster_id][known.node] = known.clock
    return dict(found)


@dataclass(slots=True)
class _Voting:
    """The pairs at two table versions, with what they were made from, so that news can be added."""

    versions: Versions
    nodes: set[tuple[str, str]]
    """Nodes with log events."""
    zones: dict[str, dict[str, str]]
    voters: dict[Stretch, list[Voter]]
    answers: Answers
    """Of each number that a voter names."""
    noted: int | None = None
    """The version of silver.group_event that the note is of."""
    unnoted_rows: int = 0
    """Events that came since."""
    pairs: list[NodePairs] = field(init=False)

    def __post_init__(self) -> None:
        self.pairs = _pairs(self)

    @property
    def is_late(self) -> bool:
        """Whether the note is too far behind."""
        now = self.versions[0]
        return now is not None and (
            self.noted is None or now - self.noted > kept_votes.BEHIND or self.unnoted_rows > kept_votes.BEHIND_ROWS
        )

    def waits_for(self, stretch: Stretch, at_ms: int, ref: str) -> bool:
        """Whether this line votes, because there are not enough lines before it."""
        of_it = self.voters.get(stretch, [])
        return len(of_it) < PAIRS_PER_STRETCH or (at_ms, ref) < of_it[-1][:2]


_VOTING: WeakKeyDictionary[Warehouse, _Voting] = WeakKeyDictionary()
"""The pairs that were read last: four stages of a run need them at the same versions, and most news adds no vote."""


def node_pairs(warehouse: Warehouse, event_version: int | None, source_version: int | None) -> list[NodePairs]:
    """Pairs of the nodes whose logs name groups, and of those whose zone is configured."""
    asked = (
        warehouse.version("silver.group_event") if event_version is None else event_version,
        warehouse.version("bronze.source") if source_version is None else source_version,
    )
    known = _VOTING.get(warehouse)
    if known is None and (votes := kept_votes.kept(warehouse, asked)) is not None:
        known = _Voting(*votes, noted=votes.versions[0])
    if known is not None and known.versions != asked:
        known = _with_news(warehouse, known, asked)
    if known is None:
        known = _voting(warehouse, asked)
    _VOTING[warehouse] = known
    if warehouse.is_writing and known.is_late:
        kept_votes.keep(warehouse, Votes(known.versions, known.nodes, known.zones, known.voters, known.answers))
        known.noted, known.unnoted_rows = asked[0], 0
    return known.pairs


_NUMBER = (
    "coalesce(json_extract(detail, '$.fields.generation_id'), json_extract(detail, '$.fields.group_epoch'))::BIGINT"
)
_VALUE = "coalesce(json_extract(detail, '$.value.generation'), json_extract(detail, '$.value.epoch'))::BIGINT"
_VOTES = (
    f"source_kind = 'log' AND kind IN ({', '.join(repr(str(kind)) for kind in PAIRED_KINDS)}) "
    f"AND group_id IS NOT NULL AND {_NUMBER} IS NOT NULL"
)
_ANSWERS = (
    "source_kind = 'record' AND value IS NOT NULL "
    "AND kind IN ('GroupMetadata', 'ConsumerGroupMetadata', 'ShareGroupMetadata', 'StreamsGroupMetadata')"
)
_PLACE = f"cluster_id, node, kind, at_ms // {STRETCH_MS}"
_FIRST = f"row_number() OVER (PARTITION BY {_PLACE} ORDER BY at_ms, ref) <= {PAIRS_PER_STRETCH}"
_SAME_NUMBER = f"record.cluster_id = voter.cluster_id AND record.group_id = voter.group_id AND {_VALUE} = voter.number"


def _with_news(warehouse: Warehouse, known: _Voting, asked: Versions) -> _Voting | None:
    """The same with what came since; None where more than that must be read. A line behind the last of a stretch that
    has votes enough changes nothing, nor does a record that no voter names."""
    came = []
    for table, since, until in zip(("silver.group_event", "bronze.source"), known.versions, asked, strict=True):
        files = None if since is None or until is None else warehouse.appended(table, since, until)
        if files is None:
            return None
        if known.versions[0] == known.noted and not all(map(warehouse.has_file, files)):
            return None  # the note is of long ago
        came.append(files)
    events, sources = came
    with cursor() as db:
        with_zone = f"SELECT 1 FROM {relation(sources)} WHERE log_time_zone IS NOT NULL LIMIT 1" if sources else ""
        if with_zone and db.execute(with_zone).fetchone():
            return None
        if not events:
            known.versions = asked
            return known
        row_count = known.unnoted_rows + sum(footer(file).num_rows for file in events)
        new = relation(events)
        nodes = db.execute(f"SELECT DISTINCT cluster_id, node FROM {new} WHERE source_kind = 'log'").fetchall()
        if not known.nodes.issuperset(nodes):
            return None
        votes = db.execute(
            f"SELECT {_PLACE}, at_ms, ref, group_id, {_NUMBER} FROM {new} WHERE {_VOTES} QUALIFY {_FIRST}"
        ).fetchall()
        votes = [vote for vote in votes if known.waits_for(vote[:4], *vote[4:6])]
        named = {(vote[0], *vote[6:]) for vote in votes} - set(known.answers)
        answers = db.execute(f"SELECT cluster_id, group_id, {_VALUE}, ref FROM {new} WHERE {_ANSWERS}").fetchall()
        answers = [answer for answer in answers if answer[:3] in known.answers and answer[:3] not in named]
        if not votes and not answers:
            known.versions, known.unnoted_rows = asked, row_count
            return known
        db.register("chosen", _refs_table([(vote[0], vote[5]) for vote in votes] + [(a[0], a[3]) for a in answers]))
        rows = {
            (row["cluster_id"], row["ref"]): row
            for row in _rows(db, f"SELECT * FROM {new} SEMI JOIN chosen USING (cluster_id, ref)")
        }
    voters = {place: list(of_place) for place, of_place in known.voters.items()}
    for *place, at_ms, ref, group_id, number in votes:
        line = event_of_row(rows[place[0], ref])
        if isinstance(line, LogEvent):
            voters.setdefault(tuple(place), []).append(_voter(at_ms, (place[0], group_id, number), line))
    for place in {tuple(vote[:4]) for vote in votes}:
        voters[place] = sorted(voters.get(place, []), key=lambda v: v[:2])[:PAIRS_PER_STRETCH]
    found = {number: list(records) for number, records in known.answers.items()}
    for *number, ref in answers:
        record = event_of_row(rows[number[0], ref])
        if isinstance(record, GroupRecord):
            found[tuple(number)] += instants_of(record)
    found |= _answers_to(warehouse, named, asked[0])
    still_named = {voter.number for of_place in voters.values() for voter in of_place}
    return _Voting(asked, known.nodes, known.zones, voters, {n: found[n] for n in still_named}, known.noted, row_count)


def _refs_table(refs: Sequence[tuple[str, str]]) -> pa.Table:
    names = ("cluster_id", "ref")
    return pa.table({name: pa.array([ref[at] for ref in refs], pa.string()) for at, name in enumerate(names)})


def _answers_to(warehouse: Warehouse, numbers: Set[Number], event_version: int | None) -> Answers:
    """What the records of these numbers say, among all there are."""
    found: Answers = {number: [] for number in numbers}
    if not numbers:
        return found
    groups = places_table({number[:2] for number in numbers})
    asked = ["source_kind", "value", "kind"]
    rows = rows_of_groups(warehouse, "silver.group_event", None, groups, _ANSWERS, event_version, asked=asked)
    with cursor() as db:
        db.register("record", rows)
        for row in _rows(db, f"SELECT *, {_VALUE} number FROM record"):
            number = row["cluster_id"], row["group_id"], row.pop("number")
            if number in found and isinstance(record := event_of_row(row), GroupRecord):
                found[number] += instants_of(record)
    return found


def _voter(at_ms: int, number: Number, line: LogEvent) -> Voter:
    return Voter(at_ms, line.ref, number, intern(line.node), line.local_at_ms, subject_of(line))


def _voting(warehouse: Warehouse, versions: Versions) -> _Voting:
    events = stored(warehouse, "silver.group_event", versions[0])
    zones = _zones(warehouse, versions[1])
    if events is None:
        return _Voting(versions, set(), zones, {}, {})
    with cursor() as db:
        nodes = db.execute(f"SELECT DISTINCT cluster_id, node FROM {events} WHERE source_kind = 'log'").fetchall()
        # Wide columns are read of the few rows that are chosen, not of all among which they are chosen.
        db.execute(
            f"""
            CREATE TEMP TABLE voter AS SELECT cluster_id, node, kind, at_ms, group_id, ref, {_NUMBER} number
            FROM {events} WHERE {_VOTES} QUALIFY {_FIRST}
            """
        )
        voters: dict[Stretch, list[Voter]] = defaultdict(list)
        answers: Answers = {}
        joined = "JOIN voter USING (cluster_id, ref, node, kind, at_ms, group_id)"
        stretch = f"at_ms // {STRETCH_MS} AS stretch"
        for row in _rows(db, f"SELECT *, {stretch} FROM {events} {joined}"):
            cluster_id = intern(row["cluster_id"])
            number = cluster_id, row["group_id"], row["number"]
            if isinstance(line := event_of_row(row), LogEvent):
                place = cluster_id, intern(row["node"]), intern(row["kind"]), row["stretch"]
                voters[place].append(_voter(row["at_ms"], number, line))
                answers.setdefault(number, [])
        for of_place in voters.values():
            of_place.sort(key=lambda voter: voter[:2])
        records = _rows(
            db,
            f"SELECT *, {_VALUE} number "
            f"FROM (FROM {events} SEMI JOIN voter USING (cluster_id, group_id) WHERE {_ANSWERS}) record "
            f"SEMI JOIN voter ON {_SAME_NUMBER}",
        )
        for row in records:
            of_number = row["cluster_id"], row["group_id"], row.pop("number")
            if of_number in answers and isinstance(record := event_of_row(row), GroupRecord):
                answers[of_number] += instants_of(record)
    return _Voting(versions, set(nodes), zones, dict(voters), answers)


def _pairs(voting: _Voting) -> list[NodePairs]:
    by_cluster: dict[str, set[str]] = defaultdict(set)
    for cluster_id, node in [*voting.nodes, *((c, node) for c, named in voting.zones.items() for node in named)]:
        by_cluster[cluster_id].add(node)
    voters: dict[str, dict[str, Voter]] = defaultdict(dict)
    answers: dict[str, list[tuple[Hashable, int]]] = defaultdict(list)
    for (cluster_id, *_), of_place in voting.voters.items():
        voters[cluster_id] |= {voter.ref: voter for voter in of_place}
    for (cluster_id, *_), of_number in voting.answers.items():
        answers[cluster_id] += of_number
    found = []
    for cluster_id, names in sorted(by_cluster.items()):
        parsed = sorted(voters[cluster_id].values(), key=lambda voter: (voter.local_at_ms, voter.ref))
        pairs = paired(((voter.node, voter.local_at_ms, voter.subject) for voter in parsed), answers[cluster_id])
        refs = {voter.node: voter.ref for voter in reversed(parsed)}
        for node in sorted(names):
            zone = voting.zones.get(cluster_id, {}).get(node)
            of_node = tuple(pairs.get(node, ()))
            clock = infer_utc_offset_ms(of_node, zone)
            found.append(NodePairs(cluster_id, node, zone, of_node, refs.get(node), clock))
    return found


def _zones(warehouse: Warehouse, version: int | None) -> dict[str, dict[str, str]]:
    """Configured zones by cluster and node; of several, the one of the latest reading."""
    rows = warehouse.read(
        "bronze.source", ["cluster_id", "source", "read_id", "log_time_zone"],
        "kind = 'log' AND log_time_zone IS NOT NULL", version=version,
    )  # fmt: skip
    found: dict[str, dict[str, str]] = defaultdict(dict)
    for row in sorted(rows.to_pylist(), key=lambda r: (r["read_id"], r["source"])):
        found[row["cluster_id"]][node_of_log(row["source"])] = row["log_time_zone"]
    return found


def settings_of(clocks: Clocks) -> dict[str, Any]:
    """The settings of the clocks that decide instants, comparable with what was remembered."""
    return {
        cluster_id: {
            node: json.loads(json.dumps([asdict(clock)["source"], clock.zone, clock.offsets]))
            for node, clock in sorted(by_node.items())
        }
        for cluster_id, by_node in sorted(clocks.items())
    }


def seen_until_ms(warehouse: Warehouse) -> dict[str, int]:
    """The end of each cluster's evidence: the last record time anything was read at."""
    versions = tuple(warehouse.version(table) for table, _, _ in _ENDS)
    known = _SEEN.get(warehouse)
    if known is None or known[0] != versions:
        known = _SEEN[warehouse] = versions, _seen_until_ms(warehouse)
    return dict(known[1])


_ENDS = (
    ("bronze.source", "to_at_ms", "true"),
    ("silver.group_event", "at_ms", "source_kind <> 'log'"),
    ("silver.commit_mark", "last_at_ms", "true"),
)
_SEEN: WeakKeyDictionary[Warehouse, tuple[tuple[int | None, ...], dict[str, int]]] = WeakKeyDictionary()
"""The ends that were read last: stages need them half a dozen times in a run."""


def _seen_until_ms(warehouse: Warehouse) -> dict[str, int]:
    found: dict[str, int] = {}
    for table, column, where in _ENDS:
        latest = folded(warehouse, f"end-{table}", table, None, partial(_latest, column, where), form=1)
        for cluster_id, at_ms in (latest or {}).items():
            found[cluster_id] = max(found.get(cluster_id, at_ms), at_ms)
    return found


def _latest(column: str, where: str, known: dict[str, int] | None, files: Sequence[str]) -> dict[str, int]:
    found = dict(known or {})
    sql = f"SELECT cluster_id, max({column}) FROM {relation(files)} WHERE {where} GROUP BY 1"
    with cursor() as db:
        for cluster_id, at_ms in db.execute(sql).fetchall():
            if at_ms is not None:
                found[cluster_id] = max(found.get(cluster_id, at_ms), at_ms)
    return found


def stored(warehouse: Warehouse, table: str, version: int | None) -> str | None:
    """The table at this version as DuckDB reads it; None if there is nothing."""
    files = warehouse.files(table, version)
    return relation(files) if files else None


def _rows(db: duckdb.DuckDBPyConnection, sql: str) -> Iterator[dict[str, Any]]:
    """Some at a time. Ask nothing else of `db` meanwhile."""
    for batch in db.execute(sql).to_arrow_reader(_ROWS_AT_ONCE):
        yield from batch.to_pylist()
