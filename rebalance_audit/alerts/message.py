"""How an incident reads as an alert: text from clients is hostile, and goes to people's chats."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import urlencode

from rebalance_audit.domain.detect.wording import clock, duration, listed, shown
from rebalance_audit.domain.incidents import Incident
from rebalance_audit.domain.incidents.blame import whose_doing

EVIDENCE_SHOWN = 3
RUNBOOK = "docs/runbook.md"
"""Where nobody said where a browser finds it."""
TITLE_WIDTH = 400
_TEXT_WIDTH, _REF_WIDTH, _NAME_WIDTH = 1_500, 200, 100
_NAMES_SHOWN = 5
_RULE = re.compile(r"[a-z]{2}\d{3}(?=:)")


@dataclass(frozen=True, slots=True)
class Runbook:
    """Where a browser finds what to do about an incident."""

    address: str
    """An http(s) address: of the runbook's page, or of the app."""
    is_app: bool = False
    """The app's page of each incident has the runbook's text."""

    def url(self, incident: Incident) -> str:
        if self.is_app:
            named = {"cluster": incident.cluster_id, "incident": incident.incident_id}
            return f"{self.address}/incident?{urlencode(named)}"
        return self.address + _heading(incident)


@dataclass(frozen=True, slots=True, kw_only=True)
class News:
    """One message that a target has not had yet."""

    incident: Incident
    status: str
    """`open`, `over`, or `withdrawn`: the evidence no longer supports it, or it turned out to be part of another."""
    severity: str
    """The severity sent when the incident opened: receivers match the two messages by it."""
    subject: str
    """The subject sent when the incident opened, for the same reason."""
    sent_as: str | None = None
    """The lesser severity of the message before; None unless the incident has become graver since."""
    wider: str | None = None
    """The groups or culprits that joined since the message before; None if few or none did."""
    replaces: str | None = None
    """The title of the message before, if that blamed something else; None otherwise."""
    answered: str | None = None
    """Who acknowledged it, in words."""
    runbook: Runbook | None = None
    unknown_since_ms: int | None = None
    """When the evidence of its cluster ended, if that shows nothing about now."""


def title(news: News) -> str:
    mark = news.severity.upper() if news.status == "open" else news.status.upper()
    return f"[{mark}] {safe(news.incident.title, TITLE_WIDTH)}"


def body(news: News) -> str:
    i = news.incident
    groups = listed([safe(g, _NAME_WIDTH) for g in i.group_ids], _NAMES_SHOWN)
    where = f"{'groups' if len(i.group_ids) > 1 else 'group'} {groups}, " if groups else ""
    lines = [f"{where}cluster {safe(i.cluster_id, _NAME_WIDTH)}"]
    if news.status == "open":
        graver = f", sent as {news.sent_as} before" if news.sent_as else ""
        wider = f", wider than sent before: {news.wider}" if news.wider else ""
        unknown = f", not known since {clock(news.unknown_since_ms)}" if news.unknown_since_ms is not None else ""
        lines.append(f"since {clock(i.first_at_ms)}, last event {clock(i.last_at_ms)}{unknown}{graver}{wider}")
    elif news.status == "over":
        lines.append(
            f"over: {clock(i.first_at_ms)} to {clock(i.last_at_ms)} ({duration(i.last_at_ms - i.first_at_ms)})"
        )
    else:
        lines.append("withdrawn: evidence that came later does not support it, or makes it part of another incident")
    if news.replaces:
        lines.append(f"another cause than sent before: {safe(news.replaces, TITLE_WIDTH)}")
    if news.answered:
        lines.append(safe(news.answered, _TEXT_WIDTH))
    if news.status != "withdrawn":
        lines.append(safe(i.story, _TEXT_WIDTH))
    if news.status == "open":
        lines.append(f"Whose doing: {safe(whose_doing(i), _TEXT_WIDTH)}")
        if i.advice:
            lines.append(f"What to do: {safe(i.advice, _TEXT_WIDTH)}")
        if i.evidence:
            lines.append(f"Evidence: {'  '.join(safe(ref, _REF_WIDTH) for ref in i.evidence[:EVIDENCE_SHOWN])}")
        lines.append(f"Runbook: {RUNBOOK + _heading(i) if news.runbook is None else news.runbook.url(i)}")
    return "\n".join(lines)


def _heading(incident: Incident) -> str:
    """The heading of its gravest symptom, whose rule its finding id begins with: `#rb007`."""
    rule = _RULE.match(incident.finding_ids[0]) if incident.finding_ids else None
    return f"#{rule[0]}" if rule else ""


def safe(text: str, width: int) -> str:
    """Text that may hold what clients chose: on one line, and calling nobody (`@everyone`) and linking nowhere."""
    return re.sub(r"@(?=[^\W\d])", "@\u200b", shown(text, width)).replace("](", "] (")
