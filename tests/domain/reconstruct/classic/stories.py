"""A group's life in sentences: `a_group("orders").generation(1, {"c1": "0 1"}, at_ms=100).empty(2, at_ms=900)`.

Records go through the test-side encoder and Kafka's bytes, so a story is what a broker would have written.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from rebalance_audit.domain.model import (
    CommitMark,
    GroupEvidence,
    GroupRecord,
    LogEvent,
    LogKind,
    log_ref,
)
from tests import encoders
from tests.domain.reconstruct.group_records import group_record

TOPIC = "orders"
CLUSTER = "cluster-1"


def member_id(client: str) -> str:
    return f"{client}-00000000-0000-0000-0000-000000000000"


@dataclass
class Story:
    group_id: str
    session_timeout_ms: int = 10_000
    rebalance_timeout_ms: int = 300_000
    records: list[GroupRecord] = field(default_factory=list)
    marks: list[CommitMark] = field(default_factory=list)
    lines: list[LogEvent] = field(default_factory=list)
    offset: int = 0

    def _record(self, value: bytes | None, at_ms: int) -> Story:
        key = encoders.group_metadata_key(self.group_id)
        record = group_record(key, value, cluster_id=CLUSTER, partition=7, offset=self.offset, at_ms=at_ms)
        self.records.append(record)
        self.offset += 1
        return self

    def generation(
        self,
        number: int,
        holdings: dict[str, str],
        *,
        at_ms: int,
        joined_at_ms: int | None = None,
        assignor: str = "range",
        owned: dict[str, str] | None = None,
        instances: dict[str, str] | None = None,
        member_ids: dict[str, str] | None = None,
        client_ids: dict[str, str] | None = None,
        leader: str | None = None,
        topics: tuple[str, ...] = (TOPIC,),
        subscriptions: dict[str, bytes] | None = None,
    ) -> Story:
        """A delivered generation: client -> the partitions of `orders` it is given, as in "0 1 2"."""
        ids = {c: (member_ids or {}).get(c, member_id(c)) for c in holdings}
        members = [
            encoders.classic_member(
                ids[client],
                client_id=(client_ids or {}).get(client, client),
                group_instance_id=(instances or {}).get(client),
                session_timeout_ms=self.session_timeout_ms,
                rebalance_timeout_ms=self.rebalance_timeout_ms,
                subscription=(subscriptions or {}).get(client)
                or encoders.consumer_subscription(
                    topics, owned={TOPIC: _numbers((owned or {}).get(client, ""))} if owned else ()
                ),
                assignment=encoders.consumer_assignment({TOPIC: _numbers(partitions)}) if partitions else b"",
            )
            for client, partitions in holdings.items()
        ]
        return self._record(
            encoders.group_metadata_value(
                number,
                members,
                protocol=assignor,
                leader=ids[leader or next(iter(holdings))],
                current_state_timestamp=at_ms - 10 if joined_at_ms is None else joined_at_ms,
            ),
            at_ms,
        )

    def created(self, *, at_ms: int) -> Story:
        """Generation 0 of a group that the Java coordinator made."""
        return self._record(encoders.group_metadata_value(0, protocol_type="", current_state_timestamp=at_ms), at_ms)

    def empty(self, number: int, *, at_ms: int) -> Story:
        return self._record(encoders.group_metadata_value(number, current_state_timestamp=at_ms), at_ms)

    def deleted(self, *, at_ms: int) -> Story:
        return self._record(None, at_ms)

    def commit(self, partition: int, *, at_ms: int, position: int | None = None) -> Story:
        self.marks.append(
            CommitMark(
                topic=TOPIC,
                partition=partition,
                offsets_topic="__consumer_offsets",
                offsets_partition=7,
                first_offset=self.offset,
                first_at_ms=at_ms,
                last_offset=self.offset,
                last_at_ms=at_ms,
                commit_count=1,
                first_position=position,
                last_position=position,
            )
        )
        self.offset += 1
        return self

    def says(self, kind: LogKind, *, at_ms: int, **fields: Any) -> Story:
        self.lines.append(
            LogEvent(
                kind=kind,
                ref=log_ref("broker-1", "server.log", "f00d", len(self.lines)),
                node="broker-1",
                local_at_ms=at_ms,
                at_ms=at_ms,
                group_id=self.group_id,
                fields=fields,
                coordinator_broker_id=1,
            )
        )
        return self

    def preparing(self, old: int, reason: str, *, at_ms: int, client_reason: str | None = None) -> Story:
        return self.says(LogKind.PREPARING, at_ms=at_ms, generation_id=old, reason=reason, client_reason=client_reason)

    def stabilized(self, number: int, *, at_ms: int, member_count: int = 1) -> Story:
        return self.says(LogKind.STABILIZED, at_ms=at_ms, generation_id=number, member_count=member_count)

    def received(self, number: int, *, at_ms: int) -> Story:
        return self.says(LogKind.ASSIGNMENT_RECEIVED, at_ms=at_ms, generation_id=number)

    def evidence(self) -> GroupEvidence:
        return GroupEvidence(
            cluster_id=CLUSTER,
            group_id=self.group_id,
            records=tuple(self.records),
            marks=tuple(self.marks),
            lines=tuple(self.lines),
        )


def a_group(group_id: str = "orders-app", **settings: Any) -> Story:
    return Story(group_id, **settings)


def _numbers(text: str) -> list[int]:
    return [int(n) for n in text.split()]
