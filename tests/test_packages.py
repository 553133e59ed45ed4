"""The wheel and the sdist as others install them: what each extra needs, and what works without a checkout."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from rebalance_audit import __version__
from rebalance_audit.commands.company import COMPANY

ROOT = Path(__file__).parents[1]
UV = Path(sys.executable).with_name("uv")
GOLDEN = ROOT / "tests" / "golden" / "4.3.0" / "eager_join_leave_kill"


def run(*command: object, folder: Path, environment: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        list(map(str, command)), cwd=folder, capture_output=True, text=True, check=False,
        env={name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "REBALANCE"))}
        | (environment or {}),
    )  # fmt: skip


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel and the sdist, made from what git knows."""
    folder = tmp_path_factory.mktemp("packages")
    source, made = folder / "source", folder / "dist"
    source.mkdir()
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    for name in listed.stdout.decode().split("\0"):
        if name and (ROOT / name).is_file() and not name.startswith("bench/"):
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            os.link(ROOT / name, source / name) if (ROOT / name).stat().st_dev == source.stat().st_dev else (
                source / name
            ).write_bytes((ROOT / name).read_bytes())
    done = run(UV, "build", "-q", "--out-dir", made, source, folder=folder)
    assert done.returncode == 0, done.stderr
    return made


@pytest.fixture(scope="module")
def installed(built: Path) -> Path:
    """A clean environment with the wheel and its extra `collector`."""
    place = built.parent / "venv"
    assert run(UV, "venv", "-q", "--python", sys.executable, place, folder=built).returncode == 0
    wheel = next(built.glob("*.whl"))
    done = run(
        UV, "pip", "install", "-q", "--python", place / "bin" / "python", "-c", ROOT / "requirements" / "all.txt",
        f"{wheel}[collector]", folder=built,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return place / "bin"


def test_both_packages_have_what_the_code_reads_beside_itself(built: Path) -> None:
    with zipfile.ZipFile(next(built.glob("*.whl"))) as wheel:
        names = set(wheel.namelist())
    assert {"rebalance_audit/reports/report.html.j2", "app/style.css", "app/time_line.js"} <= names
    assert {"spark_jobs/log4j2.properties", "infra/lab/poms/kafka-4.3.0.xml"} <= names
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert {"rebalance_audit/py.typed", "ingest/py.typed", "spark_jobs/py.typed"} <= names
    assert {"app/runbook.md", "app/.streamlit/config.toml"} <= names
    assert {f"rebalance_audit/recorded/{place}/meta.json" for place in COMPANY.values()} <= names
    assert not any(name.startswith(("tests/", "docs/")) or "client-logs" in name for name in names)
    with tarfile.open(next(built.glob("*.tar.gz"))) as sdist:
        inside = {name.partition("/")[2] for name in sdist.getnames()}
    assert {"pyproject.toml", "LICENSE", "README.md", "CHANGELOG.md", "rebalance_audit/cli.py"} <= inside
    assert not any(name.endswith(".py") for name in inside if name.startswith("tests/"))


def test_a_collector_needs_neither_spark_nor_streamlit(installed: Path) -> None:
    listed = run(UV, "pip", "list", "--python", installed / "python", "--format", "json", folder=installed)
    names = {package["name"] for package in json.loads(listed.stdout)}
    assert {"rebalance-audit", "confluent-kafka"} <= names
    assert not names & {"pyspark", "streamlit", "great-expectations", "apache-airflow", "pandas"}
    said = run(installed / "rebalance-audit", "--version", folder=installed)
    assert said.stdout == f"rebalance-audit {__version__}\n"
    away = run(
        installed / "rebalance-audit", "collect", "-b", "127.0.0.1:1", "-w", "w", "--until-end", folder=installed.parent
    )
    assert away.returncode == 1
    assert "127.0.0.1:1" in away.stderr
    assert "not installed" not in away.stderr


def test_evidence_goes_the_whole_way_without_a_checkout(installed: Path, tmp_path: Path) -> None:
    command = installed / "rebalance-audit"
    for arguments in (
        ["import", "-q", "-w", "w", GOLDEN], ["run", "-q", "-w", "w"], ["audit", "verify", "-w", "w"],
        ["export", "rebalance", "-w", "w"], ["report", "-w", "w", "-o", "html"],
    ):  # fmt: skip
        done = run(command, *arguments, folder=tmp_path)
        assert done.returncode == 0, (arguments, done.stderr)
        assert done.stdout or arguments[0] in ("import", "run")


def test_the_demo_runs_without_a_checkout(installed: Path, tmp_path: Path) -> None:
    command = installed / "rebalance-audit"
    refused = run(command, "demo", folder=tmp_path)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "Streamlit" in refused.stderr
    assert "--no-serve" in refused.stderr
    done = run(command, "demo", "--no-serve", folder=tmp_path, environment={"XDG_CACHE_HOME": str(tmp_path / "cache")})
    assert done.returncode == 0, done.stderr
    assert "stormy-app" in done.stdout
    assert [place.parent.name for place in (tmp_path / "cache").glob("rebalance-audit/demo")] == ["rebalance-audit"]


@pytest.mark.parametrize(
    ("arguments", "extra"),
    [(["ui", "-w", "w"], "ui"), (["run", "-w", "w", "--engine", "spark"], "spark")],
    ids=["ui", "spark"],
)
def test_a_verb_that_lacks_its_extra_names_it(
    installed: Path, tmp_path: Path, arguments: list[str], extra: str
) -> None:
    command = installed / "rebalance-audit"
    assert run(command, "import", "-q", "-w", "w", GOLDEN, folder=tmp_path).returncode == 0
    if extra == "ui":
        assert run(command, "run", "-q", "-w", "w", folder=tmp_path).returncode == 0
    done = run(command, *arguments, folder=tmp_path)
    assert done.returncode == 1
    assert f"pip install 'rebalance-audit[{extra}]'" in done.stderr
