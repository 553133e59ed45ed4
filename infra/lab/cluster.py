"""A local Kafka cluster, with Connect workers if wanted, in one run folder."""

from __future__ import annotations

import base64
import signal
import subprocess
import threading
import urllib.error
import urllib.request
import uuid
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

from . import configs, jars
from .configs import BrokerPlace, Settings, version_key
from .processes import LabError, Process, free_ports, unwind_once, wait_until
from .run_folder import SMALL_HEAP, RunFolder, link
from .shape import ONE_BROKER, ClusterShape

BROKER_HEAP = "-Xmx384m"
WORKER_HEAP = "-Xmx320m"

START_TIMEOUT_S = 120
FIRST_CONTROLLER_ID = 100


class Cluster(RunFolder):
    """Brokers 1…N (and controllers 100… when apart, or ZooKeeper), Connect workers 1…M, on free ports of localhost."""

    def __init__(
        self,
        shape: ClusterShape = ONE_BROKER,
        *,
        version: str = jars.DEFAULT_VERSION,
        folder: Path | None = None,
        time_zone: str | None = None,
    ) -> None:
        zookeeper = version_key(version) < (3, 3) if shape.zookeeper is None else shape.zookeeper
        if zookeeper and (version_key(version) >= (4, 0) or shape.controllers_apart):
            raise LabError("ZooKeeper mode exists up to Kafka 3.9 and has no controllers apart.")
        super().__init__(version, folder, uses_zookeeper=zookeeper, time_zone=time_zone or shape.time_zone)
        self._shape = shape
        self.connect_group = shape.connect_group
        self.replicas = min(3, shape.brokers)
        """Of each topic."""
        brokers, controllers_apart, listeners = shape.brokers, shape.controllers_apart, shape.listeners
        self._brokers = range(1, brokers + 1)
        controllers = (
            range(FIRST_CONTROLLER_ID, FIRST_CONTROLLER_ID + controllers_apart) if controllers_apart else self._brokers
        )
        ports = iter(free_ports(brokers + len(controllers) + 1 + len(listeners)))
        self._zookeeper_port = next(ports)
        self._broker_ports = {node: next(ports) for node in self._brokers}
        self._controller_ports = {} if self.uses_zookeeper else {node: next(ports) for node in controllers}
        self._listeners = [
            configs.FurtherListener(name=name, protocol=protocol, port=next(ports))
            for name, protocol in listeners.items()
        ]
        self._worker_ports: dict[int, int] = {}
        self._worker_joins_before: dict[int, int] = {}
        self._nodes: dict[str, Process] = {}
        self._mounted: list[Path] = []
        self._heeds_sigterm = False
        self.cluster_id = new_cluster_id()
        """An id as Kafka makes them; in ZooKeeper mode replaced by the brokers' own once they run."""

    # Addresses and places

    @property
    def bootstrap(self) -> str:
        return ",".join(f"localhost:{port}" for port in self._broker_ports.values())

    def address(self, listener: str) -> str:
        """HOST:PORT of a further listener."""
        return next(f"localhost:{each.port}" for each in self._listeners if each.name == listener)

    @property
    def zookeeper(self) -> str:
        return f"localhost:{self._zookeeper_port}"

    @property
    def node_folders(self) -> dict[str, Path]:
        """Data directory of each broker and controller, by node name."""
        names = [broker_name(node) for node in self._brokers]
        names += [controller_name(node) for node in self._controller_ports if node >= FIRST_CONTROLLER_ID]
        return {name: self.folder / "data" / name for name in names}

    @property
    def log_folders(self) -> dict[str, Path]:
        """Folder with the logs of each node and worker that ever ran, by name."""
        return {name: self.folder / "logs" / name for name in self._nodes if name != "zookeeper"}

    def worker_url(self, worker: int) -> str:
        return f"http://localhost:{self._worker_ports[worker]}/"

    def worker_urls(self) -> dict[str, str]:
        """URL of each worker that ever ran, by name."""
        return {worker_name(worker): self.worker_url(worker) for worker in sorted(self._worker_ports)}

    # Life

    def __enter__(self) -> Self:
        """SIGTERM ends the block, and the cluster with it, unless the program has a handler of its own."""
        is_main = threading.current_thread() is threading.main_thread()
        self._heeds_sigterm = is_main and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
        if self._heeds_sigterm:
            signal.signal(signal.SIGTERM, unwind_once)
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()
        if self._heeds_sigterm:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)

    def start(self) -> None:
        jars.tool("java")
        self.prepare()
        if self.uses_zookeeper:
            self._start_zookeeper()
        for node in [*(node for node in self._controller_ports if node >= FIRST_CONTROLLER_ID), *self._brokers]:
            if self._shape.disk_mb is not None:
                self._mount(node)
            self._prepare_broker(node)
            self._node(node).start(self.environment())
        self._wait_for_brokers()
        for worker in range(1, self._shape.connect_workers + 1):
            self.start_worker(worker)

    def stop(self) -> None:
        """Workers first, then brokers all at once, controllers and ZooKeeper last."""
        by_rank: dict[int, list[Process]] = {}
        for name, process in self._nodes.items():
            by_rank.setdefault(_stop_rank(name), []).append(process)
        for rank in sorted(by_rank):
            for process in by_rank[rank]:
                process.signal(signal.SIGTERM)
            for process in by_rank[rank]:
                process.stop()
        while self._mounted:
            subprocess.run(["umount", str(self._mounted.pop())], check=False)

    def _mount(self, node: int) -> None:
        folder = self.folder / "data" / broker_name(node)
        folder.mkdir()
        options = f"size={self._shape.disk_mb}m"
        done = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", options, "lab", str(folder)], capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            raise LabError(f"This scenario needs a small disk, and there is none: {done.stderr.strip()}")
        self._mounted.append(folder)

    def start_broker(self, node: int, *, version: str | None = None) -> None:
        """`version`: where it comes back with the jars of another one."""
        if version is not None:
            link(self.folder / f"libs-{version}", jars.libs(version))
            process = self._node(node)
            process.command = [word.replace(":libs/*", f":libs-{version}/*") for word in process.command]
            logging = self._logging(process.name, configs.broker_log_layout(version), version)
            process.command = [logging if word.startswith("-Dlog4j") else word for word in process.command]
        self._node(node).start(self.environment())
        self._wait_for_brokers()

    def stop_broker(self, node: int) -> None:
        self._node(node).stop()

    def kill_broker(self, node: int) -> None:
        self._node(node).kill()

    def freeze_node(self, name: str) -> None:
        """SIGSTOP to a broker or worker: it answers nobody, and does not know."""
        self._nodes[name].signal(signal.SIGSTOP)

    def thaw_node(self, name: str) -> None:
        """SIGCONT."""
        self._nodes[name].signal(signal.SIGCONT)

    def start_worker(self, worker: int, *, wait: bool = True) -> None:
        """A worker keeps its port, and so its URL, over restarts."""
        name = worker_name(worker)
        if name not in self._nodes:
            self._prepare_worker(worker)
        self._worker_joins_before[worker] = self._worker_joins(worker)
        self._nodes[name].start(self.environment())
        if wait:
            self.wait_for_worker(worker)

    def start_mirror_maker(self, properties: Settings, worker: int = 1) -> None:
        """MirrorMaker 2 with workers of its own; its node is a worker's, so that what keeps logs finds its log."""
        name = worker_name(worker)
        if name not in self._nodes:
            (self._worker_ports[worker],) = free_ports(1)
            settings_file = f"etc/{name}.properties"
            own: Settings = {"listeners": f"http://localhost:{self._worker_ports[worker]}"}
            (self.folder / settings_file).write_text(configs.render_properties({**properties, **own}))
            main = "org.apache.kafka.connect.mirror.MirrorMaker"
            command = self.java(name, configs.connect_log_layout(self.version), WORKER_HEAP, main, settings_file)
            output = self.folder / "output" / f"{name}.txt"
            self._nodes[name] = Process(name, command, folder=self.folder, output=output)
        self._nodes[name].start(self.environment())

    def wait_for_worker(self, worker: int) -> None:
        """Until it answers and is a member: its REST interface answers while it is still joining."""
        process = self._nodes[worker_name(worker)]
        url = self.worker_url(worker) + "connectors"
        self._wait_alive(
            process,
            f"{process.name} joined and answers at {url}",
            lambda: self._worker_joins(worker) > self._worker_joins_before[worker] and _answers(url),
        )

    def stop_worker(self, worker: int) -> None:
        self._nodes[worker_name(worker)].stop()

    def kill_worker(self, worker: int) -> None:
        self._nodes[worker_name(worker)].kill()

    def running_workers(self) -> list[int]:
        return [worker for worker in self._worker_ports if self._nodes[worker_name(worker)].is_running()]

    def pids(self) -> dict[str, int]:
        return {name: process.pid for name, process in self._nodes.items() if process.pid is not None}

    # Inside

    def _node(self, node: int) -> Process:
        name = controller_name(node) if node >= FIRST_CONTROLLER_ID else broker_name(node)
        if name not in self._nodes:
            raise LabError(f"There is no node {node} in this cluster.")
        return self._nodes[name]

    def _prepare_broker(self, node: int) -> None:
        name = controller_name(node) if node >= FIRST_CONTROLLER_ID else broker_name(node)
        place = BrokerPlace(
            node_id=node,
            broker_port=self._broker_ports.get(node),
            controller_port=self._controller_ports.get(node),
            log_dir=",".join([f"data/{name}", *(f"data/{name}-disk-{n}" for n in range(2, self._shape.disks + 1))]),
        )
        if self.uses_zookeeper:
            own = configs.zookeeper_broker_settings(place, self._zookeeper_port)
        else:
            own = configs.kraft_settings(place, list(self._controller_ports.items()), self._listeners)
        extra = self._shape.broker_properties
        common = configs.broker_settings(self.version, place, replicas=self.replicas, extra=extra)
        settings_file = f"etc/{name}.properties"
        (self.folder / settings_file).write_text(configs.render_properties(own | common))
        if not self.uses_zookeeper:
            self._format(settings_file)
        command = self.java(name, configs.broker_log_layout(self.version), BROKER_HEAP, "kafka.Kafka", settings_file)
        first = command.index("-cp")
        command[first:first] = self._shape.broker_flags  # of a flag that is given twice the last holds
        self._nodes[name] = Process(name, command, folder=self.folder, output=self.folder / "output" / f"{name}.txt")

    def _format(self, settings_file: str) -> None:
        layout = configs.single_log_layout("format.log")
        command = self.java(
            "format", layout, SMALL_HEAP, "kafka.tools.StorageTool",
            "format", "-t", self.cluster_id, "-c", settings_file,
        )  # fmt: skip
        done = subprocess.run(
            command, cwd=self.folder, env=self.environment(), capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            said = [line for line in (done.stderr + done.stdout).splitlines() if line and not line.startswith("\tat")]
            raise LabError(f"Kafka's storage tool failed: {' '.join(said)[:600]}")

    def _start_zookeeper(self) -> None:
        settings = configs.zookeeper_settings("data/zookeeper", self._zookeeper_port)
        (self.folder / "etc/zookeeper.properties").write_text(configs.render_properties(settings))
        main = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
        layout = configs.single_log_layout("zookeeper.log")
        command = self.java("zookeeper", layout, SMALL_HEAP, main, "etc/zookeeper.properties")
        output = self.folder / "output/zookeeper.txt"
        self._nodes["zookeeper"] = Process("zookeeper", command, folder=self.folder, output=output)
        self._nodes["zookeeper"].start(self.environment())

    def _prepare_worker(self, worker: int) -> None:
        name = worker_name(worker)
        (self._worker_ports[worker],) = free_ports(1)
        settings = configs.worker_settings(
            self.version,
            bootstrap=self.bootstrap,
            group=self.connect_group,
            port=self._worker_ports[worker],
            replicas=self.replicas,
            extra=self._shape.worker_properties,
        )
        settings_file = f"etc/{name}.properties"
        (self.folder / settings_file).write_text(configs.render_properties(settings))
        main = "org.apache.kafka.connect.cli.ConnectDistributed"
        command = self.java(name, configs.connect_log_layout(self.version), WORKER_HEAP, main, settings_file)
        self._nodes[name] = Process(name, command, folder=self.folder, output=self.folder / "output" / f"{name}.txt")

    def _worker_joins(self, worker: int) -> int:
        logs = (self.folder / "logs" / worker_name(worker)).glob("connect*log*")
        return sum(log.read_text(errors="replace").count("Joined group at generation") for log in logs)

    def _wait_for_brokers(self) -> None:
        # Imported here so that the pure parts of the lab, and their tests, need no librdkafka.
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import AdminClient

        started = {node: self._node(node) for node in self._brokers if self._node(node).is_running()}
        # One client per broker: the others go on naming a broker that was killed a moment ago.
        admins = [
            AdminClient({"bootstrap.servers": f"localhost:{self._broker_ports[node]}", "log_level": 0})
            for node in started
        ]

        def all_there() -> bool:
            for process in started.values():
                if not process.is_running():
                    raise LabError(f"{process.name} ended while starting:\n{process.last_output()}")
            try:
                answers = [admin.list_topics(timeout=2) for admin in admins]
            except KafkaException:
                return False
            self.cluster_id = answers[0].cluster_id or self.cluster_id
            return all(
                started.keys() <= answer.brokers.keys() and answer.controller_id in answer.brokers for answer in answers
            )

        wait_until(f"{len(started)} brokers answer at {self.bootstrap}", all_there, timeout_s=START_TIMEOUT_S)

    def _wait_alive(self, process: Process, what: str, is_so: Callable[[], bool]) -> None:
        def check() -> bool:
            if not process.is_running():
                raise LabError(f"{process.name} ended while starting:\n{process.last_output()}")
            return is_so()

        wait_until(what, check, timeout_s=START_TIMEOUT_S)


def broker_name(node: int) -> str:
    return f"broker-{node}"


def controller_name(node: int) -> str:
    return f"controller-{node}"


def worker_name(worker: int) -> str:
    return f"worker-{worker}"


def _stop_rank(name: str) -> int:
    return ["worker", "broker", "controller", "zookeeper"].index(name.split("-")[0])


def new_cluster_id() -> str:
    """22 characters; never a dash first, which Kafka's storage tool reads as an option (Kafka's Uuid avoids it too)."""
    while (made := base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")).startswith("-"):
        pass
    return made


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False
