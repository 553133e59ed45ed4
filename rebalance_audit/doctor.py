"""`doctor`: show what a machine, warehouse, folder or cluster lacks, each with its remedy.

It leaves nothing behind: the file that it tries to write in a warehouse goes again.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from importlib import metadata, util
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rebalance_audit.settings.model import Cluster, Secret, Settings

METADATA_FOLDER = "__cluster_metadata-0"
PYTHON_FROM, PYTHON_BELOW = (3, 11), (3, 14)
JAVA_FROM = 17
"""Spark 4 is compiled for Java 17."""
DISK_NEEDED_BYTES = 1 << 30
"""A warehouse of a day of a busy cluster; below it a run may end in the middle."""
DISK_LEAST_BYTES = 100 << 20
MEMORY_NEEDED_BYTES = 3 << 30
"""Spark's driver 1.4 GiB at most, its Python workers, the app."""
PROBE_S = 10.0

MODULES: Mapping[str, str] = {
    "pyarrow": "pyarrow", "deltalake": "deltalake", "duckdb": "duckdb", "cramjam": "cramjam", "rich": "rich",
    "google_crc32c": "google-crc32c", "apprise": "apprise", "prometheus_client": "prometheus-client",
    "jinja2": "jinja2", "pydantic": "pydantic", "cryptography": "cryptography",
}  # fmt: skip
"""Import name to the name it is installed by, of what every verb may need."""
EXTRAS: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "collector": ("live clusters (`collect`, `watch`, `explain -b`)", {"confluent_kafka": "confluent-kafka"}),
    "spark": (
        "news of 16 MB and more at once, and `check --suite`",
        {"pyspark": "pyspark", "great_expectations": "great-expectations", "pandas": "pandas",
         "google.protobuf": "protobuf"},
    ),
    "ui": ("the app (`ui`)", {"streamlit": "streamlit", "authlib": "authlib"}),
    "otel": ("`trace`", {"opentelemetry.sdk": "opentelemetry-sdk"}),
}  # fmt: skip
"""For each extra of the package: what it is for, and what it installs."""


class Health(StrEnum):
    OK = "ok"
    OPTIONAL = "optional"
    """Missing, and only needed for what the detail names."""
    FAULT = "fault"


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    subject: str
    state: Health
    detail: str
    remedy: str = ""


def ok(subject: str, detail: str) -> Diagnosis:
    return Diagnosis(subject=subject, state=Health.OK, detail=detail)


def fault(subject: str, detail: str, remedy: str = "") -> Diagnosis:
    """Without a remedy where the detail says it already."""
    return Diagnosis(subject=subject, state=Health.FAULT, detail=detail, remedy=remedy)


def optional(subject: str, detail: str, remedy: str) -> Diagnosis:
    return Diagnosis(subject=subject, state=Health.OPTIONAL, detail=detail, remedy=remedy)


# ---- the machine


def machine(place: Path | None = None) -> Iterator[Diagnosis]:
    """`place`: where data will be written."""
    yield python(sys.version_info[:3])
    yield from packages()
    yield java() if _is_installed("pyspark") else without_spark(java())
    yield memory(_memory_bytes())
    where = _existing(place or Path.cwd())
    yield disk(where, shutil.disk_usage(where).free)
    yield scratch()
    yield tool("mvn", "Maven", "real clusters (`lab`, `demo --live`)", "maven")
    yield tool("javac", "the Java compiler", "real clusters (`lab`, `demo --live`)", "openjdk-17-jdk-headless")
    yield airflow()


def python(version: Sequence[int]) -> Diagnosis:
    found = ".".join(map(str, version))
    if PYTHON_FROM <= tuple(version[:2]) < PYTHON_BELOW:
        return ok("python", found)
    return fault("python", f"{found} is not between 3.11 and 3.13", "run it with Python 3.11, 3.12 or 3.13")


def packages(find: Callable[[str], object | None] = lambda name: _find(name)) -> Iterator[Diagnosis]:
    if missing := _missing(MODULES, find):
        yield fault("packages", f"missing: {missing}", "install rebalance-audit again")
    else:
        yield ok("packages", f"all {len(MODULES)} there that every verb may need")
    for extra, (needed_for, modules) in EXTRAS.items():
        if missing := _missing(modules, find):
            yield optional(
                extra, f"missing: {missing}; only needed for {needed_for}", f"pip install 'rebalance-audit[{extra}]'"
            )
        else:
            yield ok(extra, "installed")
    if _is_installed("pyspark-client"):
        yield fault(
            "pyspark",
            "pyspark-client is installed over pyspark and overwrites its files",
            "uninstall pyspark-client and apache-airflow-providers-apache-spark, then reinstall pyspark",
        )


