"""`whatif`: a group's own history, replayed under other settings."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rebalance_audit.commands import options
from rebalance_audit.commands.meter import meter
from rebalance_audit.commands.options import CommandError, Output, UsageError
from rebalance_audit.commands.output import json_text, output_width
from rebalance_audit.commands.pipeline import Carried
from rebalance_audit.commands.whatif_fleet import weigh_fleet
from rebalance_audit.domain.visible import visible

if TYPE_CHECKING:
    from rebalance_audit.commands.explain.group import GroupAnswer
    from rebalance_audit.domain.replay.whatif import Fit, Option

SHOWN_OPTIONS = 10


def whatif(
    group: Annotated[
        str | None, typer.Argument(metavar="GROUP", help="The group id; without one all groups of a warehouse.")
    ] = None,
    evidence: options.Evidence = None,
    warehouse: Annotated[
        str | None, typer.Option("-w", "--warehouse", metavar="W", help="A warehouse that `run` has filled.")
    ] = None,
    bootstrap: options.Bootstrap = None,
    command_config: options.CommandConfig = None,
    overrides: options.Overrides = None,
    logs: options.Logs = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="A setting to try; repeated, they are tried together."),
    ] = None,
    cluster_id: options.ClusterId = None,
    from_: options.From = None,
    to: options.To = None,
    output: Annotated[Output, typer.Option("-o", "--output", help="table or json.")] = Output.TABLE,
    seconds: Annotated[
        float | None,
        typer.Option("--seconds", metavar="S", min=1, help="Without GROUP: take so long, on every core; else 300."),
    ] = None,
    days: Annotated[
        int | None, typer.Option("--days", metavar="N", min=1, help="Without GROUP: look back so many days; else 30.")
    ] = None,
    engine: options.EngineChoice = options.EngineName.AUTO,
    quiet: options.Quiet = False,
    config: options.Config = None,
) -> None:
    """What other settings would have saved this group.

    And what they would have cost instead (docs/whatif.md).

    Without --set it tries what could help, the best first. Without GROUP it weighs the groups of a warehouse that
    stood still the longest, keeps the answers in gold.whatif, and prints the ten changes worth most.
    """
    if output not in (Output.TABLE, Output.JSON):
        raise UsageError(f"whatif prints a table or json; -o {output.value} is for lists of rows.")
    if group is None:
        if warehouse is None or settings:
            raise UsageError("Name a GROUP; only with -w W, and without --set, all groups of a warehouse are weighed.")
        if from_ is not None or to is not None:
            raise UsageError("--from and --to are for one GROUP; all groups are weighed over the last --days N.")
        carried = Carried(engine.value)
        weigh_fleet(warehouse, seconds=seconds or 300.0, days=days or 30, carried=carried, output=output, quiet=quiet)
        return
    if seconds is not None or days is not None:
        raise UsageError("--seconds and --days are for all groups of a warehouse; of one GROUP give --from and --to.")
    from rebalance_audit.commands.stored import stored_commits, stored_evidence, stored_rebalances
    from rebalance_audit.domain.numbers import happened_at_ms
    from rebalance_audit.domain.replay.candidates import candidates
    from rebalance_audit.domain.replay.requests import RequestError
    from rebalance_audit.domain.replay.situation import TooLittle, situation_of
    from rebalance_audit.domain.replay.whatif import fit_of, option_of, ranked, request_of
    from rebalance_audit.warehouse.warehouse import Warehouse

    places = {"--evidence": evidence, "-w": warehouse, "-b": bootstrap}
    options.one_place(places, "--evidence DIR, -w W, or -b HOST:PORT")
    now_ms = time.time_ns() // 1_000_000
    from_ms, to_ms = options.period_ms(from_, to, now_ms)
    with meter("whatif", quiet=quiet, unit="items") as progress:
        if warehouse is not None:
            opened = Warehouse.open(warehouse)
            rows = stored_rebalances(opened, group, cluster_id)
            marks = stored_commits(opened, rows)
            end_ms = stored_evidence(opened, rows[0].cluster_id)["to_ms"] or 0
            until_ms = max(end_ms, *(r.ended_at_ms or 0 for r in rows))
        else:
            answer = _from_evidence(group, evidence, bootstrap, command_config, overrides, logs, progress)
            rows, until_ms, marks = list(answer.rebalances), answer.seen_until_ms or 0, list(answer.marks)
    earlier = [r for r in rows if from_ms is not None and (at_ms := happened_at_ms(r)) is not None and at_ms < from_ms]
    rows = [
        r
        for r in rows
        if (at_ms := happened_at_ms(r)) is None
        or ((from_ms is None or at_ms >= from_ms) and (to_ms is None or at_ms < to_ms))
    ]
    if not rows:
        raise CommandError(f"Group {group!r} has no rebalance in that time; give a longer one.")
    until_ms = until_ms if to_ms is None else min(until_ms, to_ms)
    try:
        situation = situation_of(rows, until_ms, earlier[-1] if earlier else None, marks=marks)
        if settings:
            request_of(situation, settings)  # what cannot be replayed is refused before anything else
        fit = fit_of(situation)
        if fit.refused is not None:
            found: list[Option] = []
        else:
            found = [option_of(situation, settings)] if settings else ranked(situation, candidates(situation))
    except TooLittle as error:
        raise CommandError(str(error)) from None
    except RequestError as error:
        raise UsageError(str(error)) from None
    if output is Output.JSON:
        sys.stdout.write(json_text(_as_json(fit, found, settings)) + "\n")
    else:
        unit = "task" if situation.script.protocol_type == "connect" else "partition"
        since_ms = next(at_ms for r in rows if (at_ms := happened_at_ms(r)) is not None)
        lines = _as_text(group, unit, situation.in_force, fit, found, bool(settings), (since_ms, until_ms))
        sys.stdout.writelines(visible(line) + "\n" for line in lines)


def _from_evidence(
    group: str,
    evidence: Path | None,
    bootstrap: str | None,
    command_config: Path | None,
    overrides: list[str] | None,
    logs: list[str] | None,
    progress: Any,
) -> GroupAnswer:
    from rebalance_audit.commands.explain.group import answer_for
    from rebalance_audit.commands.explain.group_reading import from_cluster, from_folder, open_evidence

    folders = options.log_folders(logs)
    if bootstrap:
        config = options.client_config(bootstrap, command_config, overrides)
        reading = from_cluster(config, group, progress, logs=folders)
    else:
        reading = from_folder(open_evidence(evidence, None, None, folders, None, None, None), group, progress)
    return answer_for(reading)


def _as_json(fit: Fit, found: Sequence[Option], asked: Sequence[str] | None) -> dict[str, Any]:
    option_rows = [
        {
            "settings": dict(o.settings),
            "saved_seconds": o.saved_seconds,
            "saved_lower_seconds": o.saved_lower_seconds,
            "saved_upper_seconds": o.saved_upper_seconds,
            "cost_seconds": o.cost_seconds,
            "cost_lower_seconds": o.cost_lower_seconds,
            "cost_upper_seconds": o.cost_upper_seconds,
            "rebalances": o.rebalances,
            "why": o.why,
            "refused": o.refused,
            "properties": {client: list(lines) for client, lines in o.properties.items()},
            "in_force": dict(o.in_force),
        }
        for o in found
    ]
    if not found and asked:
        names = dict.fromkeys(("saved_seconds", "saved_lower_seconds", "saved_upper_seconds"))
        names |= dict.fromkeys(("cost_seconds", "cost_lower_seconds", "cost_upper_seconds", "rebalances"))
        pairs = dict(pair.split("=", 1) for pair in asked)
        option_rows = [
            {"settings": pairs} | names | {"why": "", "refused": fit.refused, "properties": {}, "in_force": {}}
        ]
    return {
        "fit": {
            "rebalances": fit.rebalances,
            "causes": fit.causes,
            "cost_seconds": fit.cost_seconds,
            "measured_seconds": fit.measured_seconds,
            "measured_lower_seconds": fit.measured_lower_seconds,
            "measured_upper_seconds": fit.measured_upper_seconds,
            "beyond_pauses_seconds": fit.beyond_pauses_seconds,
            "refused": fit.refused,
        },
        "options": option_rows,
    }


def _first_line(group: str, unit: str, fit: Fit, found: Sequence[Option], is_asked: bool) -> str:
    if fit.refused is not None:
        return f"Nothing is predicted for {group}: {fit.refused}."
    if is_asked:
        return _asked_line(group, unit, found[0])
    best = next((o for o in found if (o.saved_lower_seconds or 0.0) > 0), None)
    if best is not None:
        return _asked_line(group, unit, best)
    first = found[0] if found else None
    nearest = "" if first is None or not _may_help(first) else f" {_asked_line(group, unit, first)}"
    return f"No setting that was tried is sure to save {group} anything.{nearest}"


def _asked_line(group: str, unit: str, option: Option) -> str:
    from rebalance_audit.domain.replay.meanings import leans, range_in_doubt

    settings = " and ".join(f"{name}={value}" for name, value in option.settings.items())
    saved, lower, upper = option.saved_seconds, option.saved_lower_seconds, option.saved_upper_seconds
    if saved is None or lower is None or upper is None:
        return f"Nothing is predicted for {group} under {settings}: {option.refused}."
    if _was_so_already(option):
        return f"{settings} is what {group} had: nothing would have been different."
    if lower > 0:
        return f"{settings} would have saved {group} {saved:.1f} {unit}-seconds ({lower:.1f} \u2026 {upper:.1f})."
    if upper < 0:
        return (
            f"{settings} would have cost {group} {-saved:.1f} {unit}-seconds more ({-upper:.1f} \u2026 {-lower:.1f})."
        )
    if not leans(saved, lower, upper):
        return (
            f"{settings} would have made no difference to {group} beyond the spread of its replays: likely "
            f"{range_in_doubt(lower, upper, f'{unit}-seconds')}."
        )
    helped, less = ("helped", "less") if saved > 0 else ("harmed", "more")
    return (
        f"{settings} may have {helped} {group}, but that is not sure: {abs(saved):,.1f} {unit}-seconds {less} in the "
        f"middle of its replays, likely {range_in_doubt(lower, upper)}."
    )


def _may_help(option: Option) -> bool:
    from rebalance_audit.domain.replay.meanings import leans

    saved, lower, upper = option.saved_seconds, option.saved_lower_seconds, option.saved_upper_seconds
    if saved is None or lower is None or upper is None:
        return False
    return saved > 0 and leans(saved, lower, upper)


def _was_so_already(option: Option) -> bool:
    from rebalance_audit.domain.replay.requests import in_milliseconds

    return {name: in_milliseconds(value) for name, value in option.settings.items()} == option.in_force


def _as_text(
    group: str,
    unit: str,
    in_force: Any,
    fit: Fit,
    found: Sequence[Option],
    is_asked: bool,
    replayed_ms: tuple[int, int],
) -> Iterator[str]:
    """The answer in the first line. `unit`: task or partition; `replayed_ms`: the first rebalance and the end."""
    from rebalance_audit.domain.detect.wording import clock, meaning_of_unit
    from rebalance_audit.domain.explain.layout import hanging
    from rebalance_audit.domain.replay.meanings import beyond_pauses, meanings_of, prices_of

    width = output_width()
    yield from hanging(_first_line(group, unit, fit, found, is_asked), width, 3)
    yield ""
    yield from hanging(
        f"{group}   {in_force.group_protocol}, {in_force.assignor}, heartbeat {in_force.heartbeat_interval_ms} ms; "
        f"stood still {fit.measured_seconds:.1f} {unit}-seconds as measured, from {clock(replayed_ms[0])} to "
        f"{clock(replayed_ms[1])}",
        width,
        3,
    )
    yield from hanging(
        f"How sure: replayed with the settings that it had, {fit.rebalances:.0%} of its rebalances and "
        f"{fit.causes:.0%} of their causes came out again, and {fit.cost_seconds:.1f} {unit}-seconds.",
        width,
        3,
    )
    if (beyond := beyond_pauses(fit.beyond_pauses_seconds)) is not None:
        yield from hanging(beyond, width, 3)
    if fit.refused is not None:
        return
    yield from hanging(
        f"{meaning_of_unit(unit)} Ranges hold nine in ten replays. "
        "Two real runs of the same deploy differ by up to 1.5 times: a smaller saving may not show in the next one.",
        width,
        3,
    )
    for option in found[:SHOWN_OPTIONS]:
        yield ""
        settings = (
            f"{name}={value} (was {option.in_force.get(name, 'not known')})" for name, value in option.settings.items()
        )
        yield from hanging("  " + "  ".join(settings), width, 6)
        if option.refused is not None:
            yield from hanging(f"    refused: {option.refused}", width, 6)
            continue
        yield from hanging(f"    {option.why}", width, 6)
        for lead, sentences in (
            ("what it does", meanings_of(option.settings)),
            ("its price", prices_of(option.settings, option.in_force)),
        ):
            for sentence in sentences:
                text = sentence if len(option.settings) > 1 else sentence.partition(": ")[2]
                yield from hanging(f"    {lead}: {text}", width, 6)
        if is_asked or (option.saved_seconds or 0) > 0:
            for client, lines in option.properties.items():
                yield from (f"    {client:<12} {line}" for line in lines)
    if len(found) > SHOWN_OPTIONS:
        yield f"  and {len(found) - SHOWN_OPTIONS} that save less"
