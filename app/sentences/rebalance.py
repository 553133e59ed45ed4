"""Sentences about one rebalance."""

from __future__ import annotations

from collections.abc import Sequence

from app import words
from app.answers.rows import Member, Movement, Rebalance
from app.words import Html, fill
from rebalance_audit.domain.causes import Cause
from rebalance_audit.domain.detect.history import client_part
from rebalance_audit.domain.kinds import MovementKind, Outcome

_ENDED: dict[str, str] = {
    Outcome.SUPERSEDED: "It was superseded before anyone was assigned.",
    Outcome.FAILED: "It failed.",
    Outcome.MISSING: "It is missing: the number was skipped, and nothing says why.",
    Outcome.OPEN: "It has not ended: it still runs, or the evidence ends inside it.",
}


def known_as(member: Member) -> str:
    return member.group_instance_id or words.owner(member.client_id, member.worker_url, member.member_id) or ""


def rebalance(found: Rebalance) -> Html:
    """Why it began, what went where and stood still how long, and what the broker's own window was."""
    parts = [_headline(found), _beginning(found)]
    if found.outcome not in (Outcome.COMPLETED, Outcome.EMPTIED):
        parts.append(Html(_ENDED.get(found.outcome, "How it ended is not known.")))
    for way, together in _by_way([m for m in found.movements if m.kind == MovementKind.MOVED])[:2]:
        parts.append(_moved(way, together))
    returned = [
        m
        for m in found.movements
        if m.kind in (MovementKind.RETURNED, MovementKind.RESTARTED) and m.pause_estimate_ms is not None
    ]
    if returned:
        what = words.things(found.protocol_type, len(returned))
        parts.append(fill("{n} stopped and went on with the same owner: {still}.", n=what, still=_longest(returned)))
    if found.kept_count:
        parts.append(fill("{n} kept working.", n=words.things(found.protocol_type, found.kept_count)))
    twice = [m for m in found.movements if m.overlap_ms]
    if twice:
        what, longest = words.things(found.protocol_type, len(twice)), max(m.overlap_ms or 0 for m in twice)
        had = "had" if all((m.pause_likely_upper_ms or 0) <= 0 for m in twice) else "may have had"
        parts.append(fill("{n} {had} two owners at once, for up to {t}.", n=what, had=had, t=words.duration(longest)))
    if found.expected:
        why = f": {words.visible(found.expected_reason).rstrip('.')}" if found.expected_reason else ""
        parts.append(fill("This is part of the protocol's normal work{why}.", why=why))
    return words.join(parts, " ")


def stood_still(found: Rebalance) -> bool | None:
    """Whether something stood still or had two owners; None where that is not known."""
    if found.pause_estimate_ms is not None:
        return True
    stopped = (found.moved_count, found.returned_count, found.restarted_count or 0)
    return None if any(n != 0 for n in stopped) else False


def _headline(found: Rebalance) -> Html:
    """The clients' pause beside the broker's own window, and how wrong the latter is."""
    who = "Tasks" if found.protocol_type == "connect" else "Clients"
    window = None if found.broker_window_ms is None else words.duration(found.broker_window_ms)
    still = stood_still(found)
    if still is None:
        also = f"; the broker's log shows {window}, which is no downtime" if window is not None else ""
        return fill("<b>How long {who} stood still is not known</b>{also}.", who=who.lower(), also=also)
    if not still and found.revoked_count:
        return fill(
            "<b>{n} stopped here and had no new owner yet</b>: the rebalance that hands them on shows how long they "
            "stood still.",
            n=words.things(found.protocol_type, found.revoked_count),
        )
    if not still:
        also = f", though the broker's log shows a rebalance of {window}" if window is not None else ""
        return fill("<b>Nothing stood still</b>{also}.", also=also)
    pause = still_for(found)
    if (found.pause_estimate_ms or 0) < 0:
        is_sure = found.pause_upper_ms is not None and found.pause_upper_ms <= 0
        return fill(
            "<b>No {who} stood still</b>: {pause}." if is_sure else "<b>Perhaps no {who} stood still</b>: {pause}.",
            who=who.lower()[:-1],
            pause=pause.removeprefix("none, but "),
        )
    also = ""
    if window is not None:
        wrong = how_wrong(found.broker_window_ms or 0, found.pause_estimate_ms or 0)
        also = f"; the broker's log alone would make it {window}, {wrong}"
    return fill("<b>The longest downtime was {pause}</b>{also}.", pause=pause, also=also)


