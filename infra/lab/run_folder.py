"""The folder that a lab cluster runs in, and the commands of its JVMs."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from . import configs, jars
from .configs import LogLayout
from .processes import LabError

SMALL_HEAP = "-Xmx96m"
JVM_FLAGS = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData", "-Djava.awt.headless=true")


class RunFolder:
    """`data/<node>`, `logs/<node>` as in an evidence folder, and `etc/` with every settings file.

    Every JVM runs in it with relative paths, so that logs say little about the machine.
    """

    def __init__(self, version: str, folder: Path | None, *, uses_zookeeper: bool, time_zone: str) -> None:
        self.version = version
        self.folder = folder or _new_run_folder()
        self.uses_zookeeper = uses_zookeeper
        self.time_zone = time_zone

    def prepare(self) -> None:
        """Make its parts, and the jars of its version known by relative paths."""
        for part in ("data", "logs", "etc", "output", "truth"):
            (self.folder / part).mkdir(parents=True, exist_ok=True)
        clients_version = jars.clients_version(self.version)
        link(self.folder / "libs", jars.libs(self.version))
        link(self.folder / "classes", jars.classes(clients_version))
        link(self.folder / "client-libs", jars.libs(clients_version))
        first = jars.zookeeper_classes(self.version)
        if first is not None:
            link(self.folder / "zookeeper-classes", first)

    def environment(self) -> dict[str, str]:
        """The caller's environment without anything that would change a Kafka JVM or librdkafka's clock zone."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("KAFKA", "JAVA_TOOL"))}
        return kept | {"TZ": self.time_zone}

    def java(
        self,
        name: str,
        layout: LogLayout,
        heap: str,
        main_class: str,
        *arguments: str,
        time_zone: str | int | None = None,
    ) -> list[str]:
        """The command of one JVM in the run folder, with its logs in `logs/<name>`. `time_zone`: where it is not the
        cluster's."""
        flags = [
            *JVM_FLAGS,
            heap,
            f"-Duser.timezone={time_zone or self.time_zone}",
            self._logging(name, layout, self.version),
        ]
        # ZooKeeper's client of 2.3 asks Java for a login that nobody configured.
        flags += ["-Dzookeeper.sasl.client=false"] if self.uses_zookeeper else []
        jar_folder = "libs" if "." in main_class else "client-libs"
        class_path = f"zookeeper-classes:classes:{jar_folder}/*"
        return [jars.tool("java"), *flags, "-cp", class_path, f"-Dlab.node={name}", main_class, *arguments]

    def _logging(self, name: str, layout: LogLayout, version: str) -> str:
        """The flag by which a JVM of that version finds its logging."""
        suffix, text = configs.logging_config(version, layout, f"logs/{name}")
        file = f"etc/{name}-log4j{suffix}"
        (self.folder / file).write_text(text)
        return configs.logging_flag(version, file)

    def run(self, command: list[str]) -> str:
        """The output of a tool that runs to its end in the run folder."""
        done = subprocess.run(
            command, cwd=self.folder, env=self.environment(), capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            raise LabError(f"{' '.join(command[-4:])[:200]} failed: {(done.stderr or done.stdout)[-600:]}")
        return done.stdout


def link(at: Path, target: Path) -> None:
    if not at.is_symlink():
        at.symlink_to(target)


def remove_run_folder(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)


def _new_run_folder() -> Path:
    parent = jars.BUILD / "lab"
    parent.mkdir(parents=True, exist_ok=True)
    return Path(tempfile.mkdtemp(prefix="run-", dir=parent))
