"""Tools that some tests need beyond a tier's own."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager

import pytest


def need(tool: str, remedy: str) -> None:
    """Skips the test on a machine without this tool, in one line; with CI set that is a failure."""
    if shutil.which(tool) is None:
        sentence = f"no `{tool}` on the PATH; {remedy}"
        if os.environ.get("CI"):
            pytest.fail(f"{sentence}, and CI is set")
        pytest.skip(sentence)


@contextmanager
def as_nobody() -> Iterator[None]:
    """Root may read everything; inside of this it may not. Another user stays who it is."""
    is_root = os.geteuid() == 0
    if is_root:
        os.seteuid(65_534)
    try:
        yield
    finally:
        if is_root:
            os.seteuid(0)
