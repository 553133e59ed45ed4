"""Where `explain` looks, and how much of the answer it shows, as the command line says."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rebalance_audit.commands import options
from rebalance_audit.commands.collect import cluster_of_brokers, metadata_followed
from rebalance_audit.commands.meter import meter
from rebalance_audit.commands.options import Output

if TYPE_CHECKING:
    from ingest.folders import EvidenceFolder
    from rebalance_audit.domain.detect import LimitsOf
    from rebalance_audit.domain.reassign import ReassignmentHistory

WAYS = "-w W, -b HOST:PORT, --evidence DIR, or --data-dir D --node N"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """The part of the answer to show: how recent, how many of the newest, in which order and form."""

    last_ms: int | None
    latest: int | None
    oldest_first: bool
    bounds: bool
    output: Output
    quiet: bool
    limits: LimitsOf
    """By which evidence is judged; a warehouse was judged when it was filled."""


@dataclass(slots=True, kw_only=True)
class Places:
    """One place to look at: a running cluster, an evidence folder or a data directory, and logs and metadata logs
    beside it. Raises UsageError when it is made of several, or of none."""

    bootstrap: str | None
    command_config: Path | None
    overrides: list[str] | None
    evidence: Path | None
    data_dir: Path | None
    node: str | None
    logs: list[str] | None
    metadata: list[str] | None
    log_time_zone: str | None
    topics: list[str] | None
    log_folders: list[tuple[str, Path]] = field(init=False)
    connect_topics: dict[str, str] | None = field(init=False)

    def __post_init__(self) -> None:
        places = {"-b": self.bootstrap, "--evidence": self.evidence, "--data-dir": self.data_dir}
        options.one_place(places, WAYS, is_needed=not (self.logs or self.metadata))
        self.log_folders = options.log_folders(self.logs)
        self.connect_topics = options.connect_topics(self.topics)

    @property
    def is_brokers_alone(self) -> bool:
        """Whether no file is to be read: only what brokers say now."""
        return bool(self.bootstrap) and not (self.log_folders or self.metadata)

    def client_config(self) -> dict[str, Any]:
        return options.client_config(self.bootstrap, self.command_config, self.overrides) if self.bootstrap else {}

    def folder(self, cluster_id: str | None = None) -> EvidenceFolder:
        from rebalance_audit.commands.explain.group_reading import open_evidence

        return open_evidence(
            self.evidence, self.data_dir, self.node, self.log_folders, cluster_id, self.log_time_zone,
            self.connect_topics,
        )  # fmt: skip

    def reassignments(self, *, quiet: bool) -> tuple[EvidenceFolder, ReassignmentHistory]:
        """All files that say something about reassignments; brokers are asked for the cluster's id alone."""
        from rebalance_audit.commands.explain.reassignment import history_of

        config = self.client_config()
        followed = metadata_followed(self.metadata, config, None)
        folder = self.folder(cluster_of_brokers(config) if followed is None else followed.cluster_id)
        folder.metadata |= {} if followed is None else followed.folders
        with meter("explain", quiet=quiet, unit="items") as progress:
            return folder, history_of(folder, progress)
