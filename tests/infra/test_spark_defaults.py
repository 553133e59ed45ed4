"""The settings that we ship for a Spark cluster, and those of Spark on this machine."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from spark_jobs.session import _java_options, find_java

DEFAULTS = Path(__file__).parents[2] / "infra" / "spark" / "spark-defaults.conf"


def settings() -> dict[str, str]:
    lines = [line for line in DEFAULTS.read_text().splitlines() if line and not line.startswith("#")]
    return {name: value.strip() for name, _, value in (line.partition(" ") for line in lines)}


def test_driver_and_executors_have_the_same_options() -> None:
    assert set(settings()) == {"spark.driver.defaultJavaOptions", "spark.executor.defaultJavaOptions"}
    assert len(set(settings().values())) == 1


@pytest.mark.parametrize("where", ["a cluster", "this machine"])
def test_java_takes_the_options(where: str) -> None:
    java = find_java()
    options = settings()["spark.executor.defaultJavaOptions"] if where == "a cluster" else _java_options(java)
    shown = subprocess.run(
        [java, *options.split(), "-XX:+PrintFlagsFinal", "-version"], capture_output=True, text=True, check=True
    ).stdout
    flags = {words[1]: words[3] for line in shown.splitlines() if len(words := line.split()) > 3}
    assert (flags["TieredStopAtLevel"], flags["UseSerialGC"], flags["UseG1GC"]) == ("1", "true", "false")
