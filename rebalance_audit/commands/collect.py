"""`import` and `collect`: evidence into a warehouse. `run` and `watch` go on from there."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer

from rebalance_audit.commands import options
from rebalance_audit.commands.meter import meter
from rebalance_audit.commands.options import UsageError
from rebalance_audit.commands.output import note

if TYPE_CHECKING:
    from ingest.collector import CollectSettings
    from ingest.evidence import ImportSummary

LogTimeZone = Annotated[
    str | None,
    typer.Option("--log-time-zone", metavar="Z", help="Zone of the log times, Europe/Berlin; inferred if not given."),
]
NewClusterId = Annotated[str | None, typer.Option("--cluster-id", metavar="ID", help="Name of the cluster.")]


def import_folder(
    warehouse: options.Warehouse,
    folder: Annotated[
        Path | None, typer.Argument(metavar="[DIR]", help="An evidence folder: data/<node>/, logs/<node>/.")
    ] = None,
    data_dir: Annotated[
        Path | None, typer.Option("--data-dir", metavar="D", help="A broker's own data directory, read in place.")
    ] = None,
    node: Annotated[str | None, typer.Option("--node", metavar="N", help="The node it belongs to.")] = None,
    logs: options.Logs = None,
    cluster_id: NewClusterId = None,
    log_time_zone: LogTimeZone = None,
    topics: options.ConnectTopics = None,
    quiet: options.Quiet = False,
) -> None:
    """Read copied segments and logs into a warehouse. Importing twice changes nothing."""
    from rebalance_audit.commands.group_reading import open_evidence

    if (folder is None) == (data_dir is None) and not (folder is None and logs):
        raise UsageError("Give either an evidence folder, or --data-dir D --node N, or --logs DIR.")
    found = open_evidence(
        folder, data_dir, node, options.log_folders(logs), cluster_id, log_time_zone, options.connect_topics(topics)
    )
    summary = land_folder(found, warehouse, quiet=quiet)
    tell_import(summary, quiet=quiet)


def land_folder(found: object, warehouse: str, *, quiet: bool) -> ImportSummary:
    """Make the warehouse if there is none, and land the folder in it."""
    from ingest.evidence import import_evidence
    from ingest.landing import Landing
    from rebalance_audit.warehouse import Warehouse

    opened = Warehouse.open(warehouse, create=True)
    with meter("import", quiet=quiet) as tell:
        return import_evidence(found, Landing(opened.location), progress=tell)  # type: ignore[arg-type]


def tell_import(summary: ImportSummary, *, quiet: bool) -> None:
    for problem in summary.problems:
        note(f"not read: {problem}", quiet=quiet)
    skipped = f", {summary.skipped_count} files and partitions had nothing new" if summary.skipped_count else ""
    note(
        f"Landed {summary.record_count:,} records and {summary.line_count:,} log events of cluster "
        f"{summary.cluster_id}{skipped}.",
        quiet=quiet,
    )


def collect(
    warehouse: options.Warehouse,
    bootstrap: options.Bootstrap = None,
    command_config: options.CommandConfig = None,
    overrides: options.Overrides = None,
    logs: options.Logs = None,
    topics: options.ConnectTopics = None,
    cluster_id: NewClusterId = None,
    until_end: Annotated[
        bool, typer.Option("--until-end", help="Stop at the end that is there now, instead of following.")
    ] = False,
    quiet: options.Quiet = False,
) -> None:
    """Follow a cluster's topics and logs into a warehouse. It only reads: no group is joined."""
    from ingest.collector import collect as collect_into
    from ingest.landing import Landing
    from rebalance_audit.warehouse import Warehouse

    settings = collect_settings(
        bootstrap, command_config, overrides, logs, topics, cluster_id=cluster_id, until_end=until_end
    )
    landing = Landing(Warehouse.open(warehouse, create=True).location)
    with until_stopped() as stopped, meter("collect", quiet=quiet, unit="records") as tell:
        summary = collect_into(
            settings, landing, stop=stopped.is_set, report=lambda line: note(line, quiet=quiet), progress=tell
        )
    note(
        f"Landed {summary.record_count:,} records and {summary.line_count:,} log events of cluster "
        f"{summary.cluster_id}.",
        quiet=quiet,
    )


def collect_settings(
    bootstrap: str | None,
    command_config: Path | None,
    overrides: list[str] | None,
    logs: list[str] | None,
    topics: list[str] | None,
    *,
    cluster_id: str | None = None,
    until_end: bool = False,
    flush_ms: int = 5_000,
) -> CollectSettings:
    from ingest.collector import CollectSettings

    return CollectSettings(
        client_config=options.client_config(bootstrap, command_config, overrides),
        connect_topics=options.connect_topics(topics),
        logs=[(node, f"{folder}/*.log*") for node, folder in options.log_folders(logs)],
        cluster_id=cluster_id,
        until_end=until_end,
        flush_ms=flush_ms,
    )


@contextmanager
def until_stopped() -> Iterator[threading.Event]:
    """Ctrl-C and SIGTERM ask for an orderly end; a second Ctrl-C ends at once."""
    stopped = threading.Event()

    def ask(number: int, frame: FrameType | None) -> None:
        stopped.set()
        os.write(2, b"Ending what is under way; Ctrl-C again ends at once.\n")
        signal.signal(number, before[signal.Signals(number)])

    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    for number in before:
        signal.signal(number, ask)
    try:
        yield stopped
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