def _missing(modules: Mapping[str, str], find: Callable[[str], object | None]) -> str:
    return ", ".join(sorted(package for module, package in modules.items() if find(module) is None))


def java(environment: Mapping[str, str] = os.environ, which: Callable[[str], str | None] = shutil.which) -> Diagnosis:
    install = "install a Java runtime of version 17, 21 or 25 (Debian: apt-get install openjdk-17-jre-headless)"
    home = environment.get("JAVA_HOME")
    path = str(Path(home) / "bin" / "java") if home else which("java")
    if path is None:
        return fault("java", "no java on PATH and no JAVA_HOME; Spark needs it", install)
    if not Path(path).exists():
        return fault("java", f"JAVA_HOME is {home}, but {path} is not there", "correct or unset JAVA_HOME")
    try:
        said = subprocess.run([path, "-version"], capture_output=True, text=True, timeout=30, check=False).stderr
    except (OSError, subprocess.TimeoutExpired) as error:
        return fault("java", f"{path} does not run ({error})", install)
    version = java_version(said)
    if version is None:
        return fault("java", f"{path} does not say its version", install)
    if version < JAVA_FROM:
        return fault("java", f"{path} is Java {version}; Spark 4 needs 17 or newer", install)
    return ok("java", f"{version} ({path})")


def without_spark(found: Diagnosis) -> Diagnosis:
    """Only Spark and the lab need Java."""
    return replace(found, state=Health.OPTIONAL) if found.state is Health.FAULT else found


def java_version(said: str) -> int | None:
    """The major version in what `java -version` prints; 8 for 1.8."""
    match = re.search(r'version "(?:1\.)?(\d+)', said)
    return int(match[1]) if match else None


def tool(command: str, name: str, needed_for: str, package: str) -> Diagnosis:
    path = shutil.which(command)
    if path is not None:
        return ok(command, path)
    return optional(command, f"{name} is missing; only needed for {needed_for}", f"apt-get install {package}")


def airflow() -> Diagnosis:
    if _is_installed("apache-airflow"):
        return ok("airflow", metadata.version("apache-airflow"))
    return optional(
        "airflow",
        "not in this environment; only needed for the DAGs, which may run elsewhere",
        "pip install 'rebalance-audit[airflow]'",
    )


def disk(place: Path, free_bytes: int) -> Diagnosis:
    space = f"{free_bytes / (1 << 30):.1f} GiB free at {place}"
    if free_bytes < DISK_LEAST_BYTES:
        return fault("disk", space, "free some space, or choose another --warehouse")
    if free_bytes < DISK_NEEDED_BYTES:
        return optional("disk", f"{space}; enough for small clusters only", "free some space")
    return ok("disk", space)


def memory(total_bytes: int | None) -> Diagnosis:
    if total_bytes is None:
        return ok("memory", "not known on this system")
    total = f"{total_bytes / (1 << 30):.1f} GiB"
    if total_bytes < MEMORY_NEEDED_BYTES:
        return optional("memory", f"{total}; Spark may run out of it on large inputs", "give the machine 4 GiB")
    return ok("memory", total)


def scratch() -> Diagnosis:
    try:
        folder = Path(tempfile.gettempdir())
    except FileNotFoundError:
        return fault("temporary folder", "none is there that can be written", "set TMPDIR to a writable folder")
    if os.access(folder, os.W_OK):
        return ok("temporary folder", str(folder))
    return fault("temporary folder", f"{folder} is not writable; Spark needs it", "set TMPDIR to a writable folder")


# ---- what was named


