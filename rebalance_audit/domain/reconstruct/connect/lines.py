"""Connect workers' own logs: who is where, and when its tasks started and stopped."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field

from rebalance_audit.domain.model import LogEvent, LogKind
from rebalance_audit.domain.reconstruct.attempts.joined import LINE_TO_RECORD_MS

TASK_STARTS = (LogKind.WORKER_TASK_STARTING, LogKind.WORKER_CONNECTOR_STARTING)
STARTED = (LogKind.WORKER_TASK_STARTED, LogKind.WORKER_CONNECTOR_STARTED)
TASK_STOPS = (LogKind.WORKER_TASK_STOPPING, LogKind.WORKER_CONNECTOR_STOPPING)


@dataclass(slots=True, kw_only=True)
class JoinedLines:
    """The workers' own `Joined group at generation …` lines of one generation."""

    generation_id: int
    first_at_ms: int
    by_node: dict[str, LogEvent] = field(default_factory=dict)

    def is_near(self, at_ms: int | None) -> bool:
        """Whether the lines may be about a generation that was delivered at that time."""
        return at_ms is None or abs(at_ms - self.first_at_ms) <= LINE_TO_RECORD_MS

    @property
    def first(self) -> LogEvent:
        return min(self.by_node.values(), key=lambda line: (line.at_ms or 0, line.ref))


class WorkerLines:
    """Lines of workers by node, in time order. A worker is found by a member id it had, or by its client id."""

    def __init__(self, lines: Iterable[LogEvent]) -> None:
        self.joined: list[JoinedLines] = []
        self._joined: dict[int, list[JoinedLines]] = {}
        self._by_node: dict[str, list[LogEvent]] = {}
        self.addresses: dict[str, str] = {}
        """REST URL by node, as the worker itself printed it when it last started."""
        self._starts: dict[str, list[int]] = {}
        """By node: when a process said its address, which it does as it starts."""
        self._node_of_member: dict[str, str] = {}
        self._nodes_of_client: dict[str, set[str]] = {}
        self._member_in: dict[tuple[str, int], str] = {}
        for line in sorted((x for x in lines if x.at_ms is not None), key=lambda x: (x.at_ms or 0, x.ref)):
            is_worker = line.kind.startswith("worker_")
            if not is_worker and not line.kind.startswith("client_"):
                continue
            if line.kind is LogKind.WORKER_ADDRESS:
                self.addresses[line.node] = str(line.fields["url"])
                self._starts.setdefault(line.node, []).append(line.at_ms or 0)
                continue
            self._by_node.setdefault(line.node, []).append(line)
            member_id, client_id = line.fields.get("member_id"), line.fields.get("client_id")
            if member_id:
                self._node_of_member[member_id] = line.node
                generation_id = line.fields.get("generation_id")
                if isinstance(generation_id, int):
                    self._member_in[line.node, generation_id] = member_id
            if client_id:
                self._nodes_of_client.setdefault(client_id, set()).add(line.node)
            if line.kind is LogKind.WORKER_JOINED and isinstance(line.fields.get("generation_id"), int):
                self._add_joined(line)
        self._times = {node: [line.at_ms or 0 for line in found] for node, found in self._by_node.items()}

    @property
    def client_ids_of_several(self) -> frozenset[str]:
        """Client ids that workers on several nodes have."""
        return frozenset(client for client, nodes in self._nodes_of_client.items() if len(nodes) > 1)

    def _add_joined(self, line: LogEvent) -> None:
        generation_id, at_ms = line.fields["generation_id"], line.at_ms or 0
        same = self._joined.setdefault(generation_id, [])
        if same and same[-1].is_near(at_ms):
            same[-1].by_node.setdefault(line.node, line)
            return
        same.append(JoinedLines(generation_id=generation_id, first_at_ms=at_ms, by_node={line.node: line}))
        self.joined.append(same[-1])

    def joined_near(self, generation_id: int, at_ms: int | None) -> JoinedLines | None:
        """The workers' lines of that generation, if they are of that time."""
        return next((g for g in self._joined.get(generation_id, ()) if g.is_near(at_ms)), None)

    def node_of(self, member_id: str | None, worker_id: str | None = None) -> str | None:
        """The node whose log is this worker's; None if no log shows it."""
        if member_id is not None and member_id in self._node_of_member:
            return self._node_of_member[member_id]
        # Since 3.7 a worker's client id holds its own address; before, all workers may be called connect-1.
        nodes = self._nodes_of_client.get(f"connect-{worker_id}", set()) if worker_id is not None else set()
        return next(iter(nodes)) if len(nodes) == 1 else None

    def member_of(self, node: str, generation_id: int) -> str | None:
        """The member id the node's worker had in that generation."""
        return self._member_in.get((node, generation_id))

    def next_member_of(self, node: str, after_ms: int) -> str | None:
        """The member id the node's worker had in the next generation it joined."""
        later = [group for group in self.joined if node in group.by_node and group.first_at_ms > after_ms]
        following = min(later, key=lambda group: group.first_at_ms, default=None)
        return self.member_of(node, following.generation_id) if following is not None else None

    def joined_at(self, node: str, generation_id: int, near_ms: int) -> LogEvent | None:
        """The line by which the node's worker joined the generation."""
        group = self.joined_near(generation_id, near_ms)
        return group.by_node.get(node) if group is not None else None

    def is_silent_after(self, node: str, at_ms: int) -> bool:
        """Whether the node's worker said nothing any more: it ended, or its log was not collected further."""
        times = self._times.get(node, [])
        return not times or times[-1] < at_ms

    def next_process_ms(self, node: str, member_id: str, after_ms: int) -> int | None:
        """When the node's next process began, as far as its log shows: what stands there from then on is not this
        member's. It says its address as it starts; else another member id shows it."""
        starts = self._starts.get(node, [])
        own_start = starts[bisect_right(starts, after_ms) :][:1]
        since = bisect_right(self._times.get(node, []), after_ms)
        other = next(
            (
                line.at_ms or 0
                for line in self._by_node.get(node, [])[since:]
                if line.kind is LogKind.CLIENT_JOINED and line.fields.get("member_id") not in (None, member_id)
            ),
            None,
        )
        return min([*own_start, *([] if other is None else [other])], default=None)

    def last_between(self, node: str, after_ms: int, before_ms: int) -> LogEvent | None:
        """The last line of the node in that time: its process was alive then."""
        found = self.between(node, after_ms, before_ms)
        return found[-1] if found else None

    def between(self, node: str, after_ms: int, before_ms: int) -> list[LogEvent]:
        """Lines of the node with after <= time < before."""
        times = self._times.get(node, [])
        return self._by_node.get(node, [])[bisect_left(times, after_ms) : bisect_left(times, before_ms)]

    def about(
        self, node: str, resource: tuple[str, int | None], kinds: tuple[LogKind, ...], after_ms: int, before_ms: int
    ) -> list[LogEvent]:
        """Lines of these kinds about one connector or task."""
        connector, task = resource
        return [
            line
            for line in self.between(node, after_ms, before_ms)
            if line.kind in kinds and line.fields.get("connector") == connector and line.fields.get("task") == task
        ]
