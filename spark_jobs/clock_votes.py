"""The lines that vote on the clocks of a cluster's nodes, and the records that answer them.

Small results of wide scans. In a first run over much evidence tasks make them, some clusters at a time; else DuckDB
makes them on the driver. `kept_votes` keeps them between two runs.
"""

from __future__ import annotations

import pickle
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from itertools import groupby
from operator import itemgetter
from sys import intern
from typing import Any, NamedTuple

import duckdb
import pyarrow as pa

from rebalance_audit.domain.gather.clocks import (
    EPOCH_RECORDS,
    PAIRED_KINDS,
    instants_of,
    instants_of_epoch,
    instants_of_generation,
    subject_of,
)
from rebalance_audit.domain.gather.groups import event_of_row
from rebalance_audit.domain.model import GroupRecord, LogEvent, node_of_log
from rebalance_audit.warehouse.footers import row_count_in
from rebalance_audit.warehouse.queries import cursor
from rebalance_audit.warehouse.row_groups import row_groups_of
from rebalance_audit.warehouse.spreading import Spread, SpreadOf, in_this_process, spread_over
from rebalance_audit.warehouse.storage import relation
from rebalance_audit.warehouse.warehouse import Warehouse
from spark_jobs import kept_votes
from spark_jobs.group_rows import literal, places_table, rows_of_groups
from spark_jobs.kept_votes import Answers, ClusterVotes, Number, Stretch, Versions, Voter, VotesByCluster
from spark_jobs.node_pairs import PAIRS_PER_STRETCH, STRETCH_MS, Voting, pairs_of_nodes
from spark_jobs.stages.stage import size_of

_ROWS_AT_ONCE = 2_000


_NUMBER = (
    "coalesce(json_extract(detail, '$.fields.generation_id'), json_extract(detail, '$.fields.group_epoch'))::BIGINT"
)
_VALUE = "coalesce(json_extract(detail, '$.value.generation'), json_extract(detail, '$.value.epoch'))::BIGINT"
_VOTES = (
    f"source_kind = 'log' AND kind IN ({', '.join(repr(str(kind)) for kind in PAIRED_KINDS)}) "
    f"AND group_id IS NOT NULL AND {_NUMBER} IS NOT NULL"
)
_RECORD = "cluster_id, group_id, kind, at_ms"
# All at once: the text is read through for each question.
_SAID = (
    "json_extract(detail, ['$.value.generation', '$.value.epoch', '$.value.current_state_timestamp', "
    "'$.value.members[0].member_id'])"
)
_OF_SAID = "coalesce(said[1], said[2])::BIGINT number, said[3]::BIGINT stable_at_ms, said[4] IS NOT NULL has_members"
_ANSWERS = (
    "source_kind = 'record' AND value IS NOT NULL "
    f"AND kind IN ({', '.join(map(repr, ('GroupMetadata', *EPOCH_RECORDS)))})"
)
_PLACE = f"cluster_id, node, kind, at_ms // {STRETCH_MS}"
_FIRST = f"row_number() OVER (PARTITION BY {_PLACE} ORDER BY at_ms, ref) <= {PAIRS_PER_STRETCH}"
# Each once: what a join looks up does not leave memory, whatever DuckDB's limit.
_GROUPS_ASKED = "(SELECT DISTINCT cluster_id, group_id FROM voter)"
_NUMBERS_ASKED = "(SELECT DISTINCT cluster_id, group_id, number FROM voter)"


def all_votes(warehouse: Warehouse, versions: Versions, spread_of: SpreadOf) -> Voting:
    """The votes on every node's clock at these versions of silver.group_event and bronze.source."""
    files = warehouse.files("silver.group_event", versions[0])
    found = Voting(versions, _nodes(files), _zones(warehouse, versions[1]), VotesByCluster())
    # A reader of a remote warehouse does not ask for the sizes of its files.
    is_alone = spread_of is in_this_process or not found.nodes
    if (spread := None if is_alone else spread_of(sum(map(size_of, files)))) is not None:
        _vote_in_tasks(spread, files, found)
    elif files:
        for cluster_id, votes in _votes_in(files):
            found.votes.put(cluster_id, votes)
            found.work_out([cluster_id])
    found.work_out(found.names.keys() - found.by_cluster.keys())
    return found