def warehouse(location: str, *, is_written: bool = False) -> Iterator[Diagnosis]:
    """`is_written`: somebody means to collect into it, so reading is not enough."""
    from rebalance_audit.warehouse.damage import damages
    from rebalance_audit.warehouse.storage import files_at, passing_fault
    from rebalance_audit.warehouse.warehouse import Warehouse, WarehouseError

    if "://" not in location and not Path(location).exists():
        yield optional("warehouse", f"There is no warehouse at {location} yet", _FIRST)
        if not os.access(parent := _existing(Path(location)), os.W_OK):
            yield fault("warehouse", f"{parent} is not writable for this user", "choose another place")
        return
    try:
        place = files_at(location)
        if not place.is_local and not place.is_there("warehouse.json"):
            yield optional("warehouse", f"There is no warehouse at {location} yet", _FIRST)
            yield writing(location, is_needed=True)
            return
        opened = Warehouse.open(location)
        published = opened.published()
        landed = len(opened.landed("record")) + len(opened.landed("log_line"))
    except WarehouseError as error:
        yield fault("warehouse", str(error))
        return
    except Exception as error:
        if (sentence := passing_fault(error)) is None:
            raise
        yield fault("warehouse", sentence)
        return
    if not published:
        yield fault(
            "warehouse", f"{landed} landing files, nothing published yet", f"run `rebalance-audit run -w {location}`"
        )
    else:
        yield ok("warehouse", f"{len(published)} tables published, {landed} landing files")
    for name, why in damages(opened).items():
        yield fault(name, why.removeprefix(f"{name} "))
    yield writing(location, is_needed=is_written)


_FIRST = "the first `import`, `collect` or `watch` makes it"


_ANOTHER_TAG = f'"{"0" * 32}"'
"""A tag that no file of ours has."""


def writing(location: str, *, is_needed: bool) -> Diagnosis:
    """Whether this user may write there, by writing; in a store also whether of two writers one is refused."""
    from rebalance_audit.warehouse.storage import files_at, passing_fault

    files, name = files_at(location), f"notes/doctor-{uuid.uuid4().hex}"
    remedy = "only reading verbs work (`report`, `export`, `explain`, `serve`, `ui`)"
    try:
        if files.is_local:
            files.write(name, b"1")
        else:
            files.write_if(name, b"1", None)
            if files.write_if(name, b"2", None) is not None or files.write_if(name, b"3", _ANOTHER_TAG) is not None:
                files.delete(name)
                return fault(
                    "writing",
                    f"the store of {location} accepts a second put that it must refuse: two writers could both commit",
                    "use a store that supports conditional puts (If-None-Match, If-Match)",
                )
        files.delete(name)
    except Exception as error:
        sentence = passing_fault(error)
        if sentence is None and not isinstance(error, PermissionError):
            raise
        detail = sentence or f"{location} is not writable for this user"
        return fault("writing", detail) if is_needed else optional("writing", detail, remedy)
    return ok("writing", "a file was written and deleted")


def files(folders: Iterable[Path]) -> Iterator[Diagnosis]:
    """Every file below these folders can be read."""
    for folder in folders:
        if not folder.is_dir():
            yield fault("files", f"{folder} is not a folder", "check the path")
            continue
        if not os.access(folder, os.R_OK | os.X_OK):
            yield fault("files", f"{folder} may not be listed by this user", _allow(folder))
            continue
        found = [path for path in sorted(folder.rglob("*")) if path.is_file() or not os.access(path, os.R_OK)]
        closed = [path for path in found if not os.access(path, os.R_OK)]
        for path in closed[:5]:
            yield fault("files", f"{path} may not be read by this user", _allow(path))
        if len(closed) > 5:
            yield fault("files", f"{len(closed) - 5} more files below {folder} may not be read", _allow(folder))
        if not closed:
            yield ok("files", f"{len(found)} readable below {folder}")


def _allow(path: Path) -> str:
    return f"let this user read it, for example setfacl -R -m u:$(id -un):rX {path}"


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
    if heads is not None and "://" not in heads and not os.access(_existing(Path(heads)), os.W_OK):
        yield fault("evidence log", f"heads cannot be written to {heads}", _allow(Path(heads)))
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
    """Reachable, and DESCRIBE and READ on what is to be read. Joins nothing. `connect_topics`: name to kind; looked for
    if not given. `cluster_id`: which cluster it should be."""
    from ingest.broker import LiveCluster
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
        connect = connect_topics if connect_topics is not None else found.find_connect_topics()
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

    from ingest.broker import BrokerReader, LiveCluster

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


# ---- the system below


def _find(name: str) -> object | None:
    try:
        return util.find_spec(name)
    except ModuleNotFoundError:
        return None


def _is_installed(package: str) -> bool:
    try:
        metadata.version(package)
    except metadata.PackageNotFoundError:
        return False
    return True


def _memory_bytes() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError):
        return None


def _existing(place: Path) -> Path:
    while not place.exists() and place != place.parent:
        place = place.parent
    return place
