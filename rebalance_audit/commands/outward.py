"""`trace` and `annotate`: incidents and marks for tools that people look into already. Both send what is new, once."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Annotated

import typer

from rebalance_audit.commands import options
from rebalance_audit.commands.output import note

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
    """Send incidents that are over as OpenTelemetry traces; headers as in OTEL_EXPORTER_OTLP_HEADERS."""
    from rebalance_audit.alerts.traces import send_traces
    from rebalance_audit.warehouse.warehouse import Warehouse

    opened = Warehouse.open(warehouse)
    count = send_traces(opened, to, from_ms=_from_ms(opened, since))
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
    """Draw incidents and marks on Grafana's dashboards, as annotations with the tag rebalance-audit."""
    from rebalance_audit.alerts.annotations import annotate as send
    from rebalance_audit.warehouse.warehouse import Warehouse

    opened = Warehouse.open(warehouse)
    token = token_file.read_text("utf-8").strip() if token_file is not None else os.environ.get("GRAFANA_TOKEN", "")
    count = send(opened, to, token, from_ms=_from_ms(opened, since))
    note(f"{count} {'annotation was' if count == 1 else 'annotations were'} written or changed.", quiet=quiet)


def _from_ms(opened: object, since: str) -> int:
    """Counted back from the end of what was seen, so that an old warehouse is not silent."""
    end = opened.query("SELECT max(to_at_ms) AS t FROM gold.coverage").column(0).to_pylist()[0]  # type: ignore[attr-defined]
    return (end if end is not None else time.time_ns() // 1_000_000) - options.duration_ms(since)
