"""Keep what a lab run left behind: an evidence folder, the truth beside it, and where both came from."""

from __future__ import annotations

import datetime as dt
import gzip
import importlib.metadata
import json
import os
import platform
import re
import shutil
import socket
import subprocess
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from . import jars, programs
from .clients import read_events
from .cluster import Cluster

CAPTURED_TOPICS = (
    "__consumer_offsets-",
    "connect-configs-",
    "connect-offsets-",
    "connect-status-",
    "mm2-configs.",
    "mm2-offsets.",
    "mm2-status.",
    "__cluster_metadata-",
)
CAPTURED_SUFFIXES = (".log", ".checkpoint")


def write_capture(cluster: Cluster, output: Path, *, scenario: dict[str, Any], command: str) -> None:
    """Write `data`, `logs`, `meta.json`, `truth` and `origin.json` to `output`, replacing an earlier capture there.

    The cluster may run meanwhile, as it does when an operator copies files; the caller sees to a quiet moment.
    Empty files and indexes are left out; everything but JSON is gzip-compressed without a time stamp.
    """
    partial = output.with_name(output.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    names = machine_names(cluster.folder)
    for node, folder in cluster.node_folders.items():
        for segment in sorted(folder.glob("*/*")):
            if segment.parent.name.startswith(CAPTURED_TOPICS) and segment.suffix in CAPTURED_SUFFIXES:
                _keep(segment.read_bytes(), partial / "data" / node / segment.parent.name / segment.name)
    for node, folder in cluster.log_folders.items():
        for log in sorted(folder.glob("*.log*")):
            _keep(without_machine_names(log.read_bytes(), names), partial / "logs" / node / log.name)
    for log in sorted((cluster.folder / "logs").glob("*/client.log*")):
        target = partial / "truth/client-logs" / log.parent.name / log.name
        _keep(without_machine_names(log.read_bytes(), names), target)
    events = read_events(cluster.folder / "truth")
    lines = "".join(json.dumps(event) + "\n" for event in events)
    _pack(lines.encode(), partial / "truth/clients.jsonl")
    _write_json(partial / "truth/scenario.json", scenario)
    _write_json(
        partial / "meta.json",
        {"cluster_id": cluster.cluster_id, "kafka_version": cluster.version, "log_time_zone": cluster.time_zone},
    )
    libraries = {client["library"] for client in scenario["clients"]}
    _write_json(partial / "origin.json", origin(cluster, command, libraries))
    shutil.rmtree(output, ignore_errors=True)
    partial.rename(output)


def origin(cluster: Cluster, command: str, libraries: Collection[str]) -> dict[str, Any]:
    java = subprocess.run([jars.tool("java"), "-version"], capture_output=True, text=True, check=False).stderr
    return {
        "kafka_version": cluster.version,
        "mode": "zookeeper" if cluster.uses_zookeeper else "kraft",
        "clients": {
            "kafka-clients": cluster.version,
            "confluent-kafka": importlib.metadata.version("confluent-kafka"),
            **{name: version for name, version in programs.versions().items() if name in libraries},
        },
        "java_version": java.splitlines()[0] if java else "unknown",
        "captured_on": dt.datetime.now(dt.UTC).date().isoformat(),
        "command": command,
        "code_revision": "unknown",
        "changed": "Paths and names of the machine are replaced in logs. Empty files and indexes are left out.",
        "secrets": "None: the lab is gone, its session keys with it, and the connector's password is made up.",
    }


def machine_names(run_folder: Path) -> dict[str, str]:
    """Texts that must not be kept, longest first, and what stands for each."""
    names = {
        str(run_folder): "/lab",
        str(jars.BUILD): "/lab/build",
        str(jars.HERE.parents[1]): "/lab/repository",
        str(Path.home()): "/home/lab",
        platform.release(): "kernel",
    }
    for name in {socket.gethostname(), socket.getfqdn(), os.uname().nodename} - {"localhost"}:
        names[name] = "lab-host"
    return dict(sorted(names.items(), key=lambda pair: -len(pair[0])))


def without_machine_names(text: bytes, names: Mapping[str, str]) -> bytes:
    for name, substitute in names.items():
        # A host may be called "vm": only whole words, or "jvm" would change too.
        whole_word = rb"(?<![\w.-])" + re.escape(name.encode()) + rb"(?![\w-])"
        text = re.sub(whole_word, substitute.encode(), text)
    return text


def _keep(content: bytes, target: Path) -> None:
    if content:
        _pack(content, target)


def _pack(content: bytes, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    with (
        target.with_name(target.name + ".gz").open("wb") as file,
        gzip.GzipFile(filename="", fileobj=file, mode="wb", compresslevel=9, mtime=0) as packed,
    ):
        packed.write(content)


def _write_text(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def _write_json(path: Path, value: object) -> None:
    _write_text(path, json.dumps(value, indent=2) + "\n")
