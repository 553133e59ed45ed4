"""The sentence each page begins with. Pure: answers in, `Html` out."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from app import words
from app.answers import Cause, Check, ConnectTask, Coverage, Fleet, Member, Movement, Rebalance, Span, outages
from app.words import Html, fill


def fleet(group_count: int, critical_count: int, in_time: Fleet, span: Span) -> Html:
    """What is wrong now (in so many groups), and what the span cost."""
    first = Html("<b>Nothing is known to be wrong now.</b>")
    if group_count:
        said = words.count(group_count, "group has", "groups have")
        critical = f", {critical_count:,} of them critical" if critical_count else ""
        first = fill("<b>{said} something wrong now</b>{critical}.", said=said, critical=critical)
    length = words.duration(span.length_ms)
    if not in_time.rebalance_count:
        return fill("{first} No rebalance was seen in the {t} before the evidence ends.", first=first, t=length)
    costs = [
        words.seconds(cost, unit)
        for cost, unit in ((in_time.partition_seconds, "partition"), (in_time.task_seconds, "task"))
        if cost is not None
    ]
    unknown = in_time.unknown_cost_count
    return fill(
        "{first} In the {t} before the evidence ends, {rebalances} of {groups} cost {cost}; {expected}.{unknown}",
        first=first,
        t=length,
        rebalances=words.count(in_time.rebalance_count, "rebalance"),
        groups=words.count(in_time.group_count, "group"),
        cost=" and ".join(costs) if costs else "a time that is not known",
        expected=normal_work(in_time.expected_count),
        unknown=f" {words.count(unknown, 'rebalance')} more cost a time that is not known." if unknown else "",
    )


def normal_work(number: int) -> str:
    return f"{number:,} {'was' if number == 1 else 'were'} part of the protocol's normal work"


def mostly(cause: Cause) -> str | None:
    """How far one client stands behind a cause; None where none does."""
    if cause.client is None or cause.client_count * 2 <= cause.rebalance_count:
        return None
    if cause.client_count < cause.rebalance_count:
        return "mostly"
    return "always" if cause.rebalance_count > 1 else "namely"


def group(rebalances: pd.DataFrame, causes: Sequence[Cause], unit: str, span: Span) -> Html:
    """How many rebalances, why, and what they cost."""
    length = words.duration(span.length_ms)
    if not len(rebalances):
        return fill("No rebalance was seen in these {t}.", t=length)
    real = rebalances[rebalances["kind"] == "rebalance"]
    parts = [fill("<b>{n} in {t}</b>{why}.", n=words.count(len(real), "rebalance"), t=length, why=_why(causes))]
    parts.append(_cost(real, unit))
    expected = int(real["expected"].sum())
    if expected:
        parts.append(fill("{n}.", n=normal_work(expected)))
    rewrites = len(rebalances) - len(real)
    if rewrites:
        again = words.count(rewrites, "time a static member", "times a static member")
        parts.append(fill("Besides, {n} came back without a rebalance.", n=again))
    return words.join(parts, " ")


def _why(causes: Sequence[Cause]) -> Html:
    said = []
    for cause in causes[:3]:
        share = mostly(cause)
        who = fill(", {share} {client}", share=share, client=words.code(cause.client, 40)) if share else Html("")
        number = f"{cause.rebalance_count:,} " if len(causes) > 1 else ""
        said.append(fill("{n}{because}{who}", n=number, because=words.because(cause.trigger), who=who))
    if not said:
        return Html("")
    return fill("{colon}{said}", colon=": " if len(causes) > 1 else ", ", said=words.join(said, "; "))


def _cost(real: pd.DataFrame, unit: str) -> Html:
    known = real[real["resource_seconds_estimate"].notna()]
    if known.empty:
        if len(real) and ((real["moved_count"] == 0) & (real["returned_count"] == 0)).all():
            return Html("Nothing stood still.")
        return Html("What they cost is not known: no pause of any resource is.")
    upper = known["resource_seconds_upper"]
    said = words.seconds_bounds(
        float(known["resource_seconds_lower"].sum()) if known["resource_seconds_lower"].notna().all() else None,
        float(known["resource_seconds_estimate"].sum()),
        float(upper.sum()) if upper.notna().all() else None,
        unit,
    )
    return fill("They cost {cost}.", cost=said)


def doubts(rebalances: pd.DataFrame) -> Html | None:
    """What may be missing from a group's history; None where nothing is known to be."""
    if not len(rebalances):
        return None
    missing = int((rebalances["outcome"] == "missing").sum())
    partial = int((~rebalances["is_complete_evidence"].astype(bool)).sum())
    said = []
    if missing:
        said.append(f"{words.count(missing, 'number')} skipped, and nothing tells why")
    if partial:
        them = "it" if partial == 1 else "them"
        said.append(f"{words.count(partial, 'rebalance')} with evidence missing around, which may change {them}")
    return fill("Not seen: {what}.", what="; ".join(said)) if said else None


def known_as(member: Member) -> str:
    return member.group_instance_id or member.worker_url or member.client_id or member.member_id


