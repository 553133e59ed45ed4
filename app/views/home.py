"""What is going on, and what does it cost?"""

from dataclasses import asdict
from functools import partial

import pandas as pd
import streamlit as st

from app import charts, clock, hands, page, sentences, words
from app.answers import ranges
from app.answers.rows import ClusterRow, IncidentCount, IncidentKind, IncidentRow, Span
from app.answers.runbook import rule_name
from app.charts import bars
from app.queries.incidents import HOME_ALIKE
from app.words import Html, fill
from rebalance_audit.domain.detect import DEFAULT
from rebalance_audit.domain.incidents.responses import standing
from rebalance_audit.domain.kinds import FindingStatus

MOST_EXPECTED = 40
MOST_CLUSTERS = 8
MOST_KINDS = 8
MOST_TAKEN = 100_000
A_FEW = 4
"""More: a line that folds so few away would hide more than it spares."""
MUCH_MORE = 2
"""Times what the first incident cost: then another one is named beside it."""
_SHOWN = ["downtime", "rebalances"]
"""The incidents stand by cost; so does the picture above them, if nobody asks otherwise."""


def strip(span: Span) -> None:
    """What rebalances cost, or how many there were, per cluster over the chosen time."""
    counted = reader.fleet_over_time(span, charts.BUCKETS)
    if counted.empty:
        page.nothing(reader.unread("gold.rebalance"), "No rebalance in this time.")
        return
    with st.container(horizontal=True, vertical_alignment="center"):
        show = page.switch_in_address("Height", "show", _SHOWN if counted["cost"].any() else _SHOWN[::-1])
        st.html(bars.FLEET_LEGEND, width="content")
    unit = words.unit_of_costs(fleet.partition_seconds, fleet.task_seconds)
    is_first = not reader.incident_count(span).open_count  # else the answer says it
    page.note(
        "In this time, in incidents and outside them: {cost}{unit}",
        cost=sentences.cost_of(fleet),
        unit=sentences.unit_in_words(unit) if unit is not None and is_first else "",
    )
    picture = charts.fleet_strip(counted, span, marks, "cost" if show == "downtime" else show, seen)
    said = words.count(int(counted["rebalances"].sum()), "rebalance")
    clicked = page.time_line(picture, f"The fleet over time: {said}, by cluster and cause.", key="fleet-strip")
    page.open_target(clicked, "", marks)


def worst(open_: list[IncidentRow], alike: list[IncidentKind], costliest: IncidentRow | None) -> sentences.Worst | None:
    """The first line of the list; None where nothing is open. `costliest`: of the whole time, open or over."""
    if not open_:
        return None
    first = open_[0]
    more = alike[0].incident_count - 1 if alike else 0
    what, subject = page.cause_of(first), page.subject_of(first)
    cluster = words.name(first.cluster_id, 40)
    cost = sentences.cost_words(first, with_length=True)
    return sentences.Worst(
        what=page.anchor(what, "incident", cluster=first.cluster_id, incident=first.incident_id),
        still=sentences.still(first, clock.now_ms(), page.zone()),
        where=f"in cluster {cluster}" if subject in what else f"of {subject} in cluster {cluster}",
        whose=sentences.whose_doing(first),
        cost=f"{cost} of downtime" if first.cost_seconds is not None else cost,
        by_design=sentences.of_it_by_design(reader.waited_by_design(first)),
        unit=first.unit if first.cost_seconds is not None else None,
        advice=words.whole_sentences(first.advice, 300) if first.advice else None,
        alike=_alike(alike[0], more) if more else "",
        is_costlier_over=costliest is not None and costliest.status != "open",
        costlier=_costlier(first, costliest) if costliest is not None else None,
    )


def _alike(kind: IncidentKind, more: int) -> Html:
    said = f"{more:,} more like it"
    if rule_name(kind.kind) == kind.kind:  # a cause
        return fill(". {said}", said=said)
    return fill(". {a}", a=page.anchor(said, "findings", rule=kind.kind, status=FindingStatus.OPEN, last="all"))


def _costlier(first: IncidentRow, most: IncidentRow) -> Html | None:
    """The one that cost most, if that is far more than the first."""
    if (most.cost_seconds or 0) < MUCH_MORE * (first.cost_seconds or 0):
        return None
    stands = (
        f", {sentences.stands(most, clock.now_ms(), page.zone())}" if most.status == "open" else ""
    )  # else the heading says so
    return fill(
        "{what} ({cluster}, {cost}{stands})",
        what=page.anchor(page.cause_of(most), "incident", cluster=most.cluster_id, incident=most.incident_id),
        cluster=words.name(most.cluster_id, 40),
        cost=sentences.cost_words(most),
        stands=stands,
    )


