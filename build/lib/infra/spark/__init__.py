"""Jars for Spark that PySpark does not carry, through Maven."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from infra.lab.jars import BUILD, locked, tool
from infra.lab.processes import LabError

POM = Path(__file__).with_name("kafka-source.xml")


def kafka_source() -> list[Path]:
    """The jars of Spark's own Kafka source; fetched the first time. Raises LabError."""
    home = BUILD / "spark-kafka"
    folder, complete = home / "libs", home / "libs.complete"
    with locked(home):
        if not (complete.exists() and complete.read_text() == POM.read_text()):
            shutil.rmtree(folder, ignore_errors=True)
            command = [tool("mvn"), "-q", "-B", "-f", str(POM), "dependency:copy-dependencies"]
            command += ["-DincludeScope=runtime", f"-DoutputDirectory={folder}"]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                last_lines = " ".join(line for line in done.stdout.splitlines() if "ERROR" in line)[:400]
                raise LabError(f"Maven could not fetch Spark's Kafka source; give its jars with --jars: {last_lines}")
            complete.write_text(POM.read_text())
    return sorted(folder.glob("*.jar"))
