"""Finds the files of an evidence folder, or of a broker's own data and log folders read in place. Described in
docs/evidence_folders.md."""

from __future__ import annotations

import itertools
import json
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ingest.batches import KEY
from ingest.errors import Misconfigured, Problem
from ingest.metadata import METADATA_FOLDER, metadata_files, metadata_folders
from ingest.readings import SourceReading
from ingest.replicas import Replica, file_bytes, segments_in
from ingest.same_cluster import refuse_several_clusters
from ingest.segments import read_segment
from rebalance_audit.domain.connect_topics import internal_topic_kind
from rebalance_audit.domain.gather.clocks import zone_of
from rebalance_audit.domain.metadata import METADATA_TOPIC

OFFSETS_TOPIC = "__consumer_offsets"
SAMPLED_KEYS = 50
_PARTITION_FOLDER = re.compile(r"(.+)-(\d+)")
_CONNECT_SETTINGS = {"status.storage.topic": "status", "config.storage.topic": "config"}


@dataclass(slots=True, kw_only=True)
class PartitionFiles:
    """One partition and its replicas at hand."""

    topic: str
    partition: int
    kind: str
    """`group` for __consumer_offsets, else `status` or `config`."""
    replicas: list[Replica]


@dataclass(slots=True, kw_only=True)
class EvidenceFolder:
    """The files to read, found but not opened, and what is known about the cluster they come from."""

    cluster_id: str
    kafka_version: str | None = None
    log_time_zone: str | None = None
    partitions: list[PartitionFiles] = field(default_factory=list)
    log_files: list[tuple[str, Path]] = field(default_factory=list)
    """(node, file)."""
    metadata: dict[str, Path] = field(default_factory=dict)
    """Node -> its folder of the metadata log."""
    unread: list[SourceReading] = field(default_factory=list)
    """Files and folders that are not read at all, and why."""

    @property
    def total_bytes(self) -> int:
        segments = (path for p in self.partitions for replica in p.replicas for path in replica.segments)
        logs = (path for _, path in self.log_files)
        metadata = (path for folder in self.metadata.values() for path in metadata_files(folder))
        return sum(file_bytes(path) for path in itertools.chain(segments, logs, metadata))


def open_folder(folder: str | Path, *, cluster_id: str | None = None) -> EvidenceFolder:
    """Look through an evidence folder; it is read afterwards. Raises Misconfigured."""
    root = Path(folder)
    if not root.is_dir():
        raise Misconfigured(f"{root} is not a folder; give the folder that holds data/ and logs/.")
    data = {path.name: path for path in _subfolders(root / "data")}
    logs = {path.name: path for path in _subfolders(root / "logs")}
    if not data and not logs:
        raise Misconfigured(
            f"{root} has neither data/<node>/ nor logs/<node>/; copy segments and logs into these, "
            f"or read a broker's own folder with --data-dir."
        )
    meta = _read_meta(root / "meta.json")
    if cluster_id:
        meta["cluster_id"] = cluster_id
    return _collect(data, logs, meta, default_cluster_id=root.resolve().name)


def open_data_dir(
    data_dir: str | Path | None,
    *,
    node: str,
    log_dir: str | Path | None = None,
    cluster_id: str | None = None,
    connect_topics: Mapping[str, str] | None = None,
    log_time_zone: str | None = None,
) -> EvidenceFolder:
    """A running or stopped broker's own folders, read in place. `connect_topics`: name to `status` or `config`."""
    for given, name in ((data_dir, "data"), (log_dir, "log")):
        if given is not None and not Path(given).is_dir():
            raise Misconfigured(f"{given} is not a folder; give the broker's {name} folder.")
    meta: dict[str, Any] = {"log_time_zone": log_time_zone}
    for topic, kind in (connect_topics or {}).items():
        meta.setdefault(f"{kind}.storage.topic", []).append(topic)
    if cluster_id:
        meta["cluster_id"] = cluster_id
    data = {} if data_dir is None else {node: Path(data_dir)}
    logs = {} if log_dir is None else {node: Path(log_dir)}
    return _collect(data, logs, meta, default_cluster_id="unknown")


