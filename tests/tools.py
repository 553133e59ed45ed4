"""Tools that some tests need beyond a tier's own."""

from __future__ import annotations

import os
import shutil

import pytest


def need(tool: str, remedy: str) -> None:
    """Skips the test on a machine without this tool, in one line; with CI set that is a failure."""
    if shutil.which(tool) is None:
        sentence = f"no `{tool}` on the PATH; {remedy}"
        if os.environ.get("CI"):
            pytest.fail(f"{sentence}, and CI is set")
        pytest.skip(sentence)
