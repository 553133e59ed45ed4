"""Orders to Connect: its workers and connectors."""

from __future__ import annotations

from collections.abc import Sequence

from infra.lab.clients import holdings, put_connector, read_events, write_event
from infra.lab.cluster import worker_name
from infra.lab.configs import Settings, version_key
from infra.lab.notebook import Notebook
from infra.lab.processes import now_ms
from rebalance_audit.domain.causes import Cause

from .settling import QUIET_S, holds_all_once, is_quiet


class ConnectOrders(Notebook):
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
            return everyone_works and holds_all_once(held, wanted) and is_quiet(events, names, quiet_s)

        self._wait(f"Connect on {', '.join(sorted(names))} settled", is_settled, timeout_s)
