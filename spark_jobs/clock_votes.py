"""The lines that vote on the clocks of a cluster's nodes, and the records that answer them, among all events.

Small results of wide scans. In a first run over much evidence tasks make them, some clusters at a time; else DuckDB
makes them on the driver. `clock_news` adds what came since, and `kept_votes` keeps them between two runs.
"""

from __future__ import annotations

import pickle
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from sys import intern
from typing import Any, NamedTuple

import duckdb
import pyarrow as pa

from rebalance_audit.domain.gather.clocks import (
    EPOCH_RECORDS,
    PAIRED_KINDS,
    instants_of_epoch,
    instants_of_generation,
    subject_of,
)
from rebalance_audit.domain.gather.groups import event_of_row
from rebalance_audit.domain.model import LogEvent, node_of_log
from rebalance_audit.warehouse.queries import cursor
from rebalance_audit.warehouse.row_groups import row_groups_of
from rebalance_audit.warehouse.spreading import Spread, SpreadOf, in_this_process, spread_over
from rebalance_audit.warehouse.storage import relation
from rebalance_audit.warehouse.warehouse import Warehouse
from spark_jobs.day_votes import (
    PAIRS_PER_STRETCH,
    STRETCH_MS,
    DayVotes,
    Number,
    Said,
    Voter,
    VotesByDay,
    day_of,
    days_of,
    packed,
)
from spark_jobs.group_rows import literal
from spark_jobs.node_tallies import NodeTally, Versions, Voting, Zone, tallies_of
from spark_jobs.stages.stage import size_of

_ROWS_AT_ONCE = 2_000

NUMBER = (
    "coalesce(json_extract(detail, '$.fields.generation_id'), json_extract(detail, '$.fields.group_epoch'))::BIGINT"
)
VALUE = "coalesce(json_extract(detail, '$.value.generation'), json_extract(detail, '$.value.epoch'))::BIGINT"
VOTES = (
    f"source_kind = 'log' AND kind IN ({', '.join(repr(str(kind)) for kind in PAIRED_KINDS)}) "
    f"AND group_id IS NOT NULL AND {NUMBER} IS NOT NULL"
)
ANSWERS = (
    "source_kind = 'record' AND value IS NOT NULL "
    f"AND kind IN ({', '.join(map(repr, ('GroupMetadata', *EPOCH_RECORDS)))})"
)
_RECORD = "cluster_id, group_id, kind, at_ms"
# All at once: the text is read through for each question.
_SAID = (
    "json_extract(detail, ['$.value.generation', '$.value.epoch', '$.value.current_state_timestamp', "
    "'$.value.members[0].member_id'])"
)
_OF_SAID = "coalesce(said[1], said[2])::BIGINT number, said[3]::BIGINT stable_at_ms, said[4] IS NOT NULL has_members"
PLACE = f"cluster_id, node, kind, at_ms // {STRETCH_MS}"
FIRST = f"row_number() OVER (PARTITION BY {PLACE} ORDER BY at_ms, ref) <= {PAIRS_PER_STRETCH}"
# Each once: what a join looks up does not leave memory, whatever DuckDB's limit.
_GROUPS_ASKED = "(SELECT DISTINCT cluster_id, group_id FROM voter)"
_NUMBERS_ASKED = "(SELECT DISTINCT cluster_id, group_id, number FROM voter)"


def all_votes(warehouse: Warehouse, versions: Versions, spread_of: SpreadOf) -> Voting:
    """The votes on every node's clock at these versions of silver.group_event and bronze.source."""
    files = warehouse.files("silver.group_event", versions[0])
    zones: dict[str, dict[str, Zone]] = {}
    for cluster_id, node, zone in zones_in(warehouse.files("bronze.source", versions[1])):
        of_cluster = zones.setdefault(cluster_id, {})
        of_cluster[node] = max(zone, of_cluster.get(node, zone))
    found = Voting(versions, nodes_in(files), zones, VotesByDay())
    # A reader of a remote warehouse does not ask for the sizes of its files.
    is_alone = spread_of is in_this_process or not found.nodes
    if (spread := None if is_alone else spread_of(sum(map(size_of, files)))) is not None:
        _vote_in_tasks(spread, files, found)
    elif files:
        for cluster_id, days in _votes_in(files):
            for day, votes in days.items():
                found.votes.put(cluster_id, day, votes)
            nodes, of_cluster = found.tallies[cluster_id], zones.get(cluster_id, {})
            found.put_tallies(cluster_id, tallies_of(days, nodes, of_cluster))
    return found


