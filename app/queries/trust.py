"""Coverage: what was seen, what was not, and whether the tables pass their checks."""

from __future__ import annotations

from app.answers.rows import (
    CheckRow,
    ContradictionRow,
    Coverage,
    IncompleteCount,
    IncompleteRow,
    LetGoRow,
    LogOfEvidence,
    ReopeningRow,
    SilentRow,
    UndecodedRow,
)
from app.queries.tables import AT, Tables, made
from rebalance_audit.domain.publish.verdicts import last_verdicts
from rebalance_audit.warehouse.behind import Behind, kept
from rebalance_audit.warehouse.evidence_log import read_head
from rebalance_audit.warehouse.evidence_log.verifying import verify_log
from rebalance_audit.warehouse.storage import files_at

_MOST_LEAVES = 5_000
"""Chosen: a page reads so many, which lie in 20 files, and leaves more to `audit verify`."""


class TrustQuestions(Tables):
    def coverage(self, cluster_id: str | None = None) -> list[Coverage]:
        """A row per source and partition of the ledger, those with gaps first."""
        rows = self.rows(
            "SELECT * FROM gold.coverage WHERE (?::VARCHAR IS NULL OR cluster_id = ?)"
            " ORDER BY is_gap DESC, cluster_id, source, from_position",
            (cluster_id, cluster_id),
        )
        return [Coverage(**row) for row in rows]

    def behind(self) -> Behind | None:
        """What `watch` says of the tables now, if they are behind; not bound to a publication."""
        said = kept(self._warehouse)
        return said if said is not None and said.since_ms is not None else None

    def contradictions(self, most: int = 500) -> list[ContradictionRow]:
        """Newest first."""
        rows = self.rows(f"SELECT * FROM silver.contradiction ORDER BY at_ms DESC NULLS LAST, ref LIMIT {most:d}")
        return [made(ContradictionRow, row) for row in rows]

    def incomplete(self, most: int = 500) -> list[IncompleteRow]:
        """The newest rebalances with missing evidence."""
        rows = self.rows(
            f"SELECT *, {AT} AS at_ms FROM flat.rebalance WHERE NOT is_complete_evidence"
            f" ORDER BY at_ms DESC NULLS LAST, cluster_id, rebalance_id LIMIT {most:d}"
        )
        return [made(IncompleteRow, row) for row in rows]

    def incomplete_counts(self) -> list[IncompleteCount]:
        """How many there are, by what shows which evidence it is; most first."""
        rows = self.rows(
            "SELECT outcome, protocol_type, min(group_epoch) AS group_epoch, min(started_at_ms) AS started_at_ms,"
            " count(*) AS rebalance_count FROM flat.rebalance WHERE NOT is_complete_evidence"
            " GROUP BY outcome, protocol_type, group_epoch IS NULL, started_at_ms IS NULL"
            " ORDER BY rebalance_count DESC, outcome, protocol_type"
        )
        return [IncompleteCount(**row) for row in rows]

    def reopenings(self, most: int = 200) -> tuple[list[ReopeningRow], int]:
        """Settled histories that were worked out again, the newest evidence first; and how many there are."""
        rows = self.rows(
            "SELECT *, count(*) OVER () AS total FROM silver.reopening"
            f" ORDER BY evidence_at_ms DESC NULLS FIRST, batch_id DESC, cluster_id, group_id LIMIT {most:d}"
        )
        return [made(ReopeningRow, row) for row in rows], rows[0]["total"] if rows else 0

    def let_go(self) -> list[LetGoRow]:
        """Per cluster, of how many sources retention has deleted the beginning."""
        rows = self.rows(
            "SELECT cluster_id, count(*) AS source_count, any_value(source ORDER BY source) AS example"
            " FROM silver.floor GROUP BY 1 ORDER BY 1"
        )
        return [made(LetGoRow, row) for row in rows]

    def silent(self, after_ms: int) -> list[SilentRow]:
        """Topics and nodes of which nothing came for so long before the end of their cluster's evidence. A source
        without a time is none of them: its end is not known."""
        rows = self.rows(
            """
            WITH s AS (SELECT cluster_id, kind, CASE kind
                         WHEN 'log' THEN split_part(source[5:], '/', 1)
                         ELSE regexp_replace(source, '^record:(.*)-[0-9]+$', '\\1') END AS name,
                         max(to_at_ms) AS ended_at_ms
                       FROM gold.coverage WHERE to_at_ms IS NOT NULL AND NOT is_gap GROUP BY ALL),
                 e AS (SELECT cluster_id, max(ended_at_ms) AS last_at_ms FROM s GROUP BY 1)
            SELECT s.*, e.last_at_ms FROM s JOIN e USING (cluster_id) WHERE e.last_at_ms - s.ended_at_ms > ?
            ORDER BY e.last_at_ms - s.ended_at_ms DESC, cluster_id, name
            """,
            (after_ms,),
        )
        return [made(SilentRow, row) for row in rows]

    def undecoded(self, most: int = 500) -> list[UndecodedRow]:
        rows = self.rows(
            f"SELECT {', '.join(UndecodedRow.__dataclass_fields__)} FROM silver.undecoded"
            f" ORDER BY at_ms DESC NULLS LAST, ref LIMIT {most:d}"
        )
        return [UndecodedRow(**row) for row in rows]

    def undecoded_counts(self) -> dict[str, int]:
        rows = self.rows("SELECT reason, count(*) AS n FROM silver.undecoded GROUP BY 1 ORDER BY 2 DESC, 1")
        return {row["reason"]: row["n"] for row in rows}

    def decode_counts(self) -> dict[str, int]:
        """The decode stage's books, summed: in, event, commit, undecoded, skipped."""
        row = self.rows(
            'SELECT sum(in_count)::BIGINT AS "in", sum(event_count)::BIGINT AS event, sum(commit_count)::BIGINT '
            'AS "commit",'
            " sum(undecoded_count)::BIGINT AS undecoded, sum(skipped_count)::BIGINT AS skipped FROM silver.decode_count"
        )[0]
        return {k: int(v or 0) for k, v in row.items()}

    def evidence_log(self, now_ms: int) -> LogOfEvidence | None:
        """None where none was begun. Raises WarehouseError where its head is lost or damaged."""
        files = files_at(self.location)
        head = read_head(files)
        if head is None:
            return None

        def held() -> LogOfEvidence:
            is_read = head.size <= _MOST_LEAVES
            faults = tuple(fault.sentence for fault in verify_log(files, head).faults) if is_read else None
            return LogOfEvidence(leaf_count=head.size, at_ms=head.at_ms, key=head.key, faults=faults, held_at_ms=now_ms)

        return self.built(("evidence log", head), held)

    def checks(self) -> list[CheckRow]:
        """The newest verdict of each check; failed ones first."""
        rows = last_verdicts(self.rows("SELECT * FROM gold.check"))
        return [made(CheckRow, row) for row in sorted(rows, key=lambda row: (row["success"], not row["is_fatal"]))]
