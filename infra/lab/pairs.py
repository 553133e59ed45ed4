"""The same events on real clusters under setting A and under setting B: the proof of `whatif`.

    python -m infra.lab.pairs STORY.SETTING.LIBRARY.RUN... --kafka 4.3.0 --output DIR

A story is a timetable: what is done to which member, in seconds after the group's first start. A setting changes how
the members or the brokers are set up, or, where it is one of a deploy, the timetable of restarts; nothing else. Each
word is one group, and its id. All groups of a call live on one broker at a time, each with members of its own, and
begin one a while after another, so that their heartbeats fall differently.
"""

from __future__ import annotations

import argparse
import signal
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from .capture import write_capture
from .clients import java_settings, kip848_settings, plain_settings
from .cluster import Cluster
from .configs import Settings
from .driver import Driver
from .jars import DEFAULT_VERSION
from .processes import LabError, unwind_once
from .run_folder import remove_run_folder
from .shape import ClusterShape

TOPIC = "pairs"
PARTITIONS = 6
QUIET_AFTER_S = 12.0
"""Two commits of every member, so that the last pauses have bounds."""
APART_S = 0.7
"""Between the beginnings of two groups: no multiple of it below a minute is one of a heartbeat's interval."""
FIRST_GROUP = "first"
FIRST = "range"
"""The setting that every story is first played under."""

Step = tuple[float, str, str]
"""(seconds after the first step, what is done, to whom)."""


STARTS: Sequence[Step] = ((0, "start", "d1"), (8.4, "start", "d2"), (16.9, "start", "d3"))
"""Odd seconds: steps on full ones would fall on heartbeats."""
FOURTH: Step = (25.3, "start", "d4")
"""Under a setting with a member more."""


GAP_S, RESTART_S = 11.3, 5.2


def deploy(
    *, gap_s: float = GAP_S, restart_s: float = RESTART_S, at_once: bool = False, members: int = 3
) -> Sequence[Step]:
    """Three members start, and are closed and started again; `gap_s`: from the start of a process to the next close."""
    steps: list[Step] = [*STARTS, FOURTH][:members]
    closed_s = 27.7
    for name in ("d1", "d2", "d3", "d4")[:members]:
        steps += [(closed_s, "close", name), (closed_s + restart_s, "start", name)]
        closed_s += 0 if at_once else restart_s + gap_s
    return sorted(steps, key=lambda step: step[0])


