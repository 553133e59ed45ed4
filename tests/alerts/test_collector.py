"""Traces against the OpenTelemetry Collector itself, built from its Go modules: it is away at first and in between."""

from __future__ import annotations

import re
import subprocess
import sys
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from rebalance_audit import cli
from rebalance_audit.alerts.target import AlertError
from rebalance_audit.alerts.traces import send_traces
from tests.app import gold_rows
from tests.captures import GOLDEN
from tests.webhook import Quiet, listening

pytestmark = pytest.mark.own
PROGRAM = [str(Path(sys.executable).with_name("rebalance-audit"))]


def test_the_real_collector_takes_each_trace_once(tmp_path: Path) -> None:
    from infra.lab.processes import free_ports, wait_until

    (port,) = free_ports(1)
    url = f"http://127.0.0.1:{port}"
    config = configured(tmp_path, port)
    warehouse = gold_rows.write(tmp_path / "w", many=0)
    rows = warehouse.query("SELECT incident_id, last_at_ms FROM gold.incident WHERE status = 'over'").to_pylist()
    over = {row["incident_id"]: row["last_at_ms"] for row in rows}
    with pytest.raises(AlertError, match="does not take every trace"):
        send_traces(warehouse, url, timeout_s=1)
    newest = max(over.values())
    outputs = [tmp_path / f"{n}.txt" for n in range(2)]
    with collector_on(config, url, outputs[0]):
        first = send_traces(warehouse, url, from_ms=newest)
        assert 0 < first < len(over)
        wait_until("it printed what it was sent", lambda: roots(outputs[0]) == first, timeout_s=30)
    with pytest.raises(AlertError, match="does not take every trace"):
        send_traces(warehouse, url, timeout_s=1)
    with collector_on(config, url, outputs[1]):
        # By the verb, as people send.
        command = [*PROGRAM, "trace", "-w", str(tmp_path / "w"), "--to", url]
        subprocess.run(command, check=True, capture_output=True)
        wait_until("it printed the others", lambda: roots(outputs[1]) == len(over) - first, timeout_s=30)
        assert send_traces(warehouse, url) == 0
    said = "".join(output.read_text() for output in outputs)
    assert all(incident_id in said for incident_id in over)
    ids = [each for output in outputs for each in spans(output)]
    assert len(ids) == len(set(ids))
    assert "0000000000000000" not in ids
    names = Counter(re.findall(r"^    Name           : (.+)$", said, re.MULTILINE))
    rebalances = "rebalance_id IN (SELECT unnest(rebalance_ids) FROM gold.incident WHERE status = 'over')"
    count = "SELECT count(*) n FROM"
    [row] = warehouse.query(
        f"""
        SELECT ({count} gold.rebalance WHERE {rebalances}) rebalance,
        ({count} gold.movement WHERE {rebalances} AND pause_estimate_ms > 0 AND coalesce(
            resumed_at_upper_ms, resumed_at_lower_ms, stopped_at_lower_ms, stopped_at_upper_ms) > 0) standstill,
        ({count} gold.rebalance WHERE {rebalances} AND started_at_ms <= joined_at_ms) "prepare and join",
        ({count} gold.rebalance WHERE {rebalances} AND joined_at_ms <= assigned_at_ms) sync
        """
    ).to_pylist()
    del names["reconcile"]
    assert names == row | {"incident": len(over)}
    # Of gold_rows.payments(): generation 4, a member joined, at 12:30:00 UTC.
    assert "Start time     : 2026-11-21 12:30:00 +0000 UTC" in said
    assert "-> rebalance_audit.rebalance_id: Str(payments/4)" in said
    assert '-> rebalance_audit.evidence: Slice(["record:__consumer_offsets-1@90"])' in said


def test_run_and_watch_send_an_incident_once_to_the_real_collector(tmp_path: Path) -> None:
    """Of a capture, by the verbs and a settings file, past somebody who lets nothing through at first."""
    from infra.lab.processes import Process, free_ports, wait_until

    (port,) = free_ports(1)
    is_shut, refused = [True], []

    class Door(Quiet):
        def do_POST(self) -> None:
            content = self.rfile.read(int(self.headers["Content-Length"]))
            if is_shut[0]:
                refused.append(self.path)
            to = f"http://127.0.0.1:{port}{self.path}"
            self.send_response(400 if is_shut[0] else passed_on(to, dict(self.headers), content))
            self.end_headers()

    capture, output = GOLDEN / "4.3.0" / "reassign_slow", tmp_path / "collector.txt"
    with listening(Door) as url, collector_on(configured(tmp_path, port), f"http://127.0.0.1:{port}", output):
        (config := tmp_path / "s.yaml").write_text(f"traces: {{url: '{url}'}}\n")
        for name in ("ran", "watched"):
            assert cli.run(["import", str(capture), "-w", str(tmp_path / name), "-q"]) == 0
        run = ["run", "-q", "--engine", "local", "-w", str(tmp_path / "ran"), "--config", str(config)]
        for is_shut[0] in (True, False, False):
            assert cli.run(run) == 0
        assert refused == ["/v1/traces"]
        wait_until("it printed it", lambda: roots(output) == 1, timeout_s=30)
        assert cli.run([*run[:4], "-w", str(tmp_path / "watched")]) == 0
        words = ["watch", "-w", str(tmp_path / "watched"), "--config", str(config), "--cluster-id", "another"]
        for n in range(2):
            said = tmp_path / f"watch-{n}.txt"
            process = Process(
                "watch", [*PROGRAM, *words, "--logs", str(capture / "logs")], folder=tmp_path, output=said
            )
            process.start()
            try:
                wait_until("it caught up", partial(says, said, "Caught up"), timeout_s=60)
                wait_until("it sent it", lambda: roots(output) == 2, timeout_s=30)
            finally:
                process.stop()
            assert not says(said, "does not take")
        one, again = spans(output)
        assert one == again  # the same incident out of two warehouses


def passed_on(url: str, headers: dict[str, str], content: bytes) -> int:
    try:
        with urllib.request.urlopen(urllib.request.Request(url, content, headers), timeout=5) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


def configured(folder: Path, port: int) -> Path:
    (config := folder / "collector.yaml").write_text(f"""
receivers: {{otlp: {{protocols: {{http: {{endpoint: "127.0.0.1:{port}"}}}}}}}}
exporters: {{debug: {{verbosity: detailed}}}}
service:
  telemetry: {{metrics: {{level: none}}}}
  pipelines: {{traces: {{receivers: [otlp], exporters: [debug]}}}}
""")
    return config


@contextmanager
def collector_on(config: Path, url: str, output: Path) -> Iterator[None]:
    from infra.lab.processes import Process, wait_until
    from infra.lab.programs import collector

    command = [str(collector()), "--config", str(config)]
    process = Process("collector", command, folder=config.parent, output=output)
    process.start()
    try:
        wait_until("the collector answers", lambda: answers(f"{url}/v1/traces"), timeout_s=60)
        yield
    finally:
        process.stop()


def roots(output: Path) -> int:
    return len(re.findall(r"^    Name           : incident$", output.read_text(), re.MULTILINE))


def spans(output: Path) -> list[str]:
    """Their ids."""
    return re.findall(r"^    ID             : (\w+)$", output.read_text(), re.MULTILINE)


def says(output: Path, what: str) -> bool:
    return what in output.read_text()


def answers(url: str) -> bool:
    try:
        urllib.request.urlopen(url, timeout=1)
    except urllib.error.HTTPError:
        return True  # it wants another method
    except OSError:
        return False
    return True
