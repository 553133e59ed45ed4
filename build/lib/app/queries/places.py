"""Names that lead to a page: what Ctrl-K finds."""

from __future__ import annotations

from app.answers.rows import Place
from app.queries.tables import Tables


class PlaceQuestions(Tables):
    def places(self, text: str, most: int = 30) -> list[Place]:
        """Groups, open incidents before over ones, connectors and topics with `text` in their name; names that begin
        with it first. Upper and lower case are one."""
        wanted = text.casefold()
        rows = self.rows(
            f"""
            WITH named AS (
                SELECT 0 AS rank, 'group' AS kind, cluster_id, group_id AS found_id, group_id AS name FROM gold.group
                UNION ALL
                SELECT CASE status WHEN 'open' THEN 1 ELSE 2 END, 'incident', cluster_id, incident_id, title
                FROM gold.incident
                UNION ALL
                SELECT DISTINCT 1, 'connector', cluster_id, group_id, connector FROM gold.connect_task
                UNION ALL
                SELECT DISTINCT 1, 'topic', cluster_id, topic, topic FROM gold.reassignment)
            SELECT kind, cluster_id, found_id, name FROM named WHERE contains(lower(name), ?)
            ORDER BY lower(name) = ? DESC, starts_with(lower(name), ?) DESC, rank, length(name), name,
                     cluster_id, found_id
            LIMIT {most:d}
            """,
            (wanted, wanted, wanted),
        )
        return [Place(**row) for row in rows]
