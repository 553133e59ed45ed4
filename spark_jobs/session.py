"""The one place that builds Spark."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from pathlib import Path

from pyspark import SparkConf, SparkContext
from pyspark import __version__ as spark_version
from pyspark.sql import SparkSession

DEFAULT_MASTER = "local[2]"
DEFAULT_DRIVER_MEMORY = "1g"
"""Enough for a million events on two cores; in local mode the driver is the executor too."""


class NoJavaError(Exception):
    """Spark needs Java, and there is none: one sentence with the remedy."""


def open_session(more: Mapping[str, str] | None = None) -> SparkSession:
    """The Spark session, made on first use. SPARK_MASTER and SPARK_DRIVER_MEMORY override the defaults; without them
    spark-submit and spark-defaults.conf name the master.

    With another master than `local` only what the stages rely on is set: memory, addresses, retries and all else are
    the cluster's, by spark-defaults.conf or spark-submit (docs/cluster.md). `more` are settings of one job.

    Raises NoJavaError, because Spark's own words for it (JAVA_GATEWAY_EXITED) do not say what to do.
    """
    active = SparkSession.getActiveSession()
    if active is not None:
        return active
    java = find_java()
    master = _master()
    builder = SparkSession.builder.master(master).appName("rebalance-audit")
    settings = dict(_EVERYWHERE)
    if master.startswith("local"):
        settings |= _on_this_machine(java, 2 * _cores_of(master))
    for key, value in (settings | dict(more or {})).items():
        builder = builder.config(key, value)
    on_interrupt = signal.getsignal(signal.SIGINT)
    session = builder.getOrCreate()
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, on_interrupt)  # PySpark takes Ctrl-C for itself when it starts
    if "SPARK_LOG_LEVEL" in os.environ:
        session.sparkContext.setLogLevel(os.environ["SPARK_LOG_LEVEL"])
    return session


def _master() -> str:
    if named := os.environ.get("SPARK_MASTER"):
        return named
    if "PYSPARK_GATEWAY_PORT" in os.environ:  # spark-submit started the JVM and has set these
        SparkContext._ensure_initialized()  # else the conf knows nothing of that JVM
        return str(SparkConf().get("spark.master", DEFAULT_MASTER))
    home = os.environ.get("SPARK_HOME")
    folder = os.environ.get("SPARK_CONF_DIR") or (home and f"{home}/conf")
    defaults = Path(folder or os.devnull) / "spark-defaults.conf"
    found = re.search(r"(?m)^\s*spark\.master[\s=]+(\S+)", defaults.read_text()) if defaults.is_file() else None
    return found[1] if found else DEFAULT_MASTER


_EVERYWHERE = {
    "spark.ui.showConsoleProgress": "false",
    # Every instant is epoch milliseconds; the session's zone must never change one.
    "spark.sql.session.timeZone": "UTC",
    # Offsets of groups are skewed; let Spark join small shuffle partitions and split large ones.
    "spark.sql.adaptive.enabled": "true",
    # Arrow batches hold whole records with their bytes: bound them by size, and let kernels see many rows.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
    "spark.sql.execution.arrow.maxBytesPerBatch": str(32 * 1024 * 1024),
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # A worker that starts per task would import pyarrow and the domain each time.
    "spark.python.worker.reuse": "true",
    "spark.python.daemon.module": "spark_jobs.worker_daemon",
    "spark.sql.parquet.compression.codec": "zstd",
    # Written by us, read by us and DuckDB: int64 milliseconds only, so no rebasing of old calendars.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # _SUCCESS files would be committed into tables by mistake one day.
    "spark.hadoop.mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
    "spark.sql.catalogImplementation": "in-memory",
}
"""What the stages rely on. All else is the cluster's: spark-defaults.conf, spark-submit and the environment say it."""


def _on_this_machine(java: str, partitions: int) -> dict[str, str]:
    """Settings for Spark on this machine alone, which a cluster does not need."""
    # Workers take `python3` from PATH, not the running environment: ModuleNotFoundError inside tasks.
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ["PYTHONPATH"] = os.pathsep.join(_import_roots())
    return {
        "spark.driver.memory": os.environ.get("SPARK_DRIVER_MEMORY", DEFAULT_DRIVER_MEMORY),
        # Loopback only: no port of ours is open to the network, and no warning about the host's name.
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        # Nobody looks at Spark's own page, and it would take a port.
        "spark.ui.enabled": "false",
        # The default of 200 is for clusters; on small inputs each empty task costs more than it does.
        "spark.sql.shuffle.partitions": str(partitions),
        "spark.default.parallelism": str(partitions),
        # A task that fails here would fail again: decoding is deterministic, and reruns belong to the caller.
        "spark.task.maxFailures": "1",
        # Derby, blocks and the catalog stay out of the working folder.
        "spark.sql.warehouse.dir": str(_scratch() / "catalog"),
        "spark.local.dir": str(_scratch()),
        "spark.driver.extraJavaOptions": _java_options(java),
    }


