"""Whose doing an incident is: members, workers, brokers or people, and what happened to them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from rebalance_audit.domain.causes import (
    MEMBER_FAILED,
    MEMBERSHIP,
    SESSION_EXPIRED,
    Cause,
    because,
    cause_of,
    phrase_of,
)
from rebalance_audit.domain.detect.history import worker_name
from rebalance_audit.domain.detect.wording import shown
from rebalance_audit.domain.reassign.advice import BLOCKER_PHRASES

MOST_CULPRITS = 3
_NAME_WIDTH, _HOST_WIDTH = 60, 40
_OF_MEMBERS = ("member_fault", "connect_worker")
_NAMED_BY_THE_TITLE = frozenset({"RB017", "RB018", "RB019"})
"""Rules whose findings name members in their titles alone."""


class Blamed(Protocol):
    """What of an incident says whose doing it is: see `Incident`."""

    @property
    def kind(self) -> str: ...
    @property
    def root_cause(self) -> str: ...
    @property
    def culprits(self) -> Sequence[str]: ...
    @property
    def hosts(self) -> Sequence[str]: ...
    @property
    def expected(self) -> bool: ...
    @property
    def title(self) -> str: ...


def whose_doing(i: Blamed, rule_name: Callable[[str], str] = str) -> str:
    """A sentence without its full stop."""
    return "".join(blamed(i, rule_name))


def blamed(i: Blamed, rule_name: Callable[[str], str]) -> tuple[str, str]:
    """Who, visible and cut but not escaped yet, or nothing where that is nobody alone; and the rest of the sentence.
    Who joined or left on purpose did nothing wrong, so that nobody looks for their owner. `rule_name`: what the rule
    with this id is called, for an incident that a rule alone shows."""
    who = ", ".join(_few([shown(worker_name(each), _NAME_WIDTH) for each in i.culprits]))
    cause = i.root_cause
    if i.kind == "reassignment":
        return _of_a_move(cause, who)
    if i.root_cause == Cause.MEMBER_REMOVED_BY_ADMIN:
        return "an administrator", f" removed {who or 'members'}"
    if who and i.kind == "scaling" and not i.expected:
        did = {Cause.MEMBER_JOINED: "joined", Cause.MEMBER_LEFT: "left"}.get(cause_of(cause))
        if did is None:
            return "", f"not known (it began {because(cause)}: {who})"
        return "", f"not known (it began as {who} {did})"
    if not who and cause in _NAMED_BY_THE_TITLE:
        return "the members that the title names", f": {_in_words(cause, rule_name)}"
    if not who:
        return "", f"no single member or broker: {_in_words(cause, rule_name)}"
    hosts = _few([shown(h, _HOST_WIDTH) for h in i.hosts if not any(h in each for each in i.culprits)])
    is_change = cause in MEMBERSHIP - MEMBER_FAILED and not i.expected
    if is_change:
        return who, f"{_at(hosts)}: it began {because(cause)}"
    if len(i.culprits) > 1 and i.kind in _OF_MEMBERS and "; " in i.title:  # each did something else
        return who, f"{_at(hosts)}: what each did, the title says"
    return who, f"{_at(hosts)}: {_did(_in_words(cause, rule_name), len(i.culprits))}"


def _did(phrase: str, count: int) -> str:
    """The phrase of a cause after those who did it: `exceeded its poll interval`."""
    for subject in ("a member ", "a worker "):
        if phrase.startswith(subject):
            did = phrase.removeprefix(subject)
            return did.replace(" its ", " their ") if count > 1 else did
    return phrase


def _of_a_move(blocker: str, who: str) -> tuple[str, str]:
    """A throttle and a request that cannot end are no broker's doing."""
    held_up = BLOCKER_PHRASES.get(blocker, BLOCKER_PHRASES["unknown"])
    match blocker:
        case "throttle":
            return "", f"not a broker's: the throttle held up copying to {who or 'the new replicas'}"
        case "adding_and_removing_overlap":
            return "whoever asked for it", f": the move adds and removes {who or 'the same broker'} at once"
        case _ if who:
            return who, f": {held_up}"
        case _:
            return "", f"no single broker: {held_up}"


def _in_words(cause: str, rule_name: Callable[[str], str]) -> str:
    """Of a trigger, of what blocks a reassignment, or of a rule: `eager Connect (CN006)`."""
    if cause in SESSION_EXPIRED:
        return "no heartbeat until the session expired, why is not known"
    if cause in BLOCKER_PHRASES:
        return BLOCKER_PHRASES[cause]
    name = rule_name(cause)
    return shown(phrase_of(cause)) if name == cause else f"{name[:1].lower()}{name[1:]} ({cause})"


def _few(names: list[str]) -> list[str]:
    more = len(names) - MOST_CULPRITS
    return [*names[:MOST_CULPRITS], f"{more:,} more"] if more > 0 else names


def _at(hosts: Sequence[str]) -> str:
    return f" on {'host' if len(hosts) == 1 else 'hosts'} {', '.join(hosts)}" if hosts else ""
