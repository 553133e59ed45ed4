"""All stories in one warehouse, published."""

from __future__ import annotations

from pathlib import Path

from rebalance_audit.domain.incidents import ChangeMark, ClusterRows, Incident, incident_row, incidents_of, mark_row
from rebalance_audit.domain.model import ConnectTask, Finding, Rebalance
from rebalance_audit.warehouse.arrow_tables import rows_to_table
from rebalance_audit.warehouse.warehouse import Warehouse
from tests.app import reassignment_rows
from tests.app.gold_rows.builders import row_of
from tests.app.gold_rows.connect_cluster import connect
from tests.app.gold_rows.deploys import checkout, payments
from tests.app.gold_rows.eager_group import orders
from tests.app.gold_rows.evidence import checks, coverage, findings
from tests.app.gold_rows.groups import group_row, many_groups
from tests.app.gold_rows.names import CLUSTER, HOSTILE_MARKDOWN, T0, Rows
from tests.app.gold_rows.odd import hostile, unknowns


def write(location: Path, many: int = 2_000, wide: int = 0) -> Warehouse:
    """All stories, published."""
    warehouse = Warehouse.open(location, create=True)
    order_story, evidence_rows = orders()
    connect_story, tasks = connect()
    found = findings()
    stories = [order_story, checkout(), payments(), connect_story, hostile(), unknowns()]
    groups, fleet = many_groups(many)
    rebalances = [r for story in stories for r in story]
    keys = ("cluster_id", "rebalance_id", "group_id", "generation_id", "group_epoch")
    tables: Rows = {
        **evidence_rows,
        **reassignment_rows.rows(wide),
        "gold.rebalance": [row_of(r) for r in rebalances] + fleet,
        "gold.rebalance_member": [
            {**{k: getattr(r, k) for k in keys}, **row_of(m)} for r in rebalances for m in r.members
        ],
        "gold.movement": [{**{k: getattr(r, k) for k in keys}, **row_of(m)} for r in rebalances for m in r.movements],
        "gold.connect_task": [row_of(t) for t in tasks],
        "gold.finding": [{**row_of(f), "group_id": f.subject} for f in found]
        + [row_of(f) for f in reassignment_rows.findings()],
        "gold.group": [group_row(story, found) for story in stories] + groups,
        "gold.coverage": coverage(),
        "gold.check": checks(),
        "silver.decode_count": [
            {
                "cluster_id": CLUSTER,
                "batch_id": "b1",
                "source_kind": "record",
                "kind": "GroupMetadata",
                "in_count": 3,
                "event_count": 1,
                "commit_count": 1,
                "undecoded_count": 1,
                "skipped_count": 0,
            }
        ],
    }
    tables["gold.incident"] = [incident_row(i) for i in incidents(stories, tasks, found)]
    tables["gold.mark"] = [mark_row(m) for m in marks()]
    for name, rows in tables.items():
        warehouse.append(name, rows_to_table(name, rows))
    publish(warehouse)
    return warehouse


def incidents(stories: list[list[Rebalance]], tasks: list[ConnectTask], found: list[Finding]) -> list[Incident]:
    """Of every cluster, at the end of its evidence."""
    of_cluster: dict[str, dict[str, list[Rebalance]]] = {}
    for story in stories:
        of_cluster.setdefault(story[0].cluster_id, {})[story[0].group_id] = story
    made: list[Incident] = []
    for cluster_id, groups in sorted(of_cluster.items()):
        ends = [r.ended_at_ms or 0 for story in groups.values() for r in story]
        rows = ClusterRows(
            cluster_id=cluster_id,
            now_ms=max(ends),
            groups=groups,
            tasks=tasks,
            findings=[(f.subject if f.subject in groups else None, f) for f in found if f.cluster_id == cluster_id],
        )
        made += incidents_of(rows)[0]
    return made


def marks() -> list[ChangeMark]:
    """A deploy half an hour before the end, and one whose text is hostile."""
    return [
        ChangeMark(cluster_id=CLUSTER, at_ms=T0 - 1_800_000, source="told", text="v2.3 of orders", scope="orders*"),
        ChangeMark(cluster_id=CLUSTER, at_ms=T0 - 7_200_000, source="told", text=HOSTILE_MARKDOWN, scope="*"),
    ]


def publish(warehouse: Warehouse) -> None:
    gold = (
        "rebalance", "rebalance_member", "movement", "connect_task", "finding", "group", "coverage",
        "reassignment", "reassignment_step", "leader_election", "incident", "mark",
    )  # fmt: skip
    versions = {f"gold.{noun}": warehouse.version(f"gold.{noun}") for noun in gold}
    warehouse.publish({name: version for name, version in versions.items() if version is not None})
