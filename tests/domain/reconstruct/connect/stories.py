"""A Connect group's life in sentences, through Kafka's bytes: records, statuses and configurations.

`a_connect_group().generation(2, {"w1": has("alpha alpha-0").gets("beta")}, at_ms=100)`. A resource is written
`alpha` (the connector), `alpha-0` (a task) or `[alpha-0]` (a connector of that name). A worker `w1` lives at
http://w1:8083/; `w1#2` is the process that came after it at the same address.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from rebalance_audit.domain.decode import decode_source
from rebalance_audit.domain.measure.pauses import measure
from rebalance_audit.domain.model import (
    ConnectRecord,
    ConnectTask,
    GroupEvidence,
    GroupRecord,
    LogEvent,
    LogKind,
    Rebalance,
    SourceRecord,
    log_ref,
)
from rebalance_audit.domain.reconstruct.connect.rebalances import reconstruct_connect
from tests import encoders

CLUSTER = "cluster-1"
GROUP = "connect-lab"


@dataclass(frozen=True)
class Work:
    """What a worker ran when it joined, is given and must give up."""

    held: str | None = ""
    given: str = ""
    taken: str = ""
    read_to: int | None = None

    def gets(self, resources: str) -> Work:
        return replace(self, given=resources)

    def loses(self, resources: str) -> Work:
        return replace(self, taken=resources)

    def having_read_to(self, config_offset: int) -> Work:
        return replace(self, read_to=config_offset)


def has(resources: str = "") -> Work:
    return Work(held=resources)


FRESH = Work(held=None)
"""No allocation: the process has never been in the group."""


def member_id(worker: str) -> str:
    host, _, process = worker.partition("#")
    return f"connect-{host}:8083-{int(process or 1):08d}-0000-0000-0000-000000000000"


def url(worker: str) -> str:
    return f"http://{worker.partition('#')[0]}:8083/"


def worker_id(worker: str) -> str:
    return f"{worker.partition('#')[0]}:8083"


def connectors(resources: str | None) -> dict[str, list[int]] | None:
    if resources is None:
        return None
    found: dict[str, list[int]] = {}
    for name in resources.split():
        connector, _, task = name.rpartition("-")
        if name.startswith("[") or not connector:
            found.setdefault(name.strip("[]"), []).append(-1)
        else:
            found.setdefault(connector, []).append(int(task))
    return found


@dataclass
class ConnectStory:
    session_timeout_ms: int = 10_000
    records: list[GroupRecord] = field(default_factory=list)
    statuses: list[ConnectRecord] = field(default_factory=list)
    configs: list[ConnectRecord] = field(default_factory=list)
    lines: list[LogEvent] = field(default_factory=list)
    urls: dict[str, str] = field(default_factory=dict)
    """Workers that claim another address than their own."""

    def generation(
        self,
        number: int,
        workers: dict[str, Work],
        *,
        at_ms: int,
        joined_at_ms: int | None = None,
        protocol: str = "sessioned",
        leader: str | None = None,
        config_offset: int = 1,
        delay_ms: int = 0,
        error: int = 0,
        version: int = 2,
        old_inside: str | None = None,
        broken: dict[str, tuple[bytes | None, bytes | None]] | None = None,
    ) -> ConnectStory:
        """`old_inside`: what the allocations still carry as revoked, with a delay, from the generation before;
        `version`: the header of assignments; `broken`: subscription and assignment bytes put in place of good ones."""
        first = leader or next(iter(workers))
        header = 0 if protocol == "default" else version
        members = []
        for worker, work in workers.items():
            allocation = None
            if work.held is not None:
                old = connectors(old_inside) if old_inside else None
                allocation = encoders.connect_assignment(
                    connectors(work.held), old, version=version, delay_ms=77_777 if old_inside else 0
                )
            subscription = encoders.connect_worker_state(
                self.urls.get(worker, url(worker)),
                config_offset if work.read_to is None else work.read_to,
                allocation,
                version={"default": 0, "compatible": 1}.get(protocol, 2),
            )
            assignment = encoders.connect_assignment(
                connectors(work.given),
                connectors(work.taken),
                version=header,
                error=error,
                leader=member_id(first),
                leader_url=url(first),
                config_offset=config_offset,
                delay_ms=delay_ms,
            )
            bad = (broken or {}).get(worker, (None, None))
            members.append(
                encoders.classic_member(
                    member_id(worker),
                    client_id=f"connect-{worker_id(worker)}",
                    rebalance_timeout_ms=60_000,
                    session_timeout_ms=self.session_timeout_ms,
                    subscription=subscription if bad[0] is None else bad[0],
                    assignment=assignment if bad[1] is None else bad[1],
                )
            )
        value = encoders.group_metadata_value(
            number,
            members,
            protocol_type="connect",
            protocol=protocol,
            leader=member_id(first),
            current_state_timestamp=at_ms - 4 if joined_at_ms is None else joined_at_ms,
        )
        return self._group_record(value, at_ms)

    def empty(self, number: int, *, at_ms: int) -> ConnectStory:
        value = encoders.group_metadata_value(number, protocol_type="connect", current_state_timestamp=at_ms)
        return self._group_record(value, at_ms)

    def _group_record(self, value: bytes, at_ms: int) -> ConnectStory:
        key = encoders.group_metadata_key(GROUP)
        decoded = decode_source(_source("__consumer_offsets", len(self.records), key, value, at_ms))
        assert isinstance(decoded, GroupRecord)
        self.records.append(decoded)
        return self

    def status(
        self,
        resource: str,
        state: str | None,
        worker: str = "w1",
        generation: int = 0,
        *,
        at_ms: int,
        trace: str | None = None,
    ) -> ConnectStory:
        """`state` None: a tombstone."""
        ((connector, (task,)),) = (connectors(resource) or {}).items()
        key = f"status-connector-{connector}" if task < 0 else f"status-task-{connector}-{task}"
        content = {"state": state, "trace": trace, "worker_id": worker_id(worker), "generation": generation}
        value = None if state is None else encoders.connect_json(content, envelope=generation % 2 == 1)
        return self._connect_record(self.statuses, "connect-status", key, value, at_ms)

    def config(self, key: str, content: dict[str, Any] | None, *, at_ms: int = 0) -> ConnectStory:
        value = None if content is None else encoders.connect_json(content)
        return self._connect_record(self.configs, "connect-configs", key, value, at_ms)

    def configured(self, connector: str, tasks: int) -> ConnectStory:
        """Two records: the connector and its number of tasks."""
        self.config(f"connector-{connector}", {"properties": {"name": connector, "password": "made-up-secret"}})
        return self.config(f"commit-{connector}", {"tasks": tasks})

    def _connect_record(
        self, records: list[ConnectRecord], topic: str, key: str, value: bytes | None, at_ms: int
    ) -> ConnectStory:
        decoded = decode_source(_source(topic, len(records), key.encode(), value, at_ms))
        assert isinstance(decoded, ConnectRecord)
        records.append(decoded)
        return self

    def says(self, kind: LogKind, *, at_ms: int, node: str = "broker-1", **fields: Any) -> ConnectStory:
        self.lines.append(
            LogEvent(
                kind=kind,
                ref=log_ref(node, "a.log", "f00d", len(self.lines)),
                node=node,
                local_at_ms=at_ms,
                at_ms=at_ms,
                group_id=GROUP,
                fields=fields,
                coordinator_broker_id=1 if node == "broker-1" else None,
            )
        )
        return self

    def preparing(self, old: int, reason: str, *, at_ms: int) -> ConnectStory:
        return self.says(LogKind.PREPARING, at_ms=at_ms, generation_id=old, reason=reason, client_reason=None)

    def rejoined(self, old: int, worker: str, *, at_ms: int, leader: bool = False) -> ConnectStory:
        if leader:
            return self.preparing(old, f"Leader {member_id(worker)} re-joining group during Stable", at_ms=at_ms)
        return self.preparing(old, f"Updating metadata for member {member_id(worker)} during Stable", at_ms=at_ms)

    def expired(self, old: int, worker: str, *, at_ms: int) -> ConnectStory:
        self.says(LogKind.MEMBER_FAILED, at_ms=at_ms, member_id=member_id(worker))
        return self.preparing(old, f"removing member {member_id(worker)} on heartbeat expiration", at_ms=at_ms)

    def left(self, old: int, worker: str, *, at_ms: int) -> ConnectStory:
        self.says(LogKind.MEMBER_LEFT, at_ms=at_ms, member_id=member_id(worker), client_reason=None)
        return self.preparing(old, f"explicit `LeaveGroup` request for ({member_id(worker)}) members", at_ms=at_ms)

    def evidence(self) -> GroupEvidence:
        return GroupEvidence(
            cluster_id=CLUSTER,
            group_id=GROUP,
            records=tuple(self.records),
            statuses=tuple(self.statuses),
            configs=tuple(self.configs),
            lines=tuple(self.lines),
        )

    def rebalances(self) -> list[Rebalance]:
        return [measure(r) for r in reconstruct_connect(self.evidence()).rebalances]

    def tasks(self, resource: str) -> list[ConnectTask]:
        ((connector, (task,)),) = (connectors(resource) or {}).items()
        wanted = (connector, None if task < 0 else task)
        return [t for t in reconstruct_connect(self.evidence()).connect_tasks if (t.connector, t.task) == wanted]


def a_connect_group(**settings: Any) -> ConnectStory:
    return ConnectStory(**settings)


def _source(topic: str, offset: int, key: bytes, value: bytes | None, at_ms: int) -> SourceRecord:
    return SourceRecord(
        cluster_id=CLUSTER, topic=topic, partition=0, offset=offset, timestamp_ms=at_ms, key=key, value=value
    )


def running(rebalance: Rebalance) -> dict[str, str]:
    """Worker -> what it runs after, as text."""
    return {_short(m.worker_url): " ".join(m.assigned or ()) for m in rebalance.members if m.change != "left"}


def moves(rebalance: Rebalance) -> dict[str, tuple[str, str, str]]:
    """Resource -> (kind, from, to)."""
    return {m.resource: (m.kind, _short(m.from_worker_url), _short(m.to_worker_url)) for m in rebalance.movements}


def _short(worker_url: str | None) -> str:
    return (worker_url or "").removeprefix("http://").removesuffix(":8083/")
