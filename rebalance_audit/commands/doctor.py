"""`doctor`: what is missing here, and the remedy."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rebalance_audit.commands import options
from rebalance_audit.commands.options import Output
from rebalance_audit.commands.output import graded, has_width, note, output_width, write_rows
from rebalance_audit.domain.explain.layout import hanging
from rebalance_audit.domain.visible import visible

if TYPE_CHECKING:
    from rebalance_audit.doctor import Diagnosis


def doctor(
    warehouse: Annotated[
        str | None, typer.Option("-w", "--warehouse", metavar="W", envvar=options.ENVIRONMENT_WAREHOUSE)
    ] = None,
    bootstrap: options.Bootstrap = None,
    command_config: options.CommandConfig = None,
    overrides: options.Overrides = None,
    logs: Annotated[
        list[Path] | None, typer.Option("--logs", metavar="DIR", help="A log folder to look at. Repeatable.")
    ] = None,
    evidence: Annotated[
        Path | None, typer.Option("--evidence", metavar="DIR", help="An evidence folder to look at.")
    ] = None,
    data_dir: Annotated[
        Path | None, typer.Option("--data-dir", metavar="D", help="A data directory to look at.")
    ] = None,
    topics: options.ConnectTopics = None,
    config: options.Config = None,
    cluster: options.Cluster = None,
    output: Annotated[Output, typer.Option("-o", "--output")] = Output.TABLE,
    quiet: options.Quiet = False,
) -> None:
    """Say what is missing here, and the remedy. Looks at the machine, and at everything that is named here or in the
    settings."""
    from rebalance_audit import doctor as examine

    place = Path(warehouse) if warehouse and "://" not in warehouse else None
    checks = chain(
        examine.machine(place),
        examine.warehouse(warehouse, is_written=bool(bootstrap or config)) if warehouse else (),
        examine.files([*(logs or []), *([evidence] if evidence else []), *([data_dir] if data_dir else [])]),
        examine.cluster(options.client_config(bootstrap, command_config, overrides), options.connect_topics(topics))
        if bootstrap
        else (),
        examine.settings(options.settings(config), cluster) if config else (),
    )
    found = list(checks)
    if output is Output.TABLE:
        _print(found)
    else:
        write_rows([asdict(check) for check in found], ["subject", "state", "detail", "remedy"], output)
    faults = sum(check.state is examine.Health.FAULT for check in found)
    if faults:
        note(f"{faults} {'thing needs' if faults == 1 else 'things need'} mending.", quiet=quiet)
        raise typer.Exit(1)
    note("Nothing needed is missing.", quiet=quiet)


def _print(found: Sequence[Diagnosis]) -> None:
    states = max(len(check.state) for check in found)
    subjects = max(len(check.subject) for check in found)
    width, indent = output_width(), states + subjects + 4
    for check in found:
        texts = [(f"{check.state:<{states}}  {check.subject:<{subjects}}  {visible(check.detail)}", indent)]
        if check.remedy:
            texts.append((f"{' ' * indent}→ {visible(check.remedy)}", indent + 2))
        for text, further in texts:
            print(graded("\n".join(hanging(text, width, further)) if has_width(sys.stdout) else text))