STORIES: Mapping[str, Sequence[Step]] = {
    "deploy": deploy(),
    "deaths": (
        *STARTS, (28.3, "kill", "d2"), (33.6, "start", "d2"), (56.1, "kill", "d3"), (86, "rest", ""),
    ),
    "stalls": (
        *STARTS, (28.6, "stall 14000", "d2"), (54.8, "stall 10000", "d3"), (71, "rest", ""),
    ),
    "slow": (
        *STARTS, (25.3, "delay 21", "d2"), (64, "delay 50", "d2"), (77, "delay 0", "d2"), (103, "rest", ""),
    ),
}  # fmt: skip
OF_CONNECT: Mapping[str, Sequence[Step]] = {
    "bounce": ((3.3, "stop", "3"), (8.5, "start", "3"), (28, "rest", "")),
    "loss": ((3.3, "kill", "3"), (40, "rest", "")),
}
"""Stories of three workers with three connectors of two tasks each, from when all of that runs. Each worker has a third
of it, whatever their ports are, and the third worker does not lead."""
WORKERS = 3
CONNECTORS = ("alpha", "beta", "gamma")
TASKS = 2
FOUR_IN_DEATHS: Sequence[Step] = sorted((*STORIES["deaths"], FOURTH), key=lambda step: step[0])
OF_STORIES: Mapping[str, Mapping[str, str | int]] = {
    "stalls": {"max_poll_interval_ms": 6_000, "session_timeout_ms": 6_000},
    "slow": {"max_poll_interval_ms": 20_000},
}
"""Settings of a story's members under every setting that does not say otherwise. librdkafka refuses a session longer
than the poll interval."""
PER_SECOND: Mapping[str, int] = {"slow": 600}
"""Records that are produced in all; 24 where a story does not say. In `slow`, one member has more of them than it can
process, and polls as many as it may: 500 take it 10.5 s, then 25 s once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """Settings of members and brokers, or of deploys."""

    asked: tuple[str, ...]
    """The setting as `whatif --set` says it, beside the story's first setting; () for that one."""
    assignor: str = "range"
    static_names: frozenset[str] = frozenset()
    """The members with a group.instance.id."""
    group_protocol: str = "classic"
    more: Mapping[str, str | int] = field(default_factory=dict)
    initial_delay_ms: int = 0
    broker: Settings = field(default_factory=dict)
    """Brokers' properties under this setting; KIP848_BROKER has the others."""
    workers: Settings = field(default_factory=dict)
    """Properties of Connect's workers: the group is a Connect cluster then."""
    under: str = FIRST
    """The setting that the same story is compared with."""
    also_under: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Further such settings, with how this one is asked for from there."""
    steps: Mapping[str, Sequence[Step]] = field(default_factory=dict)
    """The timetable of a story that is another under this setting."""
    libraries: tuple[str, ...] = ("java", "librdkafka")

    def of(self, story: str, library: str, name: str) -> Settings:
        more: dict[str, str | int] = {"client_id": name} | dict(OF_STORIES.get(story, {})) | dict(self.more)
        if name in self.static_names:
            more["group_instance_id"] = f"{name}-instance"
        if self.group_protocol == "consumer":
            return kip848_settings(**more)
        make = java_settings if library == "java" else plain_settings
        return make(self.assignor, **more)


def _workers(protocol: str, *, delay_s: int) -> Settings:
    return {"connect.protocol": protocol, "scheduled.rebalance.max.delay.ms": delay_s * 1_000}


EVERYBODY = frozenset({"d1", "d2", "d3"})
SETTINGS: Mapping[str, Setting] = {
    FIRST: Setting(asked=()),
    "static": Setting(
        asked=("group.instance.id=auto", "session.timeout.ms=30000"), static_names=EVERYBODY,
        more={"session_timeout_ms": 30_000},
    ),
    "instance": Setting(asked=("group.instance.id=auto",), static_names=EVERYBODY),
    "one-static": Setting(asked=("group.instance.id=d2",), static_names=frozenset({"d2"})),
    "cooperative": Setting(
        asked=("partition.assignment.strategy=cooperative-sticky",), assignor="cooperative-sticky"
    ),
    "roundrobin": Setting(asked=("partition.assignment.strategy=roundrobin",), assignor="roundrobin"),
    "sticky": Setting(asked=("partition.assignment.strategy=sticky",), assignor="sticky", libraries=("java",)),
    "session": Setting(asked=("session.timeout.ms=20000",), more={"session_timeout_ms": 20_000}),
    "short": Setting(asked=("session.timeout.ms=6000",), more={"session_timeout_ms": 6_000}),
    "heartbeat": Setting(asked=("heartbeat.interval.ms=1000",), more={"heartbeat_interval_ms": 1_000}),
    "interval": Setting(asked=("max.poll.interval.ms=30000",), more={"max_poll_interval_ms": 30_000}),
    "fewer": Setting(asked=("max.poll.records=100",), more={"max_poll_records": 100}, libraries=("java",)),
    "stay": Setting(
        asked=("internal.leave.group.on.close=false",), more={"internal_leave_group_on_close": "false"},
        libraries=("java",),
    ),
    "delay": Setting(asked=("group.initial.rebalance.delay.ms=3000",), initial_delay_ms=3_000),
    "consumer": Setting(
        asked=(
            "group.protocol=consumer", "group.consumer.session.timeout.ms=10000",
            "group.consumer.heartbeat.interval.ms=2000",
        ),
        group_protocol="consumer",
    ),
    "consumer-beat": Setting(
        asked=("group.consumer.heartbeat.interval.ms=1000",), under="consumer", group_protocol="consumer",
        broker={"group.consumer.heartbeat.interval.ms": 1_000},
    ),
    "consumer-session": Setting(
        asked=("group.consumer.session.timeout.ms=20000",), under="consumer", group_protocol="consumer",
        broker={"group.consumer.session.timeout.ms": 20_000},
    ),
    "consumer-short": Setting(
        asked=("group.consumer.session.timeout.ms=6000",), under="consumer", group_protocol="consumer",
        broker={"group.consumer.session.timeout.ms": 6_000},
    ),
    "workers": Setting(
        asked=(), libraries=("connect",), workers=_workers("sessioned", delay_s=20),
        also_under={
            "eager": ("connect.protocol=sessioned", "scheduled.rebalance.max.delay.ms=20000"),
            "compatible": ("connect.protocol=sessioned",),
            "delay-5": ("scheduled.rebalance.max.delay.ms=20000",),
        },
    ),
    "eager": Setting(
        asked=("connect.protocol=eager",), under="workers", libraries=("connect",),
        workers=_workers("eager", delay_s=20),
    ),
    "compatible": Setting(
        asked=("connect.protocol=compatible",), under="workers", libraries=("connect",),
        workers=_workers("compatible", delay_s=20),
    ),
    "delay-5": Setting(
        asked=("scheduled.rebalance.max.delay.ms=5000",), under="workers", libraries=("connect",),
        workers=_workers("sessioned", delay_s=5),
    ),
    "at-once": Setting(asked=("deploy.order=all-at-once",), steps={"deploy": deploy(at_once=True)}),
    "at-once-delay": Setting(  # no pair: it shows what coordinators do with a group that was emptied
        asked=(), initial_delay_ms=3_000, steps={"deploy": deploy(at_once=True)}
    ),
    "quick": Setting(asked=("deploy.restart=2s",), steps={"deploy": deploy(restart_s=2)}),
    "four": Setting(asked=("members=4",), steps={"deploy": deploy(members=4), "deaths": FOUR_IN_DEATHS}),
    "two": Setting(asked=("members=2",), steps={"deploy": deploy(members=2)}),
    "dense": Setting(asked=("deploy.gap=4s",), steps={"deploy": deploy(gap_s=4)}),
}  # fmt: skip
KIP848_BROKER: Settings = {
    "group.consumer.session.timeout.ms": 10_000, "group.consumer.min.session.timeout.ms": 6_000,
    "group.consumer.heartbeat.interval.ms": 2_000, "group.consumer.min.heartbeat.interval.ms": 1_000,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class PairGroup:
    """One group of one run; `group_id` is its word on the command line."""

    story: str
    setting: str
    library: str
    run: int

    @property
    def group_id(self) -> str:
        return f"{self.story}.{self.setting}.{self.library}.{self.run}"

    @property
    def steps(self) -> Sequence[Step]:
        stories = OF_CONNECT if self.is_connect else STORIES
        return SETTINGS[self.setting].steps.get(self.story, stories[self.story])

    @property
    def is_connect(self) -> bool:
        return bool(SETTINGS[self.setting].workers)


def pair_group(word: str) -> PairGroup | None:
    """None where the word names no group of a pair."""
    parts = word.split(".")
    if len(parts) != 4 or not parts[3].isdigit():
        return None
    story, setting, library, run = parts
    if setting not in SETTINGS or library not in SETTINGS[setting].libraries:
        return None
    group = PairGroup(story, setting, library, int(run))
    return group if story in (OF_CONNECT if group.is_connect else STORIES) else None


def run(groups: Sequence[PairGroup], *, version: str, output: Path) -> None:
    """LabError where a group did not go as its timetable says: such a capture proves nothing. A Connect cluster has a
    broker, and a call, of its own."""
    setting, *others = (SETTINGS[group.setting] for group in groups)
    if any((other.initial_delay_ms, other.broker) != (setting.initial_delay_ms, setting.broker) for other in others):
        raise LabError("These groups need brokers that are set up differently; play them in calls of their own.")
    broker: Settings = {"group.initial.rebalance.delay.ms": setting.initial_delay_ms, **setting.broker}
    if not groups[0].is_connect and not version.startswith(("2.", "3.")):
        broker = {**KIP848_BROKER, **broker}
    shape = ClusterShape(broker_properties=broker)
    if groups[0].is_connect:
        shape = replace(
            shape, connect_workers=WORKERS, connect_group=groups[0].group_id, worker_properties=setting.workers
        )
    words = " ".join(group.group_id for group in groups)
    with Cluster(shape, version=version) as cluster:
        driver = Driver(cluster, print)
        try:
            if groups[0].is_connect:
                _play_connect(driver, groups[0])
            else:
                _play_all(driver, groups)
            time.sleep(QUIET_AFTER_S)
            write_capture(
                cluster, output, scenario=driver.story("pairs", f"pairs of runs: {words}"),
                command=f"python -m infra.lab.pairs {words} --kafka {version}",
            )  # fmt: skip
        finally:
            driver.end()
    remove_run_folder(cluster.folder)


def _play_connect(driver: Driver, group: PairGroup) -> None:
    driver.connect_group()
    driver.topics(**{TOPIC: PARTITIONS})
    for connector in CONNECTORS:
        driver.connector(connector, TASKS, TOPIC)
    driver.settle_connect()
    began = time.monotonic()
    for step_s, action, worker in group.steps:
        time.sleep(max(0.0, began + step_s - time.monotonic()))
        match action:
            case "start":
                driver.worker_joins(int(worker))
            case "stop":
                driver.worker_stopped(int(worker))
            case "kill":
                driver.worker_killed(int(worker))
    driver.settle_connect()
    driver.groups[group.group_id]["rebalances"].clear()


def _play_all(driver: Driver, groups: Sequence[PairGroup]) -> None:
    driver.topics(**{TOPIC: PARTITIONS})
    driver.produce(per_second=max(PER_SECOND.get(group.story, 24) for group in groups))
    # The first group of a cluster waits up to three seconds for __consumer_offsets: its story would begin late.
    driver.group(FIRST_GROUP, group_type="classic", mode="unknown", assignor="range")
    driver.join("first", FIRST_GROUP, [TOPIC], settings=plain_settings("range"), library="librdkafka")
    driver.wait_for("first", "assigned_end")
    driver.leave("first")
    failures: list[str] = []
    threads = [
        threading.Thread(target=_play, args=(driver, group, number * APART_S, failures), daemon=True)
        for number, group in enumerate(groups)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise LabError(failures[0])


def _play(driver: Driver, group: PairGroup, after_s: float, failures: list[str]) -> None:
    setting = SETTINGS[group.setting]
    driver.group(group.group_id, group_type="classic", mode="unknown", assignor=setting.assignor)
    began = time.monotonic() + after_s
    try:
        for step_s, action, name in group.steps:
            time.sleep(max(0.0, began + step_s - time.monotonic()))
            client = f"{group.group_id}.{name}"
            match action:
                case "start":
                    settings = setting.of(group.story, group.library, name)
                    driver.join(client, group.group_id, [TOPIC], settings=settings, library=group.library)
                case "close":
                    driver.leave(client)
                case "kill":
                    driver.kill(client)
                case "rest":
                    pass
                case _:
                    driver.send(client, action)
    except (LabError, OSError) as error:
        failures.append(f"{group.group_id}: {error}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("groups", nargs="+", metavar="STORY.SETTING.LIBRARY.RUN")
    parser.add_argument("--kafka", default=DEFAULT_VERSION)
    parser.add_argument("--output", type=Path, required=True)
    given = parser.parse_args()
    asked = [pair_group(word) for word in given.groups]
    wrong = [word for word, group in zip(given.groups, asked, strict=True) if group is None]
    if wrong:
        parser.error(
            f"{wrong[0]}: give STORY.SETTING.LIBRARY.RUN with a story of {', '.join(STORIES)}, a setting of "
            f"{', '.join(SETTINGS)}, java or librdkafka, and a number."
        )
    known = [group for group in asked if group is not None]
    if any(group.is_connect for group in known) and len(known) > 1:
        parser.error("A Connect cluster has a call of its own.")
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, unwind_once)
    run(known, version=given.kafka, output=given.output)
