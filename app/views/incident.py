"""What happened, to whom, and what to do?"""

from collections.abc import Sequence

import streamlit as st

from app import clock, hands, page, panels, sentences, words
from app.answers.evidence import places_in_words
from app.answers.rows import GroupCost, IncidentRow
from app.answers.runbook import rule_title, runbook
from app.charts import bars
from app.pictures import ADDRESS, around, incident_picture, is_served
from app.words import Html, fill

MOST_CHAIN = 40
MOST_KNOWN_BY = 3


def state_line(i: IncidentRow) -> Html:
    tz, now = page.zone(), clock.now_ms()
    level = "On purpose" if i.expected else words.SEVERITY_WORDS[i.severity]
    length = i.last_at_ms - i.first_at_ms
    if i.status != "open":
        lasts = f" \u00b7 lasted {words.duration(length)}"
    elif i.still == "nothing" and unknown_since is None:  # its state says when its last event was
        lasts = ""
    else:
        lasts = f" \u00b7 last event {words.duration(length)} later" if length else " \u00b7 no event since"
    return fill(
        '<span class="ra-tone-{tone}">{level}</span>, {status} \u00b7 {cluster} \u00b7 began {since}{lasts}',
        tone="info" if i.expected or i.status != "open" else i.severity,
        level=level,
        status=sentences.stands(i, now, tz),
        cluster=words.code(i.cluster_id, 40),
        since=words.when(i.first_at_ms, now, tz),
        lasts=lasts,
    )


def cost_line(i: IncidentRow) -> Html:
    if i.cost_seconds is None:
        return fill("<b>{c}</b>", c=sentences.cost_words(i, with_length=True))
    likely = words.seconds_likely(i.cost_likely_lower_seconds, i.cost_seconds, i.cost_likely_upper_seconds, i.unit)
    return fill(
        '<details class="ra-cost"><summary><b>{likely}</b>{design}{groups}</summary>For certain: {bounds}.</details>',
        likely=likely,
        design=sentences.of_it_by_design(reader.waited_by_design(i)),
        groups=f" over {words.count(len(i.group_ids), 'group')}" if len(i.group_ids) > 1 else "",
        bounds=words.seconds_bounds(i.cost_lower_seconds, i.cost_seconds, i.cost_upper_seconds, i.unit),
    )


def alerted() -> None:
    """Who was alerted, and when, even if that was long after the end of the picture."""
    if alerts is None:
        page.note("What was sent to people is not known: the state of alerts cannot be read.")
    if not alerts:
        return
    page.heading("Alerts")
    tz = page.zone()
    page.table(
        ["when", "to", "what"],
        [
            [
                words.instant(a.at_ms, tz),
                words.code(a.target, 60),
                words.alert_news(a.what, a.is_sent),
            ]
            for a in alerts
        ],
    )


def picture(i: IncidentRow) -> None:
    drawn, marks = incident_picture(reader, i, costs, alerts)
    if not drawn.lanes:
        if i.cost_seconds is not None:
            page.note("Not drawn: it is not known when anything stood still.")
        return
    clicked = page.time_line(
        drawn,
        f"Time line of the incident: {len(drawn.lanes)} lanes; its links are listed below.",
        key="incident-time-line",
    )
    st.html(bars.pauses_legend_html(drawn))
    page.note(
        "Point at a moment, or press \u2190 and \u2192, to see who held what. Drag to look closer, double-click for "
        "all; a click on a rebalance's mark opens it."
    )
    page.open_target(clicked, i.cluster_id, marks)


def known_by(i: IncidentRow, refs: Sequence[str]) -> Html:
    """The first pieces of evidence as links; all of them stand at the page's end."""
    if not refs:
        return Html("\u2014")
    shown = [
        page.anchor(words.name(place, 40), "evidence", cluster=i.cluster_id, ref=ref)
        for ref, place in zip(refs, places_in_words(refs[:MOST_KNOWN_BY]), strict=False)
    ]
    more = f", {len(refs) - MOST_KNOWN_BY:,} more" if len(refs) > MOST_KNOWN_BY else ""
    return fill("{links}{more}", links=words.join(shown, ", "), more=more)


def chain(i: IncidentRow) -> None:
    page.heading("From the cause to its last consequence")
    tz = page.zone()
    page.table(
        ["when", "what", "known by"],
        [
            [
                words.clock(link.at_ms, tz),
                words.cut(words.utc_in(words.visible(link.what), tz), 300),
                known_by(i, link.evidence),
            ]
            for link in i.chain[:MOST_CHAIN]
        ],
    )
    if len(i.chain) > MOST_CHAIN:
        page.note("{n} later links are not listed.", n=f"{len(i.chain) - MOST_CHAIN:,}")


