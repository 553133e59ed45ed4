"""Examples inside docstrings are run: what they show is what comes out."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pytest

from tests.test_repository import ROOT

SHOWING = sorted(
    path.relative_to(ROOT).with_suffix("").as_posix().replace("/", ".")
    for folder in ("rebalance_audit", "spark_jobs", "ingest", "app")
    for path in (ROOT / folder).rglob("*.py")
    if "    >>> " in path.read_text()
)


@pytest.mark.parametrize("module", SHOWING)
def test_the_examples_of_a_module_show_what_comes_out(module: str) -> None:
    failed, tried = doctest.testmod(importlib.import_module(module))
    assert tried > 0
    assert failed == 0


def test_there_are_examples() -> None:
    assert "spark_jobs.measuring" in SHOWING


def test_no_example_waits_for_a_test_that_does_not_run_it() -> None:
    stray = [str(p.relative_to(ROOT)) for p in Path(ROOT / "infra").rglob("*.py") if "    >>> " in p.read_text()]
    assert stray == []
