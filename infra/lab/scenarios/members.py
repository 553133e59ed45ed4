"""The members of a consumer group, and what they do in most stories: come, leave, die and go on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from infra.lab.clients import kip848_settings, streams_settings
from infra.lab.configs import Settings, version_key
from infra.lab.driver import Driver
from infra.lab.orders.settling import QUIET_S
from rebalance_audit.domain.causes import Cause


class Members:
    """One consumer group and its topics, declared and produced to when this is made.

    A step named after an act (`join`, `leave`, `kill`, `thaw`) also expects the rebalance that the act must cause, and
    waits until the group has settled. Anything else is said to the driver, and then `expect` and `settle` follow.
    """

    def __init__(
        self,
        driver: Driver,
        group: str,
        topics: Mapping[str, int],
        *,
        group_type: str = "classic",
        mode: str = "eager",
        assignor: str = "range",
        first_number: int = 1,
        subscribed: str | None = None,
        library: str = "java",
        per_second: int = 24,
        quiet_s: float = QUIET_S,
    ) -> None:
        """`topics`: by name, their partitions. `subscribed`: what members subscribe to, where it is a pattern or not
        all topics. `library`: of every member for which a step names no other one."""
        self.driver, self.group = driver, group
        self._subscribed = [subscribed] if subscribed is not None else list(topics)
        self._library = library
        self._quiet_s = quiet_s
        driver.topics(**topics)
        driver.produce(per_second=per_second)
        driver.group(group, group_type=group_type, mode=mode, assignor=assignor, first_number=first_number)

    def start(self, name: str, *, is_static: bool = False, **options: Any) -> None:
        """Start one, and expect nothing yet. `is_static`: under an instance id of its own."""
        if is_static:
            options["group_instance_id"] = f"{name}-instance"
        options.setdefault("library", self._library)
        self.driver.join(name, self.group, self._subscribed, **options)

    def join(self, *names: str, is_static: bool = False, **options: Any) -> None:
        """One after another."""
        for name in names:
            self.start(name, is_static=is_static, **options)
            self.expect(Cause.MEMBER_JOINED, [name])
            self.settle()

    def leave(self, name: str, **facts: Any) -> None:
        self.driver.leave(name)
        self.expect(Cause.MEMBER_LEFT, [name], **facts)
        self.settle()

    def leave_last(self, name: str) -> None:
        """The group is empty now."""
        self.driver.leave(name)
        self.expect(Cause.MEMBER_LEFT, [name], outcome="emptied")

    def kill(self, name: str) -> None:
        self.driver.kill(name)
        self.expect(Cause.MEMBER_SESSION_EXPIRED, [name])
        self.settle()

    def thaw(self, name: str) -> None:
        """It was put out while it was frozen."""
        self.driver.thaw(name)
        self.expect(Cause.MEMBER_JOINED, [name])
        self.settle()

    def expect(self, trigger: str, by: list[str], **facts: Any) -> None:
        self.driver.expect(self.group, trigger, by, **facts)

    def expect_if_seen(self, trigger: str, by: list[str], **facts: Any) -> bool:
        return self.driver.expect_if_seen(self.group, trigger, by, **facts)

    def settle(self) -> None:
        self.driver.settle(self.group, quiet_s=self._quiet_s)


class Kip848Members(Members):
    """Members of a KIP-848 group. The options of a step are settings of a Java consumer, unless it gives `settings`."""

    def __init__(self, driver: Driver, group: str, topics: Mapping[str, int], **more: Any) -> None:
        # Groups start at epoch 1 inside a 4.3 broker, so the first rebalance there is number 2.
        first = 2 if version_key(driver.cluster.version) >= (4, 3) else 1
        super().__init__(
            driver, group, topics, group_type="consumer", mode="server", assignor="uniform", first_number=first, **more
        )

    def start(
        self,
        name: str,
        *,
        is_static: bool = False,
        library: str = "java",
        settings: Settings | None = None,
        **options: Any,
    ) -> None:
        if is_static:
            options["group_instance_id"] = f"{name}-instance"
        if settings is None:
            settings = kip848_settings(**options)
        super().start(name, library=library, settings=settings)


class StreamsMembers(Members):
    """Instances of a stateless Streams application (classic protocol) that read one topic, each with a state directory
    of its own."""

    def __init__(self, driver: Driver, group: str, *, partitions: int, per_second: int) -> None:
        super().__init__(
            driver, group, {"flow": partitions}, mode="cooperative", assignor="stream", library="streams",
            per_second=per_second, quiet_s=4.0,
        )  # fmt: skip

    def come(self, name: str) -> None:
        self.start(name, settings=streams_settings(state_dir=f"data/{name}"))
        self.expect(Cause.MEMBER_JOINED, [name])
        self.driver.rest(9)
        self.follow()

    def expires(self, name: str, rest_s: float) -> None:
        """Its session ends: it was killed or frozen, or closed, which Streams does without leaving."""
        self.expect(Cause.MEMBER_SESSION_EXPIRED, [name])
        self.driver.rest(rest_s)
        self.follow()

    def follow(self) -> None:
        """Wait until they have settled; how many rounds follow the first one is theirs."""
        self.settle()
        while self.expect_if_seen(Cause.STREAMS_FOLLOW_UP, [], or_trigger=Cause.COOPERATIVE_FOLLOW_UP):
            pass