def kinds(found: list[IncidentKind]) -> None:
    """How many incidents of each kind are open, where the list cannot show all; a link to that rule's findings."""
    said = []
    for k in found[:MOST_KINDS]:
        name = rule_name(k.kind)
        if name == k.kind:  # a cause
            said.append(fill("{n} \u00d7 {name}", n=f"{k.incident_count:,}", name=words.trigger(k.kind)))
        else:
            label, status = f"{k.incident_count:,} {name}", FindingStatus.OPEN
            said.append(page.anchor(label, "findings", rule=k.kind, status=status, last="all"))
    page.links(*[fill("<span>{s}</span>", s=s) for s in said])


def badge(i: IncidentRow) -> str:
    answered = hands.badge(standing(i, answers, clock.now_ms()))
    new = page.JUST_IN if reader.is_just_in(i.cluster_id, i.incident_id) else ""
    return ", ".join(each for each in (new, answered) if each)


def looked_again(span: Span, is_followed: bool) -> Span:
    """Reads what was published since. A time that ends with the evidence (`last=…`) moves with it."""
    page.reader()
    return Span(from_ms=span.from_ms, to_ms=(reader.span() or span).to_ms) if is_followed else span


# Both look again every second: what `watch` finds out is there before the rest of the page is made again.


@partial(page.fragment, run_every=page.LOOKS_AGAIN_S)
def answer(span: Span, is_followed: bool) -> None:
    span = looked_again(span, is_followed)
    first = worst(reader.open_at_home(span), reader.open_kinds(span), reader.costliest(span))
    is_old = sentences.is_old(whole.to_ms, clock.now_ms())
    page.facts(sentences.going_on(reader.incident_count(span), first, reader.unread("gold.incident"), is_old=is_old))


@partial(page.fragment, run_every=page.LOOKS_AGAIN_S)
def incidents(span: Span, is_followed: bool) -> None:
    span = looked_again(span, is_followed)
    counted, open_, alike = reader.incident_count(span), reader.open_at_home(span), reader.open_kinds(span)
    if unread := reader.unread("gold.incident"):
        page.heading("Incidents")
        page.not_read(unread)
        return
    page.heading(f"Incidents: {counted.open_count:,} open, {counted.over_count:,} over")
    with_cluster = len(seen) > 1
    if counted.quiet_count:
        page.note(
            "An incident is over once the evidence shows {t} without a new event (the settings file can name another "
            "time).",
            t=words.duration(DEFAULT.quiet_ms),
        )
    if counted.open_count:
        if counted.open_count > len(open_):
            kinds(alike)
        if counted.open_count > len(open_):
            page.note("The first {n} of each kind come first.", n=HOME_ALIKE)
        order = "Open incidents: what stands still now, then critical ones, then by cost"
        page.incident_list(open_, order, "open", with_cluster, badge)
        rest(span, True, open_, counted.open_count, with_cluster)
    if counted.over_count:
        heads = not counted.open_count
        over = reader.over_at_home(span)
        page.incident_list(over, "Incidents that are over, by cost", "over", with_cluster, with_heads=heads)
        rest(span, False, over, counted.over_count, with_cluster)
    if counted.expected_count:
        cost = words.costs(counted.expected_partition_seconds, counted.expected_task_seconds)
        label = f"Changes on purpose (deploys, scaling): {counted.expected_count:,}{', ' if cost else ''}{cost}"
        on_purpose(span, label, counted, with_cluster)
    if counted.longer_count:
        page.note(
            "{n} of them began before this time or went on after it, and {count} whole.",
            n=f"{counted.longer_count:,}",
            count="counts" if counted.longer_count == 1 else "count",
        )


# What is folded away is asked for and made when somebody opens it; nothing else of the page is made again then.


@page.fragment
def on_purpose(span: Span, label: str, counted: IncidentCount, with_cluster: bool) -> None:
    place = st.expander(label, key="fold-expected", on_change="rerun")
    if not place.open:
        return
    with place:
        changes = reader.incidents(span, expected=True, most=MOST_EXPECTED)
        page.incident_list(changes, "Changes on purpose, by cost", "expected", with_cluster)
        left = counted.expected_count - len(changes)
        if left > 0:
            page.note("{n} more: choose a shorter time to see them.", n=f"{left:,}")


