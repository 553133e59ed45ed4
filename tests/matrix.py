"""What this package runs on, tried: `make matrix`, or `python -m tests.matrix [--python 3.12 PATH …] [--spark 4.2.0 …]
[--airflow 3.3.0 …]`; with one of them, that alone.

For each Python, given by version (uv finds or fetches it) or by path: a clean environment, the wheel with the extras
`collector`, `spark` and `ui` and whatever versions fit there today, and evidence of every Kafka version that the golden
captures have, all the way. Rows must be those of this checkout's own environment. For each Spark the same with the
engine `spark`, whatever the wheel says it needs. For each Airflow an environment of its own: the DAGs are read, and one
capture goes through `rebalance_audit`. Prints the tables of docs/install.md.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.captures import GOLDEN

ROOT = GOLDEN.parents[1]
UV = Path(sys.executable).with_name("uv")
PYTHONS = ("3.11", "3.12", "3.13")
SPARKS = ("4.2.0", "4.2.1", "4.3.0")
"""The first and the last that the wheel allows, and the first after them."""
AIRFLOWS = ("3.3.0", "3.3.2")
SHOWN = ("pyarrow", "deltalake", "duckdb", "confluent-kafka", "pyspark", "great-expectations", "streamlit")
TABLES = ("rebalance", "movement", "finding", "incident", "reassignment")


def captures() -> list[Path]:
    """One of each Kafka version, the smallest."""
    sizes = {
        version: min(
            (folder for folder in version.iterdir() if (folder / "meta.json").exists()),
            key=lambda folder: (sum(f.stat().st_size for f in folder.rglob("*") if f.is_file()), folder.name),
        )
        for version in sorted(GOLDEN.iterdir())
        if version.is_dir()
    }
    return list(sizes.values())


def run(*command: object, folder: Path) -> str:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "REBALANCE"))}
    done = subprocess.run(list(map(str, command)), cwd=folder, env=kept, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(map(str, command))}: {(done.stderr or done.stdout).strip()[-600:]}")
    return done.stdout


def rows(command: Path, folder: Path, engine: str = "local") -> dict[str, str]:
    """Each table as text, after all captures went through the stages."""
    for capture in captures():
        run(command, "import", "-q", "-w", "w", capture, folder=folder)
    run(command, "run", "-q", "-w", "w", "--engine", engine, folder=folder)
    return {table: run(command, "export", table, "-q", "-w", "w", folder=folder) for table in TABLES}


def tried(python: str, wheel: Path, expected: dict[str, str], folder: Path) -> list[str]:
    """The cells of one line: Python, what was installed, what came of it."""
    folder.mkdir()
    try:
        run(UV, "venv", "-q", "--python", python, "env", folder=folder)
        installed = folder / "env" / "bin"
        run(UV, "pip", "install", "-q", "--python", installed / "python", f"{wheel}[collector,spark,ui]", folder=folder)
    except RuntimeError as why:
        return [python, "", f"not to be had: {str(why).splitlines()[-1][:120]}"]
    listed = json.loads(run(UV, "pip", "list", "--python", installed / "python", "--format", "json", folder=folder))
    versions = {package["name"]: package["version"] for package in listed}
    exact = run(installed / "python", "-c", "import platform; print(platform.python_version())", folder=folder).strip()
    brings = ", ".join(f"{name} {versions[name]}" for name in SHOWN)
    try:
        found = rows(installed / "rebalance-audit", folder)
    except RuntimeError as why:
        return [exact, brings, str(why).splitlines()[-1][:160]]
    odd = [table for table in TABLES if found[table] != expected[table]]
    return [exact, brings, f"other rows in {', '.join(odd)}" if odd else "the same rows"]


def tried_spark(version: str, wheel: Path, expected: dict[str, str], folder: Path) -> list[str]:
    """The cells of one line: Spark, what came of it."""
    folder.mkdir()
    (folder / "override").write_text(f"pyspark=={version}\n")
    try:
        run(UV, "venv", "-q", "--python", sys.executable, "env", folder=folder)
        python = folder / "env" / "bin" / "python"
        run(UV, "pip", "install", "-q", "--python", python, "--override", "override", f"{wheel}[spark]", folder=folder)
        found = rows(python.with_name("rebalance-audit"), folder, "spark")
    except RuntimeError as why:
        return [version, str(why).splitlines()[-1][:160]]
    odd = [table for table in TABLES if found[table] != expected[table]]
    return [version, f"other rows in {', '.join(odd)}" if odd else "the same rows"]


TRIAL = """
import json, sys
from airflow.utils.db import initdb
initdb()
from airflow.dag_processing.dagbag import DagBag
bag = DagBag(sys.argv[1])
assert not bag.import_errors, bag.import_errors
dag = bag.dags["rebalance_audit"]
for task in dag.tasks:
    task.retries = 0
