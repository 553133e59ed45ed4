"""What is new for a target: incidents as they stand, beside what it was sent before."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from rebalance_audit.alerts.message import News
from rebalance_audit.alerts.routing import Routes
from rebalance_audit.domain.detect.wording import listed, shown
from rebalance_audit.domain.incidents import Incident, incident_of
from rebalance_audit.domain.incidents.responses import Response, Standing, acknowledged_words, standing
from rebalance_audit.domain.incidents.words import is_old
from rebalance_audit.domain.kinds import Severity

_SEVERITIES = tuple(Severity)
_WIDER_BY = 1.5
"""Half as many again: the second of one, the third of two, the fifth of three. A fleet that goes down one by one is
sent a dozen times, not two hundred."""
_BLAMING = frozenset({"storm", "reassignment", "coordinator", "connect_worker", "member_fault"})
"""Kinds that send somebody somewhere: who was sent to the hosts of members has to hear that a broker failed."""
_TOLD_TWICE = 2
"""So often one kind of cause is told: first the members, then the broker, and the members if they do not return. Two
judgements that went on contradicting each other would send for ever."""


@dataclass(frozen=True)
class AlertRound:
    """Incidents as they stand at one moment, and which of them are sent to whom."""

    incidents: Sequence[Incident]
    now_ms: int = 0
    min_severity: Severity = Severity.WARNING
    is_all: bool = False
    """`incidents` are all there are: what was sent and is no longer among them is withdrawn."""
    is_live: bool = False
    """They are some of those that go on right now; what came and went is left to a later round with all of them."""
    except_ids: Collection[str] = ()
    """Nothing is sent about these: something newer was sent meanwhile."""
    responses: Sequence[Response] = ()
    """About a silenced incident only its end is sent, and only if its opening was; about an acknowledged one that it
    became graver or has another cause, and its end."""
    routes: Routes | None = None
    """Which target gets which; without, each gets all."""
    ends: Mapping[str, int] = field(default_factory=dict)
    """By cluster when its evidence ended; a message says it of an open incident, if that shows nothing about now."""
    advised: Callable[[Sequence[Incident]], Sequence[Incident]] | None = None
    """The same incidents with what stored replays say in their advice; without, it is sent as it is stored."""

    @cached_property
    def current(self) -> Sequence[Incident]:
        return [i for i in self.incidents if i.incident_id not in self.except_ids]

    @cached_property
    def standings(self) -> Mapping[str, Standing]:
        """The answers in force, by incident."""
        if not self.responses:
            return {}
        return {i.incident_id: standing(i, self.responses, self.now_ms) for i in self.incidents}

    def of_target(self, key: str, keys: Collection[str]) -> Sequence[Incident]:
        """The incidents for the target with this key. `keys`: those of all targets that are sent to."""
        return self.current if self.routes is None else self.routes.of(key, self.current, keys)

    def is_silenced(self, incident: Incident) -> bool:
        return self.silence_of(incident) is not None

    def silence_of(self, incident: Incident) -> Response | None:
        standing_now = self.standings.get(incident.incident_id)
        return None if standing_now is None else standing_now.silenced

    def messages(self, incidents: Iterable[Incident], key: str, state: Mapping[str, Any]) -> list[News]:
        """The news as it is sent. Only a message about an open incident has advice."""
        found = list(self.news(incidents, key, state))
        if self.routes is not None:
            found = [replace(news, runbook=self.routes.runbook) for news in found]
        opened = [news.incident for news in found if news.status == "open"]
        found = [replace(news, unknown_since_ms=self._unknown_since(news)) for news in found]
        if self.advised is None or not opened:
            return found
        said = {i.incident_id: i for i in self.advised(opened)}
        return [
            replace(news, incident=said[news.incident.incident_id]) if news.status == "open" else news for news in found
        ]

    def _unknown_since(self, news: News) -> int | None:
        ended_ms = self.ends.get(news.incident.cluster_id)
        return ended_ms if news.status == "open" and ended_ms is not None and is_old(ended_ms, self.now_ms) else None

    def news(self, incidents: Iterable[Incident], key: str, state: Mapping[str, Any]) -> Iterator[News]:
        """What the target with this key has not had yet, of `incidents`, by what `state` says it was sent.

        Open incidents that were not sent, or sent as less grave or less wide than they became, or with another cause;
        incidents that are over and were sent when open; and, once there is a state, those that came and went between
        two rounds.
        """
        sent: Mapping[str, dict[str, Any]] = state["delivered"].get(key, {})
        is_known_target = key in state["delivered"]
        ordered = sorted(incidents, key=lambda i: (i.first_at_ms, i.incident_id))
        for incident in ordered:
            yield from self._about(incident, sent.get(incident.incident_id), is_known_target=is_known_target)
        if self.is_all:
            present = {i.incident_id for i in ordered} | set(self.except_ids)
            for incident_id, last in sorted(sent.items()):
                if incident_id not in present and last["status"] == "open":
                    yield _message(incident_of(last["incident"]), last, status="withdrawn")

    def _about(self, incident: Incident, last: Mapping[str, Any] | None, *, is_known_target: bool) -> Iterator[News]:
        standing_now = self.standings.get(incident.incident_id)
        answered = None if standing_now is None else acknowledged_words(standing_now)
        is_grave = _rank(incident.severity) >= _rank(self.min_severity) and not self.is_silenced(incident)
        if last is not None and last["status"] == "open":
            if incident.status == "open":
                yield from _grown(incident, last, answered, is_grave=is_grave)
            else:
                yield _message(incident, last, status="over")
        elif last is not None and last["status"] == incident.status:
            return
        elif incident.status == "open":
            if is_grave:
                yield _message(incident, None, status="open", answered=answered)
        elif is_known_target and is_grave and not self.is_live:  # it came and went between two rounds
            yield _message(incident, None, status="over")


def _grown(incident: Incident, last: Mapping[str, Any], answered: str | None, *, is_grave: bool) -> Iterator[News]:
    is_graver = _rank(incident.severity) > _rank(last["severity"])
    more = None if answered else _more(incident, last)
    replaced = _replaced(incident, last)
    if is_grave and (is_graver or more or replaced):
        yield News(
            incident=incident,
            status="open",
            severity=incident.severity if is_graver else last["severity"],
            subject=last["subject"],
            sent_as=last["severity"] if is_graver else None,
            wider=more,
            replaces=replaced,
            answered=answered,
        )


def _replaced(incident: Incident, last: Mapping[str, Any]) -> str | None:
    """The title of the last message, if it blamed something of another kind."""
    before = last["incident"]
    told = last.get("kinds", [before["kind"]])  # older states have only the last one
    is_another = incident.kind in _BLAMING and incident.kind != before["kind"]
    return before["title"] if is_another and told.count(incident.kind) < _TOLD_TWICE else None


def _more(incident: Incident, last: Mapping[str, Any]) -> str | None:
    """The culprits or groups that came since the last message, if they are enough for another one."""
    for name in ("culprits", "group_ids"):
        now = getattr(incident, name)
        if len(now) >= _WIDER_BY * max(last["wide"][name], 1) and len(now) > 1:
            new = [n for n in now if n not in last["names"][name]]
            return listed([shown(n) for n in new or now], 4)
    return None


def _message(incident: Incident, last: Mapping[str, Any] | None, *, status: str, answered: str | None = None) -> News:
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
    return _SEVERITIES.index(Severity(severity)) if severity in _SEVERITIES else -1
