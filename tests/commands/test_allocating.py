"""`watch` and `collect` take Arrow's memory from the C library, and hand no such choice on."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

BEGUN = """
import os, sys
import rebalance_audit.cli, rebalance_audit.commands.{verb}
from rebalance_audit.commands.allocating import use_the_systems_malloc
assert "pyarrow" not in sys.modules, "it has read the environment"
use_the_systems_malloc()
import pyarrow as pa
print(pa.default_memory_pool().backend_name, os.environ.get("ARROW_DEFAULT_MEMORY_POOL"))
"""


def begun(verb: str, **environment: str) -> str:
    whole = {name: value for name, value in os.environ.items() if name != "ARROW_DEFAULT_MEMORY_POOL"} | environment
    return subprocess.check_output([sys.executable, "-c", BEGUN.format(verb=verb)], env=whole, text=True).strip()


@pytest.mark.parametrize("verb", ["watch", "collect"])
def test_arrow_takes_memory_from_the_c_library(verb: str) -> None:
    assert begun(verb) == "system None"


def test_the_users_choice_stays() -> None:
    assert begun("watch", ARROW_DEFAULT_MEMORY_POOL="mimalloc") == "mimalloc mimalloc"
