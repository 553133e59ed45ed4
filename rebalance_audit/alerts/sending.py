"""Incidents to people: what is new since the last time, to each target, once per incident and change of its state.

A target is a URL: `http(s)://…` gets Alertmanager's v2 JSON by POST; everything else is apprise's (`slack://`, `mailtos://`,
`pagerduty://` …). The state file remembers per target what was delivered, and is written after each delivery, never
before: a crash between the two sends one message twice (at least once), and none is lost. A target that fails keeps
what it missed for the next time and holds up no other.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rebalance_audit.alerts.message import EVIDENCE_SHOWN, News, body, title
from rebalance_audit.alerts.routing import Routes
from rebalance_audit.alerts.silences import bring_into_line, is_alertmanager
from rebalance_audit.alerts.state import KeptState, StoredState, locked, read_state, write_state
from rebalance_audit.alerts.target import AlertError, NotDelivered, Sender, masked, sender_for
from rebalance_audit.domain.detect.wording import listed, shown
from rebalance_audit.domain.incidents import Incident, incident_of, incident_row
from rebalance_audit.domain.incidents.responses import Response, Standing, acknowledged_words, standing
from rebalance_audit.domain.kinds import Severity

_SEVERITIES = tuple(Severity)
_NAMES_REMEMBERED = 200
_NOTES_KEPT = 40
"""Notes kept of one incident: what was sent to whom."""
_WIDER_BY = 1.5
"""Half as many again: the second of one, the third of two, the fifth of three. A fleet that goes down one by one is
sent a dozen times, not two hundred."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertReport:
    delivered_count: int = 0
    """Incidents sent, over all targets."""
    failures: tuple[str, ...] = ()
    """One sentence per target that could not be reached; tried again next time."""
    printed: tuple[str, ...] = ()
    """Dry run: the messages that would have been sent."""


def send_alerts(
    incidents: Sequence[Incident],
    targets: Sequence[str],
    state_path: str | os.PathLike[str] | StoredState | KeptState,
    dry_run: bool = False,
    min_severity: str = Severity.WARNING,
    *,
    is_all: bool = False,
    is_live: bool = False,
    except_ids: Collection[str] = (),
    responses: Sequence[Response] = (),
    routes: Routes | None = None,
    now_ms: int = 0,
    runbook: str = "docs/runbook.md",
    out: Callable[[str], object] = print,
) -> AlertReport:
    """Send each target what is new.

    Open incidents that were not sent, or sent as less grave or less wide than they became; incidents that are over and
    were sent when open; and, once there is a state, those that came and went between two runs. `is_all`: `incidents`
    are all there are, so what was sent and is no longer among them is withdrawn. `is_live`: they are some of those that
    go on right now; what came and went is left to a later call with all of them. `except_ids`: nothing is sent about
    these, since something newer was sent meanwhile. `responses` as they stand at `now_ms`: about a silenced incident
    only its end is sent, and only if its opening was; about an acknowledged one that it became graver, and its end.
    `routes`: which target gets which; all get all without. Raises AlertError for a target that is none, and a state
    file that cannot be read.
    """
    if min_severity not in _SEVERITIES:
        raise AlertError(f"There is no severity {min_severity!r}: use one of {', '.join(_SEVERITIES)}.")
    senders = [sender_for(target, runbook) for target in targets]
    stands = {i.incident_id: standing(i, responses, now_ms) for i in incidents} if responses else {}
    current = [i for i in incidents if i.incident_id not in except_ids]
    keys = [sender.key for sender in senders]

    def routed(key: str) -> Sequence[Incident]:
        return current if routes is None else routes.of(key, current, keys)

    path = state_path if isinstance(state_path, StoredState | KeptState) else Path(state_path)
    if dry_run:
        state = read_state(path)
        printed: list[str] = []
        for sender in senders:
            for news in _news(
                routed(sender.key), state, sender.key, min_severity, stands, is_all=is_all, is_live=is_live
            ):
                printed.append(f"[{sender.name}] {title(news)}\n{body(news, runbook)}")
                out(printed[-1])
        return AlertReport(printed=tuple(printed))
    with locked(path):
        state = read_state(path)
        delivered, failures = 0, []
        for sender in senders:
            is_new, mine = sender.key not in state["delivered"], routed(sender.key)
            _remember_past([i for i in mine if is_new or _is_silenced(i, stands)], state, sender.key)
            pending = list(_news(mine, state, sender.key, min_severity, stands, is_all=is_all, is_live=is_live))
            pending = [news for news in pending if news.incident.incident_id not in except_ids]
            waiting = {news.incident.incident_id: news for news in pending}
            try:
                for sent in sender.send(pending):
                    _remember(state, sender.key, sent)
                    for each in sent:
                        news = waiting.pop(each.incident.incident_id, each)
                        _note_news(state, news, sender.name, now_ms, is_sent=True)
                    write_state(path, state)
                    delivered += len(sent)
            except NotDelivered as failure:
                for news in waiting.values():
                    _note_news(state, news, sender.name, now_ms, is_sent=False)
                failures.append(f"{sender.name} did not take the alerts, they are kept for the next time: {failure}")
            else:
                failures += _silence_there(sender, mine, state, stands, now_ms)
        if is_all:
            _forget(current, state, except_ids)
            ids = {i.incident_id for i in current}
            state["elsewhere"] = {key: sorted(ids - {i.incident_id for i in routed(key)}) for key in keys}
        write_state(path, state)
    return AlertReport(delivered_count=delivered, failures=tuple(failures))


