"""Marks in words: not before, not after, about."""

from __future__ import annotations

from rebalance_audit.domain.model import ConnectRecord, EvidenceTier, LogEvent, Mark

from .rounds import Round

Source = ConnectRecord | LogEvent | Round
"""The evidence of a mark: a status, a line, or a generation."""


def not_before(source: Source, detail: str, at_ms: int | None = None, *, tier: str | None = None) -> Mark:
    return _mark("lower", source, detail, at_ms, tier, 0)


def not_after(source: Source, detail: str, at_ms: int | None = None, *, tier: str | None = None) -> Mark:
    return _mark("upper", source, detail, at_ms, tier, 0)


def about(source: Source, detail: str, at_ms: int | None = None, *, rank: int, tier: str | None = None) -> Mark:
    return _mark("estimate", source, detail, at_ms, tier, rank)


def _mark(bound: str, source: Source, detail: str, at_ms: int | None, tier: str | None, rank: int) -> Mark:
    if tier is None:
        is_logged = isinstance(source, LogEvent) or (isinstance(source, Round) and source.attempt.record is None)
        tier = EvidenceTier.LOGGED if is_logged else EvidenceTier.RECORDED
    at_ms = source.at_ms if at_ms is None else at_ms
    return Mark(bound=bound, at_ms=at_ms or 0, tier=str(tier), rank=rank, detail=detail, ref=source.ref)
