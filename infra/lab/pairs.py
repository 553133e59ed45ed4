"""The same happenings on real clusters under setting A and under setting B: the proof of `whatif`.

    python -m infra.lab.pairs STORY SETTING --kafka 4.3.0 --output DIR

A story is a timetable: what is done to which member, in seconds after the first start. The settings change nothing of
it; what the group makes of it is what is measured.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from .capture import write_capture
from .clients import java_settings, kip848_settings
from .cluster import Cluster, remove_run_folder
from .configs import Settings
from .driver import Driver
from .jars import DEFAULT_VERSION

GROUP = "pair-app"
TOPIC = "pairs"
PARTITIONS = 6
QUIET_AFTER_S = 12.0
"""Two commits of every member, so that the last pauses have bounds."""

Step = tuple[float, str, str]
"""(seconds after the first step, what is done, to whom)."""

STORIES: Mapping[str, Sequence[Step]] = {
    "deploy": (
        (0, "start", "d1"), (8, "start", "d2"), (16, "start", "d3"),
        (26, "close", "d1"), (31, "start", "d1"),
        (42, "close", "d2"), (47, "start", "d2"),
        (58, "close", "d3"), (63, "start", "d3"),
    ),
    "deaths": (
        (0, "start", "d1"), (8, "start", "d2"), (16, "start", "d3"),
        (27, "kill", "d2"), (32, "start", "d2"),
        (55, "kill", "d3"),
    ),
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """Settings of members and brokers."""

    asked: tuple[str, ...]
    """The setting as `whatif --set` says it, beside the story's first setting; () for that one."""
    assignor: str = "range"
    is_static: bool = False
    group_protocol: str = "classic"
    more: Mapping[str, str | int] = field(default_factory=dict)
    broker_properties: Settings = field(default_factory=dict)

    def of(self, name: str) -> Settings:
        more = dict(self.more) | ({"group_instance_id": f"{name}-instance"} if self.is_static else {})
        if self.group_protocol == "consumer":
            return kip848_settings(**more)
        return java_settings(self.assignor, **more)


SETTINGS: Mapping[str, Setting] = {
    "range": Setting(asked=()),
    "static": Setting(
        asked=("group.instance.id=auto", "session.timeout.ms=30000"), is_static=True,
        more={"session_timeout_ms": 30_000},
    ),
    "cooperative": Setting(
        asked=("partition.assignment.strategy=cooperative-sticky",), assignor="cooperative-sticky"
    ),
    "session": Setting(asked=("session.timeout.ms=20000",), more={"session_timeout_ms": 20_000}),
    "heartbeat": Setting(asked=("heartbeat.interval.ms=1000",), more={"heartbeat_interval_ms": 1_000}),
    "consumer": Setting(
        asked=(
            "group.protocol=consumer", "group.consumer.session.timeout.ms=10000",
            "group.consumer.heartbeat.interval.ms=2000",
        ),
        group_protocol="consumer",
        broker_properties={
            "group.consumer.session.timeout.ms": 10_000, "group.consumer.min.session.timeout.ms": 6_000,
            "group.consumer.heartbeat.interval.ms": 2_000, "group.consumer.min.heartbeat.interval.ms": 1_000,
        },
    ),
}  # fmt: skip


def run(story: str, setting: str, *, version: str, output: Path) -> None:
    chosen = SETTINGS[setting]
    cluster = Cluster(version=version, broker_properties=chosen.broker_properties)
    with cluster:
        driver = Driver(cluster, print)
        try:
            driver.topics(**{TOPIC: PARTITIONS})
            driver.produce()
            driver.group(GROUP, group_type="classic", mode="unknown", assignor=chosen.assignor)
            began = time.monotonic()
            for after_s, action, name in STORIES[story]:
                time.sleep(max(0.0, began + after_s - time.monotonic()))
                match action:
                    case "start":
                        driver.join(name, GROUP, [TOPIC], settings=chosen.of(name))
                    case "close":
                        driver.leave(name)
                    case _:
                        driver.kill(name)
            longest_s = 30.0 if setting in ("static", "session") else 15.0
            time.sleep(QUIET_AFTER_S + (longest_s if story == "deaths" else 0.0))
            write_capture(
                cluster, output, scenario=driver.story(story, f"{story} under {setting}"),
                command=f"python -m infra.lab.pairs {story} {setting} --kafka {version}",
            )  # fmt: skip
        finally:
            driver.end()
    remove_run_folder(cluster.folder)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("story", choices=STORIES)
    parser.add_argument("setting", choices=SETTINGS)
    parser.add_argument("--kafka", default=DEFAULT_VERSION)
    parser.add_argument("--output", type=Path, required=True)
    given = parser.parse_args()
    run(given.story, given.setting, version=given.kafka, output=given.output)
