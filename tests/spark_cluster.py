"""A Spark standalone cluster of processes on this machine: a master and workers that share no folder.

with SparkCluster(folder, 2, store.environment()) as cluster:
    cluster.master                    spark://127.0.0.1:…
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path

import pyspark

ROOT = Path(__file__).parents[1]
SPARK_CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"
_READY_WITHIN_S = 90


class SparkCluster:
    def __init__(self, folder: Path, workers: int, environment: dict[str, str], *, has_package: bool = True) -> None:
        """`environment`: what the workers know of the store. Without the package they need an archive of it."""
        self._folder, self._worker_count = folder, workers
        self._port, self._ui_port = _free_port(), _free_port()
        self.master, self.page = f"spark://127.0.0.1:{self._port}", f"http://127.0.0.1:{self._ui_port}"
        self._environment = os.environ | environment | {
            "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
        }  # fmt: skip
        if has_package:
            self._environment |= {"PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(ROOT)}
        self._master: subprocess.Popen[bytes] | None = None
        self._workers: list[subprocess.Popen[bytes]] = []
        self._lock, self._is_ending = threading.Lock(), threading.Event()
        self.deaths = 0
        """Of workers; for each a new one was started."""

    def __enter__(self) -> SparkCluster:
        address = ["--host", "127.0.0.1", "--port", str(self._port), "--webui-port", str(self._ui_port)]
        self._master = self._start("master", "org.apache.spark.deploy.master.Master", *address)
        self._workers = [self._start_worker(number) for number in range(self._worker_count)]
        until = time.monotonic() + _READY_WITHIN_S
        while self._alive_workers() < self._worker_count:
            if time.monotonic() > until:
                self.__exit__()
                raise TimeoutError(f"no {self._worker_count} workers; see the logs in {self._folder}")
            time.sleep(0.5)
        threading.Thread(target=self._replace_dead, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._is_ending.set()
        processes = [*self._workers, *([self._master] if self._master else [])]
        for process in processes:
            process.terminate()
        for process in processes:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    @property
    def pids(self) -> list[int]:
        """The master's and the workers'."""
        return [process.pid for process in (self._master, *self._workers) if process is not None]

    def _replace_dead(self) -> None:
        """As a supervisor does on every host."""
        while not self._is_ending.wait(0.5):
            for at, process in enumerate(self._workers):
                with self._lock:
                    if process.poll() is not None and not self._is_ending.is_set():
                        self.deaths += 1
                        self._workers[at] = self._start_worker(self._worker_count + self.deaths)

    def _start_worker(self, number: int) -> subprocess.Popen[bytes]:
        return self._start(
            f"worker-{number}", "org.apache.spark.deploy.worker.Worker",
            "-c", "1", "-m", "1g", "--host", "127.0.0.1", "--webui-port", "0", self.master,
        )  # fmt: skip

    def _start(self, name: str, *command: str) -> subprocess.Popen[bytes]:
        """In a folder of its own."""
        folder = self._folder / name
        folder.mkdir(parents=True)
        environment = self._environment | {"SPARK_WORKER_DIR": str(folder / "work"), "SPARK_LOCAL_DIRS": str(folder)}
        with open(folder / "log", "wb") as log:
            return subprocess.Popen(
                [str(SPARK_CLASS), *command], cwd=folder, env=environment, stdout=log, stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C is for whoever started the cluster, who then ends it in order
            )  # fmt: skip

    def _alive_workers(self) -> int:
        try:
            with urllib.request.urlopen(f"{self.page}/json/", timeout=5) as answer:
                return answer.read().count(b'"ALIVE"') - 1  # the master itself is one
        except OSError:
            return 0


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
