"""`trace` and `annotate`: incidents and marks for tools that people use already. Both send what is new, once.

`run` and `watch` do it by themselves where the settings file names receivers."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rebalance_audit.commands import options
from rebalance_audit.commands.output import note

if TYPE_CHECKING:
    from rebalance_audit.alerts.outward import Outward

DAYS = "7d"
Since = Annotated[
    str, typer.Option("--since", metavar="TIME", help="What ended longer ago is left out; the end of evidence counts.")
]


def trace(
    warehouse: options.Warehouse,
    to: Annotated[str, typer.Option("--to", metavar="URL", help="An OTLP receiver over HTTP: http://collector:4318.")],
    since: Since = DAYS,
    quiet: options.Quiet = False,
    config: options.Config = None,
) -> None:
    """Send incidents that are over as OpenTelemetry traces. Headers stand in OTEL_EXPORTER_OTLP_HEADERS."""
    from rebalance_audit.alerts.traces import send_traces
    from rebalance_audit.settings.reading import revealed
    from rebalance_audit.warehouse.warehouse import Warehouse

    opened = Warehouse.open(warehouse)
    set_up = options.settings(config).traces
    headers = set_up.headers if set_up is not None and set_up.url == to else {}
    count = send_traces(
        opened, to, headers={n: revealed(v) for n, v in headers.items()}, from_ms=_from_ms(opened, since)
    )
    note(f"{count} {'incident was' if count == 1 else 'incidents were'} sent as traces.", quiet=quiet)


def annotate(
    warehouse: options.Warehouse,
    to: Annotated[str, typer.Option("--to", metavar="URL", help="Grafana's own address: http://grafana:3000.")],
    token_file: Annotated[
        Path | None,
        typer.Option("--token-file", metavar="FILE", help="Grafana's service account token; else GRAFANA_TOKEN."),
    ] = None,
    since: Since = DAYS,
    quiet: options.Quiet = False,
    config: options.Config = None,
) -> None:
    """Draw incidents and marks on Grafana's dashboards. They are annotations with the tag rebalance-audit."""
    from rebalance_audit.alerts.annotations import annotate as send
    from rebalance_audit.settings.reading import revealed
    from rebalance_audit.warehouse.warehouse import Warehouse

    opened = Warehouse.open(warehouse)
    set_up = options.settings(config).annotations
    if token_file is not None:
        token = token_file.read_text("utf-8").strip()
    elif set_up is not None and set_up.url == to:
        token = revealed(set_up.token)
    else:
        token = os.environ.get("GRAFANA_TOKEN", "")
    count = send(opened, to, token, from_ms=_from_ms(opened, since))
    note(f"{count} {'annotation was' if count == 1 else 'annotations were'} written or changed.", quiet=quiet)


def outward(config: str | None) -> Outward | None:
    """The receivers that the settings file names; None: there are none. Raises SettingsError."""
    if config is None:
        return None
    from rebalance_audit.settings.choices import outward_of

    return outward_of(options.settings(config))


def _from_ms(opened: object, since: str) -> int:
    from rebalance_audit.alerts.outward import from_ms

    return from_ms(opened, options.duration_ms(since))