def costs_by_group(costs: list[GroupCost]) -> None:
    if not costs or (len(costs) == 1 and costs[0].estimate is None):  # what is said of the incident is all there is
        return
    page.heading("Downtime by group")
    has_team = any(c.team for c in costs)
    page.table(
        ["group", *(["team"] if has_team else []), "rebalances", "downtime, hard bounds"],
        [
            [
                words.code(c.group_id, 60),
                *([words.name(c.team, 40) if c.team else "\u2014"] if has_team else []),
                f"{c.rebalance_count:,}",
                words.seconds_bounds(c.lower, c.estimate, c.upper, c.unit),
            ]
            for c in costs[:MOST_CHAIN]
        ],
    )
    if len(costs) > MOST_CHAIN:
        page.note("{n} more groups are not listed.", n=f"{len(costs) - MOST_CHAIN:,}")


def findings(i: IncidentRow) -> None:
    """Its symptoms by the rules' names, with the runbook's text on each."""
    if not i.finding_ids:
        return
    page.heading("What the rules say, and the runbook")
    found = reader.findings_by_id(i.cluster_id, i.finding_ids)
    tz = page.zone()
    for f in found[:6]:
        st.html(
            fill(
                '<p class="ra-note"><b>{rule}</b>, {status}: {title}</p>',
                rule=rule_title(f.rule_id),
                status=f.status,
                title=words.cut(words.utc_in(words.visible(f.title), tz), 300),
            )
        )
    for rule in dict.fromkeys(f.rule_id for f in found):
        text = runbook(rule)
        if text is not None:
            with st.expander(f"Runbook: {rule_title(rule)}"):
                st.markdown(text)


def evidence(i: IncidentRow) -> None:
    refs = list(dict.fromkeys([*i.evidence, *(ref for link in i.chain for ref in link.evidence)]))
    page.heading("Evidence")
    panels.evidence_links(reader, refs, i.cluster_id, i.group_ids)


reader = page.reader_with_groups()
cluster_id, incident_id = page.param("cluster"), page.param("incident")
found = reader.incident(cluster_id, incident_id) if cluster_id and incident_id else None
if found is None:
    page.not_known("incident", incident_id, cluster_id, "home", reader.unread("gold.incident"))
alerts = reader.alerts_about(found.incident_id)
subject = page.subject_of(found)
unknown_since = sentences.unknown_since(found, clock.now_ms())
page.title(page.cause_of(found), over=state_line(found))
page.just_in(found.cluster_id, found.incident_id)
if unknown_since is not None:
    page.note("{old}", old=sentences.as_of(unknown_since, clock.now_ms(), page.zone(), found.cluster_id))
costs = reader.incident_costs(found.cluster_id, found.incident_id)
answer = {"Whose doing": sentences.whose_doing(found), "What it cost": cost_line(found)}
if found.advice:
    answer["What to do"] = words.with_code(words.cut(found.advice, 800))
with st.container(key="answer"):
    page.facts(answer)
picture(found)
story = words.cut(words.utc_in(words.visible(sentences.story(found)), page.zone()), 1200)
page.say("{story}", story=story)
first_moves = found.reassignment_ids[:3]
with st.container(horizontal=True, vertical_alignment="center"):
    for group_id in found.group_ids[:4]:
        page.link(f"Group {words.name(group_id, 30)}", "group", cluster=found.cluster_id, group=group_id)
    if found.kind == "connect_worker" and found.group_ids:
        page.link("Workers and tasks", "connect", cluster=found.cluster_id, group=found.group_ids[0])
    moved = {r.reassignment_id: r.name for r in reader.reassignments_with_steps(found.cluster_id, first_moves)}
    for reassignment_id in first_moves:
        move = words.cut(words.visible(moved.get(reassignment_id, "replicas")), 40)
        page.link(f"Move of {move}", "reassignment", cluster=found.cluster_id, reassignment=reassignment_id)
    only = found.group_ids[0] if len(found.group_ids) == 1 else None
    page.outward(around(found, alerts), cluster=found.cluster_id, incident=found.incident_id, group=only)
    url = page.whole_address("incident", cluster=found.cluster_id, incident=found.incident_id)
    tz = page.zone()
    with st.popover("Copy for chat"):
        st.code(sentences.for_chat(found, subject, clock.now_ms(), tz, url), language=None, wrap_lines=True)
    with st.popover("Copy as postmortem"):
        named = {"cluster": found.cluster_id, "incident": found.incident_id, "zone": page.zone_name()}
        drawn = page.whole_address(ADDRESS, **named) if is_served() else None
        text = sentences.postmortem(found, subject, costs, clock.now_ms(), tz, url, drawn)
        st.code(text, language="markdown", wrap_lines=True, height=420)
hands.answers(reader, found, is_over=found.status == "over")
chain(found)
alerted()
costs_by_group(costs)
findings(found)
if len(found.group_ids) == 1:
    changes = reader.changes(found.cluster_id, found.group_ids[0])
    panels.would_have_helped(reader, changes, around(found, alerts), found.unit)
evidence(found)
