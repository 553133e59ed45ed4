"""What this package runs on, tried: `make matrix`, or `python -m tests.matrix [3.12 PATH/TO/python …]`.

For each Python, given by version (uv finds or fetches it) or by path: a clean environment, the wheel with the extras
`collector`, `spark` and `ui` and whatever versions fit there today, and evidence of every Kafka version that the golden
captures have, all the way. Rows must be those of this checkout's own environment. Prints the table of docs/install.md.
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


def rows(command: Path, folder: Path) -> dict[str, str]:
    """Each table as text, after all captures went through the stages."""
    for capture in captures():
        run(command, "import", "-q", "-w", "w", capture, folder=folder)
    run(command, "run", "-q", "-w", "w", "--engine", "local", folder=folder)
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


def main(pythons: list[str]) -> int:
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(scratch)
        run(
            UV, "build", "-q", "--out-dir", place / "dist", ROOT, folder=place
        )  # the wheel from the sdist: no build/ here
        (place / "own").mkdir()
        expected = rows(Path(sys.executable).with_name("rebalance-audit"), place / "own")
        wheel = next((place / "dist").glob("*.whl"))
        lines = [tried(python, wheel, expected, place / f"try-{n}") for n, python in enumerate(pythons)]
    print("| Python | with | " + f"{len(captures())} Kafka versions through all stages |")
    print("| --- | --- | --- |")
    for line in lines:
        print(f"| {' | '.join(line)} |")
    return 0 if all(line[2] == "the same rows" for line in lines) else 1


if __name__ == "__main__":
    given = argparse.ArgumentParser(description=__doc__)
    given.add_argument("pythons", nargs="*", default=list(PYTHONS))
    sys.exit(main(given.parse_args().pythons))
