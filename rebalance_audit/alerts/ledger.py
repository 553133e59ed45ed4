"""What each target was sent: the content of the state file, as `state` reads and writes it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from rebalance_audit.alerts.message import EVIDENCE_SHOWN, News
from rebalance_audit.domain.incidents import Incident, incident_row

_NAMES_REMEMBERED = 200
_NOTES_KEPT = 40
"""Notes kept of one incident: what was sent to whom."""


def remember_past(state: dict[str, Any], key: str, incidents: Iterable[Incident]) -> None:
    """A new target gets no message about what was over before it was there, and none about what a silence covered."""
    delivered = state["delivered"].setdefault(key, {})
    for incident in incidents:
        if incident.status == "over":
            delivered.setdefault(incident.incident_id, {"status": "over", "severity": incident.severity})


def remember(state: dict[str, Any], key: str, sent: Sequence[News]) -> None:
    delivered = state["delivered"].setdefault(key, {})
    for news in sent:
        i = news.incident
        entry: dict[str, Any] = {"status": news.status, "severity": news.severity}
        if news.status == "open":  # what the next message about it will need
            names = {"culprits": list(i.culprits), "group_ids": list(i.group_ids)}
            entry["subject"] = news.subject
            entry["wide"] = {name: len(each) for name, each in names.items()}
            entry["names"] = {name: each[:_NAMES_REMEMBERED] for name, each in names.items()}
            told = delivered.get(i.incident_id, {}).get("kinds", [])
            entry["kinds"] = told if told[-1:] == [i.kind] else [*told, i.kind]
            entry["incident"] = incident_row(i) | {
                "chain": [], "rebalance_ids": [], "reassignment_ids": [], "advice": None,
                "culprits": names["culprits"][:1], "group_ids": names["group_ids"][:1],
                "finding_ids": list(i.finding_ids[:1]), "evidence": list(i.evidence[:EVIDENCE_SHOWN]),
            }  # fmt: skip
        if news.status == "withdrawn":
            delivered.pop(i.incident_id, None)
        else:
            delivered[i.incident_id] = entry


def note_news(state: dict[str, Any], news: News, target: str, now_ms: int, *, is_sent: bool) -> None:
    what = "graver" if news.sent_as else "another cause" if news.replaces else "wider" if news.wider else news.status
    note(state, news.incident.incident_id, what, target, now_ms, is_sent=is_sent)


def note(state: dict[str, Any], incident_id: str, what: str, target: str, now_ms: int, *, is_sent: bool) -> None:
    """For people who look at the incident: when which target got what, and since when one does not take it."""
    notes = state.setdefault("sent", {}).setdefault(incident_id, [])
    made = {"at_ms": now_ms, "target": target, "what": what, "is_sent": is_sent}
    again = [n for n in notes if (n["target"], n["what"], n["is_sent"]) == (target, what, False)]
    if is_sent or not again:
        notes.append(made)
    del notes[:-_NOTES_KEPT]


def forget(state: dict[str, Any], present: Collection[str]) -> None:
    """Incidents that are over and no longer `present` in any table need not be remembered."""
    for delivered in state["delivered"].values():
        for incident_id in [i for i, e in delivered.items() if i not in present and e["status"] == "over"]:
            del delivered[incident_id]
    for by_incident in (state.get("sent", {}), *state.get("silenced", {}).values()):
        for incident_id in [i for i in by_incident if i not in present]:
            del by_incident[incident_id]
