"""Sentences about what is going on, and what came since a change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import tzinfo

from app import words
from app.answers.rows import ClusterRow, Fleet, IncidentCount, IncidentRow, MarkRow, Span
from app.words import Html, fill
from rebalance_audit.domain.detect.wording import thing_of
from rebalance_audit.domain.incidents import words as incident_words
from rebalance_audit.domain.incidents.words import is_old


def story(i: IncidentRow) -> str:
    """Without the title that it begins with, and without its cost: for places where both stand beside it."""
    told = i.story.replace(f"{incident_words.COST_NOT_KNOWN}.", ".") if i.cost_seconds is None else _without_cost(i)
    rest = told.removeprefix(i.title)
    if not rest.startswith((". ", "; ")):
        return told
    if i.kind == "storm" and rest.startswith(". "):  # its title alone named the cause
        return f"Its rebalances began {words.because(i.root_cause)}. {rest[2:]}"
    return rest[2:3].upper() + rest[3:]


def _without_cost(i: IncidentRow) -> str:
    """It is said there with other roundings."""
    cost = incident_words.cost_known(i.cost_seconds, i.cost_likely_lower_seconds, i.cost_likely_upper_seconds, i.unit)
    return i.story.replace(f"{cost}: ", ": ")


def stands(i: IncidentRow, now_ms: int, tz: tzinfo) -> str:
    """Whether it is open and, if so, what of it has not ended; or since when that is not known."""
    since = unknown_since(i, now_ms)
    return incident_words.stands(
        i.status, i.still, words.minute(i.last_at_ms, tz), None if since is None else words.minute(since, tz)
    )


def still(i: IncidentRow, now_ms: int, tz: tzinfo) -> str:
    """The same in few words; empty where it is over, or nothing is known."""
    if i.status != "open":
        return ""
    since = unknown_since(i, now_ms)
    return incident_words.still_words(
        i.still,
        words.day_and_time(i.last_at_ms, now_ms, tz),
        None if since is None else words.day_and_time(since, now_ms, tz),
    )


def cost_words(i: IncidentRow, *, with_length: bool = False) -> str:
    """What an incident cost: no downtime was seen without a rebalance; it is not known where no pause is known.
    `with_length`: how long one lasts that is still down."""
    if i.cost_seconds is not None:
        return words.seconds(i.cost_seconds, i.unit)
    if not i.group_ids:
        return "no downtime seen"
    if i.status != "open" or i.still != "down":
        return "downtime not known"
    ended_ms = i.evidence_ended_at_ms if with_length else None
    so_far = "" if ended_ms is None else f" ({words.duration(max(ended_ms - i.first_at_ms, 0))} so far)"
    return f"not known while it lasts{so_far}"


def unknown_since(i: IncidentRow, now_ms: int) -> int | None:
    """When the evidence of its cluster ended, if it is open and that shows nothing about now."""
    if i.status != "open" or i.evidence_ended_at_ms is None:
        return None
    ended_ms = max(i.evidence_ended_at_ms, i.last_at_ms)  # what is just in is newer than what is published
    return ended_ms if is_old(ended_ms, now_ms) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Worst:
    """The first of the open incidents, in words."""

    what: Html
    where: str
    still: str
    """What of it has not ended, or empty where that is not known."""
    whose: Html
    """See `sentences.whose_doing`."""
    cost: str
    by_design: str = ""
    """See `of_it_by_design`."""
    unit: str | None
    """What stood still; None where no cost is known."""
    advice: str | None
    alike: str | Html
    """How many more there are of its kind, or empty."""
    costlier: Html | None = None
    """The incident of the time that cost most, if that is far more."""
    is_costlier_over: bool = False


def going_on(
    counted: IncidentCount, worst: Worst | None, unread: str | None = None, *, is_old: bool = False
) -> dict[str, Html]:
    """What is wrong, whose doing that is, what it cost and what to do, by these names. `unread`: the table of
    incidents, where that cannot be read. `is_old`: the evidence shows nothing about now."""
    if unread is not None:
        unknown = fill("<b>Which incidents are open is not known</b>: {t} cannot be read.", t=unread)
        return {"What is wrong": unknown}
    if worst is None or not counted.open_count:
        return {"What is wrong": Html("<b>Nothing</b>: no incident open.")}
    found = {
        "What is wrong": fill(
            "<b>{what}</b> {where}{still}{alike}",
            what=worst.what,
            where=worst.where,
            still=f" ({worst.still})" if worst.still else "",
            alike=worst.alike,
        ),
        "Whose doing": worst.whose,
        "What it cost": fill(
            "<b>{cost}</b>{design}{unit}", cost=worst.cost, design=worst.by_design, unit=_unit_of(worst.unit)
        ),
    }
    if worst.advice:
        found["What to do"] = words.with_code(worst.advice)
    # The first cost that is known says what its unit is.
    unit = _unit_of(_open_unit(counted)) if worst.unit is None else Html("")
    all_open = fill("{open}{cost}{unit}", open=_open_words(counted, is_old=is_old), cost=_open_cost(counted), unit=unit)
    found["All that is open"] = all_open
    if worst.costlier is not None:
        found[f"Costliest{' (over)' if worst.is_costlier_over else ''}"] = worst.costlier
    return found


def _unit_of(unit: str | None) -> Html:
    return Html("") if unit is None else unit_in_words(unit)


def _open_unit(counted: IncidentCount) -> str | None:
    """Of what `_open_cost` names."""
    if counted.open_count < 2:
        return None
    return words.unit_of_costs(counted.open_partition_seconds, counted.open_task_seconds)


def unit_in_words(unit: str) -> Html:
    """What a cost counts, for those who meet it for the first time."""
    return fill(" <small>A {thing} that stands still for 1 min costs 60.</small>", thing=thing_of(unit))


def _open_words(counted: IncidentCount, *, is_old: bool) -> Html:
    critical = f", {counted.critical_count:,} critical" if counted.critical_count else ""
    then = " then" if is_old else ""
    counts = (
        (counted.going_on_count, f"still going on{then}"),
        (counted.empty_count, f"with an empty group{then}"),
    )
    said = [f"{n:,} {what}" for n, what in counts if n]
    if is_old:
        said = ["state not known since their evidence ended", *said]
    elif not said and counted.quiet_count == counted.open_count:
        said = ["nothing new in them, but the evidence ends too soon to call them over"]
    return fill(
        "<b>{n} open{c}</b>{said}",
        n=words.count(counted.open_count, "incident"),
        c=critical,
        said=f", {', '.join(said)}" if said else "",
    )


def _open_cost(counted: IncidentCount) -> Html:
    """Of all that are open, where that is more than one."""
    if counted.open_count < 2:
        return Html("")
    cost = words.costs(counted.open_partition_seconds, counted.open_task_seconds)
    unknown = f"not known of {counted.open_unknown_count:,} of them" if counted.open_unknown_count else ""
    return fill(
        "; cost{since}: {cost}.",
        since=" since they began" if counted.longer_count else "",
        cost="; ".join(each for each in (cost, unknown) if each) or "no downtime seen",
    )


def age(clusters: Sequence[ClusterRow], newest_ms: int, now_ms: int, tz: tzinfo) -> Html | None:
    """When the evidence of a fleet ended, where it shows nothing about now."""
    earlier = sum(c.last_at_ms is not None and is_old(c.last_at_ms, newest_ms) for c in clusters)
    return as_of(newest_ms, now_ms, tz, earlier=f"{earlier:,} of {len(clusters):,}" if earlier else "")


def as_of(ended_ms: int, now_ms: int, tz: tzinfo, cluster: str | None = None, earlier: str = "") -> Html | None:
    """When the evidence ended, that of all clusters or of one, where it shows nothing about now. `earlier`: how
    many clusters' evidence ended long before it, `43 of 50`."""
    if not is_old(ended_ms, now_ms):
        return None
    which = "The newest" if earlier else "It" if cluster is None else f"That of {words.name(cluster, 40)}"
    before = f"; that of {earlier} clusters ended before" if earlier else ""
    when = words.when(ended_ms, now_ms, tz)
    over = "" if cluster is None else "; whether this is over by now is not known"
    return fill(
        "<b>Old evidence.</b> {which} ends {when}{before}{over}.", which=which, when=when, before=before, over=over
    )


def cost_of(in_time: Fleet) -> Html:
    """What a time cost, whatever incidents its rebalances belong to."""
    if not in_time.rebalance_count:
        return Html("No rebalance in this time.")
    unknown = in_time.unknown_cost_count
    return fill(
        "{n} of {g} cost {cost}{unknown}.",
        n=words.count(in_time.rebalance_count, "rebalance"),
        g=words.count(in_time.group_count, "group"),
        cost=words.costs(in_time.partition_seconds, in_time.task_seconds) or "a time that is not known",
        unknown=f"; the cost of {words.count(unknown, 'rebalance')} is not known" if unknown else "",
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
