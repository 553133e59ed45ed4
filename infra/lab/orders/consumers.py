"""Orders to consumers, and to an administrator of their groups."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from threading import Thread

from infra.lab import configs
from infra.lab.clients import Client, delete_group, holdings, java_settings, plain_settings, read_events, write_event
from infra.lab.configs import Settings
from infra.lab.notebook import Notebook
from infra.lab.processes import now_ms
from infra.lab.run_folder import SMALL_HEAP

from .settling import QUIET_S, holds_all_once, is_quiet


class ConsumerOrders(Notebook):
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
            return held.keys() == names and holds_all_once(held, wanted) and is_quiet(events, names, quiet_s)

        self._wait(f"group {group} of {', '.join(sorted(names))} settled", is_settled, timeout_s)

    def _subscribed(self, name: str) -> list[str]:
        first = self.clients[name].topics[0]
        # librdkafka takes what begins with ^ for a pattern.
        pattern = re.fullmatch(r"(?:(?:broker-)?pattern:|\^)(.*)", first)
        if pattern is None:
            return self.clients[name].topics
        return [topic for topic in self._partitions if re.fullmatch(pattern[1], topic)]
