from __future__ import annotations

from dataclasses import replace

from rebalance_audit.domain.gather.clocks import NodeClock, ZoneSource
from rebalance_audit.domain.model import SourceLine
from rebalance_audit.domain.reassign.lines import LogLines, settled

HOUR_MS = 3_600_000
TEXT = (
    "[2024-05-01 12:00:0{},000] INFO [QuorumController id=1] Periodic task electPreferred generated 1 records in 5 us "
    "(org.apache.kafka.controller.QuorumController)"
)


def a_line(node: str, second: int) -> SourceLine:
    return SourceLine(
        cluster_id="c", node=node, file_name="controller.log", file_id="f", byte=second, text=TEXT.format(second)
    )


def test_lines_get_the_times_of_their_nodes_clocks_and_come_in_their_order() -> None:
    two_hours_ahead = NodeClock(source=ZoneSource.CONFIGURED, zone="+02:00")
    lines = LogLines().read([a_line("broker-1", 1), a_line("broker-1", 3), a_line("broker-2", 2)]).lines
    found = settled(lines, {"broker-2": two_hours_ahead})
    noon_ms = 1_714_564_800_000
    assert [(line.event.node, line.at_ms) for line in found] == [
        ("broker-2", noon_ms + 2_000 - 2 * HOUR_MS),
        ("broker-1", noon_ms + 1_000),
        ("broker-1", noon_ms + 3_000),
    ]


def test_lines_behind_a_text_that_a_client_tore_say_nothing_until_its_end_and_in_no_other_file() -> None:
    """A group id may hold line breaks, and whole lines behind them."""
    torn = replace(
        a_line("broker-1", 0), text="[2024-05-01 12:00:00,000] INFO [GroupCoordinator 1]: Stabilized group x"
    )
    end = replace(a_line("broker-1", 3), text="[2024-05-01 12:00:00,000] INFO x\n generation 1 (a.B)")
    lines = [torn, a_line("broker-1", 1), a_line("broker-1", 2), end, a_line("broker-1", 4), a_line("broker-2", 2)]
    found = LogLines().read(lines).lines
    assert [(line.event.node, line.event.ref.rpartition("@")[2]) for line in found] == [
        ("broker-1", "4"),
        ("broker-2", "2"),
    ]
