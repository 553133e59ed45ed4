"""What each captured scenario must be found to be, from its description in truth/scenario.json alone.

Severities stand for how it must be shown; a rule that is not named must be silent. Who adds a capture adds a line.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from ingest.evidence import read_evidence
from rebalance_audit.domain.detect import detect_group
from rebalance_audit.domain.gather.groups import gather
from rebalance_audit.domain.measure.pauses import measure
from rebalance_audit.domain.reconstruct import reconstruct

GOLDEN = Path(__file__).resolve().parents[2] / "golden"

EXPECTED: dict[str, dict[str, dict[str, str]]] = {
    # c3 is killed; every other member closes. The range assignor shifts partitions between those that stay.
    "eager_join_leave_kill": {"orders-app": {"RB007": "warning", "RB004": "info"}},
    # A cooperative group grows and its leader leaves: second rounds are no storm, and nothing is wrong.
    "cooperative_scale_up": {"payments-app": {}},
    # Three members replaced one after the other: a bounded deploy, with range shifting what stays.
    "rolling_deploy": {"deploy-app": {"RB004": "info"}},
    # The second of three KIP-848 members is killed.
    "kip848_join_leave": {"clicks-app": {"RB007": "warning"}},
    # p2 does not poll for 20 s, its limit is 8 s.
    "poll_timeout": {"reports-app": {"RB006": "warning"}},
    # The same on brokers where the protocol is early access; at last the group is empty.
    "kip848_early_access": {"modern-app": {"RB007": "warning"}},
    # k2 of a KIP-848 group does not poll for 25 s, its limit is 8 s.
    "kip848_poll_timeout": {"idle-app": {"RB006": "warning"}},
    # A static member of a KIP-848 group restarts inside its session (silent), then stays away until it ends.
    "kip848_static_restart": {"fixed-app": {"RB009": "warning"}},
    # An administrator removes a static member that was closed, then everybody: on purpose, and nothing is wrong.
    "admin_removal": {"removed-app": {}},
    # One of three share consumers leaves, another is killed.
    "share_group_of_many": {"shared-by-many-app": {"RB007": "warning"}},
    # Of four share consumers one closes, and one is killed.
    "share_members_go": {"share-app": {"RB007": "warning"}},
    # Of three members one is frozen for longer than its session, later two are killed.
    "kip848_mishaps": {group: {"RB007": "warning"} for group in ("j-java", "r-librdkafka", "f-franz-go")},
    # In each of five groups one is killed or frozen; the range assignor shifts partitions between those that stay.
    "shift_of_both_protocols": {
        **{f"{letter}-app": {"RB007": "warning"} for letter in "rfmk"},
        "s-app": {"RB007": "warning", "RB004": "info"},
    },
    # One of three instances is killed, one closed, which looks alike, and one frozen.
    "streams_of_three": {"trio-app": {"RB007": "info"}},
    # A Streams instance is closed, which on the classic protocol looks like a death and is none.
    "streams_standby": {"copy-app": {"RB007": "info"}},
    # The same, after a second instance has come.
    "streams_scale_out": {"scale-app": {"RB007": "info"}},
    # s2 restarts inside its session (silent), then stays away until its session ends.
    "static_restart": {"billing-app": {"RB009": "warning"}},
    # One of three members stalls again and again.
    "storm": {"stormy-app": {"RB001": "warning", "RB004": "info", "RB005": "warning", "RB006": "warning"}},
    # A worker joins: one round revokes, the next assigns.
    "connect_worker_joins": {"connect-lab": {}},
    # A worker is killed and stays away: tasks wait for the delay, the status topic goes on saying RUNNING.
    "connect_worker_lost": {"connect-lab": {"RB007": "warning", "CN001": "warning", "CN003": "info"}},
    # It is restarted, and back within the delay.
    "connect_bounce_within_delay": {"connect-lab": {"CN001": "info"}},
    # Under connect.protocol=eager a worker is restarted, then killed.
    "connect_eager": {"connect-lab": {"CN006": "warning", "RB007": "warning", "CN003": "info"}},
    # Connectors are created, changed, paused, stopped and deleted.
    "connect_connector_life": {"connect-lab": {}},
    # A member closes, another is killed. Round robin over four partitions moves three of five without need.
    "kafka_go_join_leave_kill": {"kafka-go-app": {"RB004": "info", "RB007": "warning"}},
    "kafka_python_join_leave_kill": {"kafka-python-app": {"RB007": "warning"}},
    "franz_go_join_leave_kill": {"franz-go-app": {"RB007": "warning"}},
    "sarama_join_leave_kill": {"sarama-app": {"RB007": "warning"}},
    "aiokafka_join_leave_kill": {"aiokafka-app": {"RB007": "warning", "RB004": "info"}},
    # The same of four other libraries, each in a group of its own.
    "alike_elsewhere": {
        f"{library}-alike": {"RB007": "warning"} for library in ("sarama", "kafkajs", "kafka-go", "aiokafka")
    },
    # Members join and one leaves: range moves what stays, cooperative-sticky does not.
    "sarama_on_three_brokers": {"calm-range": {"RB004": "info"}, "calm-sticky": {}},
    # Two members replaced and one killed, under range.
    "java_deploy_beside_librdkafka": {"till-app": {"RB004": "info", "RB007": "warning"}},
    # Two members join and one leaves, whatever the group is called and however much is committed beside a position.
    "odd_names": {"it's \"quoted\", group='x'": {}, "tab\there (reason: none)": {}, "🚚 lieferung ✓": {}},
    # The topic falls silent for longer than the rebalance timeout, then the members close: nobody was late.
    # Of two that call themselves alike one is killed.
    "one_client_id": {"alike-app": {"RB007": "warning"}},
    # A member of each is killed; nobody can read the subscriptions of one, and its members get on with each other.
    "foreign_assignors": {
        "unread-app": {"RB007": "warning", "RB017": "info"},
        "own-data-app": {"RB007": "warning"},
    },
    # Its coordinator failed as it ended the join phase: nobody waits out the timeout before this is found.
    "torn_subscription": {"waiting-app": {"RB020": "critical"}},
    "kafkajs_silent_close": {"kafkajs-app": {}},
    "kafka_go_silent_close": {"kafka-go-app": {}},
    "franz_go_silent_close": {"franz-go-app": {}},
    "sarama_silent_close": {"sarama-app": {}},
    "kafka_python_silent_close": {"kafka-python-app": {}},
    "aiokafka_silent_close": {"aiokafka-app": {}},
    # Two members replaced one after another: what one leaves goes to the other and half of it back.
    "kafkajs_rolling_deploy": {"kafkajs-app": {}},
    "kafka_go_rolling_deploy": {"kafka-go-app": {}},
    "franz_go_rolling_deploy": {"franz-go-app": {}},
    "sarama_rolling_deploy": {"sarama-app": {}},
    "kafka_python_rolling_deploy": {"kafka-python-app": {}},
    "aiokafka_rolling_deploy": {"aiokafka-app": {}},
    # One of two franz-go members of a KIP-848 group leaves, the other is killed.
    "kip848_franz_go": {"clicks-app": {"RB007": "warning"}},
    # A static member restarts inside its session.
    "franz_go_static_restart": {"franz-go-app": {}},
    "sarama_static_restart": {"sarama-app": {}},
    "kafka_python_static_restart": {"kafka-python-app": {}},
    "aiokafka_static_restart": {"aiokafka-app": {}},
}

CAPTURES = sorted(path.parent for path in GOLDEN.glob("*/*/meta.json") if path.parent.name in EXPECTED)


@pytest.mark.parametrize("capture", CAPTURES, ids=[f"{c.parent.name} {c.name}" for c in CAPTURES])
def test_a_captured_scenario_is_found_to_be_what_it_was(capture: Path) -> None:
    evidence = read_evidence(capture)
    gathered = gather(evidence.records(), evidence.lines())
    by_group = {group.group_id: group for group in gathered.groups}
    for group_id, expected in EXPECTED[capture.name].items():
        found = reconstruct(by_group[group_id])
        findings = detect_group([measure(r) for r in found.rebalances], found.connect_tasks)
        assert {f.rule_id: f.severity for f in findings} == expected, "\n".join(f.title for f in findings)
        assert len(findings) == len(expected), "one incident each"


def test_what_a_killed_share_consumer_held_alone_went_to_another() -> None:
    evidence = read_evidence(next(c for c in CAPTURES if c.name == "share_group_of_many"))
    (group,) = gather(evidence.records(), evidence.lines()).groups
    (finding,) = detect_group([measure(r) for r in reconstruct(group).rebalances], ())
    assert finding.title.endswith("its 1 partition went to others; how long nobody had it is unknown")


def test_the_captures_that_are_always_kept_were_looked_at() -> None:
    assert len(CAPTURES) >= len(EXPECTED)
