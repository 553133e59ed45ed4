"""Damaged input, so many times: read or refused, never a crash, nothing over 100 ms, memory bounded by the input."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache

import pytest

from tests.conftest import EXECUTED
from tests.fuzz.bounded import run
from tests.fuzz.seeds import seeds
from tests.fuzz.split import joined, split
from tests.fuzz.targets import TARGETS

EXECUTIONS = int(os.environ.get("FUZZ_EXECUTIONS", "50000" if os.environ.get("CI") == "true" else "4000"))
"""Of each target, besides its seeds: a million in CI."""
_MOST_SEEDS = 5_000
"""Of those of all captures, evenly spread: tens of thousands of commits look alike."""
_IN_ONE = {"commit_rows": 10}
"""A target that reads 30 rows in one execution gets so many fewer, of seeds as well."""


@cache
def all_seeds() -> dict[str, list[bytes]]:
    return seeds()


@pytest.mark.parametrize("name", TARGETS)
def test_damaged_input_is_read_or_refused(name: str, record_property: Callable[[str, object], None]) -> None:
    in_one = _IN_ONE.get(name, 1)
    given, executions = all_seeds()[name], EXECUTIONS // in_one
    given = given[:: len(given) // (_MOST_SEEDS // in_one) + 1]
    done = run(name, given, len(given) + executions)
    record_property(EXECUTED, done.executions)
    assert done.executions >= executions


@pytest.mark.parametrize("name", TARGETS)
def test_every_target_has_whole_inputs_to_begin_from(name: str) -> None:
    assert len(all_seeds()[name]) >= 2


@pytest.mark.parametrize("pair", [(None, None), (b"k", None), (None, b"v"), (b"k", b"v"), (b"", b"v")])
def test_a_key_and_a_value_fit_into_one_input(pair: tuple[bytes | None, bytes | None]) -> None:
    assert split(joined(*pair)) == pair
