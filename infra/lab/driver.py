"""A scenario's orders to a cluster and its clients, with the driver's clock beside each step."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable, Sequence
from threading import Thread

from rebalance_audit.domain.causes import Cause

from . import configs
from .clients import (
    Client,
    Event,
    SteadyProducer,
    add_partitions,
    coordinator_of,
    create_topics,
    delete_group,
    delete_topic,
    holdings,
    java_settings,
    plain_settings,
    prefer_first_replicas,
    put_connector,
    read_events,
    write_event,
)
from .cluster import Cluster, broker_name, worker_name
from .configs import Settings, version_key
from .notebook import Notebook
from .processes import now_ms
from .run_folder import SMALL_HEAP

NOT_A_MOVE = {"first_record", "in_generation"}
"""Events of clients that neither take a partition nor let one go."""
QUIET_S = 6.0
"""Two heartbeats: a follow-up rebalance starts within one. It also lets the five-second auto-commit happen."""

HEARTBEAT_S = 3.0
"""The interval by default, of Java's clients and workers and of the other libraries in the lab."""


class Driver(Notebook):
    """Runs one scenario: acts, takes notes, and waits until the clients' own words say the groups have settled."""

    def __init__(self, cluster: Cluster, say: Callable[[str], None] = lambda text: None) -> None:
        super().__init__(cluster, say)
        self._producer: SteadyProducer | None = None

    # Topics and producing

    def topics(self, **partitions: int) -> None:
        create_topics(self.cluster.bootstrap, partitions, replicas=self.cluster.replicas)
        self._partitions |= partitions

    def later_topic(self, name: str, partitions: int) -> None:
        """Create a topic while groups run, and produce to it."""
        self._note("create topic", name)
        create_topics(self.cluster.bootstrap, {name: partitions}, replicas=self.cluster.replicas)
        self._partitions[name] = partitions
        if self._producer is not None:
            self._producer.add(name, range(partitions))

    def more_partitions(self, topic: str, total: int) -> None:
        self._note("add partitions", topic, total=total)
        add_partitions(self.cluster.bootstrap, topic, total)
        if self._producer is not None:
            self._producer.add(topic, range(self._partitions[topic], total))
        self._partitions[topic] = total

    def topic_deleted(self, name: str) -> None:
        """Delete a topic while groups read it. What is produced to it from here on is lost."""
        if self._producer is not None:
            self._producer.remove(name)
        self._note("delete topic", name)
        delete_topic(self.cluster.bootstrap, name)
        del self._partitions[name]

    def produce(self, *, per_second: int = 24) -> None:
        """Steadily, to every topic created so far."""
        self._producer = SteadyProducer(self.cluster.bootstrap, self._partitions, per_second=per_second)
        self._producer.start()

    def fall_silent(self) -> None:
        """Stop producing to any topic."""
        if self._producer is not None:
            self._producer.stop()
            self._producer = None
        self._note("stop producing", "steady-producer")

    def fall_silent_at(self, topic: str, *numbers: int) -> None:
        """Stop producing to these partitions; the others get records as before."""
        if self._producer is not None:
            self._producer.remove(topic, numbers)
        self._note("stop producing", topic, partitions=list(numbers))

    # Consumers

    def group(self, group: str, *, group_type: str, mode: str, assignor: str, first_number: int = 1) -> None:
        """Declare a consumer group. `first_number`: its first generation or epoch."""
        self._declare(group, group_type=group_type, protocol_type="consumer", mode=mode, assignor=assignor)
        self.groups[group]["first_number"] = first_number

    def join(
        self,
        name: str,
        group: str,
        topics: Sequence[str],
        *,
        settings: Settings | None = None,
        library: str = "java",
        **options: str | int,
    ) -> None:
        """Start a consumer; without `settings` a classic one of the group's assignor."""
        if settings is None:
            make = java_settings if library == "java" else plain_settings
            settings = make(str(options.pop("assignor", self.groups[group]["assignor"])), **options)
        client = Client(self.cluster, name, group, topics, library=library, settings=settings)
        self.clients[name] = client
        self._present[group].append(name)
        self._note("start", name)
        client.start()

    def leave(self, name: str) -> None:
        """Close it; returns when the process has ended."""
        client = self.clients[name]
        self._present[client.group].remove(name)
        self._note("close", name)
        client.close()

    def leave_together(self, *names: str) -> None:
        """Close them at the same moment; returns when their processes have ended."""
        threads = [Thread(target=self.leave, args=(name,)) for name in names]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def kill(self, name: str) -> None:
        """SIGKILL to a client, at any moment between two of its heartbeats."""
        self._rest_a_while()
        self.kill_together(name)

    def kill_together(self, *names: str) -> None:
        """SIGKILL, one right after the other, now."""
        for name in names:
            self._end_work(name, Client.kill, "kill", "killed")

    def freeze(self, name: str) -> None:
        """SIGSTOP: it neither works nor sends heartbeats, and does not know."""
        self._end_work(name, Client.freeze, "freeze", "frozen")

    def _end_work(self, name: str, act: Callable[[Client], None], action: str, event: str) -> None:
        client = self.clients[name]
        self._present[client.group].remove(name)
        at_ms = now_ms()
        act(client)
        write_event(self._truth / "driver.jsonl", name, event, at_ms)
        self._note(action, name, at_ms=at_ms)

    def freeze_briefly(self, *names: str, seconds: float) -> None:
        """SIGSTOP, and SIGCONT before the session ends: no group learns of it."""
        self.begin_stall(*names)
        self.rest(seconds)
        self.end_stall(*names)

    def begin_stall(self, *names: str) -> None:
        """SIGSTOP, to be ended before the session does. Its truth is a stall."""
        for name in names:
            self._stall(name, Client.freeze, "freeze", "stall_start")

    def end_stall(self, *names: str) -> None:
        """SIGCONT to clients that `begin_stall` froze."""
        for name in names:
            self._stall(name, Client.thaw, "thaw", "stall_end")

    def _stall(self, name: str, act: Callable[[Client], None], action: str, event: str) -> None:
        at_ms = now_ms()
        act(self.clients[name])
        write_event(self._truth / "driver.jsonl", name, event, at_ms)
        self._note(action, name, at_ms=at_ms)

    def pause_briefly(self, *names: str, seconds: float) -> None:
        """Each pauses all that it holds, and goes on later; it polls, and is a member meanwhile. That is a stall."""
        for command in ("pause", "resume"):
            for name in names:
                self.send(name, command)
            if command == "pause":
                self.rest(seconds)

    def thaw(self, name: str) -> None:
        """SIGCONT; it finds itself put out and joins again."""
        client = self.clients[name]
        self._present[client.group].append(name)
        self._note("thaw", name)
        client.thaw()

    def give_up(self, name: str) -> None:
        """Wait for a client no more that another one has fenced: what it does then is its library's."""
        self._present[self.clients[name].group].remove(name)

    def fails(self, name: str, *, timeout_s: float = 60) -> None:
        """Wait until a client ends by itself, as one that is fenced does."""
        self._present[self.clients[name].group].remove(name)
        self._wait(f"{name} failed", lambda: self._has(name, "failed"), timeout_s)

    def subscribe(self, name: str, topics: Sequence[str]) -> None:
        self.send(name, f"subscribe {','.join(topics)}")
        self.clients[name].topics = list(topics)

    def wait_for(self, name: str, event: str, *, timeout_s: float = 60) -> None:
        """Wait until the client has written this since the last action."""
        since_ms = self.actions[-1]["at_ms"]
        self._wait(f"{name} wrote {event}", lambda: self._has(name, event, since_ms), timeout_s)

    def _has(self, name: str, event: str, since_ms: int = 0) -> bool:
        events = read_events(self._truth)
        return any(e["client"] == name and e["event"] == event and e["at_ms"] >= since_ms for e in events)

    def delete_group(self, group: str) -> None:
        self._note("delete group", group)
        delete_group(self.cluster.bootstrap, group)

    def remove_members(self, group: str, *instance_ids: str) -> None:
        """An administrator puts them out; without instance ids everybody."""
        self._note("remove members", group, instance_ids=list(instance_ids))
        layout = configs.single_log_layout("admin.log")
        arguments = [self.cluster.bootstrap, group, *instance_ids]
        self.cluster.run(self.cluster.java("remover", layout, SMALL_HEAP, "MemberRemover", *arguments))

    def send(self, name: str, command: str) -> None:
        self._note(command, name)
        self.clients[name].send(command)

    def settle(self, group: str, *, quiet_s: float = QUIET_S, timeout_s: float = 120) -> None:
        """Wait until the members present hold every partition once, and nothing has moved for a while."""
        names = set(self._present[group])
        topics = {topic for name in names for topic in self._subscribed(name)}
        wanted = {
            f"0_{number}" if self.clients[name].library == "streams" else f"{topic}-{number}"
            for name in names
            for topic in topics
            for number in range(self._partitions.get(topic, 0))
        }

        def is_settled() -> bool:
            for name in names:
                self.clients[name].must_run()
            events = read_events(self._truth)
            held = {client: parts for client, parts in holdings(events).items() if client in names}
            return held.keys() == names and _holds_all_once(held, wanted) and _is_quiet(events, names, quiet_s)

        self._wait(f"group {group} of {', '.join(sorted(names))} settled", is_settled, timeout_s)

    def _subscribed(self, name: str) -> list[str]:
        first = self.clients[name].topics[0]
        # librdkafka takes what begins with ^ for a pattern.
        pattern = re.fullmatch(r"(?:(?:broker-)?pattern:|\^)(.*)", first)
        if pattern is None:
            return self.clients[name].topics
        return [topic for topic in self._partitions if re.fullmatch(pattern[1], topic)]

    # Brokers

    def coordinator_killed(self, group: str) -> int:
        broker = coordinator_of(self.cluster.bootstrap, group)
        self._note("kill broker", f"broker-{broker}")
        self.cluster.kill_broker(broker)
        return broker

    def coordinator_moved(self, group: str) -> None:
        """A clean restart of the coordinator: it hands its groups over, and gets them back as preferred leader."""
        broker = coordinator_of(self.cluster.bootstrap, group)
        self._note("stop broker", f"broker-{broker}")
        self.cluster.stop_broker(broker)
        self.rest(5)
        self.broker_returns(broker)
        prefer_first_replicas(self.cluster.bootstrap, "__consumer_offsets")
        self._note("elect preferred leaders", "__consumer_offsets")

    def broker_returns(self, broker: int) -> None:
        self._note("start broker", f"broker-{broker}")
        self.cluster.start_broker(broker)

    def broker_killed(self, broker: int) -> None:
        self._note("kill broker", f"broker-{broker}")
        self.cluster.kill_broker(broker)

    def broker_upgraded(self, broker: int, version: str) -> None:
        """Stop a broker, and start it with the jars of another version."""
        self._note("stop broker", f"broker-{broker}")
        self.cluster.stop_broker(broker)
        self._note("start broker", f"broker-{broker}", version=version)
        self.cluster.start_broker(broker, version=version)

    def freeze_broker(self, broker: int, *, seconds: float) -> None:
        """SIGSTOP, and SIGCONT later: nobody is answered meanwhile, as when the network is away."""
        name = broker_name(broker)
        self.cluster.freeze_node(name)
        self._note("freeze broker", name)
        self.rest(seconds)
        self.cluster.thaw_node(name)
        self._note("thaw broker", name)

    def broker_restarts(self, broker: int) -> None:
        self._note("stop broker", f"broker-{broker}")
        self.cluster.stop_broker(broker)
        self.broker_returns(broker)

    # Connect

    def connect_group(self, *, mode: str = "incremental", assignor: str | None = None) -> str:
        """Declare the group of the workers, which joined one after the other when the cluster started."""
        group = self.cluster.connect_group
        if assignor is None:
            assignor = "compatible" if version_key(self.cluster.version) < (2, 4) else "sessioned"
        self._declare(group, group_type="classic", protocol_type="connect", mode=mode, assignor=assignor)
        self.groups[group]["first_number"] = 1
        for worker in self.cluster.running_workers():
            name = worker_name(worker)
            self._present[group].append(name)
            self._note("found running", name)
            self.expect(group, Cause.CONNECT_WORKER_JOINED, [name])
        return group

    def connector(self, name: str, tasks: int, topic: str, **options: str | int) -> None:
        worker = self.cluster.running_workers()[0]
        self._note("put connector", name, tasks=tasks)
        put_connector(self.cluster.worker_url(worker), name, tasks=tasks, topic=topic, **options)
        self.connectors[name] = tasks
        for changed in (f"connector {name}", f"tasks of {name}"):
            self.expect(self.cluster.connect_group, Cause.CONNECT_CONFIG_CHANGED, [], note=changed)

    def mirror_maker(self, flows: Sequence[str], properties: Settings) -> None:
        """Start MirrorMaker 2; `flows`: the groups of its workers, one for each flow, all in one process."""
        for group in flows:
            facts = {"group_type": "classic", "protocol_type": "connect", "mode": "incremental"}
            self._declare(group, **facts, assignor="sessioned")
            self.groups[group]["first_number"] = 1
            self._present[group].append(worker_name(1))
        self._note("start", worker_name(1))
        self.cluster.start_mirror_maker(properties)
        for group in flows:
            self.expect(group, Cause.CONNECT_WORKER_JOINED, [worker_name(1)])

    def worker_joins(self, worker: int) -> None:
        name = worker_name(worker)
        self._present[self.cluster.connect_group].append(name)
        self._note("start", name)
        self.cluster.start_worker(worker, wait=False)

    def worker_killed(self, worker: int) -> None:
        """SIGKILL to a worker, at any moment between two of its heartbeats."""
        self._rest_a_while()
        self.worker_killed_now(worker)

    def worker_killed_now(self, worker: int) -> None:
        name = worker_name(worker)
        self._present[self.cluster.connect_group].remove(name)
        at_ms = now_ms()
        self.cluster.kill_worker(worker)
        write_event(self._truth / "driver.jsonl", name, "killed", at_ms)
        self._note("kill", name, at_ms=at_ms)

    def worker_stopped(self, worker: int) -> None:
        name = worker_name(worker)
        self._present[self.cluster.connect_group].remove(name)
        self._note("stop", name)
        self.cluster.stop_worker(worker)
        write_event(self._truth / "driver.jsonl", name, "worker_stopped", now_ms())

    def settle_connect(self, *, quiet_s: float = QUIET_S, timeout_s: float = 150) -> None:
        """Wait until every connector and task runs once, every worker present runs some, and nothing moves."""
        names = set(self._present[self.cluster.connect_group])
        wanted = set(self.connectors)
        wanted |= {f"{name}-{task}" for name, tasks in self.connectors.items() for task in range(tasks)}

        def is_settled() -> bool:
            events = read_events(self._truth)
            held = {client: parts for client, parts in holdings(events).items() if client in names and parts}
            everyone_works = held.keys() == names or not wanted
            return everyone_works and _holds_all_once(held, wanted) and _is_quiet(events, names, quiet_s)

        self._wait(f"Connect on {', '.join(sorted(names))} settled", is_settled, timeout_s)

    # The whole

    def rest(self, seconds: float) -> None:
        """Let the situation stand, so that commits and heartbeats happen in it."""
        time.sleep(seconds)

    def _rest_a_while(self) -> None:
        """What is killed next dies at any moment between two heartbeats, not always at the same."""
        time.sleep(random.uniform(0, HEARTBEAT_S))

    def end(self) -> None:
        """Stop what still runs; nothing from here on belongs to the capture."""
        if self._producer is not None:
            self._producer.stop()
        for client in self.clients.values():
            client.stop()


def _holds_all_once(held: dict[str, set[str]], wanted: set[str]) -> bool:
    union = set().union(*held.values()) if held else set()
    return union == wanted and sum(map(len, held.values())) == len(wanted)


def _is_quiet(events: Sequence[Event], names: set[str], quiet_s: float) -> bool:
    moves = [event["at_ms"] for event in events if event["client"] in names and event["event"] not in NOT_A_MOVE]
    return not moves or now_ms() - max(moves) > quiet_s * 1000
