"""Copies into a wheel what the code reads elsewhere in a checkout: the runbook, and the evidence that `demo` shows.

With REBALANCE_AUDIT_COMPILE=1 it also compiles the packages of the domain that gain by it (decisions 0097, 0105), which
takes mypy and a C compiler. All else about the packages stands in pyproject.toml.
"""

from __future__ import annotations

import os
import runpy
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_py import build_py

IS_COMPILED = os.environ.get("REBALANCE_AUDIT_COMPILE") == "1"
DOMAIN = Path("rebalance_audit/domain")
COMPILED = ("detect", "incidents", "log_lines", "measure", "reassign", "reconstruct", "replay")
"""Those that become at least 1.15 times as quick (decision 0105)."""


class BuildWithWhatIsRead(build_py):
    def run(self) -> None:
        if IS_COMPILED and find_spec("mypyc") is None:
            raise SystemExit("REBALANCE_AUDIT_COMPILE=1 needs mypy: pip install mypy")
        super().run()
        if self.editable_mode:
            return  # the code reads the checkout's own files
        package = Path(self.build_lib)
        shutil.copyfile("docs/runbook.md", package / "app" / "runbook.md")
        for place in runpy.run_path("rebalance_audit/commands/company.py")["COMPANY"].values():
            shutil.copytree(
                Path("tests/golden") / place, package / "rebalance_audit" / "recorded" / place,
                ignore=shutil.ignore_patterns("client-logs"), dirs_exist_ok=True,
            )  # fmt: skip


def extensions() -> list[Extension]:
    """Those of mypyc; none where a build tool asks for less than the built files, which it does two or three times."""
    asks_for_less = not {"egg_info", "dist_info", "sdist"}.isdisjoint(sys.argv)
    if not IS_COMPILED or asks_for_less or find_spec("mypyc") is None:
        return []
    from mypyc.build import mypycify

    # Our mypy settings name packages that a build does not have.
    options = ["--config-file=", "--cache-dir=/dev/null", "--strict"]
    sources = sorted(str(source) for package in COMPILED for source in (DOMAIN / package).rglob("*.py"))
    # A C file for each module: as a single one they would take gcc minutes and gigabytes.
    made = mypycify([*options, *sources], opt_level="2", debug_level="0", multi_file=True)
    return list(made)


setup(
    cmdclass={"build_py": BuildWithWhatIsRead},
    ext_modules=extensions(),
    # A build of its own environment (pip, uv) gets what it takes to compile; no other build does.
    setup_requires=["mypy>=2.4"] if IS_COMPILED else [],
)