run = dag.test(run_conf=json.loads(sys.argv[2]))
states = {ti.task_id: str(ti.state) for ti in run.get_task_instances()}
bad = {task: state for task, state in states.items() if state not in ("success", "skipped", "upstream_failed")}
assert str(run.state) == "success" and not bad, bad or run.state
print(f"FOUND {len(bag.dags)} DAGs, {len(states)} tasks")
"""


def tried_airflow(version: str, folder: Path) -> list[str]:
    """The cells of one line: Airflow, its provider, what came of it. Our own command runs in this checkout's
    environment."""
    folder.mkdir()
    conf = {"warehouse": str(folder / "w"), "evidence": str(min(captures())), "cluster_id": "recorded"}
    python = folder / "env" / "bin" / "python"
    settings = (
        f"AIRFLOW_HOME={folder / 'home'}", f"AIRFLOW__CORE__DAGS_FOLDER={ROOT / 'dags'}",
        "AIRFLOW__CORE__LOAD_EXAMPLES=False", f"PYTHONPATH={ROOT}", f"PATH={python.parent}:{os.environ['PATH']}",
        f"REBALANCE_AUDIT_COMMAND={Path(sys.executable).with_name('rebalance-audit')}",
    )  # fmt: skip
    try:
        run(UV, "venv", "-q", "--python", sys.executable, "env", folder=folder)
        wanted = (f"apache-airflow=={version}", "apache-airflow-providers-standard")
        run(UV, "pip", "install", "-q", "--python", python, *wanted, folder=folder)
        said = run("env", *settings, python, "-c", TRIAL, ROOT / "dags", json.dumps(conf), folder=folder)
    except RuntimeError as why:
        return [version, str(why).splitlines()[-1][:160]]
    return [version, next(line for line in said.splitlines() if line.startswith("FOUND ")).removeprefix("FOUND ")]


def main(pythons: list[str], sparks: list[str], airflows: list[str]) -> int:
    lines: list[list[str]] = []
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(scratch)
        if pythons or sparks:
            # The wheel from the sdist: no build/ here.
            run(UV, "build", "-q", "--out-dir", place / "dist", ROOT, folder=place)
            (place / "own").mkdir()
            expected = rows(Path(sys.executable).with_name("rebalance-audit"), place / "own")
            wheel = next((place / "dist").glob("*.whl"))
        if pythons:
            table("| Python | with | " + f"{len(captures())} Kafka versions through all stages |")
            lines += [table(tried(python, wheel, expected, place / f"try-{n}")) for n, python in enumerate(pythons)]
        if sparks:
            table(f"| Spark | {len(captures())} Kafka versions through all stages |")
            lines += [table(tried_spark(version, wheel, expected, place / f"spark-{version}")) for version in sparks]
        if airflows:
            table("| Airflow | the DAGs read, and one run |")
            lines += [table(tried_airflow(version, place / f"airflow-{version}")) for version in airflows]
    return 0 if all(line[-1] == "the same rows" or " DAGs, " in line[-1] for line in lines) else 1


def table(line: str | list[str]) -> list[str]:
    """Prints a head, or a row, at once: a row takes minutes."""
    if isinstance(line, str):
        print(f"\n{line}\n{'| --- ' * (line.count('|') - 1)}|", flush=True)
        return []
    print(f"| {' | '.join(line)} |", flush=True)
    return line


if __name__ == "__main__":
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--python", nargs="*", default=[], help="version or path")
    asked.add_argument("--spark", nargs="*", default=[], metavar="VERSION")
    asked.add_argument("--airflow", nargs="*", default=[], metavar="VERSION")
    given = asked.parse_args()
    if not (given.python or given.spark or given.airflow):
        given.python, given.spark, given.airflow = list(PYTHONS), list(SPARKS), list(AIRFLOWS)
    sys.exit(main(given.python, given.spark, given.airflow))
