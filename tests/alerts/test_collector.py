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
from pathlib import Path

import pytest

from rebalance_audit.alerts.target import AlertError
from rebalance_audit.alerts.traces import send_traces
from tests.app import gold_rows

pytestmark = pytest.mark.own


def test_the_real_collector_takes_each_trace_once(tmp_path: Path) -> None:
    from infra.lab.processes import free_ports, wait_until

    (port,) = free_ports(1)
    url = f"http://127.0.0.1:{port}"
    (config := tmp_path / "collector.yaml").write_text(f"""
receivers: {{otlp: {{protocols: {{http: {{endpoint: "127.0.0.1:{port}"}}}}}}}}
exporters: {{debug: {{verbosity: detailed}}}}
service:
  telemetry: {{metrics: {{level: none}}}}
  pipelines: {{traces: {{receivers: [otlp], exporters: [debug]}}}}
""")
    warehouse = gold_rows.write(tmp_path / "w", many=0)
    rows = warehouse.query("SELECT incident_id, last_at_ms FROM gold.incident WHERE status = 'over'").to_pylist()
    over = {row["incident_id"]: row["last_at_ms"] for row in rows}
    with pytest.raises(AlertError, match="does not take traces"):
        send_traces(warehouse, url, timeout_s=1)
    newest = max(over.values())
    outputs = [tmp_path / f"{n}.txt" for n in range(2)]
    with collector_on(config, url, outputs[0]):
        first = send_traces(warehouse, url, from_ms=newest)
        assert 0 < first < len(over)
        wait_until("it printed what it was sent", lambda: roots(outputs[0]) == first, timeout_s=30)
    with pytest.raises(AlertError, match="does not take traces"):
        send_traces(warehouse, url, timeout_s=1)
    with collector_on(config, url, outputs[1]):
        # By the verb, as people send.
        command = [
            str(Path(sys.executable).with_name("rebalance-audit")),
            "trace",
            "-w",
            str(tmp_path / "w"),
            "--to",
            url,
        ]
        subprocess.run(command, check=True, capture_output=True)
        wait_until("it printed the others", lambda: roots(outputs[1]) == len(over) - first, timeout_s=30)
        assert send_traces(warehouse, url) == 0
    said = "".join(output.read_text() for output in outputs)
    assert all(incident_id in said for incident_id in over)
    spans = re.findall(r"^    ID             : (\w+)$", said, re.MULTILINE)
    assert len(spans) == len(set(spans))
    assert "0000000000000000" not in spans
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


def answers(url: str) -> bool:
    try:
        urllib.request.urlopen(url, timeout=1)
    except urllib.error.HTTPError:
        return True  # it wants another method
    except OSError:
        return False
    return True
