"""The admin client of the lab's stories about reassignments: it asks Kafka for them, and for what became of them."""

from __future__ import annotations

import json
import time
from typing import Any

from . import configs
from .clients import read_events
from .configs import Settings
from .driver import Driver
from .processes import Process, now_ms, wait_until
from .run_folder import SMALL_HEAP
from .written import written_states

BATCH_BYTES = 50_000


class Mover:
    """The admin client that asks for reassignments and polls, and the list of what must be found."""

    def __init__(self, driver: Driver) -> None:
        self.driver, self.cluster = driver, driver.cluster
        self.is_kraft = not self.cluster.uses_zookeeper
        settings: Settings = {
            "bootstrap.servers": self.cluster.bootstrap,
            "client.id": "admin",
            "default.api.timeout.ms": 30_000,
        }
        (self.cluster.folder / "etc/admin.properties").write_text(configs.render_properties(settings))
        layout = configs.single_log_layout("admin.log")
        command = self.cluster.java(
            "admin", layout, SMALL_HEAP, "TruthReassigner", "etc/admin.properties", "truth/admin.jsonl"
        )
        output = self.cluster.folder / "output/admin.txt"
        self._process = Process("admin", command, folder=self.cluster.folder, output=output)
        self._count = 0

    def __enter__(self) -> Mover:
        self._process.start(self.cluster.environment())
        wait_until("the admin client runs", lambda: any(e["event"] == "started" for e in self.events()), timeout_s=60)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._process.stop()
        if kind is None:
            self._write("written", *written_states(self.cluster))

    def events(self) -> list[dict[str, Any]]:
        return [event for event in read_events(self.cluster.folder / "truth") if event.get("client") == "admin"]

    def ask(self, command: str, *, must_succeed: bool = True) -> None:
        """Returns when Kafka has answered."""
        self._count += 1
        self.driver._note(command, "admin")
        self._process.send(command)

        def answers() -> list[dict[str, Any]]:
            return [event for event in self.events() if event["event"] in ("done", "failed")]

        wait_until(f"Kafka answers to {command!r}", lambda: len(answers()) >= self._count, timeout_s=90)
        last = answers()[-1]
        if must_succeed and last["event"] == "failed":
            raise RuntimeError(f"{command!r} failed: {last['error']}")

    def ask_by_znode(self, **moves: str) -> None:
        """Ask as kafka-reassign-partitions did up to 2.5: write the plan into ZooKeeper. Names are like orders_0."""
        plan = [
            {"topic": topic, "partition": int(number), "replicas": _ids(replicas)}
            for (topic, _, number), replicas in ((name.rpartition("_"), moves[name]) for name in moves)
        ]
        (self.cluster.folder / "plan.json").write_text(json.dumps({"version": 1, "partitions": plan}))
        tool = ["kafka.admin.ReassignPartitionsCommand", "--reassignment-json-file", "plan.json", "--execute"]
        command = self.cluster.java("tool", configs.single_log_layout("tool.log"), SMALL_HEAP, *tool)
        self.driver._note("execute by znode", json.dumps(moves))
        self.cluster.run([*command, "--zookeeper", self.cluster.zookeeper])

    def create(self, topic: str, *replicas: str) -> None:
        self.ask(f"create {topic} {' '.join(replicas)}")
        self.driver._partitions[topic] = len(replicas)
        wait_until(f"{topic} is seen", lambda: (f"{topic}-0") in self.states(), timeout_s=60)

    def states(self) -> dict[str, dict[str, Any]]:
        """Last polled state of each partition."""
        found: dict[str, dict[str, Any]] = {}
        for event in self.events():
            if event["event"] == "state":
                found[event["tp"]] = event
            elif event["event"] == "gone":
                found.pop(event["tp"], None)
        return found

    def fill(self, topic: str, megabytes: float) -> None:
        """Produce so many megabytes into every partition of the topic, so that copying it takes time."""
        from confluent_kafka import Producer

        producer = Producer({"bootstrap.servers": self.cluster.bootstrap, "linger.ms": 20})
        payload = b"x" * BATCH_BYTES
        for _ in range(int(megabytes * 1_000_000 / BATCH_BYTES)):
            for partition in range(self.driver._partitions[topic]):
                producer.produce(topic, payload, partition=partition)
                producer.poll(0)
        producer.flush(60)

    def throttle(self, topic: str, rate: int, brokers: range = range(1, 6)) -> None:
        """Throttle as the tool does it: a list on the topic, a rate on every broker."""
        for side in ("leader", "follower"):
            self.ask(f"set topic {topic} {side}.replication.throttled.replicas *")
        self.rate(rate, brokers)

    def rate(self, rate: int, brokers: range = range(1, 6)) -> None:
        for broker in brokers:
            for side in ("leader", "follower"):
                self.ask(f"set broker {broker} {side}.replication.throttled.rate {rate}")

    def settle(self, *partitions: str, timeout_s: float = 120) -> None:
        """Until nothing is being added or removed any more, as polled."""

        def is_settled() -> bool:
            states = self.states()
            return all(not states[tp]["adding"] and not states[tp]["removing"] for tp in partitions if tp in states)

        time.sleep(0.5)  # the poll behind the request
        wait_until(f"{', '.join(partitions)} moved", is_settled, timeout_s=timeout_s)
        time.sleep(0.5)

    def expect(self, tp: str, original: str, target: str, outcome: str, **more: Any) -> None:
        """The next attempt of this partition. Written down with the truth."""
        row = {
            "at_ms": now_ms(), "client": "scenario", "event": "expected_reassignment", "tp": tp,
            "original": _ids(original), "target": _ids(target), "outcome": outcome, **more,
        }  # fmt: skip
        self._write("expected", row)

    def _write(self, name: str, *rows: dict[str, Any]) -> None:
        with (self.cluster.folder / f"truth/{name}.jsonl").open("a") as lines:
            lines.writelines(json.dumps(row) + "\n" for row in rows)


def _ids(text: str) -> list[int]:
    return [int(word) for word in text.split(",")]
