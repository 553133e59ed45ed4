"""`alert` at the command line: dry, and at a target that does not answer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.commands.saying import assert_one_sentence


def test_a_dry_run_shows_alerts_and_remembers_nothing(call: Any, filled: Path) -> None:
    for _ in range(2):
        result = call("alert", "-w", filled, "--to", "https://127.0.0.1:1/hook?token=secret", "--dry-run")
        assert result.status == 0
        assert "checkout rebalanced 31 times" in result.out
        assert "secret" not in result.out + result.err
    assert not (filled / "notes" / "alerts.json").exists()


def test_a_target_that_does_not_answer_is_an_error_and_tried_again(call: Any, filled: Path, tmp_path: Path) -> None:
    state = tmp_path / "state.json"
    for _ in range(2):
        result = call("alert", "-w", filled, "--to", "http://127.0.0.1:1/hook", "--state", state)
        assert result.status == 1
        assert "kept for the next time" in result.err


@pytest.mark.parametrize("verb", ["alert", "trace", "annotate"])
def test_an_address_that_takes_nothing_is_a_wrong_command_line(call: Any, filled: Path, verb: str) -> None:
    assert_one_sentence(call(verb, "-w", filled, "--to", "nonsense"), status=2)
