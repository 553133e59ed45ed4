"""How a finding reads as an alert: text from clients is hostile, and goes to people's chats."""

from __future__ import annotations

import re
from dataclasses import dataclass

from rebalance_audit.domain.detect.wording import clock, duration, shown
from rebalance_audit.domain.kinds import FindingStatus
from rebalance_audit.domain.model import Finding

EVIDENCE_SHOWN = 3
TITLE_WIDTH = 400
_DETAIL_WIDTH, _REF_WIDTH = 1_500, 200


@dataclass(frozen=True, slots=True, kw_only=True)
class News:
    """One thing one target has not been told."""

    finding: Finding
    status: str
    """`open`, `resolved`, or `withdrawn`: the evidence no longer supports it."""
    severity: str
    """As it was told when it opened: receivers match the two messages by it."""
    told_as: str | None = None
    """The lesser severity it was told with before, when it has become graver since."""


def title(news: News) -> str:
    f = news.finding
    mark = news.severity.upper() if news.status == FindingStatus.OPEN else news.status.upper()
    return f"[{mark}] {f.rule_id} {safe(f.title, TITLE_WIDTH)}"


def body(news: News, runbook: str) -> str:
    f = news.finding
    lasted = duration(f.last_seen_at_ms - f.first_seen_at_ms)
    lines = [f"{f.subject_type} {safe(f.subject, 200)}, cluster {safe(f.cluster_id, 100)}"]
    if news.status == FindingStatus.OPEN:
        graver = f", told as {news.told_as} before" if news.told_as else ""
        lines.append(f"since {clock(f.first_seen_at_ms)}, last seen {clock(f.last_seen_at_ms)}{graver}")
    elif news.status == FindingStatus.RESOLVED:
        lines.append(f"over: {clock(f.first_seen_at_ms)} to {clock(f.last_seen_at_ms)} ({lasted})")
    else:
        lines.append("withdrawn: evidence that came later does not support it")
    if news.status == FindingStatus.OPEN:
        if f.detail:
            lines += [safe(line, _DETAIL_WIDTH) for line in f.detail.splitlines()[:12]]
        if f.advice:
            lines.append(f"What to do: {safe(f.advice, _DETAIL_WIDTH)}")
        lines.append(f"Evidence: {'  '.join(safe(ref, _REF_WIDTH) for ref in f.evidence[:EVIDENCE_SHOWN])}")
        lines.append(f"Runbook: {runbook}#{f.rule_id.lower()}")
    return "\n".join(lines)


def safe(text: str, width: int) -> str:
    """Text that may hold what clients chose: on one line, and calling nobody (`@everyone`) and linking nowhere."""
    return re.sub(r"@(?=[^\W\d])", "@\u200b", shown(text, width)).replace("](", "] (")
