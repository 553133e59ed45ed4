"""Records a second through the pure Python decoder, and what each kind costs beside an offset commit.

    python -m bench.decode_kinds [records]

To compare two commits, run it in a work tree of each on an idle machine; the ratios are what travels between machines.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from time import perf_counter

from rebalance_audit.domain.decode import decode_source, detail
from rebalance_audit.domain.model import SourceRecord
from rebalance_audit.domain.protocols import consumer_protocol
from rebalance_audit.domain.records import decode_record, record_group_id
from tests import encoders as enc

ROUNDS = 5
"""The best of so many: the others were disturbed."""
TOPIC_ID = "3fkd8mT0QJ-wE1lVt5v_Zw"
AT_MS = 1_795_276_800_123


def commits(count: int, version: int) -> list[tuple[bytes, bytes]]:
    topic_id = TOPIC_ID if version >= 4 else None
    return [
        (
            enc.offset_commit_key(f"group-{n % 50}", f"topic-{n % 20}", n % 32),
            enc.offset_commit_value(n, AT_MS + n, version=version, topic_id=topic_id),
        )
        for n in range(count)
    ]


def groups(count: int, member_count: int) -> list[tuple[bytes, bytes]]:
    def member(n: int) -> dict[str, object]:
        owned = {"orders": range(8 * n, 8 * n + 8)}
        return enc.classic_member(
            f"consumer-{n}-3f2b8a52-6f0e-4b0a-9a55-0d5e8b1c2d3e",
            subscription=enc.consumer_subscription(["orders"], owned=owned, generation_id=4),
            assignment=enc.consumer_assignment(owned),
        )

    members = [member(n) for n in range(member_count)]
    return [
        (
            enc.group_metadata_key(f"group-{n % 50}"),
            enc.group_metadata_value(n, members, protocol="cooperative-sticky", current_state_timestamp=AT_MS),
        )
        for n in range(count)
    ]


def current_assignments(count: int) -> list[tuple[bytes, bytes]]:
    topics = [{"TopicId": TOPIC_ID, "Partitions": [*range(8)], "AssignmentEpochs": [3] * 8}]
    fields = {
        "MemberEpoch": 3,
        "PreviousMemberEpoch": 2,
        "State": 0,
        "AssignedPartitions": topics,
        "PartitionsPendingRevocation": [],
    }
    value = enc.record_value(8, "3.8", fields)
    return [(enc.record_key(8, f"group-{n % 50}", f"member-{n}"), value) for n in range(count)]


def decode_all(pairs: Sequence[tuple[bytes, bytes]]) -> None:
    for key, value in pairs:
        decode_record(key, value)


def decode_with_members(pairs: Sequence[tuple[bytes, bytes]]) -> None:
    for key, value in pairs:
        group = decode_record(key, value).value
        for member in group.members:  # type: ignore[union-attr]
            consumer_protocol.decode_subscription(member.subscription)
            consumer_protocol.decode_assignment(member.assignment)


def only_groups_of_keys(pairs: Sequence[tuple[bytes, bytes]]) -> None:
    for key, _ in pairs:
        record_group_id(key)


def as_sources(pairs: Sequence[tuple[bytes, bytes]]) -> None:
    for offset, (key, value) in enumerate(pairs):
        decode_source(
            SourceRecord(
                cluster_id="lab",
                topic="__consumer_offsets",
                partition=0,
                offset=offset,
                timestamp_ms=AT_MS,
                key=key,
                value=value,
            )
        )


def with_detail(pairs: Sequence[tuple[bytes, bytes]]) -> None:
    for key, value in pairs:
        record = SourceRecord(
            cluster_id="lab",
            topic="__consumer_offsets",
            partition=0,
            offset=0,
            timestamp_ms=AT_MS,
            key=key,
            value=value,
        )
        detail(decode_source(record))


def seconds_per_record(
    run: Callable[[Sequence[tuple[bytes, bytes]]], None], pairs: Sequence[tuple[bytes, bytes]]
) -> float:
    best = float("inf")
    for _ in range(ROUNDS):
        started = perf_counter()
        run(pairs)
        best = min(best, perf_counter() - started)
    return best / len(pairs)


def main(count: int) -> None:
    few = max(count // 20, 1)
    v3 = commits(count, 3)
    small, large = groups(few, 10), groups(max(few // 10, 1), 100)
    cases = [
        ("offset commit v3", decode_all, v3),
        ("offset commit v4 with topic id", decode_all, commits(count, 4)),
        ("offset commit v3, group of the key alone", only_groups_of_keys, v3),
        ("offset commit v3 through decode_source", as_sources, v3),
        ("classic group, 10 members", decode_all, small),
        ("classic group, 10 members, their bytes too", decode_with_members, small),
        ("classic group, 10 members, with detail", with_detail, small),
        ("classic group, 100 members, their bytes too", decode_with_members, large),
        ("current assignment (KIP-848), 8 partitions", decode_all, current_assignments(few)),
    ]
    print(f"{'case':46} {'records/s':>12} {'µs each':>9} {'ratio':>8}")
    unit: float | None = None
    for name, run, pairs in cases:
        cost = seconds_per_record(run, pairs)
        unit = unit or cost
        print(f"{name:46} {1 / cost:12,.0f} {cost * 1e6:9.2f} {cost / unit:8.2f}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100_000)
