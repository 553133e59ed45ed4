"""How every rule writes a finding: its id, its times, its numbers, its refs."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from rebalance_audit.domain.kinds import FindingStatus, Severity
from rebalance_audit.domain.model import Finding


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """The time for which something was found, and whether it lasts."""

    key: str
    """What it began with, mostly the first rebalance's id: with rule and subject it makes the finding's id."""
    is_open: bool
    first_seen_at_ms: int
    last_seen_at_ms: int
    before: Finding | None = None
    """What was found in an earlier era and goes on here: see `detect.eras`."""


def make_finding(
    cluster_id: str,
    rule_id: str,
    subject_type: str,
    subject: str,
    extent: Extent,
    *,
    severity: Severity,
    title: str,
    advice: str,
    evidence: tuple[str, ...],
    numbers: Mapping[str, Any],
    detail: str | None = None,
    connectors: tuple[str, ...] = (),
) -> Finding:
    before = extent.before
    first_ms = extent.first_seen_at_ms if before is None else before.first_seen_at_ms
    return Finding(
        cluster_id=cluster_id,
        finding_id=finding_id(cluster_id, rule_id, subject, extent.key) if before is None else before.finding_id,
        rule_id=rule_id,
        severity=severity,
        subject_type=subject_type,
        subject=subject,
        status=FindingStatus.OPEN if extent.is_open else FindingStatus.RESOLVED,
        first_seen_at_ms=min(first_ms, extent.last_seen_at_ms),
        last_seen_at_ms=extent.last_seen_at_ms,
        title=title,
        detail=detail,
        numbers=json.dumps(dict(numbers), ensure_ascii=False, sort_keys=True),
        advice=advice,
        connectors=connectors,
        evidence=evidence if before is None else capped((*before.evidence, *evidence)),
    )


def finding_id(cluster_id: str, rule_id: str, subject: str, key: str) -> str:
    """The id depends only on cluster, rule, subject and first rebalance."""
    parts = "\x00".join((cluster_id, rule_id, subject, key))
    return f"{rule_id.lower()}:{hashlib.sha256(parts.encode('utf-8', 'surrogatepass')).hexdigest()[:16]}"


_EVIDENCE_CAP = 20


def capped(refs: Iterable[str]) -> tuple[str, ...]:
    """Each ref once, in order; of many, the first half and the last half of the cap."""
    unique = list(dict.fromkeys(refs))
    if len(unique) <= _EVIDENCE_CAP:
        return tuple(unique)
    half = _EVIDENCE_CAP // 2
    return (*unique[:half], *unique[-half:])


def numbers_of(text: str | None) -> Any:
    """The numbers of a finding as they are stored, as values; text that is no JSON stays text."""
    try:
        return None if text is None else json.loads(text)
    except ValueError:
        return text
