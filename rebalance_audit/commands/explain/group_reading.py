"""All evidence about one group, without Spark or a warehouse: from a folder, a data directory or a cluster."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from rebalance_audit.commands.meter import Progress
from rebalance_audit.commands.options import CommandError, UsageError
from rebalance_audit.domain.model import SourceLine, SourceRecord
from rebalance_audit.domain.publish.leader_moves import OFFSETS_TOPIC, offsets_partition

if TYPE_CHECKING:
    from ingest.folders import EvidenceFolder
    from ingest.readings import SourceReading
    from rebalance_audit.domain.metadata import SourceMetadata

T = TypeVar("T")
NAMED_GROUPS = 12


@dataclass(slots=True)
class GroupReading:
    """One pass over the evidence for one group. `groups_seen` fills up while it is read."""

    group_id: str
    cluster_id: str
    records: Callable[[], Iterator[SourceRecord]]
    lines: Callable[[], Iterator[SourceLine]]
    zones: Mapping[str, str]
    """Configured time zone by node."""
    sources: Callable[[], Sequence[SourceReading]]
    """What was read of each source, and its problems; to be asked when records and lines were read."""
    groups_seen: set[str]
    other_groups: Callable[[], Iterable[str]]
    """More groups of the cluster, for the answer to a wrong name."""
    metadata: Callable[[], Iterator[SourceMetadata]] | None = None
    """The metadata log, where it is at hand."""
    is_live: bool = False
    log_nodes: Sequence[str] = ()


def from_folder(folder: EvidenceFolder, group_id: str, progress: Progress) -> GroupReading:
    from ingest.evidence import read_evidence

    evidence = read_evidence(folder)
    seen: set[str] = set()
    wants = _only_commits_of(group_id, seen)
    nodes = sorted({node for node, _ in folder.log_files})
    zone = folder.log_time_zone
    return GroupReading(
        group_id=group_id,
        cluster_id=folder.cluster_id,
        records=lambda: _counted(evidence.records(wants), progress, "records"),
        lines=lambda: _counted(evidence.lines(), progress, "log lines"),
        zones=dict.fromkeys(nodes, zone) if zone else {},
        sources=lambda: evidence.sources,
        groups_seen=seen,
        other_groups=lambda: (),
        metadata=evidence.metadata if folder.metadata else None,
        log_nodes=nodes,
    )


def from_cluster(
    config: Mapping[str, str],
    group_id: str,
    progress: Progress,
    *,
    logs: Sequence[tuple[str, Path]] = (),
    log_time_zone: str | None = None,
    connect_topics: Mapping[str, str] | None = None,
) -> GroupReading:
    """Reads the one partition the group is in; for a Connect group also the Connect topics. Raises IngestError."""
    from ingest.collect_settings import CollectSettings
    from ingest.evidence import read_evidence
    from ingest.folders import EvidenceFolder
    from ingest.live_evidence import LiveEvidence, live_evidence

    # The group's own partition first: only a Connect group is worth looking for Connect's topics.
    live = live_evidence(CollectSettings(client_config=config, connect_topics={}))
    with_connect = CollectSettings(client_config=config, connect_topics=connect_topics)
    files = [(node, path) for node, folder in logs for path in sorted(folder.glob("*.log*")) if path.is_file()]
    from_logs = read_evidence(EvidenceFolder(cluster_id=live.cluster_id, log_files=files))
    seen: set[str] = set()
    wants = _only_commits_of(group_id, seen)
    sources: list[SourceReading] = []

    def records() -> Iterator[SourceRecord]:
        is_connect = False
        own = offsets_partition(group_id, live.cluster.partition_counts.get(OFFSETS_TOPIC, 50))
        for record in live.records(wants, choose=lambda topic, count: [own]):
            is_connect = is_connect or _is_connect_record(record, group_id)
            yield record
        sources.extend(live.sources)
        if is_connect:
            more = LiveEvidence(with_connect, live.cluster)
            yield from more.records(choose=lambda topic, count: [] if topic == OFFSETS_TOPIC else range(count))
            sources.extend(more.sources)

    return GroupReading(
        group_id=group_id,
        cluster_id=live.cluster_id,
        records=lambda: _counted(records(), progress, "records"),
        lines=lambda: _counted(from_logs.lines(), progress, "log lines"),
        zones={node: log_time_zone for node, _ in logs} if log_time_zone else {},
        sources=lambda: [*from_logs.sources, *sources],
        groups_seen=seen,
        other_groups=lambda: _groups_of(live.cluster.config),
        is_live=True,
        log_nodes=sorted({node for node, _ in logs}),
    )


def open_evidence(
    evidence: Path | None,
    data_dir: Path | None,
    node: str | None,
    logs: Sequence[tuple[str, Path]],
    cluster_id: str | None,
    log_time_zone: str | None,
    connect_topics: Mapping[str, str] | None,
) -> EvidenceFolder:
    """The evidence to read offline. Raises UsageError or Misconfigured."""
    from ingest.folders import open_data_dir, open_folder

    if evidence is not None:
        folder = open_folder(evidence, cluster_id=cluster_id)
        folder.log_time_zone = log_time_zone or folder.log_time_zone
    else:
        if data_dir is not None and node is None:
            raise UsageError("--data-dir needs --node NAME, the node whose folder it is (for example --node broker-1).")
        folder = open_data_dir(
            data_dir, node=node or "node", cluster_id=cluster_id, connect_topics=connect_topics,
            log_time_zone=log_time_zone,
        )  # fmt: skip
    for name, log_dir in logs:
        files = sorted(path for path in log_dir.glob("*.log*") if path.is_file())
        known = {path.resolve() for _, path in folder.log_files}
        owner = node if node is not None and len(logs) == 1 else name
        folder.log_files += [(owner, path) for path in files if path.resolve() not in known]
    return folder


def problems_of(sources: Iterable[SourceReading]) -> list[str]:
    """What could not be read, as sentences without their full stop."""
    # a broker's folder holds topics of everybody, which are left out on purpose; a log left out is a gap
    told = [p for source in sources for p in source.problems if source.kind != "record" or p.code != "skipped"]
    return list(dict.fromkeys(p.sentence.rstrip(".") for p in told))


def no_group_in(cluster_id: str, sources: Iterable[SourceReading], which: str = "No group is") -> CommandError:
    """Says what could not be read, where that may be why."""
    from ingest.errors import and_more

    problems = problems_of(sources)
    unread = f" Not read: {problems[0]}{and_more(len(problems) - 1)}." if problems else ""
    return CommandError(
        f"{which} in the evidence of cluster {cluster_id}; check what was given, and whether retention or "
        f"compaction took it.{unread}"
    )


def not_found(reading: GroupReading) -> CommandError:
    """Says which groups are there, the closest names first: a UsageError unless there are none."""
    there = {group for group in reading.groups_seen if group != reading.group_id}
    there |= {group for group in reading.other_groups() if group != reading.group_id}
    place = f"cluster {reading.cluster_id}"
    if not there:
        which = f"Neither group {reading.group_id!r} nor any other is"
        return no_group_in(reading.cluster_id, reading.sources(), which)
    place = f"Group {reading.group_id!r} is not in the evidence of {place}."
    if close := get_close_matches(reading.group_id, sorted(there), n=NAMED_GROUPS, cutoff=0.5):
        return UsageError(f"{place} Did you mean: {', '.join(close)}?")
    named = sorted(there)[:NAMED_GROUPS]
    more = f" and {len(there) - len(named)} more" if len(there) > len(named) else ""
    return UsageError(f"{place} There are: {', '.join(named)}{more}.")


def _counted(items: Iterator[T], progress: Progress, what: str) -> Iterator[T]:
    shown_at = 0.0
    for count, item in enumerate(items, 1):
        if count % 2_000 == 0 and time.monotonic() - shown_at > 0.1:
            shown_at = time.monotonic()
            progress(0, 0, f"{count:,} {what}")
        yield item


def _only_commits_of(group_id: str, seen: set[str]) -> Callable[[str, bytes | None], bool]:
    """Keeps every group's own records (they show clocks and belonging) and the commits of this group alone."""
    from rebalance_audit.domain.records import record_group_id
    from rebalance_audit.domain.records.commit_keys import is_commit_key

    def wants(topic: str, key: bytes | None) -> bool:
        if topic != OFFSETS_TOPIC or key is None:
            return True
        group = record_group_id(key)
        if group is not None:
            seen.add(group)
        return not is_commit_key(key) or group is None or group == group_id  # None: a marker, or undecodable

    return wants


def _is_connect_record(record: SourceRecord, group_id: str) -> bool:
    from rebalance_audit.domain.decode import decode_source
    from rebalance_audit.domain.model import GroupRecord
    from rebalance_audit.domain.wire import DecodeError

    if record.key is None or record.key[:2] != b"\x00\x02" or record.value is None:
        return False
    try:
        event = decode_source(record)
    except DecodeError:
        return False
    return (
        isinstance(event, GroupRecord)
        and event.record.key.group_id == group_id
        and event.record.value is not None
        and event.record.value.protocol_type == "connect"
    )


def _groups_of(config: Mapping[str, object]) -> list[str]:
    """The groups the brokers name; none where that is not allowed."""
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    admin = AdminClient(dict(config))  # must live until the answer is there
    try:
        listed = admin.list_consumer_groups(request_timeout=10).result()
    except KafkaException:
        return []
    return [group.group_id for group in listed.valid]
