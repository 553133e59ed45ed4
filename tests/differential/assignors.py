"""Our assignors beside Kafka's own classes of 4.3.0, on generated groups.

python -m tests.differential.assignors [groups of each assignor] [seed]

A group is a random start, or what the assignor itself gave a group before members came and went, or nonsense:
partitions that two members claim, that no longer exist, generations out of order.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any

from infra.lab.jars import BUILD, libs
from rebalance_audit.domain.replay import assignors as ours

SOURCE = Path(__file__).parent / "java" / "assignors" / "AssignorOracle.java"
RELEASE = "4.3.0"
MAIN = "org.apache.kafka.connect.runtime.distributed.AssignorOracle"
GROUPS_IN_FLIGHT = 500

CONSUMER_ASSIGNORS: dict[str, Callable[..., ours.Assigned]] = {
    "range": ours.assign_ranges,
    "roundrobin": ours.assign_round_robin,
    "sticky": ours.assign_stickily,
    "cooperative-sticky": ours.assign_cooperatively,
}
SERVER_ASSIGNORS = {"server-range": ours.assign_server_ranges, "uniform": ours.assign_uniformly}
ALL = (*CONSUMER_ASSIGNORS, *SERVER_ASSIGNORS, "connect-eager", "connect-incremental")

Answer = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Asked:
    question: Answer
    expected: Answer
    """What ours gives, in the oracle's form; {"error": …} where it fails."""


@dataclass(slots=True)
class Counted:
    groups: int = 0
    alike: int = 0
    refused_alike: int = 0
    disagreements: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return (
            f"{self.groups} groups: {self.alike} assigned alike, {self.refused_alike} refused alike, "
            f"{len(self.disagreements)} disagreements"
        )


NAMES = ("orders", "a", "Z", "payments.eu", "t-1", "t-10", "t-2", "café", "\U0001f600", "ﬀ", "x" * 40)


def _names(rng: random.Random, count: int, prefix: str) -> list[str]:
    """Some short and alike, some as clients make them: client id and a random UUID."""
    style = rng.randrange(3)
    if style == 0:
        return [f"{prefix}{number}" for number in rng.sample(range(count * 3), count)]
    if style == 1:
        return [f"{rng.choice(NAMES)}-{prefix}-{number}" for number in range(count)]
    return [f"{prefix}-{number % 4}-{rng.getrandbits(128):032x}" for number in range(count)]


def _size(rng: random.Random, usual: int, most: int) -> int:
    return rng.randint(1, most if rng.random() < 0.05 else usual)


def _subscribers(rng: random.Random, topics: Sequence[str], before: Sequence[ours.Subscriber]) -> list[ours.Subscriber]:
    """Some of those before, and new ones."""
    staying = [s for s in before if rng.random() < 0.8]
    is_mixed = rng.random() < 0.3
    everything = tuple(rng.sample(topics, rng.randint(1, len(topics))))
    are_static = rng.choice((0.0, 0.0, 0.5, 1.0))
    found = [s._replace(topics=everything) if not is_mixed and rng.random() < 0.97 else s for s in staying]
    for member_id in _names(rng, _size(rng, 6, 40) if not found else rng.randint(0, 3), "consumer"):
        wants = tuple(rng.sample(topics, rng.randint(0, len(topics)))) if is_mixed else everything
        instance_id = f"{rng.choice(NAMES)}{rng.randrange(10**6)}" if rng.random() < are_static else None
        if any(s.instance_id == instance_id for s in found):
            instance_id = None  # a coordinator fences all but one
        found.append(ours.Subscriber(member_id=member_id, topics=wants, instance_id=instance_id))
    by_id = {s.member_id: s for s in found}
    found = list(by_id.values()) or [ours.Subscriber(member_id="m", topics=everything)]
    rng.shuffle(found)
    return found


def _claiming(
    rng: random.Random, subscribers: list[ours.Subscriber], topics: Mapping[str, int]
) -> list[ours.Subscriber]:
    """Nonsense: what members say they own has little to do with the truth."""
    everything = [(topic, number) for topic, count in topics.items() for number in range(count)] + [("gone", 0)]
    # With different subscriptions Kafka gives a partition two owners here, and the rest hangs on orders of its maps.
    if rng.random() < 0.2 and len({frozenset(s.topics) for s in subscribers}) == 1:
        everything += [(topic, count + 1) for topic, count in topics.items()]
    found = []
    for subscriber in subscribers:
        owned = tuple(rng.sample(everything, rng.randint(0, min(len(everything), 8))))
        generation = rng.choice((-1, 3, 3, 4))
        joined = generation if rng.random() < 0.7 else rng.choice((-1, 3, 4))
        found.append(subscriber._replace(owned=owned, generation=generation, joined_generation=joined))
    return found


