"""Differences between two Kafka versions in what this project reads: record schemas, log messages, assignors.

    python -m infra.lab.compare_versions 4.3.0 4.4.0        (make compare-versions OLD=4.3.0 NEW=4.4.0)

For every release candidate on Maven. Only jars are compared, nothing is started. Exit status: 0 nothing that we read
changed, 1 something did, 2 a version is not there.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from infra.lab.class_files import names, texts
from infra.lab.jars import BUILD, locked, tool
from infra.lab.processes import LabError
from rebalance_audit.domain.log_lines import clients, connect_worker, java_coordinator, reasons, scala_coordinator
from rebalance_audit.domain.log_lines.controller_forms import BROKER, KRAFT, LEADER, ZOOKEEPER
from rebalance_audit.domain.log_lines.templates import template
from rebalance_audit.domain.metadata import registry as metadata_records
from rebalance_audit.domain.records import registry as group_records

ARTIFACTS = (
    "kafka-clients", "kafka-group-coordinator", "kafka-metadata", "kafka-server", "kafka_2.13", "connect-runtime",
    "kafka-streams", "kafka-storage",
)  # fmt: skip
_NEEDED = "kafka-clients"
_PROTOCOLS = (
    "ConsumerProtocolSubscription",
    "ConsumerProtocolAssignment",
    "SnapshotHeaderRecord",
    "LeaderChangeMessage",
)
_ASSIGNOR = re.compile(r"org/apache/kafka/.*(?:Assignor|ConnectProtocol|TaskAssignor)\.class")
_TALKERS = re.compile(
    r"(?:kafka|org/apache/kafka)/.*/(?:GroupMetadataManager|GroupCoordinator|GroupCoordinatorService|ClassicGroup|"
    r"ConsumerGroup|ShareGroup|StreamsGroup|ReplicationControlManager|ClusterControlManager|QuorumController|"
    r"ConsumerCoordinator|AbstractCoordinator|WorkerCoordinator|DistributedHerder|Partition|KafkaController)"
    r"(?:\$\w*)*\.class"
)
"""Classes whose messages we read: a new one of theirs may be worth reading."""
_HOLES = re.compile("\x01|\\{\\}|%[sd]|<[^<>]*>|\\{[^{}]*\\}\\?")
_COMMENT = re.compile(r'("(?:[^"\\]|\\.)*")|//[^\n]*|/\*.*?\*/', re.S)
"""A text in quotes, which may hold slashes, or a comment."""
_LEAST_WORDS = 3
"""Words of a constant that is a message; shorter ones are names."""
_MOST_SHOWN = 60


@dataclass(slots=True)
class Version:
    """Contents of the jars of one version."""

    name: str
    schemas: Mapping[str, Any]
    """Message name -> its definition, without comments."""
    messages: frozenset[str] = frozenset()
    """Texts with U+0001 for each value; of classes that talk to us."""
    pieces: str = ""
    """All texts of all classes, one after the other."""
    assignors: Mapping[str, frozenset[bytes]] = field(default_factory=dict)
    """Class -> all names and texts in it."""


def fetched(version: str) -> dict[str, Path]:
    """The jars of a version by artifact, through Maven; those that Maven Central lacks are left out."""
    home = BUILD / "kafka" / version / "compared"
    found: dict[str, Path] = {}
    with locked(home):
        for artifact in ARTIFACTS:
            jar, lacking = home / f"{artifact}-{version}.jar", home / f"{artifact}.lacking"
            if not jar.exists() and not lacking.exists():
                command = [tool("mvn"), "-q", "-B", "dependency:copy", f"-DoutputDirectory={home}"]
                command += [f"-Dartifact=org.apache.kafka:{artifact}:{version}:jar", "-Dmdep.useBaseVersion=true"]
                if subprocess.run(command, capture_output=True, check=False).returncode != 0:
                    lacking.touch()
            if jar.exists():
                found[artifact] = jar
    if _NEEDED not in found:
        (home / f"{_NEEDED}.lacking").unlink(missing_ok=True)  # it may come yet
        raise LabError(f"Maven has no {_NEEDED} of Kafka {version}; check the version, or the network.")
    return found


def read_version(version: str, jars: Mapping[str, Path]) -> Version:
    schemas: dict[str, Any] = {}
    messages: set[str] = set()
    every: list[str] = []
    assignors: dict[str, frozenset[bytes]] = {}
    for jar in jars.values():
        with zipfile.ZipFile(jar) as archive:
            for name in archive.namelist():
                if name.startswith("common/") and name.endswith(".json"):
                    schemas[Path(name).stem] = _definition(archive.read(name).decode("utf-8"))
                elif name.endswith(".class"):
                    content = archive.read(name)
                    own = list(texts(content))
                    every += own
                    if _TALKERS.fullmatch(name):
                        messages.update(text for text in own if len(text.split()) >= _LEAST_WORDS)
                    if _ASSIGNOR.fullmatch(name):
                        assignors[name.removesuffix(".class").replace("/", ".")] = names(content)
    return Version(version, schemas, frozenset(messages), "\x00".join(every), assignors)


def _definition(text: str) -> Any:
    """Kafka's JSON with `//` comments, without what only people read."""
    bare = _COMMENT.sub(lambda found: found[1] or "", text)
    return _without(json.loads(bare), "about")


def _without(value: Any, name: str) -> Any:
    if isinstance(value, dict):
        return {key: _without(each, name) for key, each in value.items() if key != name}
    return [_without(each, name) for each in value] if isinstance(value, list) else value


