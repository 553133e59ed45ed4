"""What real fleets send and no client of ours would: one bad piece costs nothing beside it, and is never taken for
something else."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from rebalance_audit.domain.decode import Commit, decode_source
from rebalance_audit.domain.explain.group import explain, explain_text
from rebalance_audit.domain.gather.groups import gather
from rebalance_audit.domain.log_lines.rules import default_offsets_partition
from rebalance_audit.domain.measure.pauses import measure
from rebalance_audit.domain.model import Rebalance, SourceLine, SourceRecord
from rebalance_audit.domain.reconstruct import reconstruct
from spark_jobs.commits.kernel import decode_commits
from spark_jobs.commits.keys import COMMIT
from tests import encoders as enc

AT_MS = 1_795_269_600_000
GROUPS = [
    'say "hi"',
    "it's mine",
    "tab\tbed",
    "🎉 party 🎉",
    "back\\slash",
    "<b>bold</b>",
    " padded ",
    "a; b, c (d) [e]",
]


def a_record(offset: int, key: bytes, value: bytes | None, at_ms: int) -> SourceRecord:
    return SourceRecord(
        cluster_id="c", topic="__consumer_offsets", partition=7, offset=offset, timestamp_ms=at_ms, key=key, value=value
    )


def generations(*rounds: list[dict[str, Any]], group: str = "orders-app") -> list[SourceRecord]:
    """One delivered generation a second."""
    return [
        a_record(
            at, enc.group_metadata_key(group),
            enc.group_metadata_value(
                at + 1, members, protocol="range", leader=members[0]["MemberId"],
                current_state_timestamp=AT_MS + 1_000 * at - 10,
            ),
            AT_MS + 1_000 * at,
        )
        for at, members in enumerate(rounds)
    ]  # fmt: skip


def a_member(name: str, partitions: list[int], **others: Any) -> dict[str, Any]:
    known: dict[str, Any] = {
        "client_id": name,
        "subscription": enc.consumer_subscription(["orders"]),
        "assignment": enc.consumer_assignment({"orders": partitions}),
    }
    return enc.classic_member(f"{name}-00000000-0000-0000-0000-000000000000", **known | others)


def rebalances_of(records: list[SourceRecord], lines: list[SourceLine] | None = None) -> list[Rebalance]:
    (group,) = gather(records, lines or []).groups
    return [measure(rebalance) for rebalance in reconstruct(group).rebalances]


WHOLE = enc.consumer_subscription(["orders"], owned={"orders": [0, 1]})


@pytest.mark.parametrize(
    "subscription",
    [b"", b"\x00", b"\xff" * 40, b"not Kafka's at all", WHOLE[:9], WHOLE[:-9], b"\x00\x03" + b"\x7f\xff\xff\xff" * 3],
)
def test_a_subscription_that_cannot_be_read_costs_only_its_topics(subscription: bytes) -> None:
    good, bad = a_member("c1", [0]), a_member("c2", [1], subscription=subscription)
    first, second = rebalances_of(generations([good, bad], [a_member("c1", [0, 1])]))
    assert (first.outcome, first.member_count) == ("completed", 2)
    by_client = {m.client_id: m for m in first.members}
    assert by_client["c1"].subscribed_topics == ("orders",)
    assert by_client["c2"].assigned == ("orders-1",)
    assert {m.resource: (m.from_client_id, m.to_client_id) for m in second.movements}["orders-1"] == ("c2", "c1")


@pytest.mark.parametrize("assignment", [b"\x00", b"\xff" * 40, b"\x00\x01\x00\x00\x00\x09"])
def test_an_assignment_that_cannot_be_read_is_not_known_and_not_empty(assignment: bytes) -> None:
    (first,) = rebalances_of(generations([a_member("c1", [0]), a_member("c2", [1], assignment=assignment)]))
    assert {m.client_id: m.assigned for m in first.members} == {"c1": ("orders-0",), "c2": None}


@pytest.mark.parametrize("user_data", [b"", b"\x00", b'{"json": true}', b"\xff" * 300, b"\x00\x00\x00\x05hello" * 200])
@pytest.mark.parametrize("assignor", ["RoundRobinAssigner", "sticky", "stream", "my-own 🎉"])
def test_user_data_of_foreign_assignors_is_nobodys_business(user_data: bytes, assignor: str) -> None:
    members = [
        a_member(
            name, [at],
            subscription=enc.consumer_subscription(["orders"], version=0, user_data=user_data),
            assignment=enc.consumer_assignment({"orders": [at]}, user_data=user_data),
        )
        for at, name in enumerate(("c1", "c2"))
    ]  # fmt: skip
    value = enc.group_metadata_value(1, members, protocol=assignor, leader=members[0]["MemberId"])
    (first,) = rebalances_of([a_record(0, enc.group_metadata_key("orders-app"), value, AT_MS)])
    assert first.assignor == assignor
    if assignor != "stream":  # its partitions are shown as tasks, which its user data would name
        assert {m.client_id: m.assigned for m in first.members} == {"c1": ("orders-0",), "c2": ("orders-1",)}


def test_commits_with_4_kb_of_metadata_are_commits_like_others() -> None:
    metadata = "é🎉\"'\t" * 512
    assert len(metadata.encode()) > 4_096
    key, value = enc.offset_commit_key("orders-app", "orders", 0), enc.offset_commit_value(42, AT_MS, metadata=metadata)
    commit = decode_source(a_record(0, key, value, AT_MS))
    assert isinstance(commit, Commit)
    assert (commit.group_id, commit.topic, commit.partition, commit.is_tombstone) == ("orders-app", "orders", 0, False)
    assert decode_commits(pa.array([key]), pa.array([value])).verdict.tolist() == [COMMIT]


def test_two_clients_with_one_id_are_two_members() -> None:
    twins = [
        a_member("worker", [at]) | {"MemberId": f"worker-{at}0000000-0000-0000-0000-000000000000"} for at in range(2)
    ]
    left = [twins[0] | {"Assignment": enc.consumer_assignment({"orders": [0, 1]})}]
    first, second = rebalances_of(generations(twins, left))
    assert (first.member_count, second.member_count) == (2, 1)
    assert [m.client_id for m in first.members] == ["worker", "worker"]
    assert sorted(m.change for m in second.members) == ["left", "stayed"]
    moved = next(m for m in second.movements if m.resource == "orders-1")
    assert (moved.kind, moved.from_member_id, moved.to_member_id) == (
        "moved",
        twins[1]["MemberId"],
        twins[0]["MemberId"],
    )


@pytest.mark.parametrize("group_id", GROUPS)
def test_group_ids_of_any_text_go_through_records_and_lines_unchanged(group_id: str) -> None:
    partition = default_offsets_partition(group_id)
    head, logger = (
        "[2026-11-21 14:00:00,123] INFO [GroupCoordinator 1]: ",
        " (kafka.coordinator.group.GroupCoordinator)",
    )
    member = a_member("c1", [0])
    texts = [
        f"Preparing to rebalance group {group_id} in state PreparingRebalance with old generation 0 "
        f"(__consumer_offsets-{partition}) (reason: "
        f"Adding new member {member['MemberId']} with group instance id None)",
        f"Stabilized group {group_id} generation 1 (__consumer_offsets-{partition}) with 1 members",
    ]
    lines = [
        SourceLine(
            cluster_id="c", node="broker-1", file_name="server.log", file_id="f", byte=400 * at,
            text=f"{head}{text}{logger}",
        )
        for at, text in enumerate(texts)
    ]  # fmt: skip
    found = rebalances_of(generations([member], group=group_id), lines)
    assert [(r.group_id, r.generation_id, r.trigger, r.started_tier) for r in found] == [
        (group_id, 1, "member_joined", "logged")
    ]
    shown = explain_text(explain(group_id, found, [], not_seen=[], seen_from_ms=None, seen_until_ms=None), 100)
    assert "\t" not in shown
    assert "generation 1" in shown
