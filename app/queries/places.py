"""Names that lead to a page: what Ctrl-K finds."""

from __future__ import annotations

from app.answers.rows import Place
from app.queries.tables import Tables

_RANKS = {"group": 0, "incident": 1, "connector": 1, "topic": 1, "reader": 1}
_OVER = 2


class PlaceQuestions(Tables):
    def places(self, text: str, most: int = 30) -> list[Place]:
        """Groups, open incidents before over ones, connectors and topics with `text` in their name; names that begin
        with it first. Upper and lower case are one."""
        wanted = text.casefold()
        rows = self.rows(
            f"""
            WITH named AS (
                SELECT 'group' AS kind, cluster_id, group_id AS found_id, group_id AS name, false AS is_over
                FROM flat.group
                UNION ALL
                SELECT 'incident', cluster_id, incident_id, title, status <> 'open' FROM flat.incident
                UNION ALL
                SELECT DISTINCT 'connector', cluster_id, group_id, connector, false FROM gold.connect_task
                UNION ALL
                SELECT DISTINCT 'topic', cluster_id, topic, topic, false FROM gold.reassignment)
            SELECT * FROM named WHERE contains(lower(name), ?)
            ORDER BY lower(name) = ? DESC, starts_with(lower(name), ?) DESC, is_over, kind = 'group' DESC,
                     length(name), name, cluster_id, found_id
            LIMIT {most:d}
            """,
            (wanted, wanted, wanted),
        )
        found = [(Place(**{k: v for k, v in row.items() if k != "is_over"}), row["is_over"]) for row in rows]
        found += [(place, False) for place in self.topics_read() if wanted in place.name.casefold()]

        def nearest(pair: tuple[Place, bool]) -> tuple[bool | int | str, ...]:
            place, is_over = pair
            name = place.name.casefold()
            rank = _OVER if is_over else _RANKS[place.kind]
            unlike = (name != wanted, not name.startswith(wanted))
            return (*unlike, rank, len(name), name, place.cluster_id, place.found_id)

        return [place for place, _ in sorted(found, key=nearest)[:most]]

    def topics_read(self) -> list[Place]:
        """Topics that members subscribed to, each group's. Read once for all that somebody types."""
        asked = "SELECT DISTINCT cluster_id, group_id AS found_id, topic AS name FROM flat.topic"
        return self.built(("topics read",), lambda: [Place(kind="reader", **row) for row in self.rows(asked)])
