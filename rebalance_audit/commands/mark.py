"""`mark`: record a change made outside Kafka, so that time lines show it beside its cost."""

from __future__ import annotations

import time
from contextlib import ExitStack
from typing import Annotated, Any

import typer

from rebalance_audit.commands import options
from rebalance_audit.commands.options import CommandError, UsageError
from rebalance_audit.commands.output import note
from rebalance_audit.commands.rows import clusters_of, published, refuse_unknown_cluster

DAY_MS = 86_400_000
EARLIEST_MS = 1_293_840_000_000
"""2011-01-01: Kafka did not exist before."""
TEXT_LENGTH = 500
WAIT_S = 30.0
"""For a run that writes just now; those of `watch` take seconds."""


def mark(
    warehouse: options.Warehouse,
    text: Annotated[str, typer.Option("--text", metavar="TEXT", help="What was done: 'v2.3 of orders'.")],
    at: Annotated[
        str | None,
        typer.Option("--at", metavar="T", help="2026-11-21T14:00 (UTC), epoch ms, -2h; now if left out."),
    ] = None,
    group: Annotated[
        str, typer.Option("-g", "--group", metavar="PATTERN", help="Groups it concerns, as a shell pattern.")
    ] = "*",
    cluster_id: options.ClusterId = None,
    quiet: options.Quiet = False,
    config: options.Config = None,
) -> None:
    """Note a deploy or a change, to be shown beside what it did."""
    from rebalance_audit.warehouse.warehouse import Warehouse

    now_ms = time.time_ns() // 1_000_000
    clusters, _ = noted(Warehouse.open(warehouse), text=text, at=at, group=group, cluster_id=cluster_id, now_ms=now_ms)
    note(f"Marked in {len(clusters)} cluster{'s' if len(clusters) > 1 else ''}.", quiet=quiet)


def noted(
    opened: Any,
    *,
    text: str,
    at: str | None,
    group: str,
    cluster_id: str | None,
    now_ms: int,
    names: tuple[str, str, str] = ("--text", "--at", "-g"),
) -> tuple[list[str], int]:
    """Keep a mark; the clusters it is in now, and its time. `names`: what text, time and group are called where they
    came from. Raises UsageError and CommandError."""
    from rebalance_audit.domain.incidents import ChangeMark

    of_text, of_at, of_group = names
    at_ms = now_ms if at is None else moment(at, now_ms, of_at)
    said = text.strip()
    if not said or len(said) > TEXT_LENGTH:
        raise UsageError(f"{of_text} has {len(said):,} characters; say in 1 to {TEXT_LENGTH} what was done.")
    for name, value in ((of_text, text), (of_group, group)):
        options.refuse_no_text(name, value)
    if not group.strip():
        raise UsageError(f"{of_group} is empty; give a pattern of groups, or leave it out for all.")
    published(opened)
    refuse_unknown_cluster(opened, cluster_id)
    clusters = [cluster_id] if cluster_id is not None else clusters_of(opened)
    if not clusters:
        raise CommandError(f"{opened.location} knows no cluster yet; run `rebalance-audit run -w {opened.location}`.")
    store(
        opened,
        [ChangeMark(cluster_id=c, at_ms=at_ms, source="told", text=said, scope=group.strip()) for c in clusters],
    )
    return clusters, at_ms


def moment(text: str, now_ms: int, name: str = "--at") -> int:
    """The instant of this text. Raises UsageError for a time before Kafka or more than a day ahead."""
    at_ms = options.instant_ms(name, text, now_ms)
    if at_ms < EARLIEST_MS:
        raise UsageError(f"{name} {text} lies before there was a Kafka; write it as 2026-11-21T14:00, or epoch ms.")
    if at_ms > now_ms + DAY_MS:
        raise UsageError(f"{name} {text} lies more than a day ahead; mark what was done when it was done.")
    return at_ms


def store(opened: Any, marks: list[Any]) -> None:
    """Write these marks and publish them at once. A mark that is there already is not written twice. Waits a little for
    another writer."""
    import pyarrow as pa

    from rebalance_audit.domain.incidents import mark_row
    from rebalance_audit.warehouse.arrow_tables import rows_to_table

    rows = rows_to_table("gold.mark", [mark_row(m) for m in marks])
    with ExitStack() as held:
        _take_turn(opened, held)
        keys = pa.table({name: rows.column(name) for name in ("cluster_id", "mark_id")})
        opened.replace("gold.mark", rows, keys)
        manifest = opened.publication()
        opened.publish({**manifest["versions"], "gold.mark": opened.version("gold.mark")}, manifest.get("consumed"))


def _take_turn(opened: Any, held: ExitStack) -> None:
    from rebalance_audit.warehouse.warehouse import WarehouseError

    until = time.monotonic() + WAIT_S
    while True:
        try:
            held.enter_context(opened.lease("mark"))
            return
        except WarehouseError:
            if time.monotonic() > until:
                raise
            time.sleep(0.2)
