"""`import` and `collect`: evidence into a warehouse. `run` and `watch` go on from there."""

from __future__ import annotations

import glob
import os
import re
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rebalance_audit.commands import options
from rebalance_audit.commands.allocating import use_the_systems_malloc
from rebalance_audit.commands.meter import meter
from rebalance_audit.commands.options import CommandError, UsageError
from rebalance_audit.commands.output import note

if TYPE_CHECKING:
    from ingest.collect_settings import CollectSettings
    from ingest.evidence import ImportSummary
    from ingest.landing import Landing

METADATA_FOLDER = "__cluster_metadata-0"
METADATA_RETRY_S = 10.0
Metadata = Annotated[
    list[str] | None,
    typer.Option(
        "--metadata",
        metavar="DIR",
        help="A KRaft node's metadata log folder, on this machine; NODE=DIR names the node. Repeatable.",
    ),
]
NewClusterId = Annotated[str | None, typer.Option("--cluster-id", metavar="ID", help="Name of the cluster.")]


def import_folder(
    warehouse: options.Warehouse,
    folder: Annotated[
        Path | None, typer.Argument(metavar="DIR", help="An evidence folder: data/<node>/, logs/<node>/.")
    ] = None,
    data_dir: options.DataDir = None,
    node: options.Node = None,
    logs: options.Logs = None,
    cluster_id: NewClusterId = None,
    log_time_zone: options.LogTimeZone = None,
    topics: options.ConnectTopics = None,
    quiet: options.Quiet = False,
    config: options.Config = None,
) -> None:
    """Read copied segments and logs into a warehouse. Importing twice changes nothing."""
    from rebalance_audit.commands.explain.group_reading import open_evidence

    if (folder is None) == (data_dir is None) and not (folder is None and logs):
        raise UsageError("Give either an evidence folder, or --data-dir D --node N, or --logs DIR.")
    found = open_evidence(
        folder, data_dir, node, options.log_folders(logs), cluster_id, log_time_zone, options.connect_topics(topics)
    )
    summary = land_folder(found, warehouse, quiet=quiet)
    if summary.problems and not (summary.record_count or summary.line_count or summary.skipped_count):
        from ingest.errors import and_more

        first, *more = summary.problems
        raise CommandError(f"Nothing of what was given could be read: {first.rstrip('.')}{and_more(len(more))}.")
    print_import(summary, quiet=quiet)


def land_folder(found: object, warehouse: str, *, quiet: bool) -> ImportSummary:
    """Make the warehouse if there is none, and land the folder in it."""
    from ingest.evidence import import_evidence
    from ingest.landing import Landing
    from rebalance_audit.warehouse.warehouse import Warehouse

    opened = Warehouse.open(warehouse, create=True)
    with meter("import", quiet=quiet) as progress:
        return import_evidence(found, Landing(opened.location), progress=progress)  # type: ignore[arg-type]


def print_import(summary: ImportSummary, *, quiet: bool) -> None:
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
    metadata: Metadata = None,
    topics: options.ConnectTopics = None,
    cluster_id: NewClusterId = None,
    until_end: Annotated[
        bool, typer.Option("--until-end", help="Stop at the end that is there now, instead of following.")
    ] = False,
    share_as: Annotated[
        str | None,
        typer.Option(
            "--share-as",
            metavar="NAME",
            help="Share the partitions with other collectors; NAME is this one's, also after a restart.",
        ),
    ] = None,
    quiet: options.Quiet = False,
    config: options.Config = None,
    cluster: options.Cluster = None,
) -> None:
    """Follow a cluster's topics and logs into a warehouse. Its metadata log as well, where there is one. It only
    reads: no group is joined."""
    use_the_systems_malloc()
    from ingest.collector import collect as collect_into
    from ingest.landing import Landing
    from rebalance_audit.warehouse.warehouse import Warehouse

    settings = collect_settings(
        bootstrap, command_config, overrides, logs, topics, cluster_id=cluster_id, until_end=until_end,
        share_as=share_as,
    )  # fmt: skip
    followed = metadata_followed(metadata, settings.client_config, cluster_id)
    refuse_nothing(settings, followed)
    landing = Landing(Warehouse.open(warehouse, create=True).location)
    with until_stopped() as stopped, meter("collect", quiet=quiet, unit="records") as progress:
        if followed is not None:
            followed.start(landing, stopped, until_end=until_end, quiet=quiet)
            settings = replace(settings, cluster_id=followed.cluster_id)
        try:
            if not collects(settings) and followed is not None:
                followed.wait()
                note(f"Landed {followed.count:,} records of cluster {followed.cluster_id}.", quiet=quiet)
                return
            summary = collect_into(
                settings, landing, stop=stopped.is_set, report=lambda line: note(line, quiet=quiet), progress=progress
            )
        finally:
            if followed is not None:
                if not until_end:
                    stopped.set()
                followed.wait()
    count = summary.record_count + (0 if followed is None else followed.count)
    note(
        f"Landed {count:,} records and {summary.line_count:,} log events of cluster {summary.cluster_id}.", quiet=quiet
    )


def collects(settings: CollectSettings) -> bool:
    """Whether brokers or logs are named, not the metadata log alone."""
    return bool(settings.client_config.get("bootstrap.servers") or settings.logs)