def _collect(
    data: Mapping[str, Path], logs: Mapping[str, Path], meta: Mapping[str, Any], *, default_cluster_id: str
) -> EvidenceFolder:
    found = EvidenceFolder(
        cluster_id=_cluster_id(data, meta, default_cluster_id),
        kafka_version=meta.get("kafka_version"),
        log_time_zone=meta.get("log_time_zone"),
        metadata=metadata_folders(data),
    )
    topics: dict[str, dict[int, list[Replica]]] = defaultdict(lambda: defaultdict(list))
    for node, folder in sorted(data.items()):
        for path in _subfolders(folder):
            if match := _PARTITION_FOLDER.fullmatch(path.name):
                topics[match[1]][int(match[2])].append(Replica(node, segments_in(path)))
    skipped = []
    named = _named_topics(meta)
    for topic, partitions in sorted(topics.items()):
        if topic == METADATA_TOPIC:
            continue
        kind = named.get(topic) or _kind(topic, partitions.values())
        if kind is None:
            skipped.append(topic)
            continue
        found.partitions += [
            PartitionFiles(topic=topic, partition=partition, kind=kind, replicas=replicas)
            for partition, replicas in sorted(partitions.items())
        ]
    metadata = [Replica(node, segments_in(path)) for node, path in sorted(found.metadata.items())]
    refuse_several_clusters(
        [(METADATA_FOLDER, metadata), *((f"{p.topic}-{p.partition}", p.replicas) for p in found.partitions)]
    )
    if skipped:
        found.unread.append(_unread("*", _skipped(skipped)))
    for node, folder in sorted(logs.items()):
        files = sorted(path for path in folder.glob("*.log*") if path.is_file())
        found.log_files += [(node, path) for path in files]
    return found


def _kind(topic: str, partitions: Iterable[Sequence[Replica]]) -> str | None:
    if topic == OFFSETS_TOPIC:
        return "group"
    if topic.startswith("__"):
        return None
    keys: list[bytes] = []
    for replicas in partitions:
        keys += _sample_keys(replicas[0], SAMPLED_KEYS - len(keys))
    kind = internal_topic_kind(keys) if keys else None
    return kind if kind in ("status", "config") else None


def _sample_keys(replica: Replica, wanted: int) -> list[bytes]:
    keys: list[bytes] = []
    for path in replica.segments:
        try:
            for item in read_segment(path):
                if len(keys) >= wanted:
                    return keys[:wanted]
                if not isinstance(item, Problem):
                    keys += [key for row in item if (key := row[KEY]) is not None]
        except OSError:
            continue
    return keys[:wanted]


def _unread(topic: str, sentence: str) -> SourceReading:
    reading = SourceReading(source=f"record:{topic}", kind="record")
    reading.problems.add(Problem(code="skipped", sentence=sentence))
    return reading


def _skipped(topics: Sequence[str]) -> str:
    names = ", ".join(topics[:20]) + (f" and {len(topics) - 20} more" if len(topics) > 20 else "")
    what = "topic that holds" if len(topics) == 1 else "topics that hold"
    return f"{len(topics):,} {what} neither groups nor Connect's status or configuration: {names}."


def _named_topics(meta: Mapping[str, Any]) -> dict[str, str]:
    named = {}
    for setting, kind in _CONNECT_SETTINGS.items():
        value = meta.get(setting) or []
        for topic in [value] if isinstance(value, str) else value:
            named[str(topic)] = kind
    return named


def _read_meta(path: Path) -> dict[str, Any]:
    try:
        meta = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise Misconfigured(f"{path} is not readable as JSON ({error}); mend it or take it away.") from error
    if not isinstance(meta, dict):
        raise Misconfigured(f'{path} is not a JSON object; it should look like {{"cluster_id": …}}.')
    for name in ("cluster_id", "kafka_version", "log_time_zone"):
        if not isinstance(meta.get(name), str | None):
            raise Misconfigured(f"{path}: {name} is not a text.")
    if (zone := meta.get("log_time_zone")) is not None:
        try:
            zone_of(zone)
        except ValueError as error:
            raise Misconfigured(f"{path}: log_time_zone: {error}.") from None
    return meta


def _cluster_id(data: Mapping[str, Path], meta: Mapping[str, Any], default: str) -> str:
    """The cluster id as given, else as the brokers' own meta.properties have it. Raises Misconfigured where the
    brokers' differ: the folders are of several clusters then."""
    ids = {}
    for node, folder in data.items():
        path = folder / "meta.properties"
        if path.is_file() and (match := re.search(r"(?m)^cluster\.id=(\S+)", path.read_text("utf-8", "replace"))):
            ids[node] = match[1]
    if len(set(ids.values())) > 1:
        stated = ", ".join(f"{node}: {id_}" for node, id_ in sorted(ids.items()))
        raise Misconfigured(f"The folder mixes nodes of several clusters ({stated}); import each cluster by itself.")
    return str(meta.get("cluster_id") or next(iter(ids.values()), default))


def _subfolders(folder: Path) -> list[Path]:
    if not folder.is_dir():
        return []
    return sorted(path for path in folder.iterdir() if path.is_dir())
