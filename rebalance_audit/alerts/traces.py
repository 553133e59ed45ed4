"""Incidents that are over, sent once to a receiver of OpenTelemetry (OTLP over HTTP)."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit, urlunsplit

from rebalance_audit.alerts.state import locked, state_of
from rebalance_audit.alerts.target import AlertError, NoTargetError
from rebalance_audit.domain.traces import TraceSpan, spans_of
from rebalance_audit.warehouse.advice import weigh_to_send

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan

NOTE = "traces"
SPANS_AT_ONCE = 512
_PATH = "/v1/traces"
_IN_PART = " in part"
"""The entry beside an address: for each trace that was taken in part, the spans that arrived."""


def send_traces(
    opened: Any,
    url: str,
    *,
    headers: Mapping[str, str] | None = None,
    from_ms: int | None = None,
    timeout_s: float = 10,
) -> int:
    """Send incidents that are over to an OTLP receiver; returns how many were sent. What was sent to this address is
    not sent again, be it a part; the rest waits.

    `headers` are sent along; without any those of OTEL_EXPORTER_OTLP_HEADERS. `from_ms`: incidents that ended before it
    are left out. Raises AlertError where the receiver is away or refuses, after those that it takes; they are
    remembered as sent.
    """
    address = _address(url)
    shown = _without_secrets(address)
    exporter = _OtlpExporter(address, headers, timeout_s)
    sent_count = refused_count = in_a_row = 0
    with locked(state_of(opened.location, NOTE)):
        note: dict[str, Any] = opened.recall(NOTE)
        sent = set(note.get(shown, ()))
        incidents = opened.query(
            "SELECT * FROM gold.incident WHERE status = 'over' AND (?::BIGINT IS NULL OR last_at_ms >= ?)"
            " ORDER BY last_at_ms, cluster_id, incident_id",
            [from_ms, from_ms],
        ).to_pylist()
        there = {f"{row['cluster_id']}/{row['incident_id']}" for row in incidents}
        weigh_to_send([i for i in incidents if f"{i['cluster_id']}/{i['incident_id']}" not in sent], opened)
        parts = {name: list(ids) for name, ids in note.get(f"{shown}{_IN_PART}", {}).items()}
        try:
            for incident in incidents:
                name = f"{incident['cluster_id']}/{incident['incident_id']}"
                if name in sent:
                    continue
                arrived = parts.setdefault(name, [])
                if exporter.sends([s for s in _spans(opened, incident) if _hex(s) not in arrived], arrived):
                    del parts[name]
                    sent.add(name)
                    sent_count, in_a_row = sent_count + 1, 0
                else:
                    refused_count, in_a_row = refused_count + 1, in_a_row + 1
                    if in_a_row > 1:
                        break  # the receiver is away; it did not refuse this trace
        finally:
            exporter.close()
            keep = sent if from_ms is not None else sent & there  # of the tables' incidents alone
            in_part = {name: ids for name, ids in parts.items() if ids and (from_ms is not None or name in there)}
            now = {**note, shown: sorted(keep), f"{shown}{_IN_PART}": in_part}
            if now != note and (keep or in_part):
                opened.remember(NOTE, now)
    if refused_count:
        raise AlertError(
            f"{shown} does not take every trace; is it an OTLP receiver over HTTP, and is it up? What was not sent is "
            "sent the next time."
        )
    return sent_count


def _spans(opened: Any, incident: dict[str, Any]) -> list[TraceSpan]:
    asked = [incident["cluster_id"], incident["rebalance_ids"]]
    rebalances, members, movements = (
        opened.query(
            f"SELECT * FROM {table} WHERE cluster_id = ? AND rebalance_id IN (SELECT unnest(?::VARCHAR[]))", asked
        ).to_pylist()
        for table in ("gold.rebalance", "gold.rebalance_member", "gold.movement")
    )
    return spans_of(incident, rebalances, members, movements)


class _OtlpExporter:
    def __init__(self, address: str, headers: Mapping[str, str] | None, timeout_s: float) -> None:
        from opentelemetry.exporter.otlp.proto.http import Compression
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

        # The exporter's own log lines are hidden: a failure is reported here, in one sentence.
        logging.getLogger("opentelemetry.exporter.otlp.proto.http.trace_exporter").setLevel(logging.CRITICAL)
        self._exporter = OTLPSpanExporter(
            endpoint=address, headers=dict(headers or {}) or None, timeout=timeout_s, compression=Compression.Gzip
        )

    def sends(self, spans: Sequence[TraceSpan], arrived: list[str]) -> bool:
        """Send spans; returns whether all were taken. `arrived` gets the ids of those that were, also before a
        refusal."""
        from opentelemetry.sdk.trace.export import SpanExportResult

        for at in range(0, len(spans), SPANS_AT_ONCE):
            some = spans[at : at + SPANS_AT_ONCE]
            if self._exporter.export([_readable(span) for span in some]) is not SpanExportResult.SUCCESS:
                return False
            arrived += map(_hex, some)
        return True

    def close(self) -> None:
        self._exporter.shutdown()  # type: ignore[no-untyped-call]


def _hex(span: TraceSpan) -> str:
    return f"{span.span_id:016x}"


def _readable(span: TraceSpan) -> ReadableSpan:
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags

    def context(span_id: int) -> SpanContext:
        return SpanContext(span.trace_id, span_id, is_remote=False, trace_flags=TraceFlags(TraceFlags.SAMPLED))

    return ReadableSpan(
        name=span.name,
        context=context(span.span_id),
        parent=None if span.parent_id is None else context(span.parent_id),
        resource=Resource({"service.name": "rebalance-audit"}),
        attributes=dict(span.attributes),
        kind=SpanKind.INTERNAL,
        status=Status(StatusCode.ERROR if span.is_error else StatusCode.UNSET),
        start_time=span.start_ms * 1_000_000,
        end_time=span.end_ms * 1_000_000,
    )


def _address(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise NoTargetError(f"{_without_secrets(url)} is no address of an OTLP receiver; give http(s)://HOST:4318.")
    return url if parts.path.rstrip("/") else url.rstrip("/") + _PATH


def _without_secrets(url: str) -> str:
    """Without user, password and query."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))