def refuse_nothing(settings: CollectSettings, followed: FollowedMetadata | None) -> None:
    """Raise UsageError where nothing is named, before a warehouse is made."""
    from ingest.collect_settings import nothing_to_collect

    named = settings.client_config.get("bootstrap.servers") or (settings.logs and settings.cluster_id)
    if followed is None and not named:
        raise UsageError(str(nothing_to_collect()))


class FollowedMetadata:
    """The metadata log of some nodes of one cluster, followed by a thread of its own."""

    def __init__(self, cluster_id: str, folders: dict[str, Path]) -> None:
        self.cluster_id, self.folders, self.count = cluster_id, folders, 0
        self.failure: Exception | None = None
        self.caught_up = threading.Event()
        """All that was there at the beginning is landed."""
        self.heard: Callable[[str, Sequence[Any]], None] | None = None
        """Is given the cluster and what is landed after that."""
        self._thread: threading.Thread | None = None

    def start(
        self,
        landing: Landing,
        stopped: threading.Event,
        *,
        until_end: bool = False,
        is_live: bool = False,
        quiet: bool,
    ) -> None:
        from ingest.errors import Retryable
        from ingest.metadata_tail import follow_metadata

        def follow() -> None:
            while True:
                try:
                    self.count += follow_metadata(
                        self.folders, landing, self.cluster_id, stop=stopped.is_set, until_end=until_end,
                        report=lambda line: note(line, quiet=quiet), heard=self._hear if is_live else None,
                        caught_up=self.caught_up.set,
                    )  # fmt: skip
                except Exception as error:
                    if isinstance(error, Retryable) and not until_end and not stopped.is_set():
                        note(f"{error} Trying again in {METADATA_RETRY_S:.0f} s.", quiet=quiet)
                        stopped.wait(METADATA_RETRY_S)  # the positions are those of what was landed
                        continue
                    self.failure = error  # the main thread says it
                return

        self._thread = threading.Thread(target=follow, name="metadata", daemon=True)
        self._thread.start()

    def _hear(self, runs: Sequence[Any]) -> None:
        if self.heard is not None and self.caught_up.is_set():
            self.heard(self.cluster_id, runs)

    def wait(self) -> None:
        """Raises what ended it, once it has ended."""
        if self._thread is not None:
            self._thread.join()
        if self.failure is not None:
            raise self.failure


def cluster_of_brokers(config: Mapping[str, Any]) -> str | None:
    """The cluster id of the configured brokers; None if none are configured. Raises Retryable or Misconfigured."""
    from ingest.broker import LiveCluster

    return LiveCluster(config).cluster_id if config.get("bootstrap.servers") else None


def metadata_followed(
    given: list[str] | None, config: Mapping[str, Any], cluster_id: str | None
) -> FollowedMetadata | None:
    """Follow the logs that `--metadata` names. While brokers are away, the cluster is the one that the folders or the
    options state. Raises UsageError, or Misconfigured if it is of another cluster or of none that is known."""
    if not given:
        return None
    from ingest.collect_settings import another_cluster
    from ingest.errors import Misconfigured, Retryable
    from ingest.metadata_tail import cluster_of

    folders: dict[str, Path] = {}
    for text in given:
        node, folder = options.named_folder(text)
        inside = folder if folder.name == METADATA_FOLDER else folder / METADATA_FOLDER
        if not inside.is_dir():
            raise UsageError(f"--metadata {text}: there is no {METADATA_FOLDER} in it; give a node's metadata.log.dir.")
        node = node or node_of(inside.parent) or inside.resolve().parent.name
        if node in folders:
            raise UsageError(f"--metadata {text}: there is another {node} already; name them: NODE=DIR.")
        folders[node] = inside
    try:
        of_brokers = cluster_of_brokers(config)
    except Retryable as away:
        try:
            return FollowedMetadata(cluster_of(folders, cluster_id), folders)  # the collector asks and compares later
        except Misconfigured as unknown:
            raise Misconfigured(*away.args, *unknown.faults) from away
    if of_brokers is not None and cluster_id not in (None, of_brokers):
        raise another_cluster(str(config["bootstrap.servers"]), of_brokers, cluster_id)
    return FollowedMetadata(cluster_of(folders, of_brokers or cluster_id), folders)


def node_of(data_dir: Path) -> str | None:
    """The node's name by its own meta.properties."""
    meta = data_dir / "meta.properties"
    found = re.search(r"(?m)^node\.id=(\d+)", meta.read_text("utf-8", "replace")) if meta.is_file() else None
    return None if found is None else f"node-{found[1]}"


def collect_settings(
    bootstrap: str | None,
    command_config: Path | None,
    overrides: list[str] | None,
    logs: list[str] | None,
    topics: list[str] | None,
    *,
    cluster_id: str | None = None,
    until_end: bool = False,
    share_as: str | None = None,
    flush_ms: int = 5_000,
) -> CollectSettings:
    from ingest.collect_settings import CollectSettings
    from ingest.sifting import Interest
    from rebalance_audit.domain.line_interest import MEMBER, MEMBER_OF_CONNECTION, SIGN, says_something

    return CollectSettings(
        interest=Interest(event=says_something, sign=SIGN, member=MEMBER, dismissed=MEMBER_OF_CONNECTION),
        client_config=options.client_config(bootstrap, command_config, overrides),
        connect_topics=options.connect_topics(topics),
        logs=[(node, f"{glob.escape(str(folder))}/*.log*") for node, folder in options.log_folders(logs)],
        cluster_id=cluster_id,
        until_end=until_end,
        share_as=share_as,
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
