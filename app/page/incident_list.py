"""Incidents as lines that open in place."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from app import clock, words
from app.answers.rows import IncidentRow
from app.page.lines import ADVICE, line, line_link, lines
from app.page.time_range import zone
from app.sentences.incidents import cost_words, stands, still, story

HEADS = ("where", "what happened, and whose doing", "downtime", "began")
SIGNS = {"critical": "\u2715", "warning": "!", "info": "\u00b7"}


def incident_list(
    found: Sequence[IncidentRow],
    alt: str,
    key: str,
    with_cluster: bool = True,
    badge: Callable[[IncidentRow], str] = lambda _: "",
    *,
    with_heads: bool = True,
) -> None:
    """One line each: subject, cause, cost, age. Opened: its story, what to do, and where more is.

    `badge`: what people answered to it. `with_heads`: not where a list with heads stands right above.
    """
    rows = [_row(i, with_cluster, badge(i)) for i in found]
    lines(rows, alt, key, HEADS if with_heads else ())


def subject_of(i: IncidentRow) -> str:
    """The group, or how many; of replicas, the broker or partition that is at fault."""
    if i.group_ids:
        more = f" and {len(i.group_ids) - 1:,} more" if len(i.group_ids) > 1 else ""
        return words.name(i.group_ids[0], 40) + more
    return words.name(", ".join(i.culprits[:2]) or i.cluster_id, 40)


def cause_of(i: IncidentRow) -> str:
    """The title, in the reader's zone, cut: a client's name may be long."""
    return words.cut(words.utc_in(words.visible(i.title), zone()), 160)


def tone_of(i: IncidentRow) -> str:
    if i.expected:
        return "expected"
    return i.severity if i.status == "open" else "over"


def _row(i: IncidentRow, with_cluster: bool, badge: str) -> dict[str, object]:
    tz, now = zone(), clock.now_ms()
    is_open = i.status == "open"
    likely = words.seconds_likely(i.cost_likely_lower_seconds, i.cost_seconds, i.cost_likely_upper_seconds, i.unit)
    certain = words.seconds_bounds(i.cost_lower_seconds, i.cost_seconds, i.cost_upper_seconds, i.unit)
    facts = [("What happened:", words.cut(words.utc_in(words.visible(story(i)), tz), 700))]
    if i.advice:
        facts.append((ADVICE, words.cut(words.visible(i.advice), 400)))
    last = "" if is_open and i.still == "nothing" else f", last event {words.minute(i.last_at_ms, tz)}"
    facts.append(("Since", f"{words.when(i.first_at_ms, now, tz)}; {stands(i, now, tz)}{last}."))
    if i.cost_seconds is not None:
        facts.append(("Cost:", f"{likely}. For certain: {certain}."))
    links = [line_link("Open the incident", "incident", is_main=True, cluster=i.cluster_id, incident=i.incident_id)]
    for_groups = i.group_ids[:3] if with_cluster else ()  # else the page is the group's own
    links += [line_link(f"Group {words.name(g, 30)}", "group", cluster=i.cluster_id, group=g) for g in for_groups]
    if not i.group_ids and i.kind == "reassignment":
        links.append(line_link("Reassignments", "reassignments", cluster=i.cluster_id))
    twice = f" \u00b7 two owners at once for {words.duration(i.overlap_ms)}" if i.overlap_ms else ""
    where = f" \u00b7 {words.name(i.cluster_id, 30)}" if with_cluster else ""
    what = cause_of(i) + twice + (f" \u00b7 {badge}" if badge else "")
    return line(
        f"{i.cluster_id}/{i.incident_id}",
        tone_of(i),
        "\u25cb" if i.expected or not is_open else SIGNS.get(i.severity, "\u00b7"),
        (subject_of(i) + where, what, cost_words(i), words.began(i.first_at_ms, now, tz)),
        facts,
        links,
        still(i, now, tz),
    )
