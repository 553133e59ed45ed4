"""Reassignments, their ladders, leader elections; and the group rebalances that fell into the same time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pandas as pd

from app.answers.rows import ClusterMovesRow, Coordination, Reassignment, ReassignmentStep, Span
from app.queries.fleet import FleetQuestions
from app.queries.tables import AT, COUNTED, made
from rebalance_audit.domain.reassign.model import reassignment_of

OFFSETS_TOPIC = "__consumer_offsets"
_AT = "coalesce(a.started_at_ms, a.ended_at_ms)"
_TOUCHES = f"(a.outcome = 'open' OR coalesce(a.ended_at_ms, {_AT}) >= ?) AND coalesce({_AT}, 0) <= ?"

_NEWEST = 200
"""How many of a group's newest rebalances are looked at: its partition of the offsets topic stays the same, and not
each rebalance has a record."""


class ReassignmentQuestions(FleetQuestions):
    def reassignment_clusters(self) -> list[str]:
        """Where anything about partitions is known, in the order of `reassignments_by_cluster`; then those with changes
        of leaders alone."""
        rows = self.rows("SELECT DISTINCT cluster_id FROM gold.leader_election ORDER BY 1")
        moved = [c.cluster_id for c in self.reassignments_by_cluster()]
        return moved + [row["cluster_id"] for row in rows if row["cluster_id"] not in moved]

    def reassignments_by_cluster(self) -> list[ClusterMovesRow]:
        """What runs and is stalled in each cluster that has any, those with stalled ones first."""
        rows = self.rows(
            f"""
            SELECT cluster_id, count(*) AS all_count, count(*) FILTER (outcome = 'open') AS open_count,
                   count(*) FILTER (stalled_since_ms IS NOT NULL) AS stalled_count,
                   min(stalled_since_ms) AS stalled_since_ms,
                   arg_max(blocked_by, longest_standstill_ms) AS blocked_by,
                   max(longest_standstill_ms) AS longest_standstill_ms, max({_AT}) AS last_at_ms
            FROM gold.reassignment a GROUP BY 1
            ORDER BY stalled_count DESC, open_count DESC, last_at_ms DESC NULLS LAST, cluster_id
            """
        )
        return [ClusterMovesRow(**row) for row in rows]

    def reassignment_span(self, cluster_id: str) -> Span | None:
        """From the first request or election to the end of the cluster's evidence."""
        first = self.rows(
            f"SELECT min(f) AS f FROM (SELECT min({_AT}) AS f FROM gold.reassignment a WHERE a.cluster_id = ?"
            " UNION ALL SELECT min(at_ms) FROM gold.leader_election WHERE cluster_id = ?)",
            (cluster_id, cluster_id),
        )[0]["f"]
        last = self.rows(
            "SELECT max(t) AS t FROM (SELECT max(to_at_ms) AS t FROM gold.coverage WHERE cluster_id = ?"
            " UNION ALL SELECT max(greatest(ended_at_ms, standstill_from_ms + longest_standstill_ms))"
            " FROM gold.reassignment WHERE cluster_id = ?"
            " UNION ALL SELECT max(at_ms) FROM gold.reassignment_step WHERE cluster_id = ?"
            " UNION ALL SELECT max(at_ms) FROM gold.leader_election WHERE cluster_id = ?)",
            (cluster_id, cluster_id, cluster_id, cluster_id),
        )[0]["t"]
        return Span(from_ms=int(first), to_ms=max(int(first), int(last))) if first is not None and last else None

    def reassignments(self, cluster_id: str, span: Span) -> pd.DataFrame:
        """One row per attempt that touches the span or runs: those that are stalled, those that run, the newest."""
        return self.frame(
            f"""
            SELECT a.reassignment_id, a.topic, a.partition, a.original_replicas, a.target_replicas, a.adding_replicas,
                   a.started_at_ms, a.ended_at_ms, a.outcome, a.phase, a.stalled_since_ms, a.blocked_by,
                   a.blocked_replicas, a.longest_standstill_ms, len(a.progress)::INT AS new_count,
                   len(list_filter(a.progress, p -> p.in_isr_at_ms IS NOT NULL))::INT AS in_sync_count
            FROM gold.reassignment a WHERE a.cluster_id = ? AND {_TOUCHES}
            ORDER BY a.stalled_since_ms NULLS LAST, a.outcome <> 'open', {_AT} DESC NULLS LAST, a.topic, a.partition
            """,
            (cluster_id, span.from_ms, span.to_ms),
        )

    def reassignments_with_steps(self, cluster_id: str, ids: Sequence[str]) -> list[Reassignment]:
        """In the order asked for; those that are not known are left out."""
        rows = self.rows(
            "SELECT * FROM gold.reassignment WHERE cluster_id = ? AND reassignment_id IN (SELECT unnest(?::VARCHAR[]))",
            (cluster_id, list(ids)),
        )
        steps: dict[str, list[ReassignmentStep]] = {}
        for row in self.rows(
            "SELECT * FROM gold.reassignment_step WHERE cluster_id = ?"
            " AND reassignment_id IN (SELECT unnest(?::VARCHAR[])) ORDER BY reassignment_id, step",
            (cluster_id, list(ids)),
        ):
            steps.setdefault(row["reassignment_id"], []).append(made(ReassignmentStep, row))
        found = {
            row["reassignment_id"]: replace(reassignment_of(row), steps=tuple(steps.get(row["reassignment_id"], ())))
            for row in rows
        }
        return [found[i] for i in ids if i in found]

    def reassignments_of(self, cluster_id: str, topic: str, partition: int) -> pd.DataFrame:
        """All attempts for one partition, oldest first."""
        return self.frame(
            f"SELECT a.*, {_AT} AS at_ms FROM gold.reassignment a WHERE a.cluster_id = ? AND a.topic = ?"
            " AND a.partition = ? ORDER BY at_ms NULLS FIRST, a.reassignment_id",
            (cluster_id, topic, partition),
        )

    def copies(self, cluster_id: str, span: Span) -> pd.DataFrame:
        """One row per replica that was to be added: its broker, since when, until in sync or the end; and from when to
        when it was stalled, where that is known to be for its broker."""
        return self.frame(
            f"""
            WITH each AS (
                SELECT unnest(a.progress) AS p, a.* FROM gold.reassignment a WHERE a.cluster_id = ? AND {_TOUCHES}),
            timed AS (
                SELECT p.broker_id AS broker_id, coalesce(started_at_ms, ?) AS from_ms,
                       coalesce(p.in_isr_at_ms, ended_at_ms, ?) AS to_ms,
                       standstill_from_ms + longest_standstill_ms AS went_on_at_ms,
                       CASE WHEN outcome = 'open' AND p.in_isr_at_ms IS NULL THEN stalled_since_ms
                            WHEN outcome <> 'open' AND blocked_by IS NOT NULL
                              AND list_contains(blocked_replicas, p.broker_id) THEN standstill_from_ms
                       END AS stood_from_ms, outcome
                FROM each WHERE outcome <> 'refused')
            SELECT broker_id, from_ms, to_ms, stood_from_ms,
                   CASE WHEN outcome = 'open' THEN to_ms ELSE least(went_on_at_ms, to_ms) END AS stood_to_ms
            FROM timed
            """,
            (cluster_id, span.from_ms, span.to_ms, span.from_ms, span.to_ms),
        )

    def stalls(self, cluster_id: str, span: Span) -> pd.DataFrame:
        """One row per reassignment that was stalled: from when to when, and the replicas it was to keep that held it
        up. `copies` has those that it was to add."""
        return self.frame(
            f"""
            SELECT coalesce(stalled_since_ms, standstill_from_ms) AS from_ms,
                   CASE WHEN outcome = 'open' THEN ? ELSE standstill_from_ms + longest_standstill_ms END AS to_ms,
                   [b FOR b IN blocked_replicas IF NOT list_contains([p.broker_id FOR p IN progress], b)] AS kept
            FROM gold.reassignment a
            WHERE a.cluster_id = ? AND {_TOUCHES} AND outcome <> 'refused'
              AND CASE WHEN outcome = 'open' THEN stalled_since_ms ELSE standstill_from_ms END IS NOT NULL
              AND (outcome = 'open' OR blocked_by IS NOT NULL)
            """,
            (span.to_ms, cluster_id, span.from_ms, span.to_ms),
        )

    def moves_of(self, cluster_id: str, span: Span, partitions: Sequence[str]) -> pd.DataFrame:
        """Reassignments of these partitions (`topic-partition`) that touch the span, oldest first."""
        return self.frame(
            f"SELECT a.reassignment_id, a.topic, a.partition, a.outcome, a.started_at_ms, a.ended_at_ms"
            f" FROM gold.reassignment a WHERE a.cluster_id = ? AND {_TOUCHES}"
            f" AND (a.topic || '-' || a.partition) IN (SELECT unnest(?::VARCHAR[])) ORDER BY {_AT}, a.reassignment_id",
            (cluster_id, span.from_ms, span.to_ms, list(partitions)),
        )

    def elections(self, cluster_id: str, span: Span, partitions: Sequence[str] | None = None) -> pd.DataFrame:
        """Elections of the span, oldest first; only of these partitions (`topic-partition`), if given."""
        wanted = None if partitions is None else list(partitions)
        return self.frame(
            "SELECT e.*, e.topic || '-' || e.partition AS name FROM gold.leader_election e WHERE e.cluster_id = ?"
            " AND e.at_ms BETWEEN ? AND ?"
            " AND (?::VARCHAR[] IS NULL OR (e.topic || '-' || e.partition) IN (SELECT unnest(?::VARCHAR[])))"
            " ORDER BY e.at_ms, e.topic, e.partition",
            (cluster_id, span.from_ms, span.to_ms, wanted, wanted),
        )

    def rebalances_of_cluster(self, cluster_id: str, span: Span) -> pd.DataFrame:
        """Rebalances of all groups of one cluster, oldest first: group, number, cause, when."""
        return self.frame(
            f"""
            SELECT r.rebalance_id, r.group_id, r.generation_id, r.group_epoch, r.rewrite_seq, r.trigger, r.kind,
                   r.started_at_ms, {AT} AS at_ms
            FROM flat.rebalance r WHERE {COUNTED} AND r.cluster_id = ? AND {AT} BETWEEN ? AND ?
            ORDER BY at_ms, r.rebalance_id
            """,
            (cluster_id, span.from_ms, span.to_ms),
        )

    def coordination(self, cluster_id: str, group_id: str) -> Coordination:
        """The partition of the offsets topic that holds the group, as its records say, and those the group works on."""
        newest = (
            "r.cluster_id = ? AND r.group_id = ? AND r.rebalance_id IN (SELECT rebalance_id FROM flat.rebalance"
            f" WHERE cluster_id = ? AND group_id = ? ORDER BY assigned_at_ms DESC NULLS LAST LIMIT {_NEWEST:d})"
        )
        wanted = (cluster_id, group_id, cluster_id, group_id)
        places = self.rows(
            f"""
            SELECT DISTINCT regexp_extract(ref, '^record:({OFFSETS_TOPIC}-[0-9]+)@', 1) AS place
            FROM (SELECT unnest(r.evidence) AS ref FROM near.rebalance r WHERE {newest})
            WHERE ref LIKE 'record:{OFFSETS_TOPIC}-%' ORDER BY 1
            """,
            wanted,
            near=(newest, wanted),
        )
        held = self.rows(
            "SELECT DISTINCT m.resource FROM gold.movement m WHERE m.cluster_id = ? AND m.group_id = ?"
            " AND m.resource_type = 'partition' ORDER BY 1",
            (cluster_id, group_id),
        )
        return Coordination(
            offsets_partitions=tuple(p["place"] for p in places if p["place"]),
            partitions=tuple(row["resource"] for row in held),
        )

    def groups_on(self, cluster_id: str, name: str) -> list[str]:
        """Groups that hang on this partition (`topic-partition`): held by it in the offsets topic, or working on it."""
        if name.startswith(f"{OFFSETS_TOPIC}-"):
            return [
                row["group_id"]
                for row in self.rows(
                    "SELECT DISTINCT r.group_id FROM gold.rebalance r WHERE r.cluster_id = ?"
                    " AND len(list_filter(r.evidence, e -> starts_with(e, ?))) > 0 ORDER BY 1",
                    (cluster_id, f"record:{name}@"),
                )
            ]
        return [
            row["group_id"]
            for row in self.rows(
                "SELECT DISTINCT group_id FROM gold.movement WHERE cluster_id = ? AND resource = ?"
                " AND resource_type = 'partition' ORDER BY 1",
                (cluster_id, name),
            )
        ]

    def reassignments_citing(self, cluster_id: str, ref: str) -> list[tuple[str, str]]:
        """Partition and id of the reassignments that rest on one piece of evidence."""
        rows = self.rows(
            "SELECT DISTINCT a.topic || '-' || a.partition AS name, a.reassignment_id FROM gold.reassignment a"
            " WHERE a.cluster_id = ? AND (list_contains(a.evidence, ?) OR a.reassignment_id IN ("
            " SELECT s.reassignment_id FROM gold.reassignment_step s WHERE s.cluster_id = ?"
            " AND list_contains(s.evidence, ?))) ORDER BY ALL LIMIT 50",
            (cluster_id, ref, cluster_id, ref),
        )
        return [(row["name"], row["reassignment_id"]) for row in rows]
