"""Shifts: groups on one cluster that do not know of each other. Each has a story of its own, and all go on at the same
time, at moments drawn from a seed of each scenario."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random
from threading import Lock, Thread
from typing import Any

from infra.lab.clients import kip848_settings, plain_settings
from infra.lab.configs import version_key
from infra.lab.driver import Driver
from rebalance_audit.domain.causes import Cause

from .libraries import EAGER
from .scenario import KIP848_BROKER, scenario

QUIET_S = 4.0
LOOKS_FOR_PARTITIONS = {
    "java": "metadata_max_age_ms",
    "librdkafka": "topic_metadata_refresh_interval_ms",
    "franz-go": "metadata_max_age_ms",
    "kafka-python": "metadata_max_age_ms",
    "aiokafka": "metadata_max_age_ms",
}
IN_TIME_MS, SLOW_MS = 4000, 15_000
SLOW: dict[str, Any] = {"max_poll_interval_ms": 7000, "session_timeout_ms": 6500, "heartbeat_interval_ms": 2000}
"""Of members whose handlers are slow later."""


class Crew:
    """One group on a topic of its own. Each word of a story is an act and whom it is done to: `kill 2`."""

    def __init__(
        self,
        driver: Driver,
        name: str,
        library: str | Mapping[str, str],
        acts: str,
        *,
        partitions: int,
        assignor: str | None = None,
        is_kip848: bool = False,
        is_static: bool = False,
        group: str | None = None,
        **own: Any,
    ) -> None:
        """`library`: of all members, or by number. `acts`: separated by commas. `own`: options of all members."""
        self.driver, self.name, self.group = driver, name, group or f"{name}-app"
        self.topic, self.partitions = f"{name}.in", partitions
        self._library, self._acts = library, [act.split() for act in acts.split(",")]
        self._is_kip848, self._is_static, self._own = is_kip848, is_static, own
        first = library if isinstance(library, str) else next(iter(library.values()))
        self._assignor = assignor or ("uniform" if is_kip848 else EAGER.get(first, "range"))
        self.mode = "cooperative" if self._assignor == "cooperative-sticky" else "eager"
        self.fault: BaseException | None = None

    def declare(self) -> None:
        if self._is_kip848:
            first = 2 if version_key(self.driver.cluster.version) >= (4, 3) else 1
            self.driver.group(
                self.group, group_type="consumer", mode="server", assignor=self._assignor, first_number=first
            )
        else:
            self.driver.group(self.group, group_type="classic", mode=self.mode, assignor=self._assignor)

    def run(self, chance: Random, lock: Lock) -> None:
        self._chance, self._lock = chance, lock
        try:
            for verb, *numbers in self._acts:
                acts: dict[str, Callable[..., None]] = {
                    "come": self.come, "together": self.together, "leave": self.leave, "kill": self.kill,
                    "crash": self.crash, "freeze": self.freeze, "nap": self.nap, "slow": self.slow, "busy": self.busy,
                    "swap": self.swap, "grow": self.grow, "hush": self.hush, "loud": self.loud, "empty": self.empty,
                    "pause": self.pause, "vanish": self.vanish,
                }  # fmt: skip
                acts[verb](*numbers)
                self.driver.rest(chance.uniform(2, 6))
        except BaseException as error:
            self.fault = error

    # Acts

    def come(self, *numbers: str) -> None:
        """One after another."""
        for number in numbers:
            self._start(number)
            self.expect(Cause.MEMBER_JOINED, number)
            self._settle()

    def together(self, *numbers: str) -> None:
        """At the same moment."""
        for number in numbers:
            self._start(number)
        self.driver.rest(9)
        self._written(Cause.MEMBER_JOINED, *numbers)
        self._settle()

    def leave(self, number: str) -> None:
        self.driver.leave(self._of(number))
        if self._is_static:
            self.expect(Cause.STATIC_MEMBER_EXPIRED, number)
            self.driver.rest(12)
        else:
            self.expect(Cause.MEMBER_LEFT, number)
        self._settle()

    def empty(self, number: str) -> None:
        """The last one closes."""
        self.driver.leave(self._of(number))
        self.expect(Cause.MEMBER_LEFT, number, outcome="emptied")
        self.driver.rest(3)

    def kill(self, *numbers: str) -> None:
        """For good, several at once."""
        self.driver.rest(self._chance.uniform(0, 3))
        self.driver.kill_together(*map(self._of, numbers))
        cause = Cause.STATIC_MEMBER_EXPIRED if self._is_static else Cause.MEMBER_SESSION_EXPIRED
        self.driver.rest(14 if len(numbers) == 1 else 17)
        self._written(cause, *numbers)
        self._settle()

    def crash(self, number: str) -> None:
        """Killed, and back before its session ends."""
        self.driver.rest(self._chance.uniform(0, 3))
        self.driver.kill_together(self._of(number))
        self.driver.rest(self._chance.uniform(1, 3))
        self._start(number)
        if self._is_static:
            self.expect(Cause.STATIC_MEMBER_REPLACED, number, kind="static_rewrite")
            self.driver.rest(5)
        else:
            self.expect(Cause.MEMBER_JOINED, number)
            self.driver.rest(12)
        self._settle()

    def freeze(self, number: str) -> None:
        """For longer than its session; then it goes on."""
        self.driver.freeze(self._of(number))
        self.driver.rest(self._chance.uniform(14, 17))
        self._written(Cause.STATIC_MEMBER_EXPIRED if self._is_static else Cause.MEMBER_SESSION_EXPIRED, number)
        self._settle()
        self.driver.thaw(self._of(number))
        self.driver.rest(8)
        self._written(Cause.MEMBER_JOINED, number)
        self._settle()

    def vanish(self, number: str) -> None:
        """Frozen, and never heard of again, as a host without network."""
        self.driver.freeze(self._of(number))
        self.driver.rest(self._chance.uniform(13, 16))
        self._written(Cause.STATIC_MEMBER_EXPIRED if self._is_static else Cause.MEMBER_SESSION_EXPIRED, number)
        self._settle()
        self.driver.clients[self._of(number)].kill()

    def pause(self, number: str) -> None:
        """It pauses all that it holds, polls, and goes on later."""
        self.driver.pause_briefly(self._of(number), seconds=self._chance.uniform(6, 9))
        self.driver.rest(6)

    def nap(self, number: str) -> None:
        """Frozen for less than its session."""
        self.driver.freeze_briefly(self._of(number), seconds=self._chance.uniform(3.5, 5.5))
        self.driver.rest(6)

    def slow(self, number: str) -> None:
        """Its handler takes longer than max.poll.interval.ms."""
        self.driver.send(self._of(number), f"stall {SLOW_MS}")
        self.driver.rest(SLOW_MS / 1000 + 2)
        others = [name for name in self._present if name != self._of(number)]
        self.driver.expect(self.group, Cause.MEMBER_POLL_TIMEOUT, [self._of(number)], members=others)
        self.expect(Cause.MEMBER_JOINED, number)
        self._settle()

    def busy(self, number: str) -> None:
        """Its handler takes long, but less than that."""
        self.driver.send(self._of(number), f"stall {IN_TIME_MS}")
        self.driver.rest(IN_TIME_MS / 1000 + 6)

    def swap(self, old: str, new: str) -> None:
        """One closes as another starts."""
        thread = Thread(target=self.driver.leave, args=(self._of(old),))
        thread.start()
        self._start(new)
        thread.join()
        self.driver.rest(8)
        members = [*self._present, self._of(old)]
        self._written(Cause.MEMBER_LEFT, old, members=members, or_trigger=Cause.MEMBER_JOINED)
        self._settle()

    def grow(self, more: str) -> None:
        """The topic gets more partitions."""
        with self._lock:
            self.driver.more_partitions(self.topic, self.partitions + int(more))
        self.partitions += int(more)
        self.driver.rest(12)
        self._written(Cause.TOPIC_METADATA_CHANGED, or_trigger=Cause.LEADER_REJOINED)
        self._settle()

    def hush(self) -> None:
        """The topic falls silent."""
        with self._lock:
            self.driver.fall_silent_at(self.topic, *range(self.partitions))
        self.driver.rest(self._chance.uniform(8, 12))

    def loud(self) -> None:
        """It gets records again."""
        with self._lock:
            self.driver.go_on_at(self.topic, *range(self.partitions))
        self.driver.rest(6)

    # Notes

    def expect(self, trigger: str, *numbers: str, **facts: Any) -> None:
        self.driver.expect(self.group, trigger, [self._of(number) for number in numbers], **facts)

    def _written(self, trigger: str, *numbers: str, **facts: Any) -> None:
        """As many as the coordinator says: members that come or go at once make one rebalance or several."""
        by = [self._of(number) for number in numbers]
        while self.driver.expect_if_written(self.group, trigger, by, **facts):
            trigger = trigger if self.mode == "eager" else Cause.COOPERATIVE_FOLLOW_UP

    def _settle(self) -> None:
        self.driver.settle(self.group, quiet_s=QUIET_S)
        if self.mode == "cooperative":
            self._written(Cause.COOPERATIVE_FOLLOW_UP, or_trigger=Cause.LEADER_REJOINED)
        else:
            # kafka-python now and then drops the result of a join that went well, and joins again; kafka-go may, too.
            self._written(Cause.LEADER_REJOINED)

    # Members

    @property
    def _present(self) -> list[str]:
        return self.driver._present[self.group]

    def _of(self, number: str) -> str:
        return f"{self.name}{number}"

    def _libraries(self) -> set[str]:
        return {self._library} if isinstance(self._library, str) else set(self._library.values())

    def _start(self, number: str) -> None:
        library = self._library if isinstance(self._library, str) else self._library[number]
        options = dict(self._own)
        name = self._of(number)
        if any(verb == "grow" for verb, *_ in self._acts) and not self._is_kip848:
            options[LOOKS_FOR_PARTITIONS[library]] = 5000
        if any(verb == "slow" for verb, *_ in self._acts):
            options |= SLOW
        if self._is_static:
            options["group_instance_id"] = f"{name}-instance"
        if self._is_kip848:
            server = library == "franz-go"
            options = {"settings": plain_settings("server", **options) if server else kip848_settings(**options)}
        elif library == "kafkajs" and len(self._libraries()) > 1:
            options["lab_assigner_name"] = "roundrobin"
        self.driver.join(name, self.group, [self.topic], library=library, **options)


def shift(driver: Driver, seed: str, stories: Sequence[Crew], *, per_second: int = 60) -> None:
    """All stories at the same time."""
    driver.topics(**{story.topic: story.partitions for story in stories})
    driver.produce(per_second=per_second)
    lock = Lock()
    threads = []
    for story in stories:
        story.declare()
        threads.append(Thread(target=story.run, args=(Random(f"{seed} {story.name}"), lock)))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for story in stories:
        if story.fault is not None:
            raise story.fault
    driver.rest(6)


@scenario(since="2.3.1")
def shift_of_five(driver: Driver) -> None:
    """Cooperative librdkafka, franz-go, kafkajs, sarama and kafka-python in groups of two to four, each with a story of
    its own: kills, returns within and after the session, freezes, deploys, silence."""
    stories = [
        Crew(driver, "r", "librdkafka", "together 1 2 3, crash 2, kill 3, come 3, swap 1 4", partitions=7,
              assignor="cooperative-sticky"),
        Crew(driver, "f", "franz-go", "come 1, together 2 3 4, kill 2 4, hush, leave 1, loud", partitions=5),
        Crew(driver, "k", "kafkajs", "come 1 2, nap 1, freeze 2, crash 1", partitions=3),
        Crew(driver, "s", "sarama", "come 1 2 3, swap 2 4, freeze 1, leave 3", partitions=8, assignor="roundrobin"),
        Crew(driver, "p", "kafka-python", "come 1 2, leave 1, come 3, kill 2, come 1", partitions=4,
              assignor="roundrobin"),
    ]  # fmt: skip
    shift(driver, "shift_of_five", stories)


@scenario(since="2.7.2")
def shift_with_slow_handlers(driver: Driver) -> None:
    """Java, librdkafka, aiokafka, kafka-go and cooperative franz-go: handlers that take too long, and some that nearly
    do; topics that get more partitions; members that are frozen and killed."""
    stories = [
        Crew(driver, "j", "java", "come 1 2, busy 1, slow 2, leave 1, come 3", partitions=5, assignor="roundrobin"),
        Crew(driver, "r", "librdkafka", "come 1 2 3, slow 3, busy 1, kill 1", partitions=6),
        Crew(driver, "a", "aiokafka", "together 1 2, grow 3, kill 2, come 2, freeze 1", partitions=4,
              assignor="range"),
        Crew(driver, "g", "kafka-go", "come 1 2 3, crash 1, leave 2, freeze 3", partitions=7, assignor="roundrobin"),
        Crew(driver, "f", "franz-go", "come 1 2, grow 2, come 3, kill 1, leave 2", partitions=6,
              assignor="cooperative-sticky"),
    ]  # fmt: skip
    shift(driver, "shift_with_slow_handlers", stories)


@scenario(since="2.4.1")
def shift_of_static_members(driver: Driver) -> None:
    """Static members of Java, librdkafka (cooperative), sarama, franz-go and aiokafka, in groups of two and three, are
    killed and back within the session (10 s), killed for good, frozen, and closed."""
    stories = [
        Crew(driver, "j", "java", "come 1 2, crash 2, kill 1", partitions=5, is_static=True),
        Crew(driver, "r", "librdkafka", "come 1 2 3, crash 1, kill 2, come 2", partitions=7, is_static=True,
              assignor="cooperative-sticky"),
        Crew(driver, "s", "sarama", "come 1 2 3, crash 3, crash 1, leave 2", partitions=5, is_static=True),
        Crew(driver, "f", "franz-go", "come 1 2, leave 1, come 1, crash 2", partitions=6, is_static=True),
        Crew(driver, "a", "aiokafka", "come 1 2 3, crash 2, kill 3, come 3", partitions=4, is_static=True),
    ]  # fmt: skip
    shift(driver, "shift_of_static_members", stories)


@scenario(since="4.0.0", broker_properties=KIP848_BROKER)
def shift_of_both_protocols(driver: Driver) -> None:
    """KIP-848 groups of librdkafka, of franz-go and of Java beside librdkafka, a classic one of sarama beside franz-go
    and an emptied one of kafkajs, each with a story of its own."""
    stories = [
        Crew(driver, "r", "librdkafka", "come 1 2 3, kill 2, grow 3, freeze 1, leave 3", partitions=6,
              is_kip848=True),
        Crew(driver, "f", "franz-go", "come 1 2, freeze 2, come 3, hush, kill 1, loud", partitions=5,
              is_kip848=True),
        Crew(driver, "m", {"1": "java", "2": "librdkafka", "3": "java"}, "come 1 2 3, leave 1, kill 2, come 1",
              partitions=7, is_kip848=True),
        Crew(driver, "s", {"1": "sarama", "2": "franz-go", "3": "sarama", "4": "franz-go"},
              "come 1 2 3, kill 1, come 4, freeze 2", partitions=8),
        Crew(driver, "k", "kafkajs", "come 1 2, leave 2, empty 1, together 1 2, crash 2", partitions=4),
    ]  # fmt: skip
    shift(driver, "shift_of_both_protocols", stories)


@scenario(since="2.3.1")
def shift_in_silence(driver: Driver) -> None:
    """Topics of kafkajs, kafka-go, sarama, Java and cooperative franz-go fall silent; members close, come, are frozen
    and killed meanwhile, and after it."""
    stories = [
        Crew(driver, "k", "kafkajs", "come 1 2 3, hush, leave 2, kill 3, loud, come 2", partitions=7),
        Crew(driver, "g", "kafka-go", "come 1 2 3, hush, kill 1, come 1, loud, leave 3", partitions=5),
        Crew(driver, "s", "sarama", "come 1 2, hush, come 3, freeze 2, loud, kill 1", partitions=6,
              assignor="cooperative-sticky"),
        Crew(driver, "j", "java", "come 1 2, hush, nap 2, kill 1, loud, crash 2", partitions=3),
        Crew(driver, "f", "franz-go", "come 1 2 3, hush, crash 2, leave 3, loud, kill 1", partitions=6,
              assignor="cooperative-sticky"),
    ]  # fmt: skip
    shift(driver, "shift_in_silence", stories)


@scenario(since="2.7.2")
def shift_of_many(driver: Driver) -> None:
    """A group of six libraries, one of eight librdkafka members and one of four kafka-python members: they come at
    once, are replaced one by one, and three of the eight are killed together."""
    six = {
        "1": "franz-go", "2": "kafka-python", "3": "librdkafka", "4": "sarama", "5": "aiokafka", "6": "kafkajs",
        "7": "librdkafka",
    }  # fmt: skip
    stories = [
        Crew(driver, "m", six, "come 1 2 3 4, together 5 6, kill 1, swap 3 7, leave 4, freeze 5", partitions=13,
              assignor="roundrobin"),
        Crew(driver, "r", "librdkafka", "together 1 2 3 4 5 6 7 8, kill 2 5 7, swap 1 9, leave 3, crash 4",
              partitions=16, assignor="cooperative-sticky"),
        Crew(driver, "p", "kafka-python", "together 1 2 3 4, swap 1 5, swap 2 6, kill 3 4", partitions=9,
              assignor="cooperative-sticky"),
    ]  # fmt: skip
    shift(driver, "shift_of_many", stories, per_second=90)


@scenario(since="2.3.1")
def shift_with_short_sessions(driver: Driver) -> None:
    """sarama, aiokafka, franz-go, kafka-go and kafka-python with sessions of 6 s and rare or frequent commits: members
    are frozen for longer, killed, swapped and killed in the midst of a growth of their topic."""
    short: dict[str, Any] = {"session_timeout_ms": 6000, "heartbeat_interval_ms": 1500}
    stories = [
        Crew(driver, "s", "sarama", "come 1 2 3, kill 2, swap 1 4, freeze 3", partitions=4,
              auto_commit_interval_ms=4000, **short),
        Crew(driver, "a", "aiokafka", "together 1 2 3, kill 1, grow 2, leave 2, come 1", partitions=5,
              auto_commit_interval_ms=1000, **short),
        Crew(driver, "f", "franz-go", "come 1 2, swap 1 3, swap 2 4, freeze 4", partitions=5, assignor="sticky",
              auto_commit_interval_ms=1000, **short),
        Crew(driver, "g", "kafka-go", "together 1 2 3, kill 2 3, together 2 3, leave 1", partitions=6,
              auto_commit_interval_ms=1000, **short),
        Crew(driver, "p", "kafka-python", "come 1 2, freeze 1, kill 2, come 3, leave 1, empty 3", partitions=4,
              auto_commit_interval_ms=2000, **short),
    ]  # fmt: skip
    shift(driver, "shift_with_short_sessions", stories)
