"""Incidents as traces: spans worked by hand, ids that stay, and a receiver that is away for a while."""

from __future__ import annotations

import contextlib
import gzip
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from rebalance_audit.alerts import traces
from rebalance_audit.alerts.target import AlertError
from rebalance_audit.alerts.traces import send_traces
from rebalance_audit.domain.traces import MOST_SPANS, spans_of
from rebalance_audit.warehouse.warehouse import Warehouse
from tests.app import gold_rows
from tests.webhook import Quiet, listening

T0 = 1_795_269_600_000


def incident(**changes: Any) -> dict[str, Any]:
    return {
        "cluster_id": "c", "incident_id": "in:1", "kind": "storm", "root_cause": "member_poll_timeout",
        "root_cause_tier": "logged", "severity": "critical", "status": "over", "expected": False, "title": "t",
        "story": "s", "advice": None, "cost_seconds": 4.5, "cost_lower_seconds": 4.0, "cost_upper_seconds": None,
        "culprits": ["<b>c3</b>"], "group_ids": ["orders"], "evidence": ["record:__consumer_offsets-7@231"],
        "first_at_ms": T0, "last_at_ms": T0 + 9_000, **changes,
    }  # fmt: skip


def rebalance(**changes: Any) -> dict[str, Any]:
    names = ("group_type", "group_epoch", "mode", "assignor", "trigger_tier", "trigger_detail", "expected",
             "member_count", "moved_count", "returned_count", "pause_estimate_ms", "resource_seconds_estimate",
             "resource_seconds_lower", "resource_seconds_upper")  # fmt: skip
    known = {
        "cluster_id": "c", "rebalance_id": "c/orders/7", "group_id": "orders", "generation_id": 7,
        "outcome": "completed", "trigger": "member_left", "started_at_ms": T0 + 1_000, "joined_at_ms": T0 + 4_000,
        "assigned_at_ms": T0 + 4_200, "ended_at_ms": T0 + 4_200, "evidence": ["log:kafka-1/server.log#5f@88123"],
    }  # fmt: skip
    return dict.fromkeys(names) | known | changes


def movement(partition: int, **changes: Any) -> dict[str, Any]:
    return {
        "rebalance_id": "c/orders/7", "resource_type": "partition", "resource": f"orders-{partition}",
        "topic": "orders", "partition": partition, "kind": "moved", "from_client_id": "c3", "to_client_id": "c1",
        "to_member_id": "c1-uuid", "pause_lower_ms": 3_000, "pause_estimate_ms": 3_250, "pause_upper_ms": 3_400,
        "pause_tier": "recorded", "overlap_ms": None, "is_avoidable": False, "evidence": ["record:x-7@1"],
        "stopped_at_lower_ms": T0 + 950, "stopped_at_upper_ms": T0 + 1_100, "resumed_at_lower_ms": T0 + 4_210,
        "resumed_at_upper_ms": T0 + 4_260, **changes,
    }  # fmt: skip


MEMBER = {"rebalance_id": "c/orders/7", "member_id": "c1-uuid", "client_id": "c1", "client_host": "/10.0.0.9",
          "group_instance_id": None, "worker_url": None, "change": "stayed"}  # fmt: skip


def test_a_rebalance_becomes_its_phases_and_standstills() -> None:
    spans = spans_of(incident(), [rebalance()], [MEMBER], [movement(4), movement(5, pause_estimate_ms=None)])
    shown = [(s.name, s.start_ms - T0, s.end_ms - T0) for s in spans]
    assert shown == [
        ("incident", 0, 9_000),
        ("rebalance", 1_000, 4_260),
        ("prepare and join", 1_000, 4_000),
        ("standstill", 1_010, 4_260),
        ("sync", 4_000, 4_200),
        ("reconcile", 4_000, 4_260),
    ]
    root, whole = spans[0], spans[1]
    assert root.is_error
    assert (root.parent_id, whole.parent_id) == (None, root.span_id)
    assert {s.parent_id for s in spans[2:]} == {whole.span_id}
    assert {s.trace_id for s in spans} == {root.trace_id}
    assert len({s.span_id for s in spans}) == len(spans)
    still = spans[3].attributes
    assert still["messaging.destination.name"] == "orders"
    assert still["messaging.destination.partition.id"] == "4"
    assert still["rebalance_audit.pause_lower_ms"] == 3_000
    assert still["rebalance_audit.evidence"] == ("record:x-7@1",)
    assert spans[5].attributes["rebalance_audit.client_id"] == "c1"
    assert "rebalance_audit.advice" not in root.attributes  # not known is not said


def test_what_has_no_two_ends_is_no_span() -> None:
    spans = spans_of(incident(), [rebalance(started_at_ms=None, joined_at_ms=None)])
    assert [s.name for s in spans] == ["incident", "rebalance"]
    nothing = rebalance(started_at_ms=None, joined_at_ms=None, assigned_at_ms=None, ended_at_ms=None)
    assert [s.name for s in spans_of(incident(), [nothing])] == ["incident"]


def test_ids_are_the_same_again_and_differ_between_clusters() -> None:
    one, again = (spans_of(incident(), [rebalance()], [MEMBER], [movement(4)]) for _ in range(2))
    assert one == again
    other = spans_of(incident(cluster_id="d"), [rebalance(cluster_id="d")], [MEMBER], [movement(4)])
    assert not {s.trace_id for s in one} & {s.trace_id for s in other}
    assert not {s.span_id for s in one} & {s.span_id for s in other}


