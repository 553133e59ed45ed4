"""The whole set, without and with Airflow: a consumer is killed, somebody is alerted, and the page says who it was.

With Airflow a round of the stages takes minutes where two cores carry all of it.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar
from urllib.parse import urlencode

import pytest

from tests.app.serving import browser, settled
from tests.dags.standalone import ROOT
from tests.up import ALL_IS_UP

pytestmark = pytest.mark.own

UP_WITHIN_S, ALERTED_WITHIN_S, RULE_WITHIN_S, ENDED_WITHIN_S = 900, 900, 300, 300
WITH_AIRFLOW = 6
"""Times the patience: it is a run of the DAG that begins after the kill."""
GROUP, VICTIM = "payments-app", "payments-2"
Found = TypeVar("Found")


class Running:
    """`make up`, and what it said."""

    def __init__(self, *flags: str) -> None:
        self.said: list[str] = []
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.up", "--every", "1", *flags],
            cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.said.append(line.rstrip())
            print(line, end="", flush=True)

    def wait_for(self, what: str, look: Callable[[], Found | None], patience_s: float) -> Found:
        until = time.monotonic() + patience_s
        while (found := look()) is None:
            assert self.process.poll() is None, self.said[-30:]
            assert time.monotonic() < until, (what, self.said[-30:])
            time.sleep(0.5)
        return found

    def line(self, pattern: str) -> re.Match[str] | None:
        return next((found for line in list(self.said) if (found := re.search(pattern, line))), None)

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            self.process.wait(ENDED_WITHIN_S)


@contextmanager
def running(*flags: str) -> Iterator[Running]:
    started = Running(*flags)
    try:
        yield started
    finally:
        started.end()


def test_a_kill_is_alerted_and_on_the_page() -> None:
    with running("--no-airflow") as up:
        killed_alerted_and_shown(up, 1)


def test_with_airflow_it_is_the_task_of_the_dag_that_alerts() -> None:
    """Nothing else of the set sends incidents: what Prometheus finds has other names."""
    with running() as up:
        killed_alerted_and_shown(up, WITH_AIRFLOW)
        assert up.line(r"^alert task +success"), up.said[-30:]
        assert up.line(r"^stages +success"), up.said[-30:]


def killed_alerted_and_shown(up: Running, patience: int) -> None:
    up.wait_for("the set", lambda: up.line(re.escape(ALL_IS_UP)), UP_WITHIN_S * patience)
    killed = up.wait_for("the victim", lambda: up.line(rf"{VICTIM} pid (\d+) group {GROUP}"), 1)
    os.kill(int(killed[1]), signal.SIGKILL)
    began = time.monotonic()
    alert = up.wait_for(
        "an alert", lambda: up.line(rf"^alert .* RebalanceIncident: .*{VICTIM}.*"), ALERTED_WITHIN_S * patience
    )
    print(f"\nalerted {time.monotonic() - began:.0f} s after the kill: {alert[0]}")
    app, prometheus = (up.wait_for(name, lambda name=name: up.line(rf"^{name} +(\S+)"), 1)[1]  # type: ignore[misc]
                       for name in ("app", "prometheus"))  # fmt: skip

    def rules() -> str | None:
        with urllib.request.urlopen(f"{prometheus}/api/v1/alerts", timeout=10 * patience) as answer:
            alerts = json.load(answer)["data"]["alerts"]
        return next((a["labels"]["alertname"] for a in alerts if a["labels"].get("rule")), None)

    rule = up.wait_for("a rule of Prometheus", rules, RULE_WITHIN_S * patience)
    with browser() as chromium:
        page = chromium.new_page()
        page.goto(f"{app}/group?{urlencode({'cluster': cluster_of(up), 'group': GROUP})}")
        settled(page)
        assert VICTIM in page.inner_text('[data-testid="stMainBlockContainer"]')
    print(f"Prometheus has {rule}; the page says {VICTIM}, {time.monotonic() - began:.0f} s after the kill")
    if patience > 1:  # the task sends before its run is over
        up.wait_for("the end of the run", lambda: up.line(r"^alert task +success"), ALERTED_WITHIN_S * patience)
    mine = up.process.pid
    up.end()
    assert up.process.returncode == 0, up.said[-20:]
    assert not [pid for pid in offspring() if pid != mine]


def cluster_of(up: Running) -> str:
    metrics = up.wait_for("metrics", lambda: up.line(r"^metrics +(\S+)"), 1)[1]
    with urllib.request.urlopen(metrics, timeout=10) as answer:
        found = re.search(rf'cluster="([^"]+)",group="{GROUP}"', answer.read().decode())
    assert found is not None
    return found[1]


def offspring() -> list[int]:
    """Processes that the set's own folder or warehouse is named to."""
    import psutil

    return [
        p.pid
        for p in psutil.process_iter(["cmdline"])
        if any("s3://warehouses/up" in w for w in p.info["cmdline"] or [])
    ]
