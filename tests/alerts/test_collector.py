"""Traces against the OpenTelemetry Collector itself, built from its Go modules: it is away first, then it is there."""

from __future__ import annotations

import re
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from rebalance_audit.alerts.target import AlertError
from rebalance_audit.alerts.traces import send_traces
from tests.app import gold_rows

pytestmark = pytest.mark.own


def test_the_real_collector_takes_each_trace_once(tmp_path: Path) -> None:
    from infra.lab.processes import Process, free_ports, wait_until
    from infra.lab.programs import collector

    (port,) = free_ports(1)
    url = f"http://127.0.0.1:{port}"
    (config := tmp_path / "collector.yaml").write_text(f"""
receivers: {{otlp: {{protocols: {{http: {{endpoint: "127.0.0.1:{port}"}}}}}}}}
exporters: {{debug: {{verbosity: detailed}}}}
service:
  telemetry: {{metrics: {{level: none}}}}
  pipelines: {{traces: {{receivers: [otlp], exporters: [debug]}}}}
""")
    output = tmp_path / "collector.txt"
    warehouse = gold_rows.write(tmp_path / "w", many=0)
    over = warehouse.query("SELECT incident_id FROM gold.incident WHERE status = 'over'")["incident_id"].to_pylist()
    with pytest.raises(AlertError, match="does not take traces"):
        send_traces(warehouse, url, timeout_s=1)
    process = Process(
        "collector", [str(collector()), "--config", str(config)], folder=tmp_path, output=output
    )  # fmt: skip
    process.start()
    try:
        wait_until("the collector answers", lambda: answers(f"{url}/v1/traces"), timeout_s=60)
        assert send_traces(warehouse, url) == len(over)
        wait_until("it printed every incident", lambda: all(i in output.read_text() for i in over), timeout_s=30)
        assert send_traces(warehouse, url) == 0
    finally:
        process.stop()
    said = output.read_text()
    spans = re.findall(r"^    ID             : (\w+)$", said, re.MULTILINE)
    assert len(spans) == len(set(spans))
    assert "0000000000000000" not in spans
    names = re.findall(r"^    Name           : (.+)$", said, re.MULTILINE)
    assert names.count("incident") == len(over)
    assert set(names) >= {"rebalance", "standstill"}
    # Of gold_rows.payments(): generation 4, a member joined, at 12:30:00 UTC.
    assert "Start time     : 2026-11-21 12:30:00 +0000 UTC" in said
    assert "-> rebalance_audit.rebalance_id: Str(payments/4)" in said
    assert '-> rebalance_audit.evidence: Slice(["record:__consumer_offsets-1@90"])' in said


def answers(url: str) -> bool:
    try:
        urllib.request.urlopen(url, timeout=1)
    except urllib.error.HTTPError:
        return True  # it wants another method
    except OSError:
        return False
    return True
