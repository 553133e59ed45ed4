"""The architecture: who may import whom. The contracts are in pyproject.toml, as sentences."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def test_every_import_contract_is_kept() -> None:
    command = [sys.executable, "-c", "from importlinter.cli import lint_imports_command; lint_imports_command()"]
    done = subprocess.run(
        [*command, "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False,
        env={"PYTHONPATH": str(ROOT), "PATH": "", "TERM": "dumb", "NO_COLOR": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 broken" in done.stdout


def modules_after(statement: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", f"{statement}\nimport sys; print(' '.join(sys.modules))"],
        cwd=ROOT, capture_output=True, text=True, check=True, env={"PYTHONPATH": str(ROOT), "PATH": ""},
    )  # fmt: skip
    return {name for name in done.stdout.split() if not name.startswith("_sysconfigdata")}


HEAVY = frozenset({
    "pyspark", "great_expectations", "streamlit", "confluent_kafka", "duckdb", "pyarrow", "deltalake", "pandas",
    "apprise", "rich", "airflow", "jinja2", "prometheus_client",
})  # fmt: skip


def test_help_waits_for_nothing_heavy() -> None:
    assert not modules_after("import rebalance_audit.cli") & {
        *HEAVY,
        "rebalance_audit.domain.detect",
        "rebalance_audit.domain.model",
    }


@pytest.mark.parametrize("words", [["--help"], ["watch", "--help"], ["config", "show", "-h"]])
def test_no_help_makes_values_of_options(words: list[str]) -> None:
    """For which Typer imports pydantic: as long again as all the rest."""
    assert "pydantic" not in modules_after(f"from rebalance_audit import cli; cli.run({words})")


def test_the_domain_needs_the_standard_library_alone() -> None:
    loaded = {name.partition(".")[0] for name in modules_after("import rebalance_audit.domain.gather.groups")}
    loaded |= {name.partition(".")[0] for name in modules_after("import rebalance_audit.domain.explain.group")}
    assert loaded <= {*sys.stdlib_module_names, "rebalance_audit", "__main__"} | site_packages_hooks()


def site_packages_hooks() -> set[str]:
    """What the interpreter loads by itself in this environment, before any line of ours."""
    return {name.partition(".")[0] for name in modules_after("pass")}


@pytest.mark.parametrize("module", ["spark_jobs.pipeline", "rebalance_audit.warehouse"])
def test_reading_the_plan_or_the_tables_does_not_start_spark(module: str) -> None:
    assert not modules_after(f"import {module}") & {"pyspark", "great_expectations", "streamlit", "confluent_kafka"}
