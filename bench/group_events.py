"""Synthetic silver.group_event and silver.commit_mark: many quiet groups made from one, and one group in a storm."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from rebalance_audit.domain.decode import decode_source
from rebalance_audit.domain.gather.groups import line_row, record_row
from rebalance_audit.domain.log_lines import parse_line
from rebalance_audit.domain.model import ConnectRecord, GroupRecord, SourceLine, SourceRecord
from rebalance_audit.warehouse.arrow_tables import rows_to_table
from tests.encoders import (
    classic_member,
    consumer_assignment,
    consumer_subscription,
    group_metadata_key,
    group_metadata_value,
)
from tests.spark_jobs.synthetic import BASE_MS

CLUSTER = "bench"
OFFSETS_TOPIC = "__consumer_offsets"
TOPIC = "orders"
MEMBERS = 3
PARTITIONS = 6
COMMITS = 4
"""Partitions with a commit mark in each generation."""
MODELS = 1_000
"""Groups that differ in all that evidence shows, so that what is remembered of one is seldom right for the next."""

Row = dict[str, Any]


def member_id(number: int, model: int) -> str:
    return f"c{number}-00000000-0000-0000-0000-{model:012d}"


def generations(
    group_id: str,
    first: int,
    last: int,
    *,
    apart_ms: int,
    members: int = MEMBERS,
    partitions: int = PARTITIONS,
    model: int = 0,
) -> tuple[list[Row], list[Row]]:
    """(events, marks) of generations `first` to `last`: every second one replaces a member that left.

    Each model has its own instants, member ids and topic.
    """
    topic = f"{TOPIC}-{model:04d}"
    events: list[Row] = []
    marks: list[Row] = []
    for number in range(first, last + 1):
        at_ms, offset = BASE_MS + model * 977 + number * apart_ms, number * 10
        # Member k left for generation 2 (k + 1).
        gone = number // 2
        names = range(gone, gone + members)
        texts = [
            f"Preparing to rebalance group {group_id} in state PreparingRebalance with old generation {number - 1} "
            f"(reason: explicit `LeaveGroup` request for ({member_id(gone - 1, model)}) members.).",
            f"Stabilized group {group_id} generation {number} with {members} members.",
            f"Assignment received from leader {member_id(gone, model)} for group {group_id} for generation {number}. "
            f"The group has {members} members, 0 of which are static.",
        ]
        if number % 2 == 0:
            texts.insert(
                0,
                f"[Group {group_id}] Member {member_id(gone - 1, model)} has left group through explicit `LeaveGroup` "
                "request; client reason: the consumer is being closed.",
            )
        else:
            texts[0] = (
                f"Preparing to rebalance group {group_id} in state PreparingRebalance with old generation {number - 1} "
                f"(reason: leader {member_id(gone, model)} re-joining group during Stable; "
                "client reason: cached metadata has changed)."
            )
        events += [_line(text, at_ms + n, number * 10 + n) for n, text in enumerate(texts)]
        of_names = {member_id(name, model): f"c{name}" for name in names}
        events.append(_record(group_id, number, offset, at_ms + 4, of_names, topic, partitions))
        marks += [
            {
                "cluster_id": CLUSTER, "group_id": group_id, "topic": topic, "partition": partition,
                "offsets_topic": OFFSETS_TOPIC, "offsets_partition": 7, "first_offset": offset + 1 + partition,
                "first_at_ms": at_ms + 4, "last_offset": offset + 1 + partition, "last_at_ms": at_ms + 4,
                "commit_count": 1,
            }
            for partition in range(min(partitions, COMMITS))
        ]  # fmt: skip
    return events, marks


def _line(text: str, at_ms: int, byte: int) -> Row:
    at = datetime.fromtimestamp(at_ms / 1000, UTC)
    source = SourceLine(
        cluster_id=CLUSTER, node="broker-1", file_name="server.log", file_id="f00d", byte=byte,
        text=f"[{at:%Y-%m-%d %H:%M:%S},{at_ms % 1000:03d}] INFO "
        f"[GroupCoordinator id=1 topic=__consumer_offsets partition=7] "
        f"{text} (org.apache.kafka.coordinator.group.GroupMetadataManager)",
    )  # fmt: skip
    event = parse_line(source)
    assert event is not None, text
    assert event.group_id is not None, text
    return line_row(source, event)


def _record(
    group_id: str, number: int, offset: int, at_ms: int, client_ids: Mapping[str, str], topic: str, partitions: int
) -> Row:
    """`client_ids`: of each member, the leader first."""
    members = [
        classic_member(
            member, client_id=client_id, subscription=consumer_subscription((topic,)),
            assignment=consumer_assignment({topic: tuple(range(place, partitions, len(client_ids)))}),
        )
        for place, (member, client_id) in enumerate(client_ids.items())
    ]  # fmt: skip
    source = SourceRecord(
        cluster_id=CLUSTER, topic=OFFSETS_TOPIC, partition=7, offset=offset, timestamp_ms=at_ms,
        key=group_metadata_key(group_id),
        value=group_metadata_value(
            number, members, protocol="range", leader=next(iter(client_ids)), current_state_timestamp=at_ms - 1
        ),
    )  # fmt: skip
    event = decode_source(source)
    assert isinstance(event, GroupRecord | ConnectRecord)
    return record_row(source, event)


def quiet_groups(count: int, generation_count: int) -> Iterator[tuple[pa.Table, pa.Table]]:
    """(events, marks), in pieces: each group is one of the models under another name of the same length."""
    models = [
        (name, *generations(name, 1, generation_count, apart_ms=60_000, model=model))
        for model, name in enumerate(f"quiet-{n:06d}" for n in range(min(count, MODELS)))
    ]
    for start in range(0, count, 5_000):
        named = [(f"quiet-{n:06d}", models[n % len(models)]) for n in range(start, min(start + 5_000, count))]
        events = [
            row
            | {"group_id": name, "ref": row["ref"].replace("#", f"#{name}")}
            | {"detail": row["detail"].replace(model, name)}
            | ({"text": row["text"].replace(model, name)} if "text" in row else {})
            | ({"key": row["key"].replace(model.encode(), name.encode())} if "key" in row else {})
            for name, (model, of_model, _) in named
            for row in of_model
        ]
        marks = [row | {"group_id": name} for name, (*_, of_model) in named for row in of_model]
        yield rows_to_table("silver.group_event", events), rows_to_table("silver.commit_mark", marks)


def storm(generation_count: int, *, per_second: int = 200) -> Iterator[tuple[pa.Table, pa.Table]]:
    for start in range(1, generation_count + 1, 20_000):
        last = min(start + 19_999, generation_count)
        events, marks = generations("storm", start, last, apart_ms=1_000 // per_second)
        yield rows_to_table("silver.group_event", events), rows_to_table("silver.commit_mark", marks)
