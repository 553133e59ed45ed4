"""What is wrong now, and what did it cost?"""

from itertools import groupby

import streamlit as st

from app import clock, page, panels, sentences, words
from app.answers.rows import ClusterRow, CostedFinding, Span
from app.charts import bars
from app.charts.bars import Row
from app.words import Html, fill
from rebalance_audit.domain.kinds import FindingStatus, Severity

MOST_SUBJECTS = 8
MOST_CLUSTERS = 8
LEVELS = {severity: level for level, severity in enumerate(reversed(Severity))}


def about(i: CostedFinding) -> tuple[str, str]:
    """Findings with the same key are shown together: by group; of replicas, all that have the same thing wrong."""
    f = i.finding
    return f.cluster_id, f.group_id or (f.rule_id if f.rule_id.startswith("RA") else f.subject)


def by_subject(incidents: list[CostedFinding]) -> list[list[CostedFinding]]:
    """Incidents of one group together, the worst group first."""
    found = [
        sorted(some, key=lambda i: (LEVELS.get(i.finding.severity, 3), i.finding.rule_id))
        for _, some in groupby(sorted(incidents, key=about), key=about)
    ]
    return sorted(found, key=lambda some: (LEVELS.get(some[0].finding.severity, 3), -cost_of(some)))


def cost_of(some: list[CostedFinding]) -> float:
    return max((i.resource_seconds or 0.0 for i in some), default=0.0)


def opens(what: str, cluster_id: str, with_cluster: bool) -> str:
    """A link's label: where several clusters have a group of that name, its cluster sets them apart."""
    return f"Open {words.name(what, 24)}" + (f" of {words.name(cluster_id, 34)}" if with_cluster else "")


def incident(some: list[CostedFinding], with_cluster: bool) -> None:
    first = some[0].finding
    tz, now = page.zone(), clock.now_ms()
    since = min(i.finding.first_seen_at_ms for i in some)
    last = max(i.finding.last_seen_at_ms for i in some)
    cost = f" In that time: {words.seconds(cost_of(some), some[0].unit)}." if cost_of(some) else ""
    also = [fill("<p>Also: {t}</p>", t=words.utc_in(words.visible(i.finding.title), tz)) for i in some[1:4]]
    if len(some) > 4:
        also.append(fill("<p>And {n} more.</p>", n=f"{len(some) - 4:,}"))
    st.html(
        fill(
            '<div class="ra-incident ra-{severity}"><p class="ra-first"><span class="ra-level">{level}</span> '
            "{subject}{cluster}: {title}</p>"
            '{also}<p>What to do: {advice}</p><p class="ra-note">Since {since}; last seen {last}.{cost}</p></div>',
            severity=first.severity,
            level=words.SEVERITY_WORDS[first.severity],
            subject=words.code(first.group_id or first.subject),
            cluster=fill(" in {c}", c=words.code(first.cluster_id, 34)) if with_cluster else "",
            title=words.utc_in(words.visible(first.title), tz),
            also=words.join(also),
            advice=words.visible(first.advice or "not known: see the runbook"),
            since=words.when(since, now, tz),
            last=words.minute(last, tz),
            cost=cost,
        )
    )
    with st.container(horizontal=True):
        if first.group_id is not None:
            page.link("Open the group", "group", cluster=first.cluster_id, group=first.group_id)
        elif first.rule_id.startswith("RA"):
            page.link("Is it moving?", "reassignments", cluster=first.cluster_id)
        page.link(f"The finding {first.rule_id}", "findings", cluster=first.cluster_id, finding=first.finding_id)
        if first.evidence:
            page.link("Its evidence", "evidence", cluster=first.cluster_id, ref=first.evidence[0])


def clusters(found: list[ClusterRow]) -> None:
    """Those with something open first; of many, the rest is folded away."""
    page.heading("Clusters, and up to when they were seen")
    sorted_ = sorted(found, key=lambda c: -c.open_finding_count)
    cluster_table(sorted_[:MOST_CLUSTERS])
    if len(found) > MOST_CLUSTERS:
        with st.expander(words.count(len(found) - MOST_CLUSTERS, "more cluster", "more clusters")):
            cluster_table(sorted_[MOST_CLUSTERS:])


