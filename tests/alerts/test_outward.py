"""What the settings name as receivers gets what is new after each publication: once, and after an outage."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from rebalance_audit import cli
from rebalance_audit.alerts import outward
from rebalance_audit.alerts.outward import OutwardSender
from rebalance_audit.commands import pipeline
from rebalance_audit.settings.choices import option_defaults, outward_of
from rebalance_audit.settings.reading import SettingsError, parse_settings
from spark_jobs.pipeline import RunOutcome
from tests.app import gold_rows
from tests.webhook import Quiet, listening


@dataclass(slots=True)
class Receiver:
    """An OTLP receiver and a Grafana at one address."""

    url: str = ""
    is_away: bool = False
    traces: list[str | None] = field(default_factory=list)
    """The header of each request that was taken."""
    annotations: list[Any] = field(default_factory=list)
    refused_count: int = 0


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    found = Receiver()

    class Handler(Quiet):
        def do_GET(self) -> None:
            self._answer([])

        def do_POST(self) -> None:
            content = self.rfile.read(int(self.headers["Content-Length"]))
            if found.is_away:
                found.refused_count += 1
                self._answer({}, status=400)
            elif self.path == "/v1/traces":
                found.traces.append(self.headers["X-Tenant"])
                self._answer({})
            else:
                assert self.headers["Authorization"] == "Bearer glsa_right"
                found.annotations.append(json.loads(content))
                self._answer({"id": len(found.annotations)})

        def _answer(self, content: Any, status: int = 200) -> None:
            self.send_response(status)
            self.end_headers()
            self.wfile.write(json.dumps(content).encode())

    with listening(Handler) as found.url:
        yield found


@pytest.fixture
def config(receiver: Receiver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "token").write_text("glsa_right\n")
    monkeypatch.setenv("TENANT", "shop")
    file = tmp_path / "s.yaml"
    file.write_text(
        f"traces: {{url: '{receiver.url}', headers: {{x-tenant: {{env: TENANT}}}}}}\n"
        f"annotations: {{url: '{receiver.url}', token: {{file: {tmp_path / 'token'}}}}}\n"
    )
    return file


def test_run_sends_after_publishing_and_what_was_refused_the_next_time(
    receiver: Receiver,
    config: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    warehouse = gold_rows.write(tmp_path / "w", many=0)
    over = warehouse.query("SELECT 1 FROM gold.incident WHERE status = 'over'").num_rows
    monkeypatch.setattr(pipeline, "run_stages", lambda *_, **__: RunOutcome())  # its rows come from no evidence
    call = ["run", "-q", "-w", str(tmp_path / "w"), "--config", str(config), "--engine", "local"]
    receiver.is_away = True
    assert cli.run(call) == 0
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 2
    assert "does not take every trace" in said[0]
    assert "answered 400" in said[1]
    receiver.is_away = False
    assert cli.run(call) == 0
    assert receiver.traces == ["shop"] * over
    drawn = len(receiver.annotations)
    assert drawn > 0
    assert cli.run(call) == 0
    assert cli.run(["trace", "-w", str(tmp_path / "w"), "--config", str(config)]) == 0
    assert cli.run(["annotate", "-w", str(tmp_path / "w"), "--config", str(config)]) == 0
    assert (len(receiver.traces), len(receiver.annotations)) == (over, drawn)
    assert cli.run([*call, "--stage", "bronze"]) == 0


def test_watch_asks_a_receiver_that_is_away_again_and_says_it_once(
    receiver: Receiver, config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outward, "RETRY_S", 0.05)
    gold_rows.write(tmp_path / "w", many=0)
    found = outward_of(parse_settings(config.read_text(), "s.yaml"))
    assert found is not None
    assert "glsa_right" not in repr(found)
    stopped, said = threading.Event(), list[str]()
    receiver.is_away = True
    sender = OutwardSender(str(tmp_path / "w"), found, stopped, said.append)
    sender.published()
    sender.start()
    _until(lambda: receiver.refused_count >= 4)
    receiver.is_away = False
    _until(lambda: bool(receiver.annotations and receiver.traces))
    stopped.set()
    sender.join(10)
    assert not sender.is_alive()
    assert len(said) == 2


def _until(holds: Any) -> None:
    give_up_at = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < give_up_at
        time.sleep(0.02)


def test_secrets_come_from_elsewhere_and_are_missed_by_name(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TENANT")
    settings = parse_settings(config.read_text(), "s.yaml")
    with pytest.raises(SettingsError, match="TENANT, named in the settings, is not set"):
        outward_of(settings)
    assert settings.traces is not None
    assert option_defaults(settings, "trace", None) == {"to": settings.traces.url}
    assert outward_of(parse_settings("", "s.yaml")) is None
    for text in (
        "traces: {url: 'http://me:pass@collector:4318'}",
        "traces: {url: 'http://collector:4318', headers: {authorization: plain}}",
        "annotations: {url: 'http://grafana:3000'}",
    ):
        with pytest.raises(SettingsError):
            parse_settings(text, "s.yaml")
