"""Adds to the votes on nodes' clocks what came since: only the days of which something changes are looked at."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence, Set
from dataclasses import dataclass, field
from operator import itemgetter
from sys import intern

import duckdb
import pyarrow as pa

from rebalance_audit.warehouse.footers import row_count_in
from rebalance_audit.warehouse.queries import cursor
from rebalance_audit.warehouse.storage import relation
from rebalance_audit.warehouse.warehouse import Warehouse
from spark_jobs.clock_votes import (
    ANSWERS,
    FIRST,
    NUMBER,
    PLACE,
    VALUE,
    VOTES,
    answers_among,
    nodes_in,
    rows_of,
    said_by,
    voter_of,
    zones_in,
)
from spark_jobs.day_votes import PAIRS_PER_STRETCH, DayVotes, Number, Said, Stretch, Voter, day_of, days_of
from spark_jobs.group_rows import places_table, rows_of_groups
from spark_jobs.node_tallies import Versions, Voting


@dataclass(slots=True)
class _News:
    """What came of one cluster's day."""

    voters: dict[Stretch, list[Voter]] = field(default_factory=lambda: defaultdict(list))
    answers: dict[Number, Said] = field(default_factory=lambda: defaultdict(list))
    """Of numbers that were named before."""


_REF = ("cluster_id", "ref")
_NewsByDay = dict[tuple[str, int], _News]
"""By cluster and day."""


def with_news(warehouse: Warehouse, known: Voting, asked: Versions) -> Voting | None:
    """`known` with what came since; None where more than that must be read. `known` itself is of no more use. A line
    behind the last of a stretch that has votes enough changes nothing, nor does a record that no voter names."""
    came = []
    for table, since, until in zip(("silver.group_event", "bronze.source"), known.versions, asked, strict=True):
        files = None if since is None or until is None else warehouse.appended(table, since, until)
        if files is None:
            return None
        if known.versions[0] == known.noted and not all(map(warehouse.has_file, files)):
            return None  # the notes are of long ago
        came.append(files)
    events, sources = came
    if not all(known.put_zone(*zone) for zone in zones_in(sources)):
        return None
    if events:
        known.add_nodes(nodes_in(events))
        known.unnoted_rows += sum(row_count_in(file) for file in events)
        _add_events(warehouse, known, events, asked[0])
    known.versions = asked
    return known


def _add_events(warehouse: Warehouse, known: Voting, files: Sequence[str], version: int | None) -> None:
    with cursor() as db:
        new = relation(files)
        news = _voters(db, known, new)
        for row in rows_of(db, answers_among(f"(FROM {new} WHERE {ANSWERS})")):
            number = row["group_id"], row["number"]
            for subject, at_ms in said_by(row):
                for day in days_of(at_ms):
                    if number in known.votes.of(row["cluster_id"], day).answers:
                        place = row["cluster_id"], day
                        news.setdefault(place, _News()).answers[number].append((subject, at_ms))
    named = {
        (cluster_id, *voter.number)
        for (cluster_id, day), of_day in news.items()
        for of_stretch in of_day.voters.values()
        for voter in of_stretch
        if voter.number not in known.votes.of(cluster_id, day).answers
    }
    said = _answers_to(warehouse, named, version)
    changed: dict[str, set[str]] = defaultdict(set)
    for (cluster_id, day), of_day in sorted(news.items(), key=itemgetter(0)):
        changed[cluster_id] |= _add_to_day(known, cluster_id, day, of_day, said)
    for cluster_id, nodes in changed.items():
        known.conclude(cluster_id, nodes)


def _voters(db: duckdb.DuckDBPyConnection, known: Voting, new: str) -> _NewsByDay:
    """The lines that vote now. Few do, and only those are read whole."""
    votes = db.execute(
        f"SELECT {PLACE}, at_ms, ref, group_id, {NUMBER} FROM {new} WHERE {VOTES} QUALIFY {FIRST}"
    ).fetchall()
    chosen = [vote for vote in sorted(votes, key=itemgetter(0, 3)) if known.waits_for(vote[0], vote[1:4], *vote[4:6])]
    found: _NewsByDay = {}
    if not chosen:
        return found
    places = {(vote[0], vote[5]): vote for vote in chosen}
    names = {name: pa.array([place[at] for place in places], pa.string()) for at, name in enumerate(_REF)}
    db.register("chosen", pa.table(names))
    rows = rows_of(db, f"SELECT * FROM {new} SEMI JOIN chosen USING ({', '.join(_REF)})")
    for row in rows:
        cluster_id, node, kind, at, _, _, _, number = places[row["cluster_id"], row["ref"]]
        if (voter := voter_of({**row, "number": number})) is not None:
            stretch = intern(node), intern(kind), at
            found.setdefault((cluster_id, day_of(stretch)), _News()).voters[stretch].append(voter)
    return found


def _add_to_day(
    known: Voting, cluster_id: str, day: int, news: _News, said: dict[tuple[str, str, int], Said]
) -> set[str]:
    """The nodes of which something may have changed."""
    before = known.votes.of(cluster_id, day)
    voters, answers, is_full = dict(before.voters), dict(before.answers), False
    for stretch, came in news.voters.items():
        of_stretch = sorted([*voters.get(stretch, ()), *came], key=itemgetter(0, 1))
        is_full |= len(of_stretch) > PAIRS_PER_STRETCH
        voters[stretch] = of_stretch[:PAIRS_PER_STRETCH]
        for voter in came:
            if voter.number not in answers:
                all_said = said[cluster_id, *voter.number]
                answers[voter.number] = [(subject, at_ms) for subject, at_ms in all_said if day in days_of(at_ms)]
    for number, more in news.answers.items():
        answers[number] = [*answers[number], *more]
    if is_full:
        still_named = {voter.number for of_stretch in voters.values() for voter in of_stretch}
        answers = {number: answers[number] for number in still_named}
    nodes = {node for node, _, _ in news.voters} | {
        node for (node, _, _), of_stretch in voters.items() if any(v.number in news.answers for v in of_stretch)
    }
    known.change(cluster_id, day, DayVotes(voters, answers), nodes)
    return nodes


def _answers_to(
    warehouse: Warehouse, numbers: Set[tuple[str, str, int]], event_version: int | None
) -> dict[tuple[str, str, int], Said]:
    """What the records of these numbers, each with its cluster, say among all there are."""
    found: dict[tuple[str, str, int], Said] = {number: [] for number in numbers}
    if not numbers:
        return found
    groups = places_table({number[:2] for number in numbers})
    columns = ["cluster_id", "group_id", "kind", "at_ms", "detail"]
    asked = ["source_kind", "value"]
    # Of a long history few records: all of it may be too much for the memory.
    where = f"{ANSWERS} AND {VALUE} IN ({', '.join(str(number) for *_, number in numbers)})"
    rows = rows_of_groups(warehouse, "silver.group_event", columns, groups, where, event_version, where_columns=asked)
    with cursor() as db:
        db.register("record", rows)
        for row in rows_of(db, answers_among("record")):
            if (of_number := found.get((row["cluster_id"], row["group_id"], row["number"]))) is not None:
                of_number += said_by(row)
    return found
