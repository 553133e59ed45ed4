"""Whether clusters and all that the settings file names can be reached and read. Nothing joins a group."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from rebalance_audit.doctor.diagnosis import Diagnosis, fault, ok
from rebalance_audit.doctor.places import allow, existing, files

if TYPE_CHECKING:
    from rebalance_audit.settings.model import Cluster, Secret, Settings

METADATA_FOLDER = "__cluster_metadata-0"
PROBE_S = 10.0


def settings(given: Settings, only: str | None = None) -> Iterator[Diagnosis]:
    """Every source that the settings file names, every right on it, and every secret's place. `only`: one cluster."""
    from rebalance_audit.settings.choices import named_cluster

    for each in given.clusters if only is None else [named_cluster(given, only)]:
        for check in source(each):
            yield replace(check, subject=f"{each.name}: {check.subject}")
    for target in given.alerts:
        lost = [*_lost([target.url])]
        yield from (fault(f"alerts {target.name}", why) for why in lost)
        if not lost:
            yield ok(f"alerts {target.name}", "its address is there; `rebalance-audit alert --dry-run` shows messages")
    login = given.app.login
    elsewhere = {
        "traces": [*given.traces.headers.values()] if given.traces is not None else [],
        "annotations": [given.annotations.token] if given.annotations is not None else [],
        "log-in": [login.client_secret, login.cookie_secret] if login is not None else [],
    }
    for name, secrets in elsewhere.items():
        lost = [*_lost(secrets)]
        yield from (fault(name, why) for why in lost)
        if secrets and not lost:
            yield ok(name, "its secrets are there")
    key = given.evidence_log.key_file
    if key is not None and not os.access(key, os.R_OK):
        yield fault(
            "evidence log", f"the key {key} may not be read or is not there", "rebalance-audit audit key makes one"
        )
    heads = given.evidence_log.heads
    if heads is not None and "://" not in heads and not os.access(existing(Path(heads)), os.W_OK):
        first = "" if Path(heads).exists() else "make the folder; "
        yield fault("evidence log", f"heads cannot be written to {heads}", first + allow(Path(heads), "rwX"))
    elif heads is not None and "://" in heads and (why := _unlisted(heads)) is not None:
        yield fault("evidence log", why)


def _unlisted(location: str) -> str | None:
    """Why a store's place cannot be listed. Nothing is written there: it may be one that gives nothing back."""
    from rebalance_audit.warehouse.storage import files_at, store_fault

    try:
        files_at(location).names("heads")
    except Exception as error:
        if (sentence := store_fault(error)) is None:
            raise
        return sentence
    return None


def _lost(secrets: Iterable[str | Secret]) -> Iterator[str]:
    from rebalance_audit.settings.reading import SettingsError, revealed

    for secret in secrets:
        try:
            revealed(secret)
        except SettingsError as error:
            yield str(error)


def source(named: Cluster) -> Iterator[Diagnosis]:
    """One cluster of the settings file: its brokers with each right, its folders of logs and metadata."""
    from ingest.client_config import masked, read_command_config
    from ingest.errors import IngestError
    from rebalance_audit.settings.choices import client_properties

    if lost := [*_lost(named.client.values())]:
        yield from (fault("client", why) for why in lost)
    elif named.bootstrap_servers is not None:
        try:
            config = read_command_config(named.command_config) if named.command_config else {}
            config |= client_properties(named) | {"bootstrap.servers": named.bootstrap_servers}
        except IngestError as error:
            yield from (fault("client", each) for each in getattr(error, "faults", (str(error),)))
        else:
            yield ok("client", ", ".join(f"{name}={value}" for name, value in masked(config).items()))
            yield from cluster(config, named.connect_topics or None, cluster_id=named.cluster_id)
    for text in named.logs:
        node, equals, path = text.partition("=")
        for check in files([Path(path if equals and not Path(text).exists() else text)]):
            yield replace(check, subject=f"logs {node}" if equals else "logs")
    for text in named.metadata:
        node, equals, path = text.partition("=")
        folder = Path(path if equals and not Path(text).exists() else text)
        inside = folder if folder.name == METADATA_FOLDER else folder / METADATA_FOLDER
        if not inside.is_dir():
            yield fault("metadata", f"{folder} holds no {METADATA_FOLDER}", "give a node's metadata.log.dir")
        else:
            for check in files([inside]):
                yield replace(check, subject="metadata")


def cluster(
    config: Mapping[str, str],
    connect_topics: Mapping[str, str] | None = None,
    *,
    cluster_id: str | None = None,
    offsets_topic: str = "__consumer_offsets",
) -> Iterator[Diagnosis]:
    """Diagnoses of one cluster: reachable, and DESCRIBE and READ on what is to be read. Joins nothing.
    `connect_topics`: name to kind; looked for if not given. `cluster_id`: which cluster it should be."""
    from ingest.broker import LiveCluster
    from ingest.broker_reader import find_connect_topics
    from ingest.errors import IngestError

    try:
        found = LiveCluster(config, timeout_s=PROBE_S)
    except IngestError as error:
        yield fault("brokers", str(error))
        return
    if cluster_id not in (None, found.cluster_id):
        yield fault(
            "brokers",
            f"{found.address} is cluster {found.cluster_id}, not {cluster_id}",
            "correct cluster_id or bootstrap_servers in the settings",
        )
    else:
        yield ok("brokers", f"{found.address} is cluster {found.cluster_id}")
    try:
        connect = connect_topics if connect_topics is not None else find_connect_topics(found)
        for topic, kind in {offsets_topic: "group", **connect}.items():
            why = found.why_not(topic)
            yield fault(topic, why) if why is not None else _readable(found, topic, kind)
    except IngestError as error:
        yield fault("topics", str(error))
        return
    if not connect:
        yield ok("connect topics", "none found; name them with -t where there are some")


def _readable(found: object, topic: str, kind: str) -> Diagnosis:
    """Checked by fetching from one partition, since only that needs READ."""
    import time

    from ingest.broker import LiveCluster
    from ingest.broker_reader import BrokerReader

    assert isinstance(found, LiveCluster)
    reader = BrokerReader(found, {topic: kind}, partitions={topic: [0]})
    try:
        give_up_at = time.monotonic() + PROBE_S
        while not reader.is_done and not reader.problems and time.monotonic() < give_up_at:
            if reader.poll(0.2):
                break
        if (problem := reader.problems.get(topic)) is not None:
            return fault(topic, problem.sentence)
        return ok(topic, f"readable, {found.partition_counts[topic]} partitions")
    finally:
        reader.close()
