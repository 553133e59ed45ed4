"""A Spark standalone cluster of processes on this machine: a master and workers that share no folder.

with SparkCluster(folder, 2, store.environment()) as cluster:
    cluster.master                    spark://127.0.0.1:…
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pyspark

ROOT = Path(__file__).parents[1]
SPARK_CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"
_READY_WITHIN_S = 90


class SparkCluster:
    def __init__(self, folder: Path, workers: int, environment: dict[str, str]) -> None:
        """`environment`: what the workers know of the store."""
        self._folder, self._worker_count = folder, workers
        self._port, self._ui_port = _free_port(), _free_port()
        self.master = f"spark://127.0.0.1:{self._port}"
        self._environment = os.environ | environment | {
            "SPARK_LOCAL_IP": "127.0.0.1",
            "PYSPARK_PYTHON": sys.executable,
            "PYTHONPATH": str(ROOT),
            "SPARK_DAEMON_MEMORY": "256m",
        }  # fmt: skip
        self._processes: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> SparkCluster:
        address = ["--host", "127.0.0.1", "--port", str(self._port), "--webui-port", str(self._ui_port)]
        self._start("master", "org.apache.spark.deploy.master.Master", *address)
        for number in range(self._worker_count):
            self._start(
                f"worker-{number}", "org.apache.spark.deploy.worker.Worker",
                "-c", "1", "-m", "1g", "--host", "127.0.0.1", "--webui-port", "0", self.master,
            )  # fmt: skip
        until = time.monotonic() + _READY_WITHIN_S
        while self._alive_workers() < self._worker_count:
            if time.monotonic() > until:
                self.__exit__()
                raise TimeoutError(f"no {self._worker_count} workers; see the logs in {self._folder}")
            time.sleep(0.5)
        return self

    def __exit__(self, *_: object) -> None:
        for process in reversed(self._processes):
            process.terminate()
        for process in self._processes:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _start(self, name: str, *command: str) -> None:
        """In a folder of its own."""
        folder = self._folder / name
        folder.mkdir(parents=True)
        environment = self._environment | {"SPARK_WORKER_DIR": str(folder / "work"), "SPARK_LOCAL_DIRS": str(folder)}
        with open(folder / "log", "wb") as log:
            self._processes.append(
                subprocess.Popen(
                    [str(SPARK_CLASS), *command], cwd=folder, env=environment, stdout=log, stderr=subprocess.STDOUT
                )
            )

    def _alive_workers(self) -> int:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._ui_port}/json/", timeout=5) as answer:
                return answer.read().count(b'"ALIVE"') - 1  # the master itself is one
        except OSError:
            return 0


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
