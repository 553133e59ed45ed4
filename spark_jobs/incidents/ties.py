"""Groups that one incident may hold, found in columns before anything is made of them. Groups without a tie need not be
in memory at the same time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

import duckdb
import pyarrow as pa

from rebalance_audit.domain.causes import MEMBER_FAILED
from rebalance_audit.domain.detect.history import client_part
from rebalance_audit.domain.disjoint_sets import DisjointSets
from rebalance_audit.domain.incidents.troubles import SAME_MOMENT_MS, SAME_TOPICS_MS
from rebalance_audit.domain.publish.leader_moves import LeaderMove
from rebalance_audit.warehouse.footers import columns_of
from rebalance_audit.warehouse.queries import cursor
from rebalance_audit.warehouse.storage import relation
from spark_jobs.group_rows import Place
from spark_jobs.incidents.rows import AT

PlaceOrNone = tuple[str, str | None]
"""A cluster and a group; None: what belongs to no group."""
_NEVER = 1 << 61
_MAYBE_LOOPBACK = r"^/*(127\.|[0:]*:0*1(%.*)?$|[0:]*:[fF]{4}:)"
"""At least the hosts of which `is_loopback` says so."""
_NAME = "coalesce(nullif(m.worker_url, ''), nullif(m.group_instance_id, ''), nullif(m.client_id, ''), m.member_id)"
_PLACES = (
    f"CASE WHEN coalesce(m.client_host, '') = '' THEN [{_NAME}] "
    f"WHEN regexp_matches(m.client_host, '{_MAYBE_LOOPBACK}') THEN [m.client_host, {_NAME}] ELSE [m.client_host] END"
)
_PEOPLE = (
    f"[{{'member_id': m.member_id, 'places': {_PLACES}, 'session_ms': m.session_timeout_ms, "
    "'is_gone': m.change IN ('left', 'replaced')} FOR m IN members IF m.change <> 'stayed']"
)
_CAUSES = ", ".join(f"'{cause}'" for cause in sorted(MEMBER_FAILED))
_FAILED = f"flatten([t.members FOR t IN triggers IF t.trigger IN ({_CAUSES})])"
_GONE = """
    SELECT number, cluster, at_ms, person.member_id member_id
    FROM (SELECT number, cluster, at_ms, unnest(people) person FROM seen) WHERE person.is_gone
    UNION SELECT number, cluster, at_ms, unnest(failed) FROM seen"""
_NAMED = """
    SELECT number, cluster, person.member_id member_id, unnest(person.places) place, person.session_ms session_ms
    FROM (SELECT number, cluster, unnest(people) person FROM seen)"""
_TOGETHER = f"""
    WITH named_places AS (
        SELECT number, cluster, member_id, place, max(session_ms) session_ms FROM (FROM named UNION ALL FROM nameless)
        GROUP BY ALL),
    shared AS (SELECT cluster, place FROM named_places GROUP BY ALL HAVING min(number) <> max(number)),
    met AS (
        SELECT cluster, 'place ' || place what, number, {SAME_MOMENT_MS} within_ms,
            coalesce(at_ms - coalesce(session_ms, 0), -{_NEVER}) from_ms, coalesce(at_ms, {_NEVER}) to_ms
        FROM gone JOIN named_places USING (number, cluster, member_id) SEMI JOIN shared USING (cluster, place)
        UNION ALL
        SELECT cluster, 'topic ' || topic, number, {SAME_TOPICS_MS},
            coalesce(at_ms, -{_NEVER}), coalesce(at_ms, {_NEVER})
        FROM (SELECT cluster, number, at_ms, unnest(topics) topic FROM seen)),
    parted AS (
        SELECT *, from_ms - max(to_ms) OVER (PARTITION BY cluster, what ORDER BY from_ms, to_ms, number
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) > within_ms is_later FROM met),
    counted AS (
        SELECT cluster, what, number, count(*) FILTER (is_later) OVER (PARTITION BY cluster, what
            ORDER BY from_ms, to_ms, number ROWS UNBOUNDED PRECEDING) part FROM parted)
    SELECT list(DISTINCT number) FROM counted GROUP BY cluster, what, part HAVING min(number) <> max(number)"""
"""Lists of groups that were met one after the other at one place, or at one topic: each may have been met at any
instant from `from_ms` to `to_ms`."""


def tied_groups(
    files: Sequence[str], first: Mapping[Place, int], leader_moves: Mapping[str, Sequence[LeaderMove]]
) -> list[list[PlaceOrNone]]:
    """All groups of these clusters and for each cluster what belongs to no group, those together that one incident may
    hold; in the order of the first of each. `files`: of rebalances; `first`: of each group the place of the first that
    is wanted; `leader_moves`: by cluster."""
    groups = sorted(first)
    places: list[PlaceOrNone] = [*groups, *((cluster_id, None) for cluster_id in sorted({c for c, _ in groups}))]
    numbers = {place: number for number, place in enumerate(places)}
    sets = DisjointSets(len(places))
    for together in _met(files, [(*place, first[place]) for place in groups]):
        for number in together[1:]:
            sets.unite(together[0], number)
    for one, other in _moved(leader_moves, numbers):
        sets.unite(one, other)
    return [[places[number] for number in together] for together in sets.all()]


def _met(files: Sequence[str], groups: Sequence[tuple[str, str, int]]) -> Iterator[list[int]]:
    """Groups that members left from one place at one moment, or that found new partitions of one topic; by number. A
    place of too many does no harm: a member may have had another one than that which counts."""
    clusters = {cluster_id: number for number, cluster_id in enumerate(dict.fromkeys(c for c, _, _ in groups))}
    columns = {
        "cluster_id": pa.array([cluster_id for cluster_id, _, _ in groups], pa.string()),
        "group_id": pa.array([group_id for _, group_id, _ in groups], pa.string()),
        "first_place": pa.array([place for _, _, place in groups], pa.int64()),
        "cluster": pa.array([clusters[cluster_id] for cluster_id, _, _ in groups], pa.int32()),
        "number": pa.array(range(len(groups)), pa.int32()),
    }
    with cursor() as db:
        db.register("of_groups", pa.table(columns))
        db.execute(f"CREATE TEMP TABLE seen AS {' UNION ALL '.join(_seen(files))}")
        db.execute(f"CREATE TEMP TABLE gone AS {_GONE}")
        db.execute(f"CREATE TEMP TABLE named AS {_NAMED}")
        db.register("nameless", _nameless(db))
        asked = db.execute(_TOGETHER)
        while rows := asked.fetchmany(10_000):
            for (together,) in rows:
                yield together


def _seen(files: Sequence[str]) -> Iterator[str]:
    """Of each rebalance what ties its group to others."""
    with_topics = [file for file in files if "grown_topics" in columns_of(file)]  # files of older releases have none
    without = [file for file in files if file not in set(with_topics)]
    for alike, topics in ((with_topics, "grown_topics"), (without, "NULL::VARCHAR[]")):
        if alike:
            yield (
                f"SELECT number, cluster, least({AT}, started_at_ms) at_ms, {_PEOPLE} people, {_FAILED} failed, "
                f"{topics} topics FROM {relation(alike)} JOIN of_groups USING (cluster_id, group_id) "
                "WHERE place >= first_place"
            )


def _nameless(db: duckdb.DuckDBPyConnection) -> pa.Table:
    """Places of members that went and that no rebalance of their group shows come or go: their ids say their names."""
    rows = db.execute("SELECT DISTINCT number, cluster, member_id FROM gone ANTI JOIN named USING (number, member_id)")
    found = rows.to_arrow_table()
    names = [client_part(member_id) or member_id for member_id in found["member_id"].to_pylist()]
    found = found.append_column("place", pa.array(names, pa.string()))
    return found.append_column("session_ms", pa.nulls(len(names), pa.int64()))


def _moved(
    leader_moves: Mapping[str, Sequence[LeaderMove]], numbers: Mapping[PlaceOrNone, int]
) -> Iterator[tuple[int, int]]:
    """Pairs of groups whose coordinators went with the same broker at the same moment. Reassignments belong to no
    group."""
    for cluster_id, moves in leader_moves.items():
        of_broker: dict[int | None, list[tuple[int, int]]] = defaultdict(list)
        for move in moves:
            number = numbers.get((cluster_id, move.group_id))
            if number is None or not (move.is_cause or move.is_failure_before):
                continue
            of_broker[move.previous_leader].append((move.at_ms, number))
            if move.reassignment_id is not None:
                yield number, numbers[cluster_id, None]
        for each in of_broker.values():
            for (at_ms, one), (next_ms, other) in pairwise(sorted(each)):
                if next_ms - at_ms <= SAME_MOMENT_MS:
                    yield one, other
