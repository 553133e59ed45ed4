"""Sentences about all groups: trouble now, cost of a time, gaps of evidence."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import tzinfo

from app import words
from app.answers.rows import CheckRow, ClusterRow, Coverage, Headline, LogOfEvidence
from app.words import Html, fill
from rebalance_audit.domain.incidents.words import IS_NOW_MS, is_old
from rebalance_audit.warehouse.behind import Behind

MOST_NAMED = 3


def headline(found: Headline) -> Html | None:
    """Pauses of clients beside the broker's window, and how wrong the window is; None where nothing has both."""
    if found.pause_median_ms is None or found.window_median_ms is None or found.factor_median is None:
        return None
    parts = [
        fill(
            "<b>Clients stood still for {pause} in the median rebalance; the broker's log alone would make it "
            "{window}</b>.",
            pause=words.duration(found.pause_median_ms),
            window=words.duration(found.window_median_ms),
        ),
        _how_wrong(found, found.factor_median),
    ]
    if found.unmoved_count:
        parts.append(fill("In {n} more it shows a time, and nothing stood still at all.", n=f"{found.unmoved_count:,}"))
    return words.join(parts, " ")


def _how_wrong(found: Headline, factor: float) -> Html:
    if factor < 1.25:
        said = "That is by chance about right"
    else:
        said = f"That is off by a factor of {f'{factor:,.0f}' if factor >= 9.5 else f'{factor:.1f}'}"
    if found.compared_count == 1:
        return fill("{said} in the only rebalance that shows both.", said=said)
    short, long = found.too_short_count, found.compared_count - found.too_short_count
    return fill(
        "{said} in the median of {n}{which}.",
        said=said,
        n=words.count(found.compared_count, "rebalance"),
        which=f": too little in {short:,} of them, too much in {long:,}" if short and long else "",
    )


def normal_work(number: int) -> str:
    return f"{number:,} {'was' if number == 1 else 'were'} part of the protocol's normal work"


def ended_early(clusters: Sequence[ClusterRow]) -> Html | None:
    """Clusters whose evidence ends long before the newest, or shows no time: the others look fresh and hide them."""
    ends = {c.cluster_id: c.last_at_ms for c in clusters}
    known = [at for at in ends.values() if at is not None]
    newest = max(known, default=0)
    late = sorted((at, name) for name, at in ends.items() if at is not None and is_old(at, newest))
    parts = []
    if late:
        names = words.join([words.code(name, 40) for _, name in late[:MOST_NAMED]], ", ")
        parts.append(
            fill(
                "Evidence of {n} of {all} ends {early} or more before the newest: {names}{more}. What happened there "
                "since is not known.",
                n=f"{len(late):,}",
                all=words.count(len(ends), "cluster"),
                early=words.duration(IS_NOW_MS),
                names=names,
                more=f" and {len(late) - MOST_NAMED:,} more" if len(late) > MOST_NAMED else "",
            )
        )
    if untimed := len(ends) - len(known):
        parts.append(fill("Of {n} no evidence with a time was seen.", n=words.count(untimed, "cluster")))
    return words.join(parts, " ") if parts else None


def behind(said: Behind, tz: tzinfo) -> Html:
    """That the tables do not hold the newest evidence, and from when on."""
    return fill(
        "<b>The tables are behind</b>: what came since {t} is not in them yet. The last round of the stages took "
        "{took}. Alerts and what is just in do not wait for it.",
        t=words.instant(said.since_ms, tz),
        took=words.duration(said.round_ms),
    )


def evidence_log(log: LogOfEvidence, tz: tzinfo) -> Html:
    """Whether the log's leaves are those of its head, when that was looked at, and who signed the head."""
    leaves, until = words.count(log.leaf_count, "leaf", "leaves"), words.minute(log.at_ms, tz)
    held = words.minute(log.held_at_ms, tz)
    if log.faults is None:
        said = fill("<b>The log of evidence has {n}</b> until {t}: too many to check on a page", n=leaves, t=until)
    elif log.faults:
        said = fill("<b>The log of evidence was changed</b>: {n} until {t}, checked {h}", n=leaves, t=until, h=held)
    else:
        said = fill("<b>The log of evidence is whole</b>: {n} until {t}, checked {h}", n=leaves, t=until, h=held)
    if log.key is None:
        return fill("{said}. Nobody signed its head: whoever writes the warehouse could write the log anew.", said=said)
    return fill("{said}. Its head is signed with the key {key}.", said=said, key=words.code(log.key[:16] + "\u2026"))


def trust(
    coverage: Sequence[Coverage],
    undecoded_count: int,
    checks: Sequence[CheckRow],
    incomplete_count: int = 0,
    unread: Sequence[str] = (),
) -> Html:
    """Gaps, what was not understood, rebalances of which evidence is missing, and failed checks. `unread`: tables of
    these that cannot be read."""
    sources = words.count(len({(c.cluster_id, c.source) for c in coverage}), "source")
    gap_count = sum(c.is_gap for c in coverage)
    parts = [fill("<b>No gap</b> is known in {s}.", s=sources)]
    if "gold.coverage" in unread:
        parts = [Html("<b>What was seen is not known</b>: gold.coverage cannot be read.")]
    elif not coverage:
        return Html("<b>No evidence was read yet.</b>")
    elif gap_count:
        parts = [fill("<b>{n}</b> in {s}.", n=words.count(gap_count, "gap"), s=sources)]
    if undecoded_count:
        what = words.count(undecoded_count, "record or line", "records and lines")
        parts.append(fill("{n} could not be read.", n=what))
    else:
        parts.append(
            Html("Whether all of it was understood is not known: silver.undecoded cannot be read.")
            if "silver.undecoded" in unread
            else Html("Everything that was read was understood.")
        )
    if incomplete_count:
        parts.append(fill("Evidence of {n} is missing.", n=words.count(incomplete_count, "rebalance")))
    if "gold.check" in unread:
        parts.append(Html("Whether the checks hold is not known: gold.check cannot be read."))
    elif failed := sum(not c.success for c in checks):
        parts.append(fill("{n} failed.", n=words.count(failed, "check")))
    else:
        parts.append(Html("No check failed." if checks else "No check has run yet."))
    return words.join(parts, " ")