def schemas_read() -> frozenset[str]:
    """The messages that this project decodes, by Kafka's names."""
    names = {f"{kind.name}{part}" for kind in group_records.RECORD_TYPES.values() for part in ("Key", "Value")}
    names |= {f"{kind.name}Record" for kind in metadata_records.RECORD_TYPES.values()}
    return frozenset((*names, *_PROTOCOLS))


def forms_read() -> frozenset[str]:
    """Every message form that this project reads, as docs/log_lines.md lists them."""
    tables = (
        scala_coordinator.RULES, java_coordinator.RULES, connect_worker.GROUP_RULES, connect_worker.TASK_RULES,
        clients.RULES,
    )  # fmt: skip
    found = {rule.template.text for table in tables for rule in table.all()}
    found |= {form[1] for table in (ZOOKEEPER, BROKER, LEADER, KRAFT) for form in table}
    return frozenset(found | set(reasons.FORMS))


def is_printed(form: str, version: Version) -> bool:
    """Whether all fixed parts of a form are among the texts of a version. Java cuts a message at its values, as we do;
    a part may stand inside a longer one."""
    parts = [part for part in _HOLES.split(template(form).text) if len(part.strip()) > 3]
    return bool(parts) and all(part.strip() in version.pieces for part in parts)


def compare(old: Version, new: Version) -> Iterator[tuple[str, str]]:
    """(what it is about, a line for people): all that changed and that we read."""
    for name in sorted(schemas_read()):
        before, after = old.schemas.get(name), new.schemas.get(name)
        if before != after:
            yield "schema", f"{name}: {_change(before, after)}"
    known = schemas_read()
    for name in sorted(new.schemas.keys() - old.schemas.keys() - known):
        if new.schemas[name].get("type") in ("coordinator-key", "coordinator-value", "metadata", "data"):
            yield "schema", f"{name}: new, and not read"
    for form in sorted(forms_read()):
        before, after = is_printed(form, old), is_printed(form, new)
        if before and not after:
            yield "message", f"no longer printed: {form}"
    for text in sorted(new.messages - old.messages):
        yield "message", f"new: {_shown(text)}"
    for text in sorted(old.messages - new.messages):
        yield "message", f"gone: {_shown(text)}"
    for name in sorted(old.assignors.keys() | new.assignors.keys()):
        before, after = old.assignors.get(name), new.assignors.get(name)
        if before != after:
            yield (
                "assignor",
                f"{name}: {'new' if before is None else 'gone' if after is None else 'calls or says something else'}",
            )


def _change(before: Any, after: Any) -> str:
    if before is None or after is None:
        return "new" if before is None else "gone"
    differences = [
        f"{what} {before.get(what)} -> {after.get(what)}"
        for what in ("validVersions", "flexibleVersions", "apiKey")
        if before.get(what) != after.get(what)
    ]
    old, new = dict(_fields(before)), dict(_fields(after))
    differences += [f"+{name} {new[name]}" for name in sorted(new.keys() - old.keys())]
    differences += [f"-{name} {old[name]}" for name in sorted(old.keys() - new.keys())]
    differences += [
        f"{name} {old[name]} -> {new[name]}" for name in sorted(old.keys() & new.keys()) if old[name] != new[name]
    ]
    return "; ".join(differences) or "written otherwise"


def _fields(definition: Mapping[str, Any], inside: str = "") -> Iterator[tuple[str, str]]:
    for each in (*definition.get("fields", ()), *definition.get("commonStructs", ())):
        name = f"{inside}{each['name']}"
        facts = [f"{key}={each[key]}" for key in ("versions", "tag", "taggedVersions", "nullableVersions", "default")
                 if key in each]  # fmt: skip
        yield name, f"({each.get('type', 'struct')}, {', '.join(map(str, facts))})"
        yield from _fields(each, f"{name}.")


def _shown(text: str) -> str:
    return text.replace("\x01", "{}").encode("unicode_escape").decode("ascii")[:300]


def lines_of(differences: Iterable[tuple[str, str]]) -> Iterator[str]:
    by_subject: dict[str, list[str]] = {}
    for subject, line in differences:
        by_subject.setdefault(subject, []).append(line)
    for subject, lines in by_subject.items():
        yield f"{subject}: {len(lines)}"
        yield from (f"   {line}" for line in lines[:_MOST_SHOWN])
        if len(lines) > _MOST_SHOWN:
            yield f"   and {len(lines) - _MOST_SHOWN} more (--all)"


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    arguments.add_argument("old")
    arguments.add_argument("new")
    arguments.add_argument("--all", action="store_true", help="list everything, however long")
    asked = arguments.parse_args()
    try:
        jars = {version: fetched(version) for version in (asked.old, asked.new)}
    except LabError as error:
        print(error, file=sys.stderr)
        return 2
    both = jars[asked.old].keys() & jars[asked.new].keys()  # Maven Central is incomplete for the newest
    old, new = (
        read_version(version, {artifact: jar for artifact, jar in jars[version].items() if artifact in both})
        for version in (asked.old, asked.new)
    )
    differences = list(compare(old, new))
    for artifact in sorted(set(ARTIFACTS) - both):
        print(f"Not compared, as Maven lacks it for one of both: {artifact}")
    print(
        f"Kafka {old.name} and {new.name}: {len(forms_read())} forms of messages, {len(schemas_read())} schemas read."
    )
    print(*([f"{subject}: {line}" for subject, line in differences] if asked.all else lines_of(differences)), sep="\n")
    if not differences:
        print("Nothing that this project reads changed.")
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
