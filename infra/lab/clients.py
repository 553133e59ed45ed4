"""Instrumented consumers, a steady producer, and what they wrote down."""

from __future__ import annotations

import contextlib
import json
import signal
import sys
import threading
import urllib.request
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Any

from . import configs, programs
from .cluster import Cluster
from .configs import Settings
from .processes import LabError, Process, wait_until
from .run_folder import SMALL_HEAP

Event = dict[str, Any]
"""One line of a truth file: `at_ms`, `client`, `event`, and `partitions`, `tasks` or `connectors`."""

CLOCK_SUFFIX = ".clock"
"""Of the file beside a client's truth that says by how many milliseconds its host's clock is ahead."""

JAVA_ASSIGNORS = {
    "range": "org.apache.kafka.clients.consumer.RangeAssignor",
    "roundrobin": "org.apache.kafka.clients.consumer.RoundRobinAssignor",
    "sticky": "org.apache.kafka.clients.consumer.StickyAssignor",
    "cooperative-sticky": "org.apache.kafka.clients.consumer.CooperativeStickyAssignor",
    "slow range": "SlowRangeAssignor",
}

JAVA_PROGRAMS = {"java": "TruthConsumer", "share": "TruthShareConsumer", "streams": "TruthStreams"}


class Client:
    """One consumer process. `name` is its name in the truth, and its client id unless the settings have another.

    `library`: `java`, `librdkafka`, `share` (a Java share consumer), `streams` (a Streams instance of one thread), or
    one of `programs.LIBRARIES`.
    """

    def __init__(
        self, cluster: Cluster, name: str, group: str, topics: Sequence[str], *, library: str, settings: Settings
    ) -> None:
        self.name = name
        self.group = group
        self.topics = list(topics)
        self.library = library
        self.settings = dict(settings)
        self._cluster = cluster
        settings_file = f"etc/{name}.properties"
        everything = {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": group,
            "client.id": name,
            "auto.offset.reset": "earliest",
        } | self.settings
        time_zone = everything.pop("lab.time.zone", None)
        offset_ms = int(everything.pop("lab.clock.offset.ms", 0))
        self._clock = programs.clock_environment(offset_ms) if offset_ms else {}
        if offset_ms:
            (cluster.folder / f"truth/{name}{CLOCK_SUFFIX}").write_text(str(offset_ms))
        if library == "streams":
            everything["application.id"] = everything.pop("group.id")
        if library == "share":
            del everything["auto.offset.reset"]
        self.client_id = str(everything["client.id"])
        """The name by which the group knows it."""
        if library == "streams":
            self.client_id += "-StreamThread-1-consumer"
        (cluster.folder / settings_file).write_text(configs.render_properties(everything))
        arguments = [settings_file, ",".join(topics), f"truth/{name}.jsonl"]
        if library in JAVA_PROGRAMS:
            layout = configs.single_log_layout("client.log")
            command = cluster.java(name, layout, SMALL_HEAP, JAVA_PROGRAMS[library], *arguments, time_zone=time_zone)
        elif library == "librdkafka":
            command = [sys.executable, str(Path(__file__).with_name("librdkafka_consumer.py")), *arguments]
        else:
            command = [*programs.command(library), *arguments]
        self._process = Process(name, command, folder=cluster.folder, output=cluster.folder / f"output/{name}.txt")

    @property
    def pid(self) -> int | None:
        return self._process.pid

    def start(self) -> None:
        self._process.start(self._cluster.environment() | programs.environment() | self._clock)

    def send(self, command: str) -> None:
        self._process.send(command)

    def close(self) -> None:
        """Ask it to leave and wait until it has."""
        self.send("close")
        if not self._process.wait(60):
            raise LabError(f"{self.name} did not close within 60 s.")

    def kill(self) -> None:
        self._process.kill()

    def freeze(self) -> None:
        self._process.signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._process.signal(signal.SIGCONT)

    def stop(self) -> None:
        self.thaw()
        self._process.stop()

    def must_run(self) -> None:
        if not self._process.is_running():
            raise LabError(f"{self.name} ended by itself:\n{self._process.last_output()}")


