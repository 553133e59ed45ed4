"""How did this partition move, or what holds it?"""

import pandas as pd
import streamlit as st

from app import charts, page, panels, sentences, words
from app.answers import coincidence
from app.answers.rows import FindingFilter, Reassignment, Span
from app.charts import bars, ladder
from app.words import Html, fill


def time_around(r: Reassignment) -> Span:
    known = charts.moments(r)
    low = min(known, default=whole.from_ms)
    high = max(known, default=whole.to_ms) if r.outcome != "open" else whole.to_ms
    return Span(from_ms=low - coincidence.WITHIN_MS, to_ms=high + coincidence.WITHIN_MS)


def _since(at_ms: int | None) -> str:
    return "older than the evidence" if at_ms is None else words.instant(at_ms, page.zone())


def numbers(r: Reassignment) -> None:
    tz = page.zone()
    still = "none"
    if r.longest_standstill_ms:
        still = words.duration(r.longest_standstill_ms)
        if r.standstill_from_ms is not None:
            still += f", from {words.instant(r.standstill_from_ms, tz)}"
    under = words.duration(r.under_min_isr_ms) if r.under_min_isr_ms else "never"
    pairs: dict[str, str | Html] = {
        "state": words.state(r.outcome, r.stalled_since_ms is not None),
        "asked for": words.instant(r.started_at_ms, tz) if r.started_at_ms is not None else "before evidence begins",
        "ended": "not yet"
        if r.outcome == "open"
        else words.instant(r.ended_at_ms, tz)
        if r.ended_at_ms is not None
        else "not known: evidence has a gap there",
        "longest without progress": still,
        "leader changed": words.count(r.leader_changes, "time"),
        "active controller changed": words.count(r.controller_changes, "time"),
        "fewer in sync than before": words.duration(r.under_replicated_ms) if r.under_replicated_ms else "never",
        "under min.insync.replicas": "not known: the setting is not"
        if r.min_insync_replicas is None
        else f"{under} (it is {r.min_insync_replicas})",
        "without leader": words.duration(r.without_leader_ms) if r.without_leader_ms else "never",
        "known from": "the metadata log" if r.source == "metadata" else "log lines",
    }
    if not r.is_complete_evidence:
        pairs["evidence"] = "incomplete: something that could change this is missing"
    page.facts(pairs)


def others(r: Reassignment) -> None:
    """The chain of requests for the same partition."""
    chain = reader.reassignments_of(cluster_id, r.topic, r.partition)
    if len(chain) < 2:
        return
    page.heading("All requests for this partition")
    with st.container(gap="xsmall"):
        for each in chain.tail(12).itertuples():
            at = words.instant(None if pd.isna(each.at_ms) else int(each.at_ms), page.zone())
            to = words.replicas(words.ids(each.target_replicas))
            outcome = words.state(each.outcome, not pd.isna(each.stalled_since_ms))
            label = f"{at} to {to}, {outcome}" + (", this one" if each.reassignment_id == r.reassignment_id else "")
            page.link(label, "reassignment", cluster=cluster_id, reassignment=each.reassignment_id)


reader = page.reader()
cluster_id, wanted = page.param("cluster"), page.param("reassignment")
known = reader.reassignments_with_steps(cluster_id, [wanted]) if cluster_id and wanted else []
whole = reader.reassignment_span(cluster_id) if known and cluster_id else None
if cluster_id is None or whole is None:
    page.not_known("reassignment", wanted, cluster_id, "reassignments", reader.unread("gold.reassignment"))

r = known[0]
tz, now = page.zone(), whole.to_ms
question = "Is it moving?" if r.outcome == "open" else "How did it move?"
page.title(
    words.code(r.name, 80),
    over=fill("{c} \u00b7 asked for {at}", c=words.code(cluster_id, 40), at=words.instant(r.started_at_ms, tz)),
    under=question,
)
around = time_around(r)
with st.container(horizontal=True):
    page.link("All reassignments of this cluster", "reassignments", cluster=cluster_id)
    page.outward(around, cluster=cluster_id, topic=r.topic, partition=r.partition)
page.say("{s}", s=sentences.reassignment(r, now))
if r.outcome == "open":
    page.note("As of {at}: there the evidence of this cluster ends.", at=words.instant(now, tz))
if r.stalled_since_ms is not None:
    panels.steps(sentences.advice([r])[0])
    panels.never_run()
own = [
    f
    for f in reader.findings(FindingFilter(cluster_id=cluster_id))
    if f.facts().get("reassignment_id") == r.reassignment_id
]
panels.findings([f for f in own[:4] if f.status != "open" or r.stalled_since_ms is None])  # else said above
with st.container(horizontal=True):
    for f in own[:4]:
        page.link(f"The finding {f.rule_id}, with its evidence", "findings", cluster=cluster_id, finding=f.finding_id)
elections = reader.elections(cluster_id, around, [r.name])
groups = reader.groups_on(cluster_id, r.name)
near = reader.rebalances_of_cluster(cluster_id, around)
near = near[near["group_id"].isin(groups)]
picture = charts.partition_time_line(r, elections, near, now)
page.heading("Its brokers, to scale")
if picture is None:
    page.note("Not drawn: its times or its brokers are not known.")
else:
    clicked = page.time_line(picture, f"The brokers of {words.name(r.name)} over time.", key="partition-time-line")
    st.html(bars.PARTITION_LEGEND)
    page.open_target(clicked, cluster_id)
is_offsets = r.topic == "__consumer_offsets"
if found := coincidence.coincidences(near, elections, [r.name] if is_offsets else []):
    page.heading(f"Groups that rebalanced within {words.duration(coincidence.WITHIN_MS)} after a leader changed")
    panels.in_time_with(found, cluster_id)
page.heading("How its replicas changed")
if r.steps:
    page.note(
        "Kafka adds the new replicas beside the old ones, lets them copy until they are in sync, moves the leader if "
        "it is to leave, and only then takes the old ones away."
    )
    page.drawing(ladder.table_html(r, [_since(s.at_ms) for s in r.steps]), "replicas")
    st.html(ladder.LEGEND)
else:
    page.nothing(reader.unread("gold.reassignment_step"), "Not known: no state of it was seen.")
if r.progress:
    page.heading("Each new replica")
    page.table(
        ["broker", "began to fetch", "in sync", "took"],
        [
            [
                str(p.broker_id),
                words.instant(p.started_at_ms, tz) if p.started_at_ms is not None else "not known: no log says",
                words.instant(p.in_isr_at_ms, tz) if p.in_isr_at_ms is not None else "not in sync",
                words.duration(p.in_isr_at_ms - began)
                if p.in_isr_at_ms is not None and (began := p.started_at_ms or r.started_at_ms) is not None
                else "not known",
            ]
            for p in r.progress
        ],
    )
if r.outcome != "refused":
    page.heading("In numbers")
    numbers(r)
others(r)
page.heading("Evidence")
refs = list(dict.fromkeys([*r.evidence, *(e for s in r.steps for e in s.evidence)]))
panels.evidence_links(reader, refs, cluster_id, [], reassignment=r.reassignment_id)
