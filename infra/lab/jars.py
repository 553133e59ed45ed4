"""Kafka's jars per version, through Maven, and our lab classes compiled against them."""

from __future__ import annotations

import fcntl
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .configs import version_key
from .processes import LabError

HERE = Path(__file__).resolve().parent
BUILD = HERE.parents[1] / ".build"
DEFAULT_VERSION = "4.3.0"

CONNECTOR_SERVICE = "META-INF/services/org.apache.kafka.connect.source.SourceConnector"


def versions() -> list[str]:
    """The Kafka versions there is a pom for, newest first."""
    found = [pom.stem.removeprefix("kafka-") for pom in (HERE / "poms").glob("kafka-*.xml")]
    return sorted(found, key=version_key, reverse=True)


def tool(name: str) -> str:
    """The path of an executable the lab cannot do without."""
    found = shutil.which(name)
    if found is None:
        package = {"mvn": "Maven", "java": "Java 17", "javac": "the Java 17 compiler (JDK)"}[name]
        raise LabError(f"The lab needs {package}, but there is no `{name}` on the PATH; install it and try again.")
    return found


def libs(version: str) -> Path:
    """The folder with all jars of one Kafka version; filled by Maven the first time."""
    pom = HERE / "poms" / f"kafka-{version}.xml"
    if not pom.exists():
        raise LabError(f"There is no lab for Kafka {version}; there is one for {', '.join(versions())}.")
    return fetched(pom, BUILD / "kafka" / version, f"the jars of Kafka {version}")


def fetched(pom: Path, home: Path, what: str) -> Path:
    """The folder in `home` with all jars that the pom names; filled by Maven the first time, and when the pom changes.
    Raises LabError."""
    folder, complete = home / "libs", home / "libs.complete"
    with locked(home):
        if complete.exists() and complete.read_text() == pom.read_text():
            return folder
        shutil.rmtree(folder, ignore_errors=True)
        command = [tool("mvn"), "-q", "-B", "-f", str(pom), "dependency:copy-dependencies"]
        command += ["-DincludeScope=runtime", f"-DoutputDirectory={folder}"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            last_lines = " ".join(line for line in done.stdout.splitlines() if "ERROR" in line)[:400]
            raise LabError(f"Maven could not fetch {what}: {last_lines}")
        complete.write_text(pom.read_text())
    return folder


def clients_version(version: str) -> str:
    """The Kafka version of the Java clients for such brokers: what our clients ask of theirs came with 2.5."""
    return version if version_key(version) >= (2, 5) else "2.8.2"


def classes(version: str) -> Path:
    """The folder with our Java clients and connector, compiled against that version's jars; the connector and Streams
    only where there are jars of theirs."""
    jars = libs(version)
    home = BUILD / "kafka" / version
    folder, complete = home / "classes", home / "classes.complete"
    sources = sorted((HERE / "java").glob("*.java"))
    for part, jar in (("connect", "connect-api"), ("streams", "kafka-streams")):
        if not any(jars.glob(f"{jar}-*.jar")):
            sources = [s for s in sources if f"import org.apache.kafka.{part}." not in s.read_text()]
    with locked(home):
        if complete.exists() and all(source.stat().st_mtime < complete.stat().st_mtime for source in sources):
            return folder
        # Beside the old ones: clients of a lab that runs now go on loading those until the new ones stand.
        partial = home / "classes.partial"
        shutil.rmtree(partial, ignore_errors=True)
        command = [tool("javac"), "-nowarn", "-proc:none", "-cp", f"{jars}/*", "-d", str(partial)]
        done = subprocess.run([*command, *map(str, sources)], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise LabError(f"The lab's Java clients do not compile against Kafka {version}: {done.stderr[:2000]}")
        service = partial / CONNECTOR_SERVICE
        service.parent.mkdir(parents=True)
        service.write_text("TruthSourceConnector\n")
        shutil.rmtree(folder, ignore_errors=True)
        partial.rename(folder)
        complete.touch()
    return folder


def zookeeper_classes(version: str) -> Path | None:
    """Classes to put before the jars of a broker with ZooKeeper 3.4, so that it finds its ZooKeeper on Java 17."""
    jars = libs(version)
    if not any(jars.glob("zookeeper-3.4.*.jar")):
        return None
    home = BUILD / "kafka" / version
    folder = home / "zookeeper-classes"
    source = HERE / "java/zookeeper34/org/apache/zookeeper/client/StaticHostProvider.java"
    with locked(home):
        if not folder.exists():
            partial = home / "zookeeper-classes.partial"
            command = [tool("javac"), "-nowarn", "-proc:none", "-cp", f"{jars}/*", "-d", str(partial), str(source)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                raise LabError(f"ZooKeeper of Kafka {version} cannot be mended: {done.stderr[:2000]}")
            partial.rename(folder)
    return folder


@contextmanager
def locked(home: Path) -> Iterator[None]:
    """Two labs that start at once must not fetch or compile into the same folder."""
    home.mkdir(parents=True, exist_ok=True)
    with (home / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
