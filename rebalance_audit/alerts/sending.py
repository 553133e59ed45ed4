"""Incidents to people: what is new since the last time, to each target, once per incident and change of its state.

A target is a URL: `http(s)://…` gets Alertmanager's v2 JSON by POST; everything else is apprise's (`slack://`, `mailtos://`,
`pagerduty://` …). The state file remembers per target what was delivered, and is written after each delivery, never
before: a crash between the two sends one message twice (at least once), and none is lost. A target that fails keeps
what it missed for the next time and holds up no other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from rebalance_audit.alerts.ledger import forget, note, note_news, remember, remember_past
from rebalance_audit.alerts.message import body, title
from rebalance_audit.alerts.news import AlertRound
from rebalance_audit.alerts.silences import bring_into_line, is_alertmanager
from rebalance_audit.alerts.state import Place, locked, read_state, write_state
from rebalance_audit.alerts.target import NotDelivered, Sender, sender_for
from rebalance_audit.domain.detect.wording import counted
from rebalance_audit.domain.incidents import Incident


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertReport:
    delivered_count: int = 0
    """Messages that were taken: an incident that two receivers get counts twice."""
    incident_count: int = 0
    receiver_count: int = 0
    """That took any of them."""
    failures: tuple[str, ...] = ()
    """One sentence per target that could not be reached; tried again next time."""

    def in_words(self) -> str:
        """`2 incidents sent to 1 receiver`."""
        to = f" to {counted(self.receiver_count, 'receiver')}" if self.receiver_count else ""
        return f"{counted(self.incident_count, 'incident')} sent{to}"


def send_alerts(asked: AlertRound, targets: Sequence[str], place: Place) -> AlertReport:
    """Send each target what is new. Raises AlertError for a target that is none, and a state that cannot be read."""
    senders = [sender_for(target) for target in targets]
    keys = [sender.key for sender in senders]
    with locked(place):
        sending = _Sending(asked, place, read_state(place))
        for sender in senders:
            sending.to(sender, asked.of_target(sender.key, keys))
        if asked.is_all:
            sending.forget(keys)
        write_state(place, sending.state)
    return AlertReport(
        delivered_count=sum(map(len, sending.taken.values())),
        incident_count=len(set().union(*sending.taken.values())),
        receiver_count=len(sending.taken),
        failures=tuple(sending.failures),
    )


def would_be_sent(asked: AlertRound, targets: Sequence[str], place: Place) -> Iterator[str]:
    """The messages that `send_alerts` would send now, as text; nothing is sent and nothing is remembered."""
    senders = [sender_for(target) for target in targets]
    state = read_state(place)
    for sender in senders:
        incidents = asked.of_target(sender.key, [each.key for each in senders])
        for news in asked.messages(incidents, sender.key, state):
            yield f"[{sender.name}] {title(news)}\n{body(news)}"


def waiting_count(asked: AlertRound, place: Place) -> int:
    """Messages that would be sent now, over all targets that ever had one."""
    state = read_state(place)
    elsewhere = state.get("elsewhere", {})
    return sum(
        1
        for key in state["delivered"]
        for _ in asked.news([i for i in asked.current if i.incident_id not in elsewhere.get(key, ())], key, state)
    )


class _Sending:
    """One round on its way, under the state's lock."""

    def __init__(self, asked: AlertRound, place: Place, state: dict[str, Any]) -> None:
        self.state = state
        self.taken: dict[str, set[str]] = {}
        """The incidents that each receiver took."""
        self.failures: list[str] = []
        self._asked = asked
        self._place = place

    def to(self, sender: Sender, incidents: Sequence[Incident]) -> None:
        asked, state = self._asked, self.state
        is_new = sender.key not in state["delivered"]
        remember_past(state, sender.key, [i for i in incidents if is_new or asked.is_silenced(i)])
        pending = asked.messages(incidents, sender.key, state)
        waiting = {news.incident.incident_id: news for news in pending}
        try:
            for sent in sender.send(pending):
                remember(state, sender.key, sent)
                for each in sent:
                    news = waiting.pop(each.incident.incident_id, each)
                    note_news(state, news, sender.name, asked.now_ms, is_sent=True)
                write_state(self._place, state)
                if sent:
                    taken = self.taken.setdefault(sender.key, set())
                    taken.update(each.incident.incident_id for each in sent)
        except NotDelivered as failure:
            for news in waiting.values():
                note_news(state, news, sender.name, asked.now_ms, is_sent=False)
            self.failures.append(f"{sender.name} did not take the alerts, they are kept for the next time: {failure}")
        else:
            self._silence_there(sender, incidents)

    def _silence_there(self, sender: Sender, incidents: Sequence[Incident]) -> None:
        """An Alertmanager repeats by itself what it was sent: it hears of silences, too."""
        if not is_alertmanager(sender.target):
            return
        sent = self.state["delivered"].get(sender.key, {})
        there = self.state.setdefault("silenced", {}).setdefault(sender.key, {})
        wanted = {
            i.incident_id: self._asked.silence_of(i)
            for i in incidents
            if i.incident_id in there or sent.get(i.incident_id, {}).get("status") == "open"
        }
        try:
            for incident_id, is_silenced in bring_into_line(sender.target, there, wanted):
                what = "silenced" if is_silenced else "heard again"
                note(self.state, incident_id, what, sender.name, self._asked.now_ms, is_sent=True)
        except NotDelivered as failure:
            self.failures.append(f"{sender.name} did not take a silence, it is kept for the next time: {failure}")

    def forget(self, keys: Sequence[str]) -> None:
        """Forget what was sent about incidents that are in no table any more. Note which incidents each target does not
        get, for `waiting_count`."""
        asked = self._asked
        ids = {i.incident_id for i in asked.current}
        forget(self.state, ids | set(asked.except_ids))
        self.state["elsewhere"] = {
            key: sorted(ids - {i.incident_id for i in asked.of_target(key, keys)}) for key in keys
        }