_PIECES = 8
_VOTED = pa.schema([("cluster_id", pa.string()), ("votes", pa.binary()), ("pairs", pa.binary())])


class _Electorate(NamedTuple):
    """The clusters of one piece of the work."""

    files: Sequence[str]
    """Those with events of these clusters."""
    nodes: Mapping[str, Collection[str]]
    """By cluster, those whose pairs are wanted."""
    zones: Mapping[str, Mapping[str, str]]


def _vote_in_tasks(spread: Spread, files: Sequence[str], found: Voting) -> None:
    """Adds the votes of all clusters and the pairs that they make."""
    clusters = sorted({cluster_id for cluster_id, _ in found.nodes})
    size = max(1, -(-len(clusters) // _PIECES))
    pieces = []
    for at in range(0, len(clusters), size):
        some = clusters[at : at + size]
        held = dict.fromkeys(group.file for group in row_groups_of(files, "cluster_id", some))
        nodes = {cluster_id: sorted(found.names[cluster_id]) for cluster_id in some}
        pieces.append(_Electorate(list(held), nodes, {c: found.zones[c] for c in some if c in found.zones}))
    for row in spread_over(spread, pieces, _vote, _VOTED).to_pylist():
        found.votes.put_packed(row["cluster_id"], row["votes"])
        found.by_cluster[row["cluster_id"]] = pickle.loads(row["pairs"])


def _vote(piece: _Electorate) -> Iterator[pa.RecordBatch]:
    for cluster_id, votes in _votes_in(piece.files, list(piece.nodes)):
        pairs = pairs_of_nodes(cluster_id, piece.nodes[cluster_id], piece.zones.get(cluster_id, {}), votes)
        yield pa.RecordBatch.from_pydict(
            {"cluster_id": [cluster_id], "votes": [kept_votes.packed(votes)], "pairs": [pickle.dumps(pairs)]}, _VOTED
        )


def _votes_in(files: Sequence[str], clusters: Sequence[str] | None = None) -> Iterator[tuple[str, ClusterVotes]]:
    """The votes in each of these clusters (None: all) of which these files have any."""
    events = relation(files)
    if clusters is not None:
        events = f"(FROM {events} WHERE cluster_id IN ({', '.join(map(literal, clusters))}))"
    with cursor() as lines_db, cursor() as records_db:
        # Wide columns are read of the few rows that are chosen, not of all among which they are chosen.
        voter = lines_db.execute(
            f"SELECT cluster_id, node, kind, at_ms, group_id, ref, {_NUMBER} number "
            f"FROM {events} WHERE {_VOTES} QUALIFY {_FIRST}"
        ).to_arrow_table()
        for db in (lines_db, records_db):
            db.register("voter", voter)
        lines = _rows(
            lines_db,
            f"SELECT cluster_id, ref, node, kind, at_ms, group_id, source_kind, detail, number, "
            f"at_ms // {STRETCH_MS} stretch "
            f"FROM {events} JOIN voter USING (cluster_id, ref, node, kind, at_ms, group_id) ORDER BY cluster_id",
        )
        asked = f"(FROM {events} SEMI JOIN {_GROUPS_ASKED} USING (cluster_id, group_id) WHERE {_ANSWERS})"
        records = _rows(
            records_db,
            f"SELECT * EXCLUDE said FROM (SELECT *, {_OF_SAID} FROM (SELECT {_RECORD}, {_SAID} said FROM {asked})) "
            f"SEMI JOIN {_NUMBERS_ASKED} USING (cluster_id, group_id, number) ORDER BY cluster_id",
        )
        # Cluster by cluster: all votes of a large fleet as objects would take more than all else here.
        answering = groupby(records, key=itemgetter("cluster_id"))
        answers = next(answering, None)
        for cluster_id, of_cluster in groupby(lines, key=itemgetter("cluster_id")):
            votes = _votes_of(intern(cluster_id), of_cluster)
            if answers is not None and answers[0] == cluster_id:
                _add_answers(votes.answers, answers[1])
                answers = next(answering, None)
            yield cluster_id, votes


def with_news(warehouse: Warehouse, known: Voting, asked: Versions) -> Voting | None:
    """`known` with what came since; None where more than that must be read. A line behind the last of a stretch that
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
        row_count = known.unnoted_rows + sum(row_count_in(file) for file in events)
        new = relation(events)
        nodes = db.execute(f"SELECT DISTINCT cluster_id, node FROM {new} WHERE source_kind = 'log'").fetchall()
        if not known.nodes.issuperset(nodes):
            return None
        votes = db.execute(
            f"SELECT {_PLACE}, at_ms, ref, group_id, {_NUMBER} FROM {new} WHERE {_VOTES} QUALIFY {_FIRST}"
        ).fetchall()
        votes = [vote for vote in sorted(votes, key=itemgetter(0)) if known.waits_for(vote[:4], *vote[4:6])]
        named = {(vote[0], *vote[6:]) for vote in votes}
        named = {number for number in sorted(named) if number not in known.votes.of(number[0]).answers}
        answers = db.execute(f"SELECT cluster_id, group_id, {_VALUE}, ref FROM {new} WHERE {_ANSWERS}").fetchall()
        answers = [
            answer
            for answer in sorted(answers, key=itemgetter(0))
            if answer[:3] in known.votes.of(answer[0]).answers and answer[:3] not in named
        ]
        if not votes and not answers:
            known.versions, known.unnoted_rows = asked, row_count
            return known
        db.register("chosen", _refs_table([(vote[0], vote[5]) for vote in votes] + [(a[0], a[3]) for a in answers]))
        rows = {
            (row["cluster_id"], row["ref"]): row
            for row in _rows(db, f"SELECT * FROM {new} SEMI JOIN chosen USING (cluster_id, ref)")
        }
    answers_to_new = _answers_to(warehouse, named, asked[0])
    new_votes, new_answers = _by_cluster(votes), _by_cluster(answers)
    clusters = new_votes.keys() | new_answers.keys()
    for cluster_id in clusters:
        before = known.votes.of(cluster_id)
        voters = {stretch: list(of_stretch) for stretch, of_stretch in before.voters.items()}
        for _, node, kind, at, at_ms, ref, group_id, number in new_votes[cluster_id]:
            of_stretch = voters.setdefault((cluster_id, node, kind, at), [])
            if isinstance(line := event_of_row(rows[cluster_id, ref]), LogEvent):
                of_stretch.append(_voter(at_ms, (cluster_id, group_id, number), line))
        for of_stretch in voters.values():
            of_stretch.sort(key=lambda voter: voter[:2])
            del of_stretch[PAIRS_PER_STRETCH:]
        found = {number: list(records) for number, records in before.answers.items()}
        for _, group_id, number, ref in new_answers[cluster_id]:
            if isinstance(record := event_of_row(rows[cluster_id, ref]), GroupRecord):
                found[cluster_id, group_id, number] += instants_of(record)
        numbers = {(cluster_id, group_id, number) for *_, group_id, number in new_votes[cluster_id]}
        found |= {number: answers_to_new[number] for number in numbers & named}
        still_named = {voter.number for of_place in voters.values() for voter in of_place}
        known.votes.put(cluster_id, ClusterVotes(voters, {number: found[number] for number in still_named}))
    known.work_out(clusters)
    known.versions, known.unnoted_rows = asked, row_count
    return known


def _by_cluster(rows: Iterable[tuple[Any, ...]]) -> dict[str, list[tuple[Any, ...]]]:
    found: dict[str, list[tuple[Any, ...]]] = defaultdict(list)
    for row in rows:
        found[row[0]].append(row)
    return found


def _refs_table(refs: Sequence[tuple[str, str]]) -> pa.Table:
    names = ("cluster_id", "ref")
    return pa.table({name: pa.array([ref[at] for ref in refs], pa.string()) for at, name in enumerate(names)})


def _answers_to(warehouse: Warehouse, numbers: Set[Number], event_version: int | None) -> Answers:
    """What the records of these numbers say, among all there are."""
    found: Answers = {number: [] for number in numbers}
    if not numbers:
        return found
    groups = places_table({number[:2] for number in numbers})
    # Of a long history few records: all of it may be too much for the memory.
    where = f"{_ANSWERS} AND {_VALUE} IN ({', '.join(str(number) for *_, number in numbers)})"
    asked = ["source_kind", "value", "kind", "detail"]
    rows = rows_of_groups(warehouse, "silver.group_event", None, groups, where, event_version, where_columns=asked)
    with cursor() as db:
        db.register("record", rows)
        for row in _rows(db, f"SELECT *, {_VALUE} number FROM record"):
            number = row["cluster_id"], row["group_id"], row.pop("number")
            if number in found and isinstance(record := event_of_row(row), GroupRecord):
                found[number] += instants_of(record)
    return found


def _voter(at_ms: int, number: Number, line: LogEvent) -> Voter:
    return Voter(at_ms, line.ref, number, intern(line.node), line.local_at_ms, subject_of(line))


def _nodes(files: Sequence[str]) -> set[tuple[str, str]]:
    """Nodes with log events."""
    if not files:
        return set()
    events = relation(files)
    with cursor() as db:
        return set(db.execute(f"SELECT DISTINCT cluster_id, node FROM {events} WHERE source_kind = 'log'").fetchall())


def _add_answers(answers: Answers, rows: Iterable[dict[str, Any]]) -> None:
    # By what `decode` has written beside them: to decode records again takes as long as all else here.
    for row in rows:
        group_id, number, at_ms = row["group_id"], row["number"], row["at_ms"]
        if (of_number := answers.get((row["cluster_id"], group_id, number))) is None:
            continue
        if row["kind"] in EPOCH_RECORDS:
            of_number += instants_of_epoch(group_id, number, at_ms)
        else:
            of_number += instants_of_generation(group_id, number, at_ms, row["stable_at_ms"], row["has_members"])


def _votes_of(cluster_id: str, rows: Iterable[dict[str, Any]]) -> ClusterVotes:
    """The votes of these lines, all of one cluster; without answers."""
    voters: dict[Stretch, list[Voter]] = defaultdict(list)
    answers: Answers = {}
    for row in rows:
        number = cluster_id, row["group_id"], row["number"]
        if isinstance(line := event_of_row(row), LogEvent):
            place = cluster_id, intern(row["node"]), intern(row["kind"]), row["stretch"]
            voters[place].append(_voter(row["at_ms"], number, line))
            answers.setdefault(number, [])
    for of_place in voters.values():
        of_place.sort(key=lambda voter: voter[:2])
    return ClusterVotes(dict(voters), answers)


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


def stored(warehouse: Warehouse, table: str, version: int | None) -> str | None:
    """The table at this version as DuckDB reads it; None if there is nothing."""
    files = warehouse.files(table, version)
    return relation(files) if files else None


def _rows(db: duckdb.DuckDBPyConnection, sql: str) -> Iterator[dict[str, Any]]:
    """Some at a time. Ask nothing else of `db` meanwhile."""
    for batch in db.execute(sql).to_arrow_reader(_ROWS_AT_ONCE):
        yield from batch.to_pylist()
