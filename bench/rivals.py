"""Other decoders of offset commits, each a process of its own that times its own passes over the same file."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from infra.lab.jars import BUILD, libs

HERE = Path(__file__).parent
KAFKA = "4.3.0"


@dataclass(frozen=True, slots=True)
class Pass:
    commits: int
    tombstones: int
    checksum: int
    cpu_seconds: float

    @property
    def said(self) -> tuple[int, int, int]:
        return self.commits, self.tombstones, self.checksum


class Rival:
    def __init__(self, command: list[str], framed: Path) -> None:
        self._process = subprocess.Popen(
            [*pinned(), *command, str(framed)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def __enter__(self) -> Rival:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._process.kill()
        self._process.communicate()

    def run(self) -> Pass:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("again\n")
        self._process.stdin.flush()
        commits, tombstones, checksum, cpu_seconds = self._process.stdout.readline().split()
        return Pass(int(commits), int(tombstones), int(checksum), float(cpu_seconds))


def pinned() -> list[str]:
    """One core, where the system can say so."""
    return ["taskset", "-c", "0"] if shutil.which("taskset") else []


def kafka_serde() -> list[str]:
    """Compiled against the lab's jars; needs a JDK."""
    folder = BUILD / "bench" / "java"
    jars = f"{libs(KAFKA)}/*"
    folder.mkdir(parents=True, exist_ok=True)
    source = HERE / "java" / "SerdeBench.java"
    subprocess.run(["javac", "-nowarn", "-proc:none", "-cp", jars, "-d", str(folder), str(source)], check=True)
    return ["java", "-Xmx256m", "-XX:+UseSerialGC", "-cp", f"{folder}:{jars}", "SerdeBench"]


def kmsg() -> list[str]:
    """Built in a copy, so that no sums are written into the sources; needs Go."""
    folder = BUILD / "bench" / "go"
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("go.mod", "main.go"):
        shutil.copy(HERE / "go" / name, folder / name)
    subprocess.run(["go", "build", "-mod=mod", "-o", "kmsg", "."], cwd=folder, check=True)
    return [str(folder / "kmsg")]
