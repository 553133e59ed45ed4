"""Marks in words: not before, not after, about."""

from __future__ import annotations

from rebalance_audit.domain.kinds import ESTIMATE, LOWER, UPPER, Basis, Bound, EvidenceTier
from rebalance_audit.domain.model import ConnectRecord, LogEvent, Mark, changed

from .rounds import Round

Source = ConnectRecord | LogEvent | Round
"""The evidence of a mark: a status, a line, or a generation."""


def not_before(source: Source, detail: str, at_ms: int | None = None, *, tier: EvidenceTier | None = None) -> Mark:
    return _mark(LOWER, source, detail, at_ms, tier, 0)


def not_after(source: Source, detail: str, at_ms: int | None = None, *, tier: EvidenceTier | None = None) -> Mark:
    return _mark(UPPER, source, detail, at_ms, tier, 0)


def about(
    source: Source, detail: str, at_ms: int | None = None, *, rank: int, basis: Basis, tier: EvidenceTier | None = None
) -> Mark:
    return _mark(ESTIMATE, source, detail, at_ms, tier, rank, basis)


def within(mark: Mark, window: tuple[int, int]) -> Mark:
    """The estimate, and the time in which it must have been by reasoning."""
    return changed(mark, window_from_ms=window[0], window_to_ms=window[1])


def _mark(
    bound: Bound,
    source: Source,
    detail: str,
    at_ms: int | None,
    tier: EvidenceTier | None,
    rank: int,
    basis: Basis | None = None,
) -> Mark:
    if tier is None:
        is_logged = isinstance(source, LogEvent) or (isinstance(source, Round) and source.attempt.record is None)
        tier = EvidenceTier.LOGGED if is_logged else EvidenceTier.RECORDED
    at_ms = source.at_ms if at_ms is None else at_ms
    return Mark(bound=bound, at_ms=at_ms or 0, tier=tier, rank=rank, detail=detail, ref=source.ref, basis=basis)
