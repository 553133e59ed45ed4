"""`config`, and which of file, environment and flag wins."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import typer

from rebalance_audit.cli import app
from rebalance_audit.settings.model import Settings
from tests.commands.saying import assert_one_sentence


def test_the_settings_file_gives_the_warehouse_and_a_flag_wins(call: Any, filled: Path, tmp_path: Path) -> None:
    file = tmp_path / "s.yaml"
    file.write_text(f"warehouse: {filled}\n")
    assert call("export", "rebalance", "--config", file).out == call("export", "rebalance", "-w", filled).out != ""
    assert_one_sentence(call("export", "rebalance", "-w", tmp_path / "none", "--config", file))


def test_the_settings_file_may_come_from_the_environment(
    call: Any, filled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "s.yaml"
    file.write_text(f"warehouse: {filled}\n")
    monkeypatch.setenv("REBALANCE_AUDIT_CONFIG", str(file))
    assert call("check", "--fail-on", "critical").status in (0, 3)
    monkeypatch.setenv("REBALANCE_AUDIT_WAREHOUSE", str(tmp_path / "none"))
    assert_one_sentence(call("check"))


def test_every_verb_that_needs_a_warehouse_takes_it_from_the_settings_too() -> None:
    """`explain` and `whatif` look where they are told to: a warehouse is one of their places, and none is needed."""
    verbs = {verb: {p.name: p for p in c.params} for verb, c in typer.main.get_group(app).commands.items()}
    needing = {verb for verb, given in verbs.items() if "warehouse" in given and given["warehouse"].required}
    assert {"mark", "ack", "silence", "run", "report"} <= needing
    assert [verb for verb in sorted(needing) if "config" not in verbs[verb]] == []


def test_config_check_names_every_fault_on_a_line_of_its_own(call: Any, tmp_path: Path) -> None:
    file = tmp_path / "s.yaml"
    file.write_text('colour: red\nlimits:\n  - strom_count: 3\n"evil\\nrebalance-audit: fine": 1\n')
    result = call("config", "check", "--config", file)
    assert result.status == 1
    assert result.err.splitlines() == [
        f"rebalance-audit: {file}:1: colour: there is no such setting; there are {', '.join(Settings.model_fields)}.",
        f"rebalance-audit: {file}:3: limits[1]: there is no limit 'strom_count'.",
        f"rebalance-audit: {file}:4: evil\\nrebalance-audit: fine: there is no such setting; "
        f"there are {', '.join(Settings.model_fields)}.",
    ]
    file.write_text("limits:\n  - storm_short_count: 3\n")
    assert call("config", "check", "--config", file).status == 0


def test_config_show_shows_where_a_secret_is_and_never_itself(
    call: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CHAT_URL", "slack://hunter2")
    file = tmp_path / "s.yaml"
    file.write_text("alerts:\n  - {name: chat, url: {env: CHAT_URL}}\n")
    result = call("config", "show", "--config", file)
    assert (result.status, "hunter2" in result.out, "env: CHAT_URL" in result.out) == (0, False, True)