def waiting_count(
    incidents: Sequence[Incident],
    state_path: Path | StoredState,
    responses: Sequence[Response] = (),
    now_ms: int = 0,
    min_severity: str = Severity.WARNING,
) -> int:
    """Messages that would be sent now, over all targets that ever had one; `incidents` are all there are."""
    state = read_state(state_path)
    stands = {i.incident_id: standing(i, responses, now_ms) for i in incidents} if responses else {}
    return sum(
        1
        for key in state["delivered"]
        for _ in _news(
            [i for i in incidents if i.incident_id not in state.get("elsewhere", {}).get(key, ())],
            state,
            key,
            min_severity,
            stands,
            is_all=True,
            is_live=False,
        )
    )


def _news(
    incidents: Sequence[Incident],
    state: dict[str, Any],
    key: str,
    min_severity: str,
    stands: Mapping[str, Standing],
    *,
    is_all: bool,
    is_live: bool,
) -> Iterator[News]:
    delivered: dict[str, dict[str, Any]] = state["delivered"].get(key, {})
    is_known_target = key in state["delivered"]
    least = _SEVERITIES.index(min_severity)
    for incident in sorted(incidents, key=lambda i: (i.first_at_ms, i.incident_id)):
        last = delivered.get(incident.incident_id)
        stand = stands.get(incident.incident_id)
        answered = None if stand is None else acknowledged_words(stand)
        is_grave = _rank(incident.severity) >= least and not _is_silenced(incident, stands)
        if last is not None and last["status"] == "open":
            if incident.status == "open":
                yield from _grown(incident, last, answered, is_grave=is_grave)
            else:
                yield _about(incident, last, status="over")
        elif last is not None and last["status"] == incident.status:
            continue
        elif incident.status == "open":
            if is_grave:
                yield _about(incident, None, status="open", answered=answered)
        elif is_known_target and is_grave and not is_live:  # it came and went between two runs
            yield _about(incident, None, status="over")
    if is_all:
        present = {i.incident_id for i in incidents}
        for incident_id, last in sorted(delivered.items()):
            if incident_id not in present and last["status"] == "open":
                yield _about(incident_of(last["incident"]), last, status="withdrawn")


def _is_silenced(incident: Incident, stands: Mapping[str, Standing]) -> bool:
    return incident.incident_id in stands and stands[incident.incident_id].silenced is not None


def _silence_there(
    sender: Sender, incidents: Sequence[Incident], state: dict[str, Any], stands: Mapping[str, Standing], now_ms: int
) -> list[str]:
    """An Alertmanager repeats by itself what it was sent: it hears of silences, too. The failure, if it does not."""
    if not is_alertmanager(sender.target):
        return []
    sent = state["delivered"].get(sender.key, {})
    there = state.setdefault("silenced", {}).setdefault(sender.key, {})
    wanted = {
        i.incident_id: stands[i.incident_id].silenced if i.incident_id in stands else None
        for i in incidents
        if i.incident_id in there or sent.get(i.incident_id, {}).get("status") == "open"
    }
    try:
        for incident_id, is_silenced in bring_into_line(sender.target, there, wanted):
            what = "silenced" if is_silenced else "heard again"
            _note(state, incident_id, what, sender.name, now_ms, is_sent=True)
    except NotDelivered as failure:
        return [f"{sender.name} did not take a silence, it is kept for the next time: {failure}"]
    return []