def end_session() -> None:
    """Stop the session, if there is one."""
    active = SparkSession.getActiveSession()
    if active is not None:
        active.stop()


def find_java() -> str:
    """The `java` Spark will use: JAVA_HOME's, else the one on PATH."""
    home = os.environ.get("JAVA_HOME")
    if home:
        candidate = Path(home) / "bin" / "java"
        if candidate.exists():
            return str(candidate)
        raise NoJavaError(f"JAVA_HOME is {home}, but there is no bin/java in it; correct or unset JAVA_HOME.")
    found = shutil.which("java")
    if found is None:
        raise NoJavaError("No Java was found; install a Java runtime (17, 21 or 25) or set JAVA_HOME.")
    return found


def class_archive(java: str) -> Path:
    """The shared class archive of this Spark and this Java: it makes starting a third quicker."""
    base = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "rebalance-audit"
    stamp = int(Path(java).resolve().stat().st_mtime)
    return base / f"spark-{spark_version}-java-{stamp}.jsa"


def write_class_archive() -> Path:
    """Make the archive: one Spark start that notes its classes at exit (about 20 s, 150 MB). Once per machine."""
    target = class_archive(find_java())
    target.parent.mkdir(parents=True, exist_ok=True)
    unfinished = target.with_suffix(f".{os.getpid()}.tmp")
    program = (
        "from spark_jobs.session import open_session\n"
        "s = open_session()\n"
        "d = s.range(10).selectExpr('id % 3 g').groupBy('g').count()\n"
        "d.mapInArrow(lambda b: b, 'g long, count long').collect()\n"
        "s.stop()\n"
    )
    subprocess.run(
        [sys.executable, "-c", program],
        check=True,
        env=os.environ | {"SPARK_CLASS_ARCHIVE_OUT": str(unfinished), "PYTHONPATH": os.pathsep.join(_import_roots())},
    )
    size = -1  # the JVM outlives the program a little, and writes then
    for _ in range(600):  # at a load of 17 it took more than a minute
        time.sleep(0.5)
        known, size = size, unfinished.stat().st_size if unfinished.exists() else -1
        if known == size > 0:
            unfinished.replace(target)
            return target
    unfinished.unlink(missing_ok=True)
    raise TimeoutError(f"Java wrote no class archive at {unfinished} within five minutes")


def _java_options(java: str) -> str:
    options = [
        # Two cores: a parallel collector's threads only take turns with the work.
        "-XX:+UseSerialGC",
        # Python does the work of the stages, and the second compiler took more of a run than it gave back.
        "-XX:TieredStopAtLevel=1",
        "-Duser.timezone=UTC",
        f"-Dlog4j2.configurationFile={(Path(__file__).parent / 'log4j2.properties').as_uri()}",
    ]
    out = os.environ.get("SPARK_CLASS_ARCHIVE_OUT")
    archive = class_archive(java)
    if out:
        options += [f"-XX:ArchiveClassesAtExit={out}", "-Xlog:cds=off", "-Xlog:cds+dynamic=off"]
    elif archive.exists():
        options += [f"-XX:SharedArchiveFile={archive}", "-Xshare:auto", "-Xlog:cds=off", "-Xlog:cds+dynamic=off"]
    return " ".join(options)


def _cores_of(master: str) -> int:
    digits = "".join(c for c in master.partition("[")[2] if c.isdigit())
    return int(digits) if digits else (os.cpu_count() or 2)


def _scratch() -> Path:
    return Path(tempfile.gettempdir()) / f"rebalance-audit-spark-{os.getuid()}"


def _import_roots() -> list[str]:
    """Where the workers find our packages when they are not installed."""
    root = str(Path(__file__).resolve().parent.parent)
    return [root, *(p for p in os.environ.get("PYTHONPATH", "").split(os.pathsep) if p and p != root)]


if __name__ == "__main__":
    print(write_class_archive())