def consumer_group(rng: random.Random, assignor: str) -> Asked:
    topics = {name: _size(rng, 8, 60) for name in dict.fromkeys(rng.choices(NAMES, k=_size(rng, 3, 8)))}
    subscribers = _subscribers(rng, list(topics), ())
    assign = CONSUMER_ASSIGNORS[assignor]
    generation = 0
    for _ in range(rng.choice((0, 0, 1, 1, 2, 3))):
        try:
            assigned = assign(topics, subscribers)
        except (KeyError, IndexError, ours.NotAssigned):
            break
        generation += 1
        is_reset = rng.random() < 0.1
        subscribers = [
            s._replace(
                owned=tuple(assigned[s.member_id]), generation=generation,
                joined_generation=-1 if is_reset else generation,
            )
            for s in subscribers
        ]  # fmt: skip
        subscribers = _subscribers(rng, list(topics), subscribers)
        if rng.random() < 0.1:
            topics[rng.choice(list(topics))] += 2
    if generation == 0 and rng.random() < 0.4:
        subscribers = _claiming(rng, subscribers, topics)
    return asked_of_consumers(assignor, topics, subscribers)


def asked_of_consumers(assignor: str, topics: Mapping[str, int], subscribers: Sequence[ours.Subscriber]) -> Asked:
    members = [
        {
            "member_id": s.member_id, "topics": s.topics, "instance_id": s.instance_id, "owned": s.owned,
            "generation": s.generation, "joined_generation": s.joined_generation,
        }
        for s in subscribers
    ]  # fmt: skip
    question: dict[str, Any] = {"assignor": assignor, "topics": topics, "members": members}
    return Asked(question, _partitions(partial(CONSUMER_ASSIGNORS[assignor], topics, subscribers)))


def _partitions(assign: Callable[[], Mapping[str, Any]]) -> Answer:
    try:
        assigned = assign()
    except (KeyError, IndexError, ours.NotAssigned) as failed:
        return {"error": repr(failed)}
    return {member_id: sorted(map(list, partitions)) for member_id, partitions in assigned.items()}


def server_group(rng: random.Random, assignor: str) -> Asked:
    topics = {rng.getrandbits(128): _size(rng, 8, 60) for _ in range(_size(rng, 3, 20))}
    assign = SERVER_ASSIGNORS[assignor]
    members: list[ours.ServerMember] = []
    for _ in range(rng.choice((1, 1, 2, 2, 3, 4))):
        targets = assign(topics, members) if members else {}
        before = {m.member_id: m for m in members}
        subscribers = _subscribers(
            rng, [str(topic) for topic in topics],
            [
                ours.Subscriber(member_id=m.member_id, instance_id=m.instance_id, topics=tuple(map(str, m.topic_ids)))
                for m in members
            ],
        )  # fmt: skip
        members = [
            ours.ServerMember(
                member_id=s.member_id, instance_id=s.instance_id, topic_ids=tuple(map(int, s.topics)),
                target={t: tuple(n) for t, n in targets.get(s.member_id, {}).items()} if s.member_id in before else {},
            )
            for s in subscribers
        ]  # fmt: skip
    question = {
        "assignor": assignor,
        "topics": {str(topic): count for topic, count in topics.items()},
        "members": [
            {
                "member_id": m.member_id, "instance_id": m.instance_id, "topic_ids": [str(t) for t in m.topic_ids],
                "target": {str(t): numbers for t, numbers in m.target.items()},
            }
            for m in members
        ],
    }  # fmt: skip

    def flat() -> dict[str, list[list[Any]]]:
        assigned = assign(topics, members)
        return {m: [[str(t), n] for t, numbers in of.items() for n in numbers] for m, of in assigned.items()}

    return Asked(question, _partitions(flat))