def java_settings(assignor: str, **more: str | int) -> dict[str, str | int]:
    """A Java consumer of the classic protocol with a ten-second session. `assignor`: one, or several with commas."""
    return _classic_settings(",".join(JAVA_ASSIGNORS[name] for name in assignor.split(",")), more)


def plain_settings(assignor: str, **more: str | int) -> dict[str, str | int]:
    """The same for librdkafka and the libraries of `programs`, which call assignors by their plain names."""
    return _classic_settings(assignor, more)


def kip848_settings(**more: str | int) -> dict[str, str | int]:
    """Session and heartbeat are the broker's settings there."""
    settings: dict[str, str | int] = {"group.protocol": "consumer"}
    return settings | _dotted(more)


def streams_settings(**more: str | int) -> dict[str, str | int]:
    """A Streams instance of the classic protocol with a ten-second session and no state on disk."""
    settings: dict[str, str | int] = {
        "num.stream.threads": 1,
        "session.timeout.ms": 10_000,
        "heartbeat.interval.ms": 3000,
        "commit.interval.ms": 5000,
        "state.dir": "data/streams",
    }
    return settings | _dotted(more)


def _classic_settings(assignor: str, more: dict[str, str | int]) -> dict[str, str | int]:
    settings: dict[str, str | int] = {
        "partition.assignment.strategy": assignor,
        "session.timeout.ms": 10_000,
        "heartbeat.interval.ms": 3000,
    }
    return settings | _dotted(more)


def _dotted(options: dict[str, str | int]) -> dict[str, str | int]:
    return {name.replace("_", "."): value for name, value in options.items()}


class SteadyProducer:
    """Produces to every partition in turn, so that every owner has something to commit."""

    def __init__(self, bootstrap: str, partitions: dict[str, int], *, per_second: int = 24) -> None:
        from confluent_kafka import Producer

        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "client.id": "steady-producer",
                "linger.ms": 5,
                "topic.metadata.refresh.interval.ms": 2000,
                "log_level": 0,
            }
        )
        self._targets = [(topic, number) for topic, count in partitions.items() for number in range(count)]
        self._pause_s = 1 / per_second
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def add(self, topic: str, numbers: Iterable[int]) -> None:
        """Partitions that came later."""
        self._targets += [(topic, number) for number in numbers]

    def remove(self, name: str, numbers: Collection[int] | None = None) -> None:
        """These partitions get nothing more; without numbers the whole topic."""
        self._targets = [(t, n) for t, n in self._targets if t != name or (numbers is not None and n not in numbers)]

    def stop(self) -> None:
        self._ending.set()
        self._thread.join(10)
        self._producer.flush(5)

    def _run(self) -> None:
        from confluent_kafka import KafkaException

        count = 0
        while not self._ending.wait(self._pause_s):
            topic, partition = self._targets[count % len(self._targets)]
            # A full buffer means the broker is away for a while: keep what fits and go on. It does not know a partition
            # that was added until it looks again.
            with contextlib.suppress(BufferError, KafkaException):
                self._producer.produce(topic, key=f"{count}", value=f"{topic} {count}", partition=partition)
            self._producer.poll(0)
            count += 1


def create_topics(bootstrap: str, partitions: dict[str, int], replicas: int = 1) -> None:
    from confluent_kafka.admin import AdminClient
    from confluent_kafka.cimpl import NewTopic

    admin = AdminClient({"bootstrap.servers": bootstrap})
    topics = [NewTopic(name, count, replicas) for name, count in partitions.items()]
    for future in admin.create_topics(topics).values():
        future.result(30)
    wait_until(
        "the new topics have leaders",
        lambda: all(
            len(topic.partitions) == partitions[name] and all(part.leader >= 0 for part in topic.partitions.values())
            for name in partitions
            if (topic := admin.list_topics(name, timeout=5).topics[name])
        ),
        timeout_s=30,
    )