def still_for(found: Rebalance | Movement) -> str:
    """The longest pause of a rebalance, or that of one resource, with its likely range where there is one."""
    return words.pause_likely(
        found.pause_lower_ms,
        found.pause_estimate_ms,
        found.pause_upper_ms,
        found.pause_likely_lower_ms,
        found.pause_likely_upper_ms,
    )


def how_wrong(window_ms: float, pause_ms: float) -> str:
    """How far the broker's own window is from the pause."""
    window, pause = max(1.0, window_ms), max(1.0, pause_ms)
    factor = max(window / pause, pause / window)
    if factor < 1.25:
        return "by chance about right"
    said = f"{factor:,.0f}" if factor >= 9.5 else f"{factor:.1f}"
    return f"{said} times too {'much' if window > pause else 'little'}"


def _beginning(found: Rebalance) -> Html:
    detail = words.visible(found.trigger_detail).rstrip(".") if found.trigger_detail else ""
    if found.trigger == Cause.UNKNOWN:
        return fill(
            "Why it began is not known: no evidence names the cause.{more}", more=f" Seen: {detail}." if detail else ""
        )
    return fill(
        "It began <b>{why}</b>{who}; {tier}{detail}.",
        why=words.because(found.trigger),
        who=_whose(found),
        tier=words.TIER_SENTENCES[found.trigger_tier],
        detail=fill(": <q>{d}</q>", d=detail) if detail else "",
    )


def _whose(found: Rebalance) -> Html:
    """The members behind its cause, by the names that people know; nothing where none is named."""
    behind = dict.fromkeys(m for t in found.triggers if t.trigger == found.trigger for m in t.members)
    known = {m.member_id: known_as(m) for m in found.members}
    named = [words.code(known.get(m) or client_part(m), 36) for m in behind]
    if not named:
        return Html("")
    more = f" and {len(named) - 3:,} more" if len(named) > 3 else ""
    return fill(" ({who}{more})", who=words.join(named[:3], ", "), more=more)


def _moved(way: Html, together: Sequence[Movement]) -> Html:
    what = words.resources([m.resource for m in together], 3)
    if all((m.pause_estimate_ms or 0) < 0 for m in together):
        return fill("{what} went {way}; the new owner began before the old one let go.", what=what, way=way)
    return fill("{what} went {way} and stood still {still}.", what=what, way=way, still=_longest(together))


def _longest(together: Sequence[Movement]) -> str:
    known = [m for m in together if m.pause_estimate_ms is not None]
    if not known:
        return words.pause(None, None, None)
    worst = max(known, key=lambda m: m.pause_estimate_ms or 0)
    said = still_for(worst)
    return said + (" at the longest" if len({m.pause_estimate_ms for m in known}) > 1 else "")


def _by_way(moved: Sequence[Movement]) -> list[tuple[Html, list[Movement]]]:
    ways: dict[tuple[str | None, str | None], list[Movement]] = {}
    for m in moved:
        before = words.owner(m.from_client_id, m.from_worker_url, m.from_member_id)
        ways.setdefault((before, words.owner(m.to_client_id, m.to_worker_url, m.to_member_id)), []).append(m)
    found = sorted(ways.items(), key=lambda item: -len(item[1]))
    return [(fill("from {a} to {b}", a=words.code(a, 36), b=words.code(b, 36)), all_) for (a, b), all_ in found]
