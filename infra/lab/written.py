"""The cluster's own record of every partition: the metadata log through Kafka's dump tool, or ZooKeeper's
transaction log. The exact truth about reassignments, with the times of the writes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from . import configs, jars
from .cluster import Cluster
from .configs import version_key
from .run_folder import SMALL_HEAP

State = dict[str, Any]
ZOOKEEPER_WRITES = jars.HERE / "java/zookeeper/TruthWrites.java"
_DUMPED = re.compile(r"\| offset: \d+ CreateTime: (\d+) .*? payload: (\{.*\})$")
_ASSIGNMENT = re.compile(r"/brokers/topics/([^/]+)")
_STATE = re.compile(r"/brokers/topics/([^/]+)/partitions/(\d+)/state")


def written_states(cluster: Cluster) -> list[State]:
    """Events `written` (a partition's state since that moment) and `removed` (with its topic), in order."""
    states = states_of_znodes(_znode_writes(cluster)) if cluster.uses_zookeeper else _from_metadata(cluster)
    return [{"client": "cluster", **state} for state in states if not state["tp"].startswith("__")]


def _from_metadata(cluster: Cluster) -> Iterator[State]:
    tool = "kafka.tools.DumpLogSegments" if version_key(cluster.version) < (4, 0) else (
        "org.apache.kafka.tools.DumpLogSegments"
    )  # fmt: skip
    logs = [folder / "__cluster_metadata-0" for folder in cluster.node_folders.values()]
    files = sorted(max(logs, key=_size).glob("*.log"))
    arguments = ["--cluster-metadata-decoder", "--files", ",".join(map(str, files))]
    command = cluster.java("dump", configs.single_log_layout("dump.log"), SMALL_HEAP, tool, *arguments)
    found = filter(None, (_DUMPED.match(line) for line in cluster.run(command).splitlines()))
    return states_of_records((int(line[1]), json.loads(line[2])) for line in found)


def _size(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.glob("*.log"))


def states_of_records(records: Iterable[tuple[int, dict[str, Any]]]) -> Iterator[State]:
    names: dict[str, str] = {}
    states: dict[tuple[str, int], State] = {}
    for at_ms, record in records:
        data = record["data"]
        match record["type"]:
            case "TOPIC_RECORD":
                names[data["topicId"]] = data["name"]
            case "PARTITION_RECORD" | "PARTITION_CHANGE_RECORD":
                key = (data["topicId"], data["partitionId"])
                state = dict(states.get(key, {"event": "written", "tp": f"{names[key[0]]}-{key[1]}"}), at_ms=at_ms)
                for ours, theirs in (
                    ("replicas", "replicas"), ("isr", "isr"), ("adding", "addingReplicas"),
                    ("removing", "removingReplicas"),
                ):  # fmt: skip
                    if data.get(theirs) is not None:
                        state[ours] = sorted(data[theirs]) if ours == "isr" else data[theirs]
                if data.get("leader", -2) != -2:
                    state["leader"] = None if data["leader"] == -1 else data["leader"]
                states[key] = state
                yield state
            case "REMOVE_TOPIC_RECORD":
                for key in [key for key in states if key[0] == data["topicId"]]:
                    yield {"event": "removed", "tp": states.pop(key)["tp"], "at_ms": at_ms}


def _znode_writes(cluster: Cluster) -> list[str]:
    folder = cluster.folder / "data/zookeeper/version-2"
    command = [jars.tool("java"), "-cp", "libs/*", str(ZOOKEEPER_WRITES), str(folder)]
    return cluster.run(command).splitlines()


def states_of_znodes(writes: Iterable[str]) -> Iterator[State]:
    """A partition's assignment and its leader with the ISR are znodes of their own, written one after the other.
    `writes` are lines of TruthWrites."""
    assignments: dict[str, State] = {}
    states: dict[str, State] = {}
    for line in writes:
        at_text, path, text = line.split("\t", 2)
        at_ms = int(at_text)
        if found := _ASSIGNMENT.fullmatch(path):
            topic = found[1]
            if not text:
                for tp in [tp for tp in states if tp.rpartition("-")[0] == topic]:
                    del states[tp], assignments[tp]
                    yield {"event": "removed", "tp": tp, "at_ms": at_ms}
                continue
            content = json.loads(text)
            changed = []
            for number, replicas in content["partitions"].items():
                now = {
                    "replicas": replicas,
                    "adding": content.get("adding_replicas", {}).get(number, []),
                    "removing": content.get("removing_replicas", {}).get(number, []),
                }
                if assignments.get(f"{topic}-{number}") != now:
                    assignments[f"{topic}-{number}"] = now
                    changed.append(f"{topic}-{number}")
        elif (found := _STATE.fullmatch(path)) and text:
            content = json.loads(text)
            leader = None if content["leader"] == -1 else content["leader"]
            changed = [f"{found[1]}-{found[2]}"]
            states[changed[0]] = {"leader": leader, "isr": sorted(content["isr"])}
        else:
            continue
        for tp in changed:
            if tp in assignments and tp in states:
                yield {"event": "written", "tp": tp, "at_ms": at_ms, **assignments[tp], **states[tp]}
