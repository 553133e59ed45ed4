"""The notes of a scenario: what was done and when, and by hand the rebalances that must be found."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable, Iterable
from typing import Any

from .clients import Client, read_events
from .cluster import Cluster
from .generations import generations_assigned, generations_joined, unexpected_generations
from .processes import LabError, now_ms, wait_until

DO_NOT_ALWAYS_REPORT = {"librdkafka", "kafkajs", "kafka-python"}
"""Libraries that say nothing of a generation, or only when it has lasted until a heartbeat or a poll."""

HEARTBEAT_S = 3.0
"""The interval by default, of Java's clients and workers and of the other libraries in the lab."""


class Notebook:
    """`actions` is what was done and when; `groups` has the scenario's hand-written rebalances of each group."""

    def __init__(self, cluster: Cluster, say: Callable[[str], None] = lambda text: None) -> None:
        self.cluster = cluster
        self.actions: list[dict[str, Any]] = []
        self.groups: dict[str, dict[str, Any]] = {}
        self.clients: dict[str, Client] = {}
        self.connectors: dict[str, int] = {}
        self._say = say
        self._truth = cluster.folder / "truth"
        self._partitions: dict[str, int] = {}
        self._present: dict[str, list[str]] = {}
        self._known_as: dict[str, str] = {}

    def known_as(self, name: str, client_id: str) -> None:
        """Note that the group goes on calling a client by another client id than its own."""
        self._known_as[name] = client_id

    def expect(
        self,
        group: str,
        trigger: str,
        by: Iterable[str],
        *,
        members: Iterable[str] | None = None,
        kind: str = "rebalance",
        outcome: str = "completed",
        note: str | None = None,
        number: int | None = None,
        **facts: object,
    ) -> None:
        """The next rebalance of the group. `by`: the members that caused it, none if it came from outside;
        `members`: those that take part, if not all present; `number`: where it does not follow the one before;
        `facts`: `mode` where it is not the group's, `or_trigger` where either may be found."""
        rebalances = self.groups[group]["rebalances"]
        if number is None:
            number = self._next_number(group) - (0 if kind == "rebalance" else 1)
        row = {
            "number": number,
            "kind": kind,
            "outcome": outcome,
            "trigger": trigger,
            "by": list(by),
            "members": list(members if members is not None else self._present[group]),
            "after_action": len(self.actions) - 1,
        }
        rebalances.append(row | facts | ({"note": note} if note else {}))

    def expect_if_seen(self, group: str, trigger: str, by: Iterable[str], **facts: Any) -> bool:
        """A rebalance that may or may not come: it did if the clients were assigned its generation."""
        number = self._next_number(group)
        seen = generations_assigned(read_events(self._truth), group)
        if number in seen:
            self.expect(group, trigger, by, note="as the clients saw it", **facts)
        return number in seen

    def expect_if_written(self, group: str, trigger: str, by: Iterable[str], **facts: Any) -> bool:
        """Expect a rebalance that no client saw, if the coordinator's log shows that it ended or began an epoch.
        Returns whether it does."""
        number = self._next_number(group)
        logs = [log for folder in self.cluster.log_folders.values() for log in folder.glob("server.log*")]
        texts = [log.read_text() for log in logs]
        name = re.escape(group)
        epoch = rf"\[GroupId {name}\](\[MemberId [^]]*\])? Bumped (streams )?group epoch to {number} "
        ended = re.compile(rf"Stabilized group {name} generation {number} ")
        has_ended = any(ended.search(text) for text in texts)
        if has_ended and "outcome" not in facts:
            given = re.compile(rf"Assignment received from leader .*for group {name} for generation {number}\b")
            facts["outcome"] = "completed" if any(given.search(text) for text in texts) else "superseded"
        emptied = re.compile(rf"Group {name} with generation {number} .*is now empty")
        if not has_ended and any(emptied.search(text) for text in texts):
            has_ended, facts["outcome"] = True, "emptied"
        written = has_ended or any(re.search(epoch, text) for text in texts)
        if written:
            self.expect(group, trigger, by, note="as the coordinator saw it", **facts)
        return written

    def _next_number(self, group: str) -> int:
        rebalances = self.groups[group]["rebalances"]
        return int(rebalances[-1]["number"]) + 1 if rebalances else int(self.groups[group]["first_number"])

    def expect_if_joined(self, group: str, trigger: str) -> bool:
        """A rebalance of workers that may or may not come: it did if one says that it joined its generation."""
        number = self._next_number(group)
        seen = number in self._generations_joined(group)
        if seen:
            self.expect(group, trigger, [], note="as the worker saw it")
        return seen

    def _generations_joined(self, group: str) -> dict[int, set[str]]:
        return generations_joined(
            {
                # Its log is rolled when the hour turns.
                name: "".join(p.read_text() for p in sorted(self.cluster.log_folders[name].glob("connect*log*")))
                for name in self.cluster.worker_urls()
            },
            group,
        )

    def story(self, name: str, description: str) -> dict[str, Any]:
        """The content of truth/scenario.json."""
        return {
            "scenario": name,
            "description": description,
            "kafka_version": self.cluster.version,
            "topics": self._partitions,
            "clients": [
                {
                    "client": client.name,
                    "client_id": client.client_id,
                    **({"known_as": self._known_as[client.name]} if client.name in self._known_as else {}),
                    "group": client.group,
                    "library": client.library,
                    "topics": client.topics,
                    "settings": client.settings,
                }
                for client in self.clients.values()
            ],
            "workers": [{"client": name, "worker_url": url} for name, url in self.cluster.worker_urls().items()],
            "connectors": self.connectors,
            "actions": self.actions,
            "groups": self.groups,
        }

    def check(self) -> None:
        """Fail if the clients saw other generations than the scenario expects: such a capture proves nothing."""
        events = read_events(self._truth)
        for group, story in self.groups.items():
            if story["group_type"] != "classic":
                continue
            seen = generations_assigned(events, group)
            if story["protocol_type"] == "connect":
                seen = self._generations_joined(group)
            silent = {name for name, client in self.clients.items() if client.library in DO_NOT_ALWAYS_REPORT}
            faults = unexpected_generations(seen, story, silent)
            if faults:
                raise LabError(f"Group {group} went otherwise than the scenario says: {'; '.join(faults)}.")

    def rest(self, seconds: float) -> None:
        """Let the situation stand, so that commits and heartbeats happen in it."""
        time.sleep(seconds)

    def _declare(self, group: str, **facts: str) -> None:
        self.groups[group] = dict(facts) | {"rebalances": []}
        self._present.setdefault(group, [])

    def _note(self, action: str, subject: str, *, at_ms: int | None = None, **more: object) -> None:
        self.actions.append({"at_ms": at_ms or now_ms(), "action": action, "subject": subject, **more})
        self._say(f"{action} {subject}")

    def _rest_a_while(self) -> None:
        """What is killed next dies at any moment between two heartbeats, not always at the same."""
        time.sleep(random.uniform(0, HEARTBEAT_S))

    def _wait(self, what: str, is_so: Callable[[], bool], timeout_s: float) -> None:
        wait_until(what, is_so, timeout_s=timeout_s)
        self._say(what)
