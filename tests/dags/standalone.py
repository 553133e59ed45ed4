"""An Airflow of its own, with scheduler, triggerer and API server, as `airflow standalone` starts it.

with Standalone(folder, {"REBALANCE_AUDIT_WAREHOUSE": ...}) as airflow:
    run = airflow.trigger("rebalance_audit", {"evidence": ...})
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from tests.captures import GOLDEN

_TRIES = 10
_UP_WITHIN_S = 600
"""At a load of 15 on two cores it took four minutes."""

ROOT = GOLDEN.parents[1]
Answer = TypeVar("Answer")
OVER = frozenset({"success", "failed"})


def free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])


def settings_of(folder: Path, port: int) -> dict[str, str]:
    """SQLite, tasks as processes of the scheduler, everybody an administrator; on loopback."""
    settings = {
        "CORE__DAGS_FOLDER": ROOT / "dags",
        "CORE__LOAD_EXAMPLES": False,
        "CORE__PARALLELISM": 4,
        "CORE__DAGS_ARE_PAUSED_AT_CREATION": True,
        "CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": True,
        "CORE__EXECUTION_API_SERVER_URL": f"http://127.0.0.1:{port}/execution/",
        "API__HOST": "127.0.0.1",
        "API__PORT": port,
        "API__BASE_URL": f"http://127.0.0.1:{port}",
        "API__WORKERS": 1,
        "LOGGING__BASE_LOG_FOLDER": folder / "logs",
        "LOGGING__WORKER_LOG_SERVER_PORT": free_port(),
        "LOGGING__TRIGGER_LOG_SERVER_PORT": free_port(),
        "SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME": 0.3,
    }
    return {"AIRFLOW_HOME": str(folder)} | {f"AIRFLOW__{name}": str(value) for name, value in settings.items()}


class Standalone:
    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self.folder, self.port = folder, free_port()
        kept = {n: v for n, v in os.environ.items() if not n.startswith(("AIRFLOW", "REBALANCE_AUDIT"))}
        self.environment = kept | settings_of(folder, self.port) | {
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]),
            "PYTHONPATH": str(ROOT),
            **environment,
        }  # fmt: skip
        self._token: str | None = None

    def __enter__(self) -> Standalone:
        self.folder.mkdir(parents=True, exist_ok=True)
        self._said = (self.folder / "said.txt").open("w")
        self._running = subprocess.Popen(
            [self._airflow, "standalone"], env=self.environment, cwd=self.folder, stdout=self._said,
            stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
        try:
            self.wait_for("Airflow answers", self._is_up, _UP_WITHIN_S)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        """Its group is its own: nobody else's process is in it."""
        for sign, patience_s in ((signal.SIGTERM, 5), (signal.SIGKILL, 10)):
            if self._running.poll() is None:
                os.killpg(self._running.pid, sign)
                try:
                    self._running.wait(patience_s)
                except subprocess.TimeoutExpired:
                    continue
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._running.pid, signal.SIGKILL)  # what its parts left behind
        self._said.close()

    @property
    def _airflow(self) -> str:
        return str(Path(sys.executable).with_name("airflow"))

    def type(self, script: str) -> None:
        """What somebody types on the same machine."""
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script], env=self.environment, cwd=self.folder, capture_output=True,
            text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"{script}: {done.stdout[-2000:]}{done.stderr[-2000:]}"

    def fill_again(self, script: str, dag_id: str) -> None:
        """A backfill whose runs are all there. On SQLite its command ends where the scheduler writes for longer than it
        waits; what it began is over at the scheduler's next look, and then it may be typed again."""
        for tries_left in reversed(range(_TRIES)):
            self.wait_for("the end of the backfill before", lambda: self.backfills_are_over(dag_id), 180)
            try:
                return self.type(script)
            except AssertionError as refused:
                if not (tries_left and "database is locked" in str(refused)):
                    raise

    def ask(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """The REST API."""
        headers = {"Content-Type": "application/json"}
        if self._token is not None:
            headers["Authorization"] = f"Bearer {self._token}"
        asked = urllib.request.Request(
            f"http://127.0.0.1:{self.port}{path}", None if body is None else json.dumps(body).encode(), headers,
            method=method,
        )  # fmt: skip
        for tries_left in reversed(range(_TRIES)):
            try:
                with urllib.request.urlopen(asked, timeout=30) as answer:
                    text = answer.read()
                break
            except urllib.error.HTTPError as refused:
                why = refused.read()
                # On SQLite what meets the scheduler's own write is rolled back.
                if not (tries_left and refused.code == 500 and b"Database error" in why):
                    raise AssertionError(f"{method} {path}: {refused.code} {why[:500]!r}") from refused
                time.sleep(1)
            except TimeoutError:  # of a busy machine; asking twice changes nothing
                if method != "GET" or not tries_left:
                    raise
        return json.loads(text) if text else None

    def _is_up(self) -> bool:
        assert self._running.poll() is None, self.said()
        try:
            if self._token is None:
                self._token = str(self.ask("GET", "/auth/token")["access_token"])
            health = self.ask("GET", "/api/v2/monitor/health")
        except (OSError, AssertionError):
            return False
        parts = ("metadatabase", "scheduler", "triggerer", "dag_processor")
        return all((health.get(part) or {}).get("status") == "healthy" for part in parts)

    def said(self) -> str:
        return (self.folder / "said.txt").read_text(errors="replace")[-6000:]

    def wait_for(self, what: str, asked: Callable[[], Answer], patience_s: float) -> Answer:
        give_up_at = time.monotonic() + patience_s
        while not (found := asked()):
            assert time.monotonic() < give_up_at, f"{what}: not within {patience_s:.0f} s. {self.said()}"
            time.sleep(0.3)
        return found

    def unpause(self, *dag_ids: str) -> None:
        for dag_id in dag_ids:
            path = f"/api/v2/dags/{dag_id}"
            self.wait_for(f"the DAG {dag_id}", partial(self._knows, path), 120)
            self.ask("PATCH", f"{path}?update_mask=is_paused", {"is_paused": False})

    def pause(self, dag_id: str) -> None:
        self.ask("PATCH", f"/api/v2/dags/{dag_id}?update_mask=is_paused", {"is_paused": True})

    def drop_scheduled(self, dag_id: str) -> None:
        """End the run of the last tick of its schedule, which begins when a DAG is switched on."""
        (run,) = self.wait_for("the scheduled run", lambda: self.runs(dag_id), 120)
        path = f"/api/v2/dags/{dag_id}/dagRuns/{run['dag_run_id']}"
        self.ask("PATCH", f"{path}?update_mask=state", {"state": "failed"})

    def _knows(self, path: str) -> bool:
        try:
            self.ask("GET", path)
        except AssertionError:
            return False
        return True

    def trigger(self, dag_id: str, conf: Mapping[str, Any], logical_date: datetime | None = None) -> str:
        at = datetime.now(UTC) if logical_date is None else logical_date
        body = {"conf": dict(conf), "logical_date": at.isoformat()}
        return str(self.ask("POST", f"/api/v2/dags/{dag_id}/dagRuns", body)["dag_run_id"])

    def retry_now(self, dag_id: str, run_id: str, task_id: str) -> None:
        """As somebody clears a task instead of waiting for its next try."""
        body = {"dry_run": False, "dag_run_id": run_id, "task_ids": [task_id], "only_failed": False}
        self.ask("POST", f"/api/v2/dags/{dag_id}/clearTaskInstances", body)

    def state(self, dag_id: str, run_id: str) -> str:
        return str(self.ask("GET", f"/api/v2/dags/{dag_id}/dagRuns/{run_id}")["state"])

    def runs(self, dag_id: str) -> list[dict[str, Any]]:
        return list(self.ask("GET", f"/api/v2/dags/{dag_id}/dagRuns")["dag_runs"])

    def backfills_are_over(self, dag_id: str) -> bool:
        found = self.ask("GET", f"/api/v2/backfills?dag_id={dag_id}")["backfills"]
        return all(backfill["completed_at"] for backfill in found)

    def tasks(self, dag_id: str, run_id: str) -> dict[str, dict[str, Any]]:
        found = self.ask("GET", f"/api/v2/dags/{dag_id}/dagRuns/{run_id}/taskInstances?limit=100")
        return {task["task_id"]: task for task in found["task_instances"]}

    def wait_for_end(self, dag_id: str, run_id: str, patience_s: float = 600) -> str:
        def over() -> str | None:
            state = self.state(dag_id, run_id)
            return state if state in OVER else None

        return str(self.wait_for(f"the end of {dag_id}", over, patience_s))

    def log(self, dag_id: str, run_id: str, task_id: str) -> str:
        files = sorted((self.folder / "logs").glob(f"dag_id={dag_id}/run_id={run_id}/task_id={task_id}/*.log"))
        return "".join(file.read_text(errors="replace") for file in files)