def _grown(incident: Incident, last: dict[str, Any], answered: str | None, *, is_grave: bool) -> Iterator[News]:
    is_graver = _rank(incident.severity) > _rank(last["severity"])
    more = None if answered else _more(incident, last)
    if is_grave and (is_graver or more):
        yield News(
            incident=incident,
            status="open",
            severity=incident.severity if is_graver else last["severity"],
            subject=last["subject"],
            sent_as=last["severity"] if is_graver else None,
            wider=more,
            answered=answered,
        )


def _more(incident: Incident, last: dict[str, Any]) -> str | None:
    """The culprits or groups that came since the last message, if they are enough for another one."""
    for name in ("culprits", "group_ids"):
        now = getattr(incident, name)
        if len(now) >= _WIDER_BY * max(last["wide"][name], 1) and len(now) > 1:
            new = [n for n in now if n not in last["names"][name]]
            return listed([shown(n) for n in new or now], 4)
    return None


def _about(incident: Incident, last: dict[str, Any] | None, *, status: str, answered: str | None = None) -> News:
    """The labels are those of the message that opened it, if there was one."""
    subject = incident.group_ids[0] if incident.group_ids else incident.culprits[0] if incident.culprits else ""
    return News(
        incident=incident,
        status=status,
        severity=incident.severity if last is None else last["severity"],
        subject=subject if last is None else last["subject"],
        answered=answered,
    )


def _rank(severity: str) -> int:
    return _SEVERITIES.index(severity) if severity in _SEVERITIES else -1


def _remember_past(incidents: Sequence[Incident], state: dict[str, Any], key: str) -> None:
    """A new target gets no message about what was over before it was there, and none about what a silence covered."""
    delivered = state["delivered"].setdefault(key, {})
    for incident in incidents:
        if incident.status == "over":
            delivered.setdefault(incident.incident_id, {"status": "over", "severity": incident.severity})


def _remember(state: dict[str, Any], key: str, sent: Sequence[News]) -> None:
    delivered = state["delivered"].setdefault(key, {})
    for news in sent:
        i = news.incident
        entry: dict[str, Any] = {"status": news.status, "severity": news.severity}
        if news.status == "open":  # what the next message about it will need
            names = {"culprits": list(i.culprits), "group_ids": list(i.group_ids)}
            entry["subject"] = news.subject
            entry["wide"] = {name: len(each) for name, each in names.items()}
            entry["names"] = {name: each[:_NAMES_REMEMBERED] for name, each in names.items()}
            entry["incident"] = incident_row(i) | {
                "chain": [], "rebalance_ids": [], "reassignment_ids": [], "advice": None,
                "culprits": names["culprits"][:1], "group_ids": names["group_ids"][:1],
                "finding_ids": list(i.finding_ids[:1]), "evidence": list(i.evidence[:EVIDENCE_SHOWN]),
            }  # fmt: skip
        if news.status == "withdrawn":
            delivered.pop(i.incident_id, None)
        else:
            delivered[i.incident_id] = entry


def _note_news(state: dict[str, Any], news: News, target: str, now_ms: int, *, is_sent: bool) -> None:
    what = "graver" if news.sent_as else "wider" if news.wider else news.status
    _note(state, news.incident.incident_id, what, target, now_ms, is_sent=is_sent)


def _note(state: dict[str, Any], incident_id: str, what: str, target: str, now_ms: int, *, is_sent: bool) -> None:
    """For people who look at the incident: when which target got what, and since when one does not take it."""
    notes = state.setdefault("sent", {}).setdefault(incident_id, [])
    note = {"at_ms": now_ms, "target": target, "what": what, "is_sent": is_sent}
    again = [n for n in notes if (n["target"], n["what"], n["is_sent"]) == (target, what, False)]
    if is_sent or not again:
        notes.append(note)
    del notes[:-_NOTES_KEPT]


def _forget(incidents: Sequence[Incident], state: dict[str, Any], except_ids: Collection[str]) -> None:
    """Incidents that are over and no longer in any table need not be remembered."""
    present = {i.incident_id for i in incidents} | set(except_ids)
    for delivered in state["delivered"].values():
        for incident_id in [i for i, e in delivered.items() if i not in present and e["status"] == "over"]:
            del delivered[incident_id]
    for by_incident in (state.get("sent", {}), *state.get("silenced", {}).values()):
        for incident_id in [i for i in by_incident if i not in present]:
            del by_incident[incident_id]


__all__ = ["AlertError", "AlertReport", "masked", "send_alerts", "waiting_count"]