@page.fragment
def rest(span: Span, is_open: bool, shown: list[IncidentRow], number: int, with_cluster: bool) -> None:
    """What does not fit on the first screen; `number` counts all, also those `shown` above."""
    if number <= len(shown):
        return
    what = "more open" if is_open else "more over"
    place = st.expander(f"{number - len(shown):,} {what}", key=f"fold-{what}", on_change="rerun")
    if not place.open:
        return
    with place:
        found = reader.incidents(span, expected=False, is_open=is_open)
        above = {(i.cluster_id, i.incident_id) for i in shown}
        others = [i for i in found if (i.cluster_id, i.incident_id) not in above]
        page.incident_list(others, what, what, with_cluster, badge)
        if (left := number - len(shown) - len(others)) > 0:
            page.note("{n} more: choose a shorter time to see them.", n=f"{left:,}")


def taken(span: Span) -> pd.DataFrame:
    """All incidents of the time, to take away."""
    rows = [asdict(i) for i in reader.incidents(span, most=MOST_TAKEN)]
    return pd.DataFrame(rows).drop(columns=["chain", "evidence", "rebalance_ids", "reassignment_ids"])  # of one alone


def clusters(found: list[ClusterRow]) -> None:
    """Those with something open first; of many, the rest is folded away."""
    page.heading("Clusters")
    if (early := sentences.ended_early(found)) is not None:
        page.note("{s}", s=early)
    sorted_ = sorted(found, key=lambda c: -c.open_incident_count)
    shown = MOST_CLUSTERS if len(found) > MOST_CLUSTERS + A_FEW else len(found)
    cluster_table(sorted_[:shown])
    if len(found) > shown:
        more_clusters(sorted_[shown:])


@page.fragment
def more_clusters(found: list[ClusterRow]) -> None:
    label = words.count(len(found), "more cluster", "more clusters")
    place = st.expander(label, key="fold-clusters", on_change="rerun")
    if place.open:
        with place:
            cluster_table(found)


def cluster_table(found: list[ClusterRow]) -> None:
    tz, now = page.zone(), clock.now_ms()
    page.table(
        ["cluster", "evidence ends", "groups", "rebalances", "reassignments", "open incidents", "sources", "gaps"],
        [
            [
                words.code(c.cluster_id, 40),
                words.when(c.last_at_ms, now, tz),
                f"{c.group_count:,}",
                f"{c.rebalance_count:,}",
                f"{c.reassignment_count:,}",
                f"{c.open_incident_count:,}",
                f"{c.source_count:,}",
                f"{c.gap_count:,}" if c.source_count else "not known",
            ]
            for c in found
        ],
    )


reader = page.reader_with_groups()
whole = reader.span() or Span(from_ms=0, to_ms=0)
seen = reader.clusters()
marks = reader.marks()
answers = reader.responses()
place_of_title = st.container()
span = page.span_of(whole, ranges.of_home(reader.open_at_home(whole), whole), marks)
fleet = reader.fleet(span)
is_followed = span.to_ms == whole.to_ms
with place_of_title:
    old = sentences.age(seen, whole.to_ms, clock.now_ms(), page.zone())
    page.title("Fleet", under=old or "What is going on, and what does it cost?")
    with st.container(key="answer"):
        answer(span, is_followed)
chosen = next((m for m in marks if m.mark_id == page.param("since")), None)
if chosen is not None:
    before = Span(from_ms=chosen.at_ms - span.length_ms, to_ms=chosen.at_ms - 1)
    itself = reader.incident_of_mark(chosen)
    said = sentences.since(chosen, itself, fleet, reader.fleet(before), span, whole)
    page.say("{s}", s=said)
    if itself is not None:
        page.link("The change, group by group", "incident", cluster=itself.cluster_id, incident=itself.incident_id)
page.present([c.cluster_id for c in seen])
with st.container(key="fleet"):
    strip(span)
incidents(span, is_followed)
counted = reader.incident_count(span)
if counted.open_count + counted.over_count + counted.expected_count:
    page.downloads(lambda: taken(span), "incidents")
page.links(page.anchor("All groups", "groups"), page.anchor("All findings", "findings", status=FindingStatus.OPEN))
with st.container(key="clusters"):
    clusters(seen)
doubts, such = reader.doubts()
if such is not None:
    limits = words.count(doubts, "thing limits", "things limit")
    page.note(
        "{n} what is known here{such}: {t}",
        n=limits,
        such="" if doubts == 1 else ", such as",
        t=words.cut(words.visible(such), 240),
    )
page.link("What was not seen", "trust")
