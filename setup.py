"""Copies into a wheel what the code reads elsewhere in a checkout: the runbook, and the evidence that `demo` shows.

All else about the packages stands in pyproject.toml.
"""

from __future__ import annotations

import runpy
import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py


class BuildWithWhatIsRead(build_py):
    def run(self) -> None:
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


setup(cmdclass={"build_py": BuildWithWhatIsRead})