def add_partitions(bootstrap: str, topic: str, total: int) -> None:
    from confluent_kafka.admin import AdminClient
    from confluent_kafka.cimpl import NewPartitions

    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.create_partitions([NewPartitions(topic, total)]).values():
        future.result(30)


def delete_topic(bootstrap: str, name: str) -> None:
    from confluent_kafka.admin import AdminClient

    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.delete_topics([name])[name].result(30)


def coordinator_of(bootstrap: str, group: str) -> int:
    """The broker that coordinates the group now."""
    from confluent_kafka.admin import AdminClient

    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    return int(admin.describe_consumer_groups([group], request_timeout=20)[group].result(30).coordinator.id)


def delete_group(bootstrap: str, group: str) -> None:
    from confluent_kafka.admin import AdminClient

    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.delete_consumer_groups([group], request_timeout=20)[group].result(30)


def prefer_first_replicas(bootstrap: str, topic: str) -> None:
    """Elect the preferred leader of every partition."""
    from confluent_kafka import ElectionType, TopicPartition
    from confluent_kafka.admin import AdminClient

    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    numbers = admin.list_topics(topic, timeout=10).topics[topic].partitions
    admin.elect_leaders(ElectionType.PREFERRED, [TopicPartition(topic, n) for n in numbers]).result(30)


def put_connector(worker_url: str, name: str, *, tasks: int, topic: str, **options: str | int) -> None:
    """Create or change a TruthSourceConnector through a worker's REST interface."""
    config = {
        "name": name,
        "connector.class": "TruthSourceConnector",
        "tasks.max": str(tasks),
        "topic": topic,
        # Made up, so that redaction has something to find.
        "password": "made-up-secret",
    } | {option.replace("_", "."): str(value) for option, value in options.items()}
    request = urllib.request.Request(
        f"{worker_url}connectors/{name}/config",
        data=json.dumps(config).encode(),
        method="PUT",
        headers={"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=60):
        pass


# Reading the truth


def write_event(file: Path, client: str, event: str, at_ms: int) -> None:
    """A truth line of what only the driver can know, such as a SIGKILL."""
    with file.open("a") as lines:
        lines.write(json.dumps({"at_ms": at_ms, "client": client, "event": event}) + "\n")


def read_events(folder: Path) -> list[Event]:
    """Every client's lines in the order of their clocks, those that are off put right; lines of one millisecond keep
    their client's order."""
    events = [
        event | {"at_ms": event["at_ms"] - offset_ms} if offset_ms else event
        for file in sorted(folder.glob("*.jsonl"))
        for offset_ms in [_clock_offset_ms(file)]
        for line in _whole_lines(file)
        for event in [json.loads(line)]
    ]
    return sorted(events, key=lambda event: event["at_ms"])


def _clock_offset_ms(file: Path) -> int:
    clock = file.with_suffix(CLOCK_SUFFIX)
    return int(clock.read_text()) if clock.exists() else 0


def _whole_lines(file: Path) -> Iterable[str]:
    # A line may be half written at this moment.
    return file.read_text().rpartition("\n")[0].splitlines()


GAINS = {"assigned_end", "task_start_end", "connector_start"}
LOSSES = {"revoked_end", "lost_end", "task_stop_begin", "connector_stop"}
ENDS = {"started", "closed", "killed", "frozen", "worker_stopped", "worker_started"}


def holdings(events: Iterable[Event]) -> dict[str, set[str]]:
    """Holdings of each living client or worker after these events; one that ended or began again holds nothing."""
    held: dict[str, set[str]] = {}
    for event in events:
        client, kind = event["client"], event["event"]
        resources = set(event.get("partitions") or event.get("tasks") or event.get("connectors") or ())
        if kind in ENDS:
            held.pop(client, None)
        elif kind in GAINS:
            held.setdefault(client, set()).update(resources)
        elif kind in LOSSES:
            held.setdefault(client, set()).difference_update(resources)
    return held