_PIECES = 8
_VOTED = pa.schema([("cluster_id", pa.string()), ("day", pa.int64()), ("content", pa.binary())])
"""The packed votes of a day; without a day, what all votes of the cluster add up to."""


class _Electorate(NamedTuple):
    """The clusters of one piece of the work."""

    files: Sequence[str]
    """Those with events of these clusters."""
    nodes: Mapping[str, Collection[str]]
    """By cluster, those whose clocks are wanted."""
    zones: Mapping[str, Mapping[str, Zone]]


def _vote_in_tasks(spread: Spread, files: Sequence[str], found: Voting) -> None:
    """Adds the votes of all clusters and what they add up to."""
    clusters = sorted({cluster_id for cluster_id, _ in found.nodes})
    size = max(1, -(-len(clusters) // _PIECES))
    pieces = []
    for at in range(0, len(clusters), size):
        some = clusters[at : at + size]
        held = dict.fromkeys(group.file for group in row_groups_of(files, "cluster_id", some))
        nodes = {cluster_id: sorted(found.tallies[cluster_id]) for cluster_id in some}
        pieces.append(_Electorate(list(held), nodes, {c: found.zones[c] for c in some if c in found.zones}))
    for row in spread_over(spread, pieces, _vote, _VOTED).to_pylist():
        if row["day"] is None:
            tallies: dict[str, NodeTally] = pickle.loads(row["content"])
            found.put_tallies(row["cluster_id"], tallies)
        else:
            found.votes.put_packed(row["cluster_id"], row["day"], row["content"])


def _vote(piece: _Electorate) -> Iterator[pa.RecordBatch]:
    for cluster_id, days in _votes_in(piece.files, list(piece.nodes)):
        tallies = tallies_of(days, piece.nodes[cluster_id], piece.zones.get(cluster_id, {}))
        content = [*map(packed, days.values()), pickle.dumps(tallies)]
        voted = {"cluster_id": [cluster_id] * len(content), "day": [*days, None], "content": content}
        yield pa.RecordBatch.from_pydict(voted, _VOTED)


def _votes_in(files: Sequence[str], clusters: Sequence[str] | None = None) -> Iterator[tuple[str, dict[int, DayVotes]]]:
    """The votes of each day in each of these clusters (None: all) of which these files have any."""
    events = relation(files)
    if clusters is not None:
        events = f"(FROM {events} WHERE cluster_id IN ({', '.join(map(literal, clusters))}))"
    with cursor() as lines_db, cursor() as records_db:
        # Wide columns are read of the few rows that are chosen, not of all among which they are chosen.
        voter = lines_db.execute(
            f"SELECT cluster_id, node, kind, at_ms, group_id, ref, {NUMBER} number "
            f"FROM {events} WHERE {VOTES} QUALIFY {FIRST}"
        ).to_arrow_table()
        for db in (lines_db, records_db):
            db.register("voter", voter)
        lines = rows_of(
            lines_db,
            f"SELECT cluster_id, ref, node, kind, at_ms, group_id, source_kind, detail, number, "
            f"at_ms // {STRETCH_MS} stretch "
            f"FROM {events} JOIN voter USING (cluster_id, ref, node, kind, at_ms, group_id) ORDER BY cluster_id",
        )
        asked = f"(FROM {events} SEMI JOIN {_GROUPS_ASKED} USING (cluster_id, group_id) WHERE {ANSWERS})"
        records = rows_of(
            records_db,
            f"{answers_among(asked)} SEMI JOIN {_NUMBERS_ASKED} USING (cluster_id, group_id, number) "
            f"ORDER BY cluster_id",
        )
        # Cluster by cluster: all votes of a large fleet as objects would take more than all else here.
        answering = groupby(records, key=itemgetter("cluster_id"))
        answers = next(answering, None)
        for cluster_id, of_cluster in groupby(lines, key=itemgetter("cluster_id")):
            days = _votes_of(of_cluster)
            if answers is not None and answers[0] == cluster_id:
                for row in answers[1]:
                    _add_answer(days, (row["group_id"], row["number"]), said_by(row))
                answers = next(answering, None)
            yield cluster_id, days


def _votes_of(rows: Iterable[dict[str, Any]]) -> dict[int, DayVotes]:
    """The votes of these lines, all of one cluster; without answers."""
    days: dict[int, DayVotes] = {}
    for row in rows:
        if (voter := voter_of(row)) is None:
            continue
        stretch = intern(row["node"]), intern(row["kind"]), row["stretch"]
        votes = days.setdefault(day_of(stretch), DayVotes({}, {}))
        votes.voters.setdefault(stretch, []).append(voter)
        votes.answers.setdefault(voter.number, [])
    for votes in days.values():
        for of_stretch in votes.voters.values():
            of_stretch.sort(key=itemgetter(0, 1))
    return days


def voter_of(row: dict[str, Any]) -> Voter | None:
    """Of a row with its `number`."""
    line = event_of_row(row)
    if not isinstance(line, LogEvent):
        return None
    return Voter(line.local_at_ms, line.ref, (row["group_id"], row["number"]), subject_of(line))


def _add_answer(days: Mapping[int, DayVotes], number: Number, said: Said) -> None:
    for subject, at_ms in said:
        for day in days_of(at_ms):
            if day in days and (of_number := days[day].answers.get(number)) is not None:
                of_number.append((subject, at_ms))


def answers_among(events: str) -> str:
    """SQL of what `said_by` and `number` need of these events, which are records that answer."""
    return f"SELECT * EXCLUDE said FROM (SELECT *, {_OF_SAID} FROM (SELECT {_RECORD}, {_SAID} said FROM {events}))"


def said_by(row: Mapping[str, Any]) -> Said:
    """What a record says, by what `decode` has written beside it: to decode it again takes longer than all else."""
    if row["kind"] in EPOCH_RECORDS:
        return instants_of_epoch(row["group_id"], row["number"], row["at_ms"])
    return instants_of_generation(row["group_id"], row["number"], row["at_ms"], row["stable_at_ms"], row["has_members"])


def nodes_in(files: Sequence[str]) -> set[tuple[str, str]]:
    """Cluster and node of all log events in these files."""
    if not files:
        return set()
    with cursor() as db:
        sql = f"SELECT DISTINCT cluster_id, node FROM {relation(files)} WHERE source_kind = 'log'"
        return set(db.execute(sql).fetchall())


def zones_in(files: Sequence[str]) -> list[tuple[str, str, Zone]]:
    """Cluster, node and configured zone. Of several that of the latest reading counts, which is the greatest."""
    if not files:
        return []
    with cursor() as db:
        rows = db.execute(
            f"SELECT DISTINCT cluster_id, source, read_id, log_time_zone FROM {relation(files)} "
            "WHERE kind = 'log' AND log_time_zone IS NOT NULL"
        ).fetchall()
    return [(cluster_id, node_of_log(source), (read_id, source, zone)) for cluster_id, source, read_id, zone in rows]


def stored(warehouse: Warehouse, table: str, version: int | None) -> str | None:
    """The table at this version as DuckDB reads it; None if there is nothing."""
    files = warehouse.files(table, version)
    return relation(files) if files else None


def rows_of(db: duckdb.DuckDBPyConnection, sql: str) -> Iterator[dict[str, Any]]:
    """Some at a time. Ask nothing else of `db` meanwhile."""
    for batch in db.execute(sql).to_arrow_reader(_ROWS_AT_ONCE):
        yield from batch.to_pylist()
