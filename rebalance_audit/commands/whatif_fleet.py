"""`whatif` without a group: the changes of settings that would save a fleet the most."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from rebalance_audit.commands.options import Output
from rebalance_audit.commands.output import json_text, output_width, styled
from rebalance_audit.commands.pipeline import Carried
from rebalance_audit.commands.turns import turn
from rebalance_audit.domain.explain.layout import hanging
from rebalance_audit.domain.visible import visible

if TYPE_CHECKING:
    from rebalance_audit.warehouse.warehouse import Warehouse
    from spark_jobs.advise import FleetWeighed


def weigh_fleet(
    location: str, *, seconds: float, days: int, carried: Carried, output: Output, quiet: bool = False
) -> None:
    """Replace gold.whatif, and print the ten changes worth most. Waits its turn, as `weigh` does."""
    from rebalance_audit.commands.rows import published
    from rebalance_audit.reports.read import worth_most
    from rebalance_audit.warehouse.warehouse import Warehouse

    opened = Warehouse.open(location)
    published(opened)
    weighed = weigh(opened, seconds=seconds, days=days, carried=carried, quiet=quiet)
    rows = worth_most(opened)
    if output is Output.JSON:
        sys.stdout.write(json_text(_as_json(weighed, rows)) + "\n")
    else:
        sys.stdout.write(styled("\n".join(visible(line) for line in _as_text(weighed, rows, days))) + "\n")


def weigh(opened: Warehouse, *, seconds: float, days: int, carried: Carried, quiet: bool = False) -> FleetWeighed:
    """Replace gold.whatif, when no other process writes any more: BeingWrittenError if one does for more than a
    minute."""
    from spark_jobs.advise import advise
    from spark_jobs.pipeline import writing_run

    lease = turn(opened, "whatif", quiet=quiet)
    with writing_run(opened, engine=carried.engine, spark_from_bytes=carried.spark_from_bytes, lease=lease) as context:
        return advise(context, seconds=seconds, days=days)


def _as_json(weighed: FleetWeighed, rows: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "groups_weighed": weighed.groups,
        "groups_with_cost": weighed.groups_with_cost,
        "cost_seconds_weighed": round(weighed.cost_seconds, 3),
        "cost_seconds": round(weighed.cost_of_all_seconds, 3),
        "changes": [dict(row) | {name: _by_name(row[name]) for name in ("settings", "in_force")} for row in rows],
    }


def _by_name(settings: Sequence[str] | None) -> dict[str, str] | None:
    return None if settings is None else dict(text.partition("=")[::2] for text in settings)


def _as_text(weighed: FleetWeighed, rows: list[dict[str, Any]], days: int) -> Iterator[str]:
    from rebalance_audit.domain.replay.meanings import beyond_pauses, prices_of

    width = output_width()
    share = weighed.cost_seconds / weighed.cost_of_all_seconds if weighed.cost_of_all_seconds else 1.0
    yield from hanging(
        f"Replayed {weighed.groups:,} of the {weighed.groups_with_cost:,} groups that stood still in the last {days} "
        f"days, the costliest first: {share:.0%} of all {weighed.cost_of_all_seconds:,.1f} s. Each second is one "
        "partition or task that nobody works on for a second.",
        width,
        3,
    )
    if not rows:
        yield from hanging(
            "No change of settings is sure to save anything; `whatif GROUP` shows what was tried for a group.", width, 3
        )
        return
    for row in rows:
        yield ""
        was = _by_name(row["in_force"]) or {}
        asked = _by_name(row["settings"]) or {}
        settings = (f"{name}={value} (was {was.get(name, 'not known')})" for name, value in asked.items())
        yield from hanging(f"  {row['group_id']} on {row['cluster_id']}   {'  '.join(settings)}", width, 6)
        yield from hanging(f"    {row['why']}", width, 6)
        for price in prices_of(asked, was):
            yield from hanging(f"    its price: {price if len(asked) > 1 else price.partition(': ')[2]}", width, 6)
        if row["fit_causes"] is not None:
            yield from hanging(
                f"    how sure: with the settings that it had, {row['fit_causes']:.0%} of the causes came out again",
                width,
                6,
            )
        if (beyond := beyond_pauses(row["beyond_pauses_seconds"])) is not None:
            yield from hanging(f"    {beyond}", width, 6)
    yield ""
    yield from hanging("`rebalance-audit whatif GROUP -w W` says what to paste, and what else was tried.", width, 3)
