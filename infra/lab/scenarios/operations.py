"""What operators do below groups: brokers of another release, a disk that fills. Moments are drawn from a seed of each
scenario."""

from __future__ import annotations

from random import Random
from typing import Any

from infra.lab import configs
from infra.lab.clients import kip848_settings, plain_settings
from infra.lab.cluster import broker_name
from infra.lab.driver import Driver
from infra.lab.processes import wait_until
from infra.lab.run_folder import SMALL_HEAP
from rebalance_audit.domain.causes import Cause

from .groups import Groups
from .scenario import scenario

QUIET_S = 4.0
UPGRADED_TO = "4.1.1"


@scenario(since="3.9.1")
def upgraded_and_migrated(driver: Driver) -> None:
    """The only broker is stopped and comes back with the jars of 4.1.1, under groups of Java, librdkafka and franz-go.
    Its features are raised; then each group's members all close, and KIP-848 ones start under the group's name."""
    chance = Random("upgraded_and_migrated")
    groups = Groups(driver, {"j": "java", "r": "librdkafka", "f": "franz-go"}, partitions=6, per_second=30)
    groups.come("1", "2")
    driver.rest(chance.uniform(4, 7))
    driver.broker_upgraded(1, UPGRADED_TO)
    driver.rest(15)
    # librdkafka's members gave up meanwhile, and come as new ones.
    while driver.expect_if_written(groups.group("r"), Cause.MEMBER_JOINED, []):
        pass
    groups.expect_written(Cause.LEADER_REJOINED, or_trigger=Cause.TOPIC_METADATA_CHANGED)
    groups.settle()
    groups.come("3")
    driver.rest(chance.uniform(4, 7))
    _raise_features(driver)
    for letter in groups.libraries:
        driver.groups[groups.group(letter)]["group_type"] = "mixed"
    for number in "12":
        groups.leave(number)
        groups.settle()
    groups.leave("3", outcome="emptied")
    driver.rest(chance.uniform(2, 4))
    server: dict[str, Any] = {"mode": "server", "group_type": "consumer"}
    for number in "45":
        for letter, library in groups.libraries.items():
            settings = plain_settings("server") if library == "franz-go" else kip848_settings()
            driver.join(f"{letter}{number}", groups.group(letter), ["orders"], library=library, settings=settings)
            first: dict[str, Any] = {"number": 1} if number == "4" else {}
            driver.expect(groups.group(letter), Cause.MEMBER_JOINED, [f"{letter}{number}"], **server, **first)
        driver.rest(12)
        groups.settle()
    driver.rest(chance.uniform(4, 7))
    driver.kill_together(*groups.names("4"))
    groups.expect(Cause.MEMBER_SESSION_EXPIRED, "4", **server)
    driver.rest(50)
    groups.settle()


def _raise_features(driver: Driver) -> None:
    cluster = driver.cluster
    driver._note("raise features", f"release {UPGRADED_TO[:3]}")
    layout = configs.single_log_layout("features.log")
    main = "org.apache.kafka.tools.FeatureCommand"
    words = ["--bootstrap-server", cluster.bootstrap, "upgrade", "--release-version", UPGRADED_TO[:3]]
    command = cluster.java("features", layout, SMALL_HEAP, main, *words)
    cluster.run([word.replace(":libs/*", f":libs-{UPGRADED_TO}/*") for word in command])


@scenario(since="3.3.2", disk_mb=48)
def disk_is_full(driver: Driver) -> None:
    """The only broker's only disk is full: it ends. Groups of Java, librdkafka, kafka-go and aiokafka wait; space is
    made, and the broker starts again. A member that was killed meanwhile is missed."""
    chance = Random("disk_is_full")
    libraries = {"j": "java", "r": "librdkafka", "g": "kafka-go", "a": "aiokafka"}
    groups = Groups(driver, libraries, partitions=5, per_second=30)
    groups.come("1", "2", "3", session_timeout_ms=12_000)
    driver.rest(chance.uniform(4, 7))
    filler = driver.cluster.folder / "data" / broker_name(1) / "filler"
    driver._note("fill disk", broker_name(1))
    with filler.open("wb", buffering=0) as file:
        for size in (1 << 20, 1 << 12):
            try:
                while file.write(b"\0" * size) == size:
                    pass
            except OSError:
                pass
    process = driver.cluster._nodes[broker_name(1)]
    wait_until("the broker has ended", lambda: not process.is_running(), timeout_s=120)
    driver._note("ended", broker_name(1))
    driver.rest(chance.uniform(6, 9))
    driver.kill_together(*groups.names("2"))
    driver.rest(chance.uniform(3, 5))
    filler.unlink()
    driver._note("make space", broker_name(1))
    driver.broker_returns(1)
    # Java's leader believes that its topics changed; librdkafka's and kafka-go's members gave up, and come as new ones.
    first = {"j": Cause.TOPIC_METADATA_CHANGED, "r": Cause.MEMBER_JOINED, "g": Cause.MEMBER_JOINED}
    for letter in libraries:
        trigger = first.get(letter, Cause.MEMBER_SESSION_EXPIRED)
        driver.expect(groups.group(letter), trigger, [], or_trigger=Cause.MEMBER_SESSION_EXPIRED)
    driver.rest(25)
    groups.expect_written(Cause.MEMBER_SESSION_EXPIRED, "2", or_trigger=Cause.LEADER_REJOINED)
    groups.settle()
    driver.rest(chance.uniform(4, 7))
    groups.leave("3")
    groups.settle()
