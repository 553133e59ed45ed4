"""Sentences about what is going on, and what came since a change."""

from __future__ import annotations

from app import words
from app.answers.rows import Fleet, IncidentCount, IncidentRow, MarkRow, Span
from app.sentences.fleet import IS_NOW_MS
from app.words import Html, fill


def story(i: IncidentRow) -> str:
    """Without the title that it begins with, for places where that stands above it."""
    rest = i.story.removeprefix(i.title)
    if not rest.startswith((". ", "; ")):
        return i.story
    return rest[2:3].upper() + rest[3:]


def going_on(
    counted: IncidentCount,
    worst: str | None,
    in_time: Fleet,
    ended_before_ms: int,
    unread_incidents: str | None = None,
    unread_rebalances: str | None = None,
) -> Html:
    """How much is open and what that cost, the worst of it, and what the whole time cost. `ended_before_ms`: how long
    ago the evidence ends. The last two: a table that cannot be read, without which the one or the other is not known.
    """
    open_ = words.count(counted.open_count, "incident")
    critical = f", {counted.critical_count:,} critical" if counted.critical_count else ""
    first = Html("<b>No incident open</b>")
    if counted.open_count:
        cost = words.costs(counted.open_partition_seconds, counted.open_task_seconds)
        since = " since they began" if counted.longer_count else ""
        said = f", {cost} of downtime{since}" if cost else ""
        if counted.open_unknown_count:
            said += f"; of {counted.open_unknown_count:,} the cost is not known"
        first = fill("<b>{n} open</b>{c}{cost}", n=open_, c=critical, cost=said)
    if unread_incidents is not None:
        first = fill("<b>Which incidents are open is not known</b>: {t} cannot be read", t=unread_incidents)
    parts = [fill("{first}.", first=first)]
    if worst is not None and counted.open_count:
        lead = "" if counted.open_count == 1 else "The worst: "
        parts.append(fill("{lead}<b>{worst}</b>.", lead=lead, worst=worst))
    if unread_rebalances is None:
        is_apart = counted.longer_count > 0 and in_time.rebalance_count > 0
        parts.append(fill("{lead}{cost}", lead="In this time " if is_apart else "", cost=cost_of(in_time)))
    else:
        parts.append(fill("How many rebalances there were is not known: {t} cannot be read.", t=unread_rebalances))
    if ended_before_ms >= IS_NOW_MS:
        old = words.ago(0, ended_before_ms).removesuffix(" ago")
        parts.append(fill("The newest evidence is {old} old.", old=old))
    return words.join(parts, " ")


def cost_of(in_time: Fleet) -> Html:
    if not in_time.rebalance_count:
        return Html("No rebalance in this time.")
    unknown = in_time.unknown_cost_count
    return fill(
        "{n} of {g} cost {cost}{unknown}.",
        n=words.count(in_time.rebalance_count, "rebalance"),
        g=words.count(in_time.group_count, "group"),
        cost=words.costs(in_time.partition_seconds, in_time.task_seconds) or "a time that is not known",
        unknown=f"; of {unknown:,} the cost is not known" if unknown else "",
    )


def since(mark: MarkRow, itself: IncidentRow | None, after: Fleet, before: Fleet, span: Span, whole: Span) -> Html:
    """What a deploy or change cost `itself`, where that is known; and what came since it, beside as long a time before
    it, or as much of that as evidence covers."""
    covered_ms = mark.at_ms - max(whole.from_ms, mark.at_ms - span.length_ms)
    if covered_ms >= span.length_ms:
        when = "In as long a time before: "
    elif covered_ms > 0:
        when = f"In the {words.duration(covered_ms)} before, where the evidence begins: "
    else:
        when = "What was before is not known: the evidence begins after it."
    return fill(
        "{own}<b>Since {text}</b>, {length}: {after} {when}{before}",
        own=_own_cost(itself),
        text=words.code(mark.text, 120),
        length=words.duration(span.length_ms),
        after=cost_of(after),
        when=when,
        before=cost_of(before) if covered_ms > 0 else "",
    )


def _own_cost(i: IncidentRow | None) -> Html:
    if i is None or i.cost_seconds is None:
        return Html("")
    cost = words.seconds_likely(i.cost_likely_lower_seconds, i.cost_seconds, i.cost_likely_upper_seconds, i.unit)
    return fill("<b>The change itself cost {cost}</b>. ", cost=cost)
