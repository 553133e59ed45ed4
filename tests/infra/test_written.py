"""What the lab takes for the truth about partitions, from what Kafka and ZooKeeper print of their own logs."""

from __future__ import annotations

import json

from infra.lab.written import states_of_records, states_of_znodes

ID = "a3aZXC9HRiWZ2U21h_-tDQ"


def test_records_change_what_they_name_and_leave_the_rest() -> None:
    created = {"partitionId": 0, "topicId": ID, "replicas": [2, 1], "isr": [2, 1], "addingReplicas": []}
    states = states_of_records(
        [
            (1, {"type": "TOPIC_RECORD", "data": {"name": "orders", "topicId": ID}}),
            (1, {"type": "PARTITION_RECORD", "data": {**created, "removingReplicas": [], "leader": 2}}),
            (
                5,
                {
                    "type": "PARTITION_CHANGE_RECORD",
                    "data": {"partitionId": 0, "topicId": ID, "leader": -1, "isr": [2]},
                },
            ),
            (9, {"type": "PARTITION_CHANGE_RECORD", "data": {"partitionId": 0, "topicId": ID, "addingReplicas": [3]}}),
            (12, {"type": "REMOVE_TOPIC_RECORD", "data": {"topicId": ID}}),
        ]
    )
    found = [(s["at_ms"], s["event"], s.get("isr"), s.get("leader"), s.get("adding")) for s in states]
    assert found == [
        (1, "written", [1, 2], 2, []),
        (5, "written", [2], None, []),
        (9, "written", [2], None, [3]),
        (12, "removed", None, None, None),
    ]


def test_a_partition_of_two_znodes_is_shown_once_both_are_there_and_only_where_its_own_part_changed() -> None:
    def topic(second: list[int]) -> str:
        plan = {"version": 2, "partitions": {"0": [1, 2], "1": second}, "adding_replicas": {"1": [3]}}
        return json.dumps(plan)

    def state(number: int, leader: int) -> str:
        return f"/brokers/topics/orders/partitions/{number}/state\t" + json.dumps({"leader": leader, "isr": [2, 1]})

    writes = [
        f"1\t/brokers/topics/orders\t{topic([2, 1])}",
        "2\t/brokers/topics/orders/partitions\t",
        f"3\t{state(0, 1)}",
        f"4\t{state(1, -1)}",
        f"5\t/brokers/topics/orders\t{topic([3, 1])}",
        "6\t/brokers/topics/orders\t",
    ]
    found = [(s["at_ms"], s["tp"], s["event"], s.get("replicas"), s.get("leader")) for s in states_of_znodes(writes)]
    assert found == [
        (3, "orders-0", "written", [1, 2], 1),
        (4, "orders-1", "written", [2, 1], None),
        (5, "orders-1", "written", [3, 1], None),
        (6, "orders-0", "removed", None, None),
        (6, "orders-1", "removed", None, None),
    ]