def rebalance(found: Rebalance) -> Html:
    """Why it began, what went where and stood still how long, and what the broker's own window was."""
    parts = [_beginning(found)]
    for way, together in _by_way([m for m in found.movements if m.kind == "moved"])[:2]:
        parts.append(_moved(way, together))
    returned = [m for m in found.movements if m.kind in ("returned", "restarted") and m.pause_estimate_ms is not None]
    if returned:
        what = words.things(found.protocol_type, len(returned))
        parts.append(fill("{n} stopped and went on with the same owner: {still}.", n=what, still=_longest(returned)))
    if found.kept_count:
        parts.append(fill("{n} kept working.", n=words.things(found.protocol_type, found.kept_count)))
    overlaps = [m.overlap_ms for m in found.movements if m.overlap_ms]
    if overlaps:
        what = words.things(found.protocol_type, len(overlaps))
        parts.append(fill("{n} had two owners at once, for up to {t}.", n=what, t=words.duration(max(overlaps))))
    if found.broker_window_ms is not None:
        window = words.duration(found.broker_window_ms)
        parts.append(fill("The broker's own window was {w}; that is not the pause.", w=window))
    if found.expected:
        why = f": {words.visible(found.expected_reason).rstrip('.')}" if found.expected_reason else ""
        parts.append(fill("This is part of the protocol's normal work{why}.", why=why))
    return words.join(parts, " ")


def _beginning(found: Rebalance) -> Html:
    detail = words.visible(found.trigger_detail).rstrip(".") if found.trigger_detail else ""
    if found.trigger == "unknown":
        return fill(
            "Why it began is not known: no evidence names the cause.{more}", more=f" Seen: {detail}." if detail else ""
        )
    return fill(
        "It began <b>{why}</b>; {tier}{detail}.",
        why=words.because(found.trigger),
        tier=words.TIER_SENTENCES[found.trigger_tier],
        detail=fill(": <q>{d}</q>", d=detail) if detail else "",
    )


def _moved(way: Html, together: Sequence[Movement]) -> Html:
    what = words.resources([m.resource for m in together], 3)
    if all((m.pause_estimate_ms or 0) < 0 for m in together):
        return fill("{what} went {way} before it was let go.", what=what, way=way)
    return fill("{what} went {way} and stood still {still}.", what=what, way=way, still=_longest(together))


def _longest(together: Sequence[Movement]) -> str:
    known = [m for m in together if m.pause_estimate_ms is not None]
    if not known:
        return words.pause(None, None, None)
    worst = max(known, key=lambda m: m.pause_estimate_ms or 0)
    said = words.pause(worst.pause_lower_ms, worst.pause_estimate_ms, worst.pause_upper_ms)
    return said + (" at the longest" if len({m.pause_estimate_ms for m in known}) > 1 else "")


def owner(client_id: str | None, worker_url: str | None, member_id: str | None) -> str | None:
    """Whom a resource went to or came from, as a reader knows it."""
    return worker_url or client_id or member_id


def _by_way(moved: Sequence[Movement]) -> list[tuple[Html, list[Movement]]]:
    ways: dict[tuple[str | None, str | None], list[Movement]] = {}
    for m in moved:
        before = owner(m.from_client_id, m.from_worker_url, m.from_member_id)
        ways.setdefault((before, owner(m.to_client_id, m.to_worker_url, m.to_member_id)), []).append(m)
    found = sorted(ways.items(), key=lambda item: -len(item[1]))
    return [(fill("from {a} to {b}", a=words.code(a, 36), b=words.code(b, 36)), all_) for (a, b), all_ in found]


def connect(tasks: Sequence[ConnectTask], span: Span) -> Html:
    """How many tasks did not run, how much of that was by design, and the longest."""
    all_count = len({(t.connector, t.task) for t in tasks if t.task is not None})
    down = outages(tasks, span)
    if not all_count:
        return Html("No task was seen in that time.")
    if not down:
        return fill("<b>All {n} ran</b>, as far as was seen.", n=words.count(all_count, "task"))
    design, fault = (sum(o.waited_ms(by_design) for o in down) / 1000 for by_design in (True, False))
    longest = down[0]
    states = [(words.duration(length), words.STATE_WORDS.get(state, state)) for state, length, _ in longest.parts]
    told = states[0][1] if len(states) == 1 else ", then ".join(f"{length} {state}" for length, state in states)
    still = sum(not o.is_over for o in down)
    parts = [
        fill(
            "<b>{n} of {all} did not run at some time</b>: {waiting} waiting by design, {fault} not by design.",
            n=f"{len({(o.connector, o.task) for o in down}):,}",
            all=words.count(all_count, "task"),
            waiting=words.seconds(design, "task"),
            fault=words.seconds(fault, "task"),
        ),
        fill(
            "The longest: {task} did not run for {length}: {told}.",
            task=words.code(f"{longest.connector}-{longest.task}", 40),
            length=words.duration(longest.length_ms),
            told=told,
        ),
    ]
    if still:
        now = words.count(still, "task is", "tasks are")
        parts.append(fill("{now} still not running when the evidence ends.", now=now))
    return words.join(parts, " ")


def trust(coverage: Sequence[Coverage], undecoded_count: int, failed: Sequence[Check]) -> Html:
    """Gaps, what was not understood, and failed checks."""
    sources = words.count(len({(c.cluster_id, c.source) for c in coverage}), "source")
    gap_count = sum(c.is_gap for c in coverage)
    parts = [fill("<b>No gap</b> is known in {s}.", s=sources)]
    if not coverage:
        parts = [Html("<b>What was seen is not known</b>: no ledger of sources was published yet.")]
    elif gap_count:
        parts = [fill("<b>{n}</b> in {s}.", n=words.count(gap_count, "gap"), s=sources)]
    if undecoded_count:
        what = words.count(undecoded_count, "record or line", "records and lines")
        parts.append(fill("{n} could not be read.", n=what))
    else:
        parts.append(Html("Everything that was read was understood."))
    if failed:
        parts.append(fill("{n} failed.", n=words.count(len(failed), "check")))
    else:
        parts.append(Html("No check failed."))
    return words.join(parts, " ")
