"""What a reader who may see only some groups sees of each table: one SQL condition per table.

The one place that decides it (decision 0029): every question of the app goes over these views, so that pages,
downloads, links and remembered answers cannot differ. A table that is not named here, and has no group, is empty for
such a reader. `seen.groups` holds the (cluster_id, group_id) that may be seen, `seen.connectors` the (cluster_id,
group_id, connector) that may be seen by their name, whoever has the Connect cluster.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

_SEEN = "SELECT cluster_id, group_id FROM {db}.seen.groups"
_REFS = "SELECT cluster_id, ref FROM {db}.silver.group_event"
"""Narrowed itself: evidence is shown if it says something about a group that may be seen."""
_CONNECTORS = "SELECT cluster_id, group_id, connector FROM {db}.seen.connectors"
_ALL_SEEN = (  # of a row about connectors: not known of older rows, whose list is null
    "coalesce((SELECT count(*) > 0 AND bool_and((t.cluster_id, t.group_id, u.c) IN (" + _CONNECTORS + ")) "
    "FROM (SELECT unnest(t.connectors) AS c) u), false)"
)
_MARK = (
    "scope = '*' OR EXISTS (SELECT 1 FROM {db}.seen.groups s WHERE s.cluster_id = t.cluster_id "
    "AND (s.group_id = t.scope OR s.group_id GLOB t.scope))"
)
_CONDITIONS = {
    "gold.mark": _MARK,
    "gold.connect_task": f"(cluster_id, group_id) IN ({_SEEN}) OR (cluster_id, group_id, connector) IN ({_CONNECTORS})",
    "gold.finding": f"(cluster_id, group_id) IN ({_SEEN}) OR {_ALL_SEEN}",
    "gold.coverage": "cluster_id IN (SELECT cluster_id FROM {db}.seen.groups UNION ALL SELECT cluster_id FROM "
    "{db}.seen.connectors) AND (kind = 'log' "
    "OR source LIKE 'record:\\_\\_consumer\\_offsets-%' ESCAPE '\\')",
    "bronze.record": f"(cluster_id, concat('record:', topic, '-', partition, '@', \"offset\")) IN ({_REFS})",
    "bronze.log_line": f"(cluster_id, concat('log:', node, '/', file_name, '#', file_id, '@', byte)) IN ({_REFS})",
}
_NEEDS = {
    "bronze.record": "silver.group_event", "bronze.log_line": "silver.group_event", "gold.incident": "gold.rebalance",
}  # fmt: skip
"""Tables whose condition reads another table."""
ASKING = frozenset(_NEEDS)
_SHARED_TITLE = "'An incident that also concerns groups of other teams'"
_SHARED_STORY = (
    "'Groups that other teams own are part of it; what is theirs is not shown. Your groups in it are listed.'"
)


def needed(names: Collection[str]) -> set[str]:
    """The tables that have to be bound if a query names these."""
    return {*names} | {_NEEDS[name] for name in names if name in _NEEDS}


def narrowed(name: str, columns: Sequence[str], source: str, db: str) -> str:
    """`SELECT` of the rows and columns of table `name` that may be seen; `db`: the database that has `seen.groups`."""
    if name == "gold.incident":
        return _incidents(columns, source, db)
    condition = _CONDITIONS.get(name)
    if condition is None:
        condition = f"(cluster_id, group_id) IN ({_SEEN})" if "group_id" in columns else "false"
    return f"SELECT * FROM {source} t WHERE {condition.format(db=db)}"


def _incidents(columns: Sequence[str], source: str, db: str) -> str:
    """Those that concern a group that may be seen, or a connector; of one that concerns others as well, their part is
    left out: their groups and rebalances, and all words and costs, which are of the whole. One that is about connectors
    alone, all of which may be seen, is shown whole if it has no rebalance, which would be of all the workers."""
    shared = "NOT is_whole"
    replaced = {
        "group_ids": f"CASE WHEN {shared} THEN own ELSE group_ids END",
        "rebalance_ids": "own_rebalances",
        "connectors": f"CASE WHEN {shared} THEN own_connectors ELSE connectors END",
        "culprits": f"CASE WHEN {shared} THEN []::VARCHAR[] ELSE culprits END",
        "hosts": f"CASE WHEN {shared} THEN []::VARCHAR[] ELSE hosts END",
        "reassignment_ids": f"CASE WHEN {shared} THEN []::VARCHAR[] ELSE reassignment_ids END",
        "finding_ids": f"CASE WHEN {shared} THEN []::VARCHAR[] ELSE finding_ids END",
        "evidence": f"CASE WHEN {shared} THEN []::VARCHAR[] ELSE evidence END",
        "chain": f"CASE WHEN {shared} THEN list_filter(chain, c -> false) ELSE chain END",
        "title": f"CASE WHEN {shared} THEN {_SHARED_TITLE} ELSE title END",
        "story": f"CASE WHEN {shared} THEN {_SHARED_STORY} ELSE story END",
        "advice": f"CASE WHEN {shared} THEN NULL ELSE advice END",
    }
    replaced |= {
        column: f"CASE WHEN {shared} THEN NULL ELSE {column} END" for column in columns if column.startswith("cost_")
    }
    replacing = ", ".join(f"{value} AS {column}" for column, value in replaced.items() if column in columns)
    own = ("own", "own_connectors", "own_rebalances", "is_whole")
    return (
        f"SELECT * EXCLUDE ({', '.join(own)}) REPLACE ({replacing}) FROM ("
        f"SELECT t.*, coalesce(mine.own, []) AS own, coalesce(connected.own_connectors, []) AS own_connectors, "
        f"coalesce(theirs.own_rebalances, []) AS own_rebalances, coalesce(len(mine.own), 0) = len(group_ids) "
        f"OR (len(rebalance_ids) = 0 AND len(connected.own_connectors) = len(connectors) AND len(group_ids) = 1) "
        f"AS is_whole FROM {source} t "
        f"LEFT JOIN (SELECT i.cluster_id, i.incident_id, list(g ORDER BY g) AS own FROM "
        f"(SELECT cluster_id, incident_id, unnest(group_ids) AS g FROM {source}) i "
        f"JOIN {db}.seen.groups s ON s.cluster_id = i.cluster_id AND s.group_id = i.g GROUP BY ALL) mine "
        f"USING (cluster_id, incident_id) "
        f"LEFT JOIN (SELECT i.cluster_id, i.incident_id, list(DISTINCT c ORDER BY c) AS own_connectors FROM "
        f"(SELECT cluster_id, incident_id, group_ids, unnest(connectors) AS c FROM {source}) i "
        f"JOIN {db}.seen.connectors s ON s.cluster_id = i.cluster_id AND s.connector = i.c "
        f"AND list_contains(i.group_ids, s.group_id) GROUP BY ALL) connected USING (cluster_id, incident_id) "
        f"LEFT JOIN (SELECT i.cluster_id, i.incident_id, list(i.r ORDER BY i.at) AS own_rebalances FROM "
        f"(SELECT cluster_id, incident_id, unnest(rebalance_ids) AS r, generate_subscripts(rebalance_ids, 1) AS at "
        f"FROM {source}) i JOIN {db}.gold.rebalance o ON o.cluster_id = i.cluster_id AND o.rebalance_id = i.r "
        f"GROUP BY ALL) theirs USING (cluster_id, incident_id) "
        f"WHERE mine.own IS NOT NULL OR connected.own_connectors IS NOT NULL)"
    )
