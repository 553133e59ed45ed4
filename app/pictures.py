"""The picture of an incident: what its page draws, and a file at an address of its own, for a text that links to it."""

from __future__ import annotations

from collections.abc import Sequence

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from app import access, charts, clock, words
from app.answers.rows import AlertNote, GroupCost, IncidentRow, MarkRow, Rebalance, Span
from app.charts.svg import svg
from app.page.frame import warehouse_location
from app.queries import Questions, WarehouseError, opened

ADDRESS = "incident.svg"
MOST_GROUPS = 6
MOST_REBALANCES = 200
ALERTS_SOON_MS = 60_000
_HEADERS = {
    "Cache-Control": "no-cache",
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'",
    "X-Content-Type-Options": "nosniff",
}


def around(i: IncidentRow, alerts: Sequence[AlertNote] | None) -> Span:
    """The time to draw: the whole incident, the alerts that went out meanwhile (None: not known), and some room."""
    length = i.last_at_ms - i.first_at_ms
    soon = [a.at_ms for a in alerts or () if a.at_ms <= i.last_at_ms + length + ALERTS_SOON_MS]
    room = max(1_500, length // 14)
    return Span(from_ms=i.first_at_ms - room, to_ms=max([i.last_at_ms, *soon]) + room)


def _histories(reader: Questions, i: IncidentRow, costs: Sequence[GroupCost]) -> list[tuple[str, list[Rebalance]]]:
    """The costliest groups, each with its rebalances around the incident."""
    its_own = Span(from_ms=i.first_at_ms, to_ms=i.last_at_ms)
    groups = [c.group_id for c in costs] or list(i.group_ids)
    return [(g, reader.rebalances_around(i.cluster_id, g, its_own, MOST_REBALANCES)) for g in groups[:MOST_GROUPS]]


def incident_picture(
    reader: Questions, i: IncidentRow, costs: Sequence[GroupCost], alerts: Sequence[AlertNote] | None
) -> tuple[charts.TimeLine, list[MarkRow]]:
    """And the deploys and changes that are marks on it."""
    groups, span, own = _histories(reader, i, costs), around(i, alerts), set(i.rebalance_ids)
    mine = [r for _, some in groups for r in some if r.rebalance_id in own]
    tasks = [t for g, _ in groups for t in reader.connect_tasks(i.cluster_id, g, span)]
    moves = reader.reassignments_with_steps(i.cluster_id, i.reassignment_ids) if i.reassignment_ids else []
    marks = reader.marks(span, cluster_id=i.cluster_id, group_ids=i.group_ids or None)
    scrub = charts.worst_moment(mine, (i.first_at_ms + i.last_at_ms) // 2)
    drawn = charts.incident_time_line(
        groups, own, i.chain, tasks, moves, marks, alerts or (), span.from_ms, span.to_ms, scrub
    )
    return drawn, marks


def is_served() -> bool:
    """Only where nobody is asked who they are: a wiki that shows the picture cannot log in."""
    return access.rules() is None


def incident_svg(request: Request) -> Response:
    """The picture of the incident that the address names, as it is known now."""
    location = warehouse_location()
    if location is None or not is_served():
        return PlainTextResponse("There is no such page.", 404)
    asked = request.query_params
    cluster_id, incident_id = asked.get("cluster", ""), asked.get("incident", "")
    try:
        reader = opened(location, access.SEES_ALL)
        reader.refresh(clock.now_ms())
        found = reader.incident(cluster_id, incident_id)
        if found is None:
            return PlainTextResponse("Nothing is known of this incident.", 404)
        costs = reader.incident_costs(cluster_id, incident_id)
        drawn, _ = incident_picture(reader, found, costs, reader.alerts_about(incident_id))
    except WarehouseError as error:
        return PlainTextResponse(f"The warehouse cannot be read: {words.visible(str(error))}", 503)
    tz = words.zone(asked.get("zone"))
    title = words.cut(words.utc_in(words.visible(found.title), tz), 400)
    return Response(svg(drawn, title, tz), media_type="image/svg+xml", headers=_HEADERS)
