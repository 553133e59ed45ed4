"""What the machine has: Python, packages, Java, memory, disk, tools."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from importlib import metadata, util
from pathlib import Path

from rebalance_audit.doctor.diagnosis import Diagnosis, Health, fault, ok, optional
from rebalance_audit.doctor.places import existing

PYTHON_FROM, PYTHON_BELOW = (3, 11), (3, 14)
JAVA_FROM = 17
"""Spark 4 is compiled for Java 17."""
DISK_NEEDED_BYTES = 1 << 30
"""A warehouse of a day of a busy cluster; below it a run may end in the middle."""
DISK_LEAST_BYTES = 100 << 20
MEMORY_NEEDED_BYTES = 3 << 30
"""Spark's driver 1.4 GiB at most, its Python workers, the app."""

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


def machine(place: Path | None = None) -> Iterator[Diagnosis]:
    """Diagnoses of this machine: Python, packages, Java, memory, disk, tools. `place`: where data will be written."""
    yield python(sys.version_info[:3])
    yield from packages()
    yield domain()
    yield java() if _is_installed("pyspark") else without_spark(java())
    yield memory(_memory_bytes())
    where = existing(place or Path.cwd())
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
        yield ok("packages", f"all {len(MODULES)} that verbs may need are there")
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


def domain(find: Callable[[str], object | None] = lambda name: _find(name)) -> Diagnosis:
    """Which form of the domain's packages this process would import (decision 0105)."""
    origin = str(getattr(find("rebalance_audit.domain.replay.classic"), "origin", None))
    return ok("domain", f"plain Python, {origin}" if origin.endswith(".py") else f"compiled, {origin}")


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
    """The diagnosis of Java where Spark is not installed: a missing one is no fault, since only Spark and the lab need
    it."""
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
        return fault("temporary folder", "there is none that can be written", "set TMPDIR to a writable folder")
    if os.access(folder, os.W_OK):
        return ok("temporary folder", str(folder))
    return fault("temporary folder", f"{folder} is not writable; Spark needs it", "set TMPDIR to a writable folder")


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
