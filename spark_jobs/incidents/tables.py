"""gold.incident and gold.mark: what news can change, worked out again; all else stays.

For a cluster with news of few groups, these are the incidents that touch them (decision 0046). For a cluster with news
of many groups, they are all incidents since the news.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import partial
from typing import Any

import pyarrow as pa

from rebalance_audit.domain.detect import DEFAULT_OF, LimitsOf
from rebalance_audit.domain.incidents import incident_row, mark_row
from rebalance_audit.domain.incidents.around import MARGIN_MS, NOTHING_NEW, Around, incidents_around
from rebalance_audit.domain.reassign.model import Reassignment
from rebalance_audit.warehouse.arrow_tables import rows_to_table
from rebalance_audit.warehouse.row_groups import Least
from rebalance_audit.warehouse.warehouse import Warehouse
from spark_jobs.engine import Engine
from spark_jobs.group_evidence import seen_until_ms
from spark_jobs.group_rows import Place, rows_with
from spark_jobs.incidents.around import StoredCluster
from spark_jobs.incidents.news import ending, news_since, note
from spark_jobs.incidents.replaced import Incidents, scope_of
from spark_jobs.incidents.rows import (
    clusters_of_wrong_clocks,
    moves_of,
    open_tasks,
    reassignments_since,
)
from spark_jobs.incidents.since import incidents_since
from spark_jobs.incidents.storms import storms_before
from spark_jobs.task_files import (
    WRITTEN,
    TaskWriter,
    files_by_table,
)

FEW_GROUPS = 5_000
"""If more groups than this have news, everything that happened since is read: beside a busy cluster that is the whole
history, since each incident reaches into an earlier one."""


def incident_tables(
    warehouse: Warehouse,
    versions: Mapping[str, int],
    leader_moves: pa.Table,
    changed: pa.Table,
    limits: LimitsOf = DEFAULT_OF,
    *,
    engine: Engine,
    folder: str,
    since_versions: Mapping[str, int] | None = None,
    seen_before_ms: Mapping[str, int] | None = None,
    left: Mapping[Place, int] | None = None,
    loud: Collection[str] = (),
    again: bool = False,
) -> Incidents:
    """`versions`: of the silver tables; `since_versions`: those that were published last, if that is known. `changed`:
    keys of the rebalances that changed, or of their groups. `leader_moves`: all rows there are. `seen_before_ms`: by
    cluster the end of its evidence when incidents were worked out last, where that is known. `left`: groups that were
    left before, each with the instant of its earliest news; `loud`: ids of groups that are left now. `again`: all
    incidents are worked out, from the beginning of each cluster."""
    now_ms = seen_until_ms(warehouse)
    news, changed_ms = news_since(warehouse, versions, since_versions or {}, changed, leader_moves)
    for cluster_id, group_id, at_ms in ending(warehouse, seen_before_ms or {}, now_ms, limits, leader_moves):
        note(news, cluster_id, group_id, at_ms)
    for (cluster_id, group_id), at_ms in (left or {}).items():
        note(news, cluster_id, group_id, at_ms)
        changed_ms[cluster_id, group_id] = min(at_ms, changed_ms.get((cluster_id, group_id), at_ms))
    for cluster_id in now_ms if again else ():
        note(news, cluster_id, None, 0)
    still_left = {
        (cluster_id, group_id): of_groups.pop(group_id)
        for cluster_id, of_groups in news.items()
        for group_id in list(of_groups)
        if group_id in loud and group_id is not None
    }
    news = {cluster_id: of_groups for cluster_id, of_groups in news.items() if of_groups}
    is_all = again or warehouse.published().get("gold.incident") is None
    wide = {cluster_id for cluster_id, of_groups in news.items() if is_all or len(of_groups) > FEW_GROUPS}
    built = _around_news(
        warehouse, versions, leader_moves, {c: n for c, n in news.items() if c not in wide}, changed_ms, now_ms, limits,
        folder,
    )  # fmt: skip
    if wide:
        earliest = {cluster_id: min(news[cluster_id].values()) for cluster_id in wide}
        built = _together(
            built, incidents_since(warehouse, versions, leader_moves, earliest, now_ms, limits, engine, folder)
        )
    return built._replace(left=still_left)


def _around_news(
    warehouse: Warehouse,
    versions: Mapping[str, int],
    leader_moves: pa.Table,
    news: Mapping[str, Mapping[str | None, int]],
    changed_ms: Mapping[Place, int],
    now_ms: Mapping[str, int],
    limits: LimitsOf,
    folder: str,
) -> Incidents:
    """The incidents that news of few groups can change. `changed_ms`: the instant of each group's earliest changed
    rebalance, where one changed."""
    rows, gone = _rows_around(warehouse, versions, leader_moves, news, changed_ms, now_ms, limits)
    writer = TaskWriter(folder)
    for table, of_table in rows.items():
        for batch in of_table.to_batches():
            writer.add(table, batch)
    written = files_by_table(pa.Table.from_batches(list(writer.written()), WRITTEN))
    incidents, marks = written.get("gold.incident", []), written.get("gold.mark", [])
    return Incidents(
        incidents,
        scope_of("incident_id", gone["gold.incident"], incidents),
        marks,
        scope_of("mark_id", gone["gold.mark"], marks),
    )


def _rows_around(
    warehouse: Warehouse,
    versions: Mapping[str, int],
    leader_moves: pa.Table,
    news: Mapping[str, Mapping[str | None, int]],
    changed_ms: Mapping[Place, int],
    now_ms: Mapping[str, int],
    limits: LimitsOf,
) -> tuple[dict[str, pa.Table], dict[str, list[dict[str, Any]]]]:
    """By table the rows that should be there, cluster by cluster, and the keys of those that go. What they were made
    from is let go before they are written: of a long storm each rebalance has its id in it several times."""
    rows: dict[str, list[dict[str, Any]]] = {"gold.incident": [], "gold.mark": []}
    gone: dict[str, list[dict[str, Any]]] = {"gold.incident": [], "gold.mark": []}
    tasks, moves = (open_tasks(warehouse, versions), moves_of(leader_moves)) if news else ({}, {})
    wrong = clusters_of_wrong_clocks(warehouse, versions) if news else set()
    right = {(c, g) for c, of_groups in news.items() if c not in wrong for g in of_groups if g is not None}
    storms = storms_before(warehouse, versions, limits, {p: changed_ms.get(p, NOTHING_NEW) for p in right})
    for cluster_id, of_groups in sorted(news.items()):
        found = incidents_around(
            {group_id: at_ms for group_id, at_ms in of_groups.items() if group_id is not None},
            min(of_groups.values()) - MARGIN_MS,
            StoredCluster(
                warehouse, versions, cluster_id, now_ms=now_ms.get(cluster_id, 0), limits=partial(limits, cluster_id),
                tasks=tasks.get(cluster_id, ()), leader_moves=moves.get(cluster_id, ()),
                reassignments=partial(_reassignments_of, warehouse, versions, cluster_id),
                is_clock_right=cluster_id not in wrong,
                storms={place[1]: storm for place, storm in storms.items() if place[0] == cluster_id},
            ),
            apart=None in of_groups,
        )  # fmt: skip
        rows["gold.incident"] += map(incident_row, found.incidents)
        rows["gold.mark"] += map(mark_row, found.marks)
        gone["gold.incident"] += ({"cluster_id": cluster_id, "incident_id": k.incident_id} for k in found.gone)
        gone["gold.mark"] += _marks_around(warehouse, cluster_id, of_groups.keys(), found)
    return {table: rows_to_table(table, of_table) for table, of_table in rows.items()}, gone


def _reassignments_of(
    warehouse: Warehouse, versions: Mapping[str, int], cluster_id: str, from_ms: int
) -> list[Reassignment]:
    return reassignments_since(warehouse, versions, {cluster_id: from_ms}).get(cluster_id, [])


def _marks_around(
    warehouse: Warehouse, cluster_id: str, news: Collection[str | None], found: Around
) -> list[dict[str, Any]]:
    """The marks that `found` takes the place of."""
    own = [group_id for group_id in news if group_id is not None] + (["*"] if found.apart else [])
    of_others = {group_id for group_id, _ in found.marked}
    wanted = {"scope": {*own, *of_others}, "source": ["evidence"], "cluster_id": [cluster_id]}
    floors = {scope: found.after_ms.get(scope, found.from_ms - 1) + 1 for scope in own}
    for scope, at_ms in found.marked:
        floors[scope] = min(at_ms, floors.get(scope, at_ms))
    bound = Least("at_ms", "scope", floors)
    rows = rows_with(warehouse, "gold.mark", ["cluster_id", "mark_id", "scope", "at_ms"], wanted, bound=bound)
    return [
        row
        for row in rows.to_pylist()
        if (row["scope"] in own and row["at_ms"] > found.after_ms.get(row["scope"], found.from_ms - 1))
        or (row["scope"], row["at_ms"]) in found.marked
    ]


def _together(one: Incidents, other: Incidents) -> Incidents:
    return Incidents(
        [*one.incidents, *other.incidents],
        pa.concat_tables([one.incident_scope, other.incident_scope]),
        [*one.marks, *other.marks],
        pa.concat_tables([one.mark_scope, other.mark_scope]),
    )