def connect_group(rng: random.Random, assignor: str) -> Asked:
    connectors = {name: rng.randint(0, 6) for name in _names(rng, _size(rng, 4, 12), "sink")}
    workers = _names(rng, _size(rng, 4, 20), "worker")
    if assignor == "connect-eager":
        given = ours.assign_connect_eagerly(connectors, workers)
        question: dict[str, Any] = {"assignor": assignor, "connectors": connectors, "workers": workers}
        return Asked(question, {w: _as_listed(names, tasks) for w, (names, tasks) in given.items()})
    max_delay_ms = rng.choice((0, 1, 40, 20_000, 300_000))
    memory = ours.IncrementalAssignor(max_delay_ms)
    running = {worker: ours.Work() for worker in workers}
    asked: list[Answer] = []
    rounds: list[Answer] = []
    now_ms, generation = 1_000_000, -1
    for _ in range(_size(rng, 6, 20)):
        completed = generation if rng.random() < 0.95 else generation - 1
        generation += 1
        asked.append({
            "now_ms": now_ms, "generation": generation, "last_completed_generation": completed,
            "connectors": dict(connectors),
            "running": {w: {"connectors": [*r.connectors], "tasks": [*r.tasks]} for w, r in running.items()},
        })  # fmt: skip
        answer = memory.assign(
            connectors, running, generation=generation, last_completed_generation=completed, now_ms=now_ms
        )
        one: Answer = {"delay_ms": answer.delay_ms}
        for worker in running:
            added, revoked = answer.added[worker], answer.revoked[worker]
            one[f"worker {worker}"] = {
                "added": _as_listed(added.connectors, added.tasks),
                "revoked": _as_listed(revoked.connectors, revoked.tasks),
            }
        rounds.append(one)
        now_ms += rng.choice((10, 3_000, answer.delay_ms, answer.delay_ms // 2, answer.delay_ms + 7))
        running = _after(rng, running, answer)
        _reconfigure(rng, connectors)
    question = {"assignor": assignor, "max_delay_ms": max_delay_ms, "rounds": asked}
    return Asked(question, {"rounds": rounds})


def _after(rng: random.Random, running: dict[str, ours.Work], answer: ours.ConnectRound) -> dict[str, ours.Work]:
    """Workers do as they are asked, mostly; some go, some come, some come back empty."""
    found = {}
    for worker, work in running.items():
        if rng.random() < 0.12 and len(running) > 1:
            continue
        left = answer.added[worker].copy() if rng.random() < 0.97 else ours.Work()
        left.add(work.without(answer.revoked[worker]) if rng.random() < 0.97 else work)
        found[worker] = left if rng.random() < 0.97 else ours.Work()
    if rng.random() < 0.3 or not found:
        found[f"worker-{rng.getrandbits(64):x}"] = ours.Work()
    return found


def _reconfigure(rng: random.Random, connectors: dict[str, int]) -> None:
    chance = rng.random()
    if chance < 0.06 and len(connectors) > 1:
        del connectors[rng.choice(list(connectors))]
    elif chance < 0.15:
        connectors[f"new-{rng.getrandbits(32)}"] = rng.randint(0, 4)
    elif chance < 0.2:
        connectors[rng.choice(list(connectors))] = rng.randint(0, 6)


def _as_listed(connectors: Any, tasks: Any) -> Answer:
    return {"connectors": sorted(connectors), "tasks": sorted(map(list, tasks))}


def ask(rng: random.Random, assignor: str) -> Asked:
    make = connect_group if assignor.startswith("connect") else server_group
    return (consumer_group if assignor in CONSUMER_ASSIGNORS else make)(rng, assignor)


def in_order(answer: Any) -> Any:
    """The oracle's lists hold what Kafka's sets and lists hold, in no order that counts."""
    if isinstance(answer, dict):
        return {key: in_order(value) for key, value in answer.items() if value != [] or key in ("connectors", "tasks")}
    if isinstance(answer, list) and all(isinstance(each, str | list) for each in answer):
        return sorted(answer)
    return [in_order(each) for each in answer] if isinstance(answer, list) else answer


class AssignorOracle:
    def __init__(self) -> None:
        folder = BUILD / "differential-assignors"
        done, jars = folder / "compiled", libs(RELEASE)
        if not done.exists() or done.stat().st_mtime < SOURCE.stat().st_mtime:
            folder.mkdir(parents=True, exist_ok=True)
            command = ["javac", "-nowarn", "-proc:none", "-cp", f"{jars}/*", "-d", str(folder), str(SOURCE)]
            subprocess.run(command, check=True, capture_output=True)
            done.touch()
        command = ["java", "-Xmx256m", "-XX:+UseSerialGC", "-Dlog4j2.level=OFF", "-cp", f"{folder}:{jars}/*", MAIN]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )

    def __enter__(self) -> AssignorOracle:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()

    def answers(self, questions: Sequence[Answer]) -> Iterator[Answer]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        lines = [json.dumps(question, ensure_ascii=False).encode("utf-8", "surrogatepass") for question in questions]
        sender = threading.Thread(target=self._send, args=(b"\n".join(lines) + b"\n\n",), daemon=True)
        sender.start()
        for _ in questions:
            line = self._process.stdout.readline()
            if not line:
                raise RuntimeError(f"the JVM ended with {self._process.wait()}")
            yield json.loads(line)
        sender.join()

    def _send(self, content: bytes) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(content)
        self._process.stdin.flush()


def compare(oracle: AssignorOracle, assignor: str, groups: int, seed: int) -> Counted:
    rng = random.Random(f"{assignor} {seed}")
    counted = Counted()
    while counted.groups < groups and len(counted.disagreements) < 5:
        asked = [ask(rng, assignor) for _ in range(min(GROUPS_IN_FLIGHT, groups - counted.groups))]
        for one, answer in zip(asked, oracle.answers([a.question for a in asked]), strict=True):
            counted.groups += 1
            if "error" in one.expected and "error" in answer:
                counted.refused_alike += 1
            elif in_order(one.expected) == in_order(answer):
                counted.alike += 1
            else:
                counted.disagreements.append(f"{one.question}\n  ours   {one.expected}\n  Kafka  {answer}")
    return counted


def main(groups: int, seed: int) -> int:
    status = 0
    with AssignorOracle() as oracle:
        for assignor in ALL:
            started = monotonic()
            counted = compare(oracle, assignor, groups, seed)
            print(f"{assignor} (seed {seed}, {monotonic() - started:.0f} s): {counted}", flush=True)
            for each in counted.disagreements[:2]:
                print(each)
                status = 1
    return status


if __name__ == "__main__":
    numbers = [int(argument.replace("_", "")) for argument in sys.argv[1:]]
    sys.exit(main(*(numbers + [200_000, 1][len(numbers) :])))