def test_a_very_large_incident_says_what_it_left_out() -> None:
    spans = spans_of(incident(), [rebalance()], [], [movement(n, to_member_id=None) for n in range(3_000)])
    assert len(spans) == MOST_SPANS
    assert spans[0].attributes["rebalance_audit.spans_left_out"] == 3_000 + 3 - (MOST_SPANS - 1)
    assert "rebalance" in {s.name for s in spans}


# ---- sending


@dataclass(slots=True)
class Receiver:
    """Takes OTLP as the protocol's own classes read it. `is_away`: it refuses; `takes`: so many requests, then it is.
    `refuses`: what it refuses wherever it stands."""

    is_away: bool = False
    takes: int | None = None
    refuses: bytes | None = None
    requests: list[ExportTraceServiceRequest] = field(default_factory=list)
    url: str = ""

    def spans(self) -> list[Any]:
        return [s for r in self.requests for rs in r.resource_spans for ss in rs.scope_spans for s in ss.spans]


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    found = Receiver()

    class Handler(Quiet):
        def do_POST(self) -> None:
            content = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                content = gzip.decompress(content)
            is_refused = found.is_away or (found.refuses is not None and found.refuses in content)
            if not is_refused and self.path == "/v1/traces":
                found.requests.append(ExportTraceServiceRequest.FromString(content))
                found.is_away = len(found.requests) == found.takes
            self.send_response(400 if is_refused else 200)
            self.end_headers()

    with listening(Handler) as found.url:
        yield found


def test_what_is_over_is_sent_once_and_waits_while_the_receiver_is_away(receiver: Receiver, tmp_path: Path) -> None:
    warehouse = gold_rows.write(tmp_path / "w", many=0)
    over = warehouse.query("SELECT incident_id FROM gold.incident WHERE status = 'over'").num_rows
    assert over >= 2
    receiver.is_away = True
    with pytest.raises(AlertError, match="does not take every trace") as raised:
        send_traces(warehouse, receiver.url)
    assert "\n" not in str(raised.value)
    assert receiver.spans() == []
    receiver.is_away = False
    assert send_traces(warehouse, receiver.url) == over
    first = receiver.spans()
    assert {s.name for s in first} >= {"incident", "rebalance", "standstill"}
    assert send_traces(Warehouse.open(tmp_path / "w"), receiver.url) == 0
    assert len(receiver.spans()) == len(first)


def test_what_a_receiver_took_before_it_went_away_is_not_sent_again(
    receiver: Receiver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    warehouse = gold_rows.write(tmp_path / "w", many=0)
    send_traces(warehouse, receiver.url)
    wanted = sorted(s.span_id for s in receiver.spans())
    (tmp_path / "w/notes/traces.json").unlink()
    receiver.requests.clear()
    monkeypatch.setattr(traces, "SPANS_AT_ONCE", 2)
    is_sent = False
    while not is_sent:  # it goes away after each part, also within a trace
        receiver.takes, receiver.is_away = len(receiver.requests) + 1, False
        with contextlib.suppress(AlertError):
            send_traces(Warehouse.open(tmp_path / "w"), receiver.url)
            is_sent = True
    assert len(receiver.requests) > 4
    assert sorted(s.span_id for s in receiver.spans()) == wanted
    [parts] = (v for k, v in warehouse.recall("traces").items() if k.endswith(" in part"))
    assert parts == {}


def test_a_trace_that_a_receiver_refuses_holds_up_no_other(receiver: Receiver, tmp_path: Path) -> None:
    warehouse = gold_rows.write(tmp_path / "w", many=0)
    over = warehouse.query(
        "SELECT incident_id FROM gold.incident WHERE status = 'over' ORDER BY last_at_ms, cluster_id, incident_id"
    ).to_pylist()
    receiver.refuses = over[0]["incident_id"].encode()
    with pytest.raises(AlertError, match="does not take every trace"):
        send_traces(warehouse, receiver.url)
    assert [s.name for s in receiver.spans()].count("incident") == len(over) - 1
    receiver.refuses = None
    assert send_traces(warehouse, receiver.url) == 1


def test_sent_again_it_is_the_same_trace(receiver: Receiver, tmp_path: Path) -> None:
    warehouse = gold_rows.write(tmp_path / "w", many=0)
    send_traces(warehouse, receiver.url)
    ids = {(s.trace_id, s.span_id) for s in receiver.spans()}
    (tmp_path / "w/notes/traces.json").unlink()  # a backup without its notes
    receiver.requests.clear()
    send_traces(warehouse, receiver.url)
    assert {(s.trace_id, s.span_id) for s in receiver.spans()} == ids


def test_old_incidents_are_left_out_and_an_address_that_is_none_is_a_sentence(
    receiver: Receiver, tmp_path: Path
) -> None:
    warehouse = gold_rows.write(tmp_path / "w", many=0)
    assert send_traces(warehouse, receiver.url, from_ms=4_000_000_000_000) == 0
    with pytest.raises(AlertError, match="is no address of an OTLP receiver"):
        send_traces(warehouse, "collector:4318")