def cluster_table(found: list[ClusterRow]) -> None:
    tz, now = page.zone(), clock.now_ms()
    page.table(
        ["cluster", "evidence ends", "groups", "rebalances", "reassignments", "open findings", "sources", "gaps"],
        [
            [
                words.code(c.cluster_id, 40),
                words.when(c.last_at_ms, now, tz),
                f"{c.group_count:,}",
                f"{c.rebalance_count:,}",
                f"{c.reassignment_count:,}",
                f"{c.open_finding_count:,}",
                f"{c.source_count:,}",
                f"{c.gap_count:,}" if c.source_count else "not known",
            ]
            for c in found
        ],
    )


def worst_groups(span: Span, with_cluster: bool) -> None:
    frame = reader.groups(span)
    frame = frame[(frame["rebalances"] > 0) | (frame["open_finding_count"] > 0)].head(10).reset_index(drop=True)
    page.heading("What cost most in that time")
    if frame.empty:
        page.note("No group rebalanced in that time.")
        return
    rows = []
    for g in frame.itertuples():
        cost = None if g.cost != g.cost else float(g.cost)
        said = words.seconds(cost, words.resource(g.protocol_type)) if cost is not None else "cost not known"
        where = fill(" in {c}", c=words.code(g.cluster_id, 34)) if with_cluster else Html("")
        rows.append(
            Row(
                label=fill("{g}{where}", g=words.code(g.group_id, 40), where=where),
                value=cost,
                said=f"{said}, {words.count(int(g.rebalances), 'rebalance')}",
                tone="bad" if int(g.unexpected) else "plain",
            )
        )
    st.html(bars.rows_html(rows))
    time = {"from": page.param("from"), "to": page.param("to")}
    with st.container(horizontal=True):
        for g in frame.head(5).itertuples():
            label = opens(g.group_id, g.cluster_id, with_cluster)
            page.link(label, "group", cluster=g.cluster_id, group=g.group_id, **time)
        page.link("All groups", "groups", **time)


def causes() -> None:
    page.heading("Why groups rebalanced")
    rows = [
        Row(
            label=bars.cause_label(c.trigger),
            value=c.rebalance_count,
            said=words.count(c.rebalance_count, "rebalance"),
            tone=bars.cause_tone(c.trigger),
        )
        for c in fleet.causes[:12]
    ]
    st.html(bars.rows_html(rows))


reader = page.reader_with_groups()
whole = reader.span() or Span(from_ms=0, to_ms=0)
page.title("What is wrong now, and what did it cost?")
seen = reader.clusters()
with_cluster = len(seen) > 1
subjects = by_subject(reader.open_incidents())
place_of_answer = st.container()
for some in subjects[:MOST_SUBJECTS]:
    incident(some, with_cluster)
if len(subjects) > MOST_SUBJECTS:
    more = words.count(len(subjects) - MOST_SUBJECTS, "more group", "more groups")
    page.link(f"{more} with open findings", "findings", status=FindingStatus.OPEN)
page.heading("What it cost")
span = page.span_of(whole, "24 h")
fleet = reader.fleet(span)
with place_of_answer:
    critical_count = sum(some[0].finding.severity == Severity.CRITICAL for some in subjects)
    of_groups = sum(some[0].finding.group_id is not None for some in subjects)
    said = sentences.fleet(
        of_groups, len(subjects) - of_groups, critical_count, fleet, span, clock.now_ms() - whole.to_ms
    )
    st.html(fill('<p class="ra-say">{s}</p>', s=said))
    panels.headline(reader.headline(span))
    doubts = [f for f in reader.findings(status=FindingStatus.OPEN) if f.rule_id.startswith("TR")]
    if doubts:
        limits = words.count(len(doubts), "thing limits", "things limit")
        such = "" if len(doubts) == 1 else ", such as"
        page.note("{n} what is known here{such}: {t}", n=limits, such=such, t=words.visible(doubts[0].title))
        page.link("What was not seen", "trust")
page.note(
    "{span}. Where the evidence ends, knowledge ends: nothing later is shown.", span=page.span_words(span, page.zone())
)
worst_groups(span, with_cluster)
if fleet.causes:
    causes()
clusters(seen)
