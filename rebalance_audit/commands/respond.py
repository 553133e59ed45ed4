"""`ack` and `silence`: answers of people to incidents, kept in the warehouse and honoured by alerts."""

from __future__ import annotations

import time
from difflib import get_close_matches
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rebalance_audit.commands import options
from rebalance_audit.commands.options import CommandError, UsageError
from rebalance_audit.commands.output import note
from rebalance_audit.commands.rows import known_table, published, refuse_unknown_cluster, selection

if TYPE_CHECKING:
    from rebalance_audit.domain.incidents import Incident
    from rebalance_audit.domain.incidents.responses import Response

NAMED = 5
By = Annotated[
    str | None, typer.Option("--by", metavar="NAME", help="Who says so; the user of this machine if left out.")
]


def ack(
    incident: Annotated[str, typer.Argument(metavar="INCIDENT", help="Its id, as `export incident` shows it.")],
    warehouse: options.Warehouse,
    reason: Annotated[str | None, typer.Option("--reason", metavar="TEXT", help="What is being done.")] = None,
    by: By = None,
    quiet: options.Quiet = False,
    config: options.Config = None,
) -> None:
    """Acknowledge an incident: somebody is on it.

    Alerts about it go out again only if it grows graver, and when it is over.
    """
    from rebalance_audit.domain.incidents.responses import (
        ResponseRefused,
        acknowledged_words,
        acknowledgement,
        standing,
    )
    from rebalance_audit.warehouse.responses import respond
    from rebalance_audit.warehouse.warehouse import Warehouse

    for name, value in (("--reason", reason or ""), ("--by", by or "")):
        options.refuse_no_text(name, value)
    opened = published(Warehouse.open(warehouse))
    found = _incident(opened, incident)
    now_ms = time.time_ns() // 1_000_000
    try:
        mine = acknowledgement(found, by or options.this_user(), now_ms, reason)
    except ResponseRefused as refused:
        raise UsageError(str(refused)) from None
    stands = standing(found, respond(opened, mine), now_ms)
    if stands.acknowledged != mine:
        note(f"Kept beside the first: {acknowledged_words(stands)}.", quiet=quiet)
    else:
        over = " It is over already." if found.status == "over" else ""
        note(f"{found.incident_id} is {acknowledged_words(stands)}.{over}", quiet=quiet)


def silence(
    pattern: Annotated[
        str, typer.Argument(metavar="PATTERN", help="Groups as a shell pattern ('orders*'), or an incident's id.")
    ],
    warehouse: options.Warehouse,
    until: Annotated[
        str | None, typer.Option("--until", metavar="T", help="2h from now, 2026-11-21T14:00 (UTC), or now to lift it.")
    ] = None,
    reason: Annotated[
        str | None, typer.Option("--reason", metavar="TEXT", help="Why nobody needs to hear of it.")
    ] = None,
    by: By = None,
    cluster_id: options.ClusterId = None,
    to: Annotated[
        list[str] | None,
        typer.Option("--to", metavar="URL", help="Set the silence at this Alertmanager too."),
    ] = None,
    quiet: options.Quiet = False,
    config: options.Config = None,
) -> None:
    """Send no alerts about some groups until a time.

    An incident that also touches other groups is sent all the same.
    """
    from rebalance_audit.domain.detect.wording import clock, counted, shown
    from rebalance_audit.domain.incidents.responses import ResponseRefused, covers
    from rebalance_audit.domain.incidents.responses import silence as silenced
    from rebalance_audit.warehouse.responses import respond
    from rebalance_audit.warehouse.warehouse import Warehouse

    now_ms = time.time_ns() // 1_000_000
    for name, value in (("PATTERN", pattern), ("--reason", reason or ""), ("--by", by or "")):
        options.refuse_no_text(name, value)
    try:
        mine = silenced(pattern, by or options.this_user(), now_ms, _end(until, now_ms), reason, cluster_id)
    except ResponseRefused as refused:
        raise UsageError(str(refused)) from None
    if to and mine.until_ms == now_ms:
        raise UsageError("--to sets a silence at an Alertmanager; let one expire there by its own page or `amtool`.")
    opened = published(Warehouse.open(warehouse))
    refuse_unknown_cluster(opened, cluster_id)
    if to:
        from rebalance_audit.alerts.silences import silences_url

        for target in to:
            silences_url(target)  # refused before anything is kept
    respond(opened, mine)
    if to:
        _silence_there(mine, to)
    covered = [i for i in _incidents(opened) if i.status == "open" and not i.expected and covers(mine, i)]
    if mine.until_ms == now_ms:
        note(f"Alerts about {shown(pattern)} go out again.", quiet=quiet)
    elif covered or _fits_a_group(opened, mine):
        note(
            f"No alerts about {shown(pattern)} until {clock(mine.until_ms)}; "
            f"{counted(len(covered), 'open incident')} now.",
            quiet=quiet,
        )
    else:
        where = "" if cluster_id is None else f" of cluster {shown(cluster_id)}"
        note(
            f"Kept until {clock(mine.until_ms)}, but {shown(pattern)} fits no group{where} and no open incident known "
            "today: see `export group` for the names. Capitals count.",
            quiet=quiet,
        )


def _fits_a_group(opened: Any, mine: Response) -> bool:
    from rebalance_audit.domain.incidents.responses import fits_group

    groups = opened.query("SELECT cluster_id, group_id FROM gold.group").to_pylist()
    return any(fits_group(mine, g["cluster_id"], g["group_id"]) for g in groups)


def _end(text: str | None, now_ms: int) -> int | None:
    """`now`, a duration from now on (`2h`, `+2h`), or a time."""
    if text is None:
        return None
    said = text.strip().removeprefix("+")
    if said == "now":
        return now_ms
    if said and said[-1].isalpha() and said[0].isdigit() and not said.endswith(("Z", "z")):
        return now_ms + options.duration_ms(said)
    return options.instant_ms("--until", said, now_ms, "2h")


def _silence_there(mine: Response, targets: list[str]) -> None:
    from rebalance_audit.alerts.silences import silence_at
    from rebalance_audit.alerts.target import AlertError, NotDelivered, masked

    for target in targets:
        try:
            silence_at(target, mine)
        except NotDelivered as failure:
            raise AlertError(f"{masked(target)} did not take the silence; it holds here alone: {failure}") from None


def _incidents(opened: Any) -> list[Incident]:
    from rebalance_audit.domain.incidents import incident_of

    return [incident_of(row) for row in opened.query(*selection(known_table("gold.incident"))).to_pylist()]


def _incident(opened: Any, named: str) -> Incident:
    """The incident of this id, or of the only id that begins so."""
    from rebalance_audit.domain.detect.wording import shown

    found = _incidents(opened)
    exact = [i for i in found if i.incident_id == named]
    begun = exact or [i for i in found if len(named) > 3 and i.incident_id.startswith(named)]
    if len(begun) == 1:
        return begun[0]
    if not found:
        raise CommandError(f"There is no incident at {opened.location}; there is nothing to acknowledge.")
    if begun:
        raise UsageError(f"{shown(named)} is the beginning of {len(begun)} incidents; give the whole id.")
    ids = [i.incident_id for i in found]
    open_ones = [i.incident_id for i in found if i.status == "open"]
    near = get_close_matches(named, ids, 3)
    hint = f"did you mean {' or '.join(near)}?" if near else f"open ones are {', '.join(open_ones[:NAMED])}."
    if not near and not open_ones:
        hint = "`export incident` lists them all."
    raise UsageError(f"There is no incident {shown(named)!r} at {opened.location}; {hint}")
