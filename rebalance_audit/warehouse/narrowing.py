"""What of each table a reader may see who may see some groups only, as one condition in SQL per table.

The one place that decides it (decision 0029): every question of the app goes over these views, so that pages,
downloads, links and remembered answers cannot differ. A table that is not named here, and has no group, is empty for
such a reader. `seen.groups` holds the (cluster_id, group_id) that may be seen.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

_SEEN = "SELECT cluster_id, group_id FROM {db}.seen.groups"
_REFS = "SELECT cluster_id, ref FROM {db}.silver.group_event"
"""Narrowed itself: evidence is shown if it says something about a group that may be seen."""
_MARK = (
    "scope = '*' OR EXISTS (SELECT 1 FROM {db}.seen.groups s WHERE s.cluster_id = t.cluster_id "
    "AND (s.group_id = t.scope OR s.group_id GLOB t.scope))"
)
_CONDITIONS = {
    "gold.mark": _MARK,
    "gold.coverage": "cluster_id IN (SELECT cluster_id FROM {db}.seen.groups) AND (kind = 'log' "
    "OR source LIKE 'record:\\_\\_consumer\\_offsets-%' ESCAPE '\\')",
    "bronze.record": f"(cluster_id, concat('record:', topic, '-', partition, '@', \"offset\")) IN ({_REFS})",
    "bronze.log_line": f"(cluster_id, concat('log:', node, '/', file_name, '#', file_id, '@', byte)) IN ({_REFS})",
}
_NEEDS = {
    "bronze.record": "silver.group_event", "bronze.log_line": "silver.group_event", "gold.incident": "gold.rebalance",
}  # fmt: skip
"""Tables whose condition asks another one."""
ASKING = frozenset(_NEEDS)
_SHARED_TITLE = "'An incident that also concerns groups of other teams'"
_SHARED_STORY = (
    "'Groups that other teams own are part of it; what is theirs is not shown. Your groups in it are listed.'"
)


def needed(names: Collection[str]) -> set[str]:
    """The tables that have to be bound where these are asked."""
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
    """Those that concern a group that may be seen; of one that concerns others as well, their part is left out: their
    groups and rebalances, and all words and costs, which are of the whole."""
    shared = "len(own) < len(group_ids)"
    replaced = {
        "group_ids": "own",
        "rebalance_ids": "own_rebalances",
        "culprits": f"CASE WHEN {shared} THEN []::VARCHAR[] ELSE culprits END",
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
    return (
        f"SELECT * EXCLUDE (own, own_rebalances) REPLACE ({replacing}) FROM ("
        f"SELECT t.*, mine.own AS own, coalesce(theirs.own_rebalances, []) AS own_rebalances "
        f"FROM {source} t "
        f"JOIN (SELECT i.cluster_id, i.incident_id, list(g ORDER BY g) AS own FROM "
        f"(SELECT cluster_id, incident_id, unnest(group_ids) AS g FROM {source}) i "
        f"JOIN {db}.seen.groups s ON s.cluster_id = i.cluster_id AND s.group_id = i.g GROUP BY ALL) mine "
        f"USING (cluster_id, incident_id) "
        f"LEFT JOIN (SELECT i.cluster_id, i.incident_id, list(i.r ORDER BY i.at) AS own_rebalances FROM "
        f"(SELECT cluster_id, incident_id, unnest(rebalance_ids) AS r, generate_subscripts(rebalance_ids, 1) AS at "
        f"FROM {source}) i JOIN {db}.gold.rebalance o ON o.cluster_id = i.cluster_id AND o.rebalance_id = i.r "
        f"GROUP BY ALL) theirs USING (cluster_id, incident_id))"
    )
