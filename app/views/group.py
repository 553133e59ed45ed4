"""What has this group been through?"""

import json

import pandas as pd
import streamlit as st

from app import charts, clock, page, panels, sentences, words
from app.answers import coincidence
from app.answers.rows import CauseShare, FindingFilter, Group, IncidentRow, Span, counted
from app.charts import bars
from app.charts.bars import Row
from app.queries import HOUR_MS
from app.words import Html, fill
from rebalance_audit.domain.kinds import FindingStatus, MemberChange, Outcome

MOST_INCIDENTS = 20


def state_line(g: Group) -> Html:
    number = words.number_of(g.generation_id, g.group_epoch)
    members = words.count(g.member_count, "member") if g.member_count is not None else "members not known"
    held = (
        words.things(g.protocol_type, g.resource_count) if g.resource_count is not None else "what it holds not known"
    )
    return fill(
        "{cluster} \u00b7 {type} group, {mode}, assignor {assignor} \u00b7 last seen: {state}, {number}, "
        "{members}, {held}",
        cluster=words.code(g.cluster_id, 40),
        type=g.group_type if g.protocol_type != "connect" else "Connect",
        mode=words.MODE_WORDS.get(g.mode, g.mode),
        assignor=words.code(words.assignor(g.assignor), 40),
        state=words.name(g.state, 30),
        number=number,
        members=members,
        held=held,
    )


def cause_rows(causes: list[CauseShare], unit: str) -> list[Row]:
    rows = []
    for c in causes:
        share = sentences.mostly(c)
        about = f", {words.plain(share)}" if share else ""
        cost = "" if c.resource_seconds is None else f", {words.seconds(c.resource_seconds, unit)}"
        if c.resource_seconds == 0:
            cost = ", no downtime"
        rows.append(
            Row(
                label=bars.cause_label(c.trigger),
                value=c.rebalance_count,
                said=f"{words.count(c.rebalance_count, 'time')}{about}{cost}",
                tone=bars.cause_tone(c.trigger),
            )
        )
    return rows


def pause_words(row: object) -> str:
    ends = [None if pd.isna(v) else float(v) for v in (row.pause_lower_ms, row.pause_estimate_ms, row.pause_upper_ms)]  # type: ignore[attr-defined]
    if ends[1] is None and row.moved_count == 0 and row.returned_count == 0:  # type: ignore[attr-defined]
        return "stopped, no new owner yet" if row.revoked_count else "nothing stood still"  # type: ignore[attr-defined]
    if ends[1] is None:
        return "not known"  # why stands on its own page
    likely = [None if pd.isna(v) else float(v) for v in (row.pause_likely_lower_ms, row.pause_likely_upper_ms)]  # type: ignore[attr-defined]
    return words.pause_likely(ends[0], ends[1], ends[2], likely[0], likely[1])


def rebalance_table(rebalances: pd.DataFrame) -> None:
    newest = rebalances.iloc[::-1].reset_index(drop=True)
    tz = page.zone()
    ids = newest["rebalance_id"].tolist()
    new = {row["rebalance_id"] for row in reader.just_in_of(str(cluster_id), str(group_id))}
    as_int = lambda v: None if pd.isna(v) else int(v)  # noqa: E731
    frame = pd.DataFrame(
        {
            "number": [
                words.number_of(as_int(r.generation_id), as_int(r.group_epoch), int(r.rewrite_seq))
                + ("" if r.outcome == Outcome.COMPLETED else f", {r.outcome}")
                + (f", {page.JUST_IN}" if r.rebalance_id in new else "")
                for r in newest.itertuples()
            ],
            "cause": [f"{words.FAMILY_SIGN[words.family(t)]} {words.trigger(t)}" for t in newest["trigger"]],
            "longest downtime": [pause_words(r) for r in newest.itertuples()],
            "when": [words.instant(as_int(r.at_ms), tz) for r in newest.itertuples()],
            "window": [words.duration(as_int(w)) for w in newest["broker_window_ms"]],
            "moved": newest["moved_count"],
            "members": newest["member_count"],
            "normal": ["yes" if e else "no" for e in newest["expected"]],
        }
    )
    page.long_table(
        frame,
        "rebalances",
        {
            "when": page.ColumnLook(width=221),
            "number": page.ColumnLook(width=158),
            "cause": page.ColumnLook(width=364),
            "longest downtime": page.ColumnLook(width=212),
            "window": page.ColumnLook(
                width=86, help="The broker's window, from preparing to the group's record: not the downtime"
            ),
            "moved": page.ColumnLook(width=58),
            "members": page.ColumnLook(width=74),
            "normal": page.ColumnLook(width=66, help="The protocol's normal work"),
        },
        lambda n: ("rebalance", {"cluster": cluster_id, "rebalance": ids[n]}),
        placeholder="\u2014",
    )


def pause_bars(rebalances: pd.DataFrame, span: Span) -> None:
    paused = counted(rebalances).dropna(subset="pause_estimate_ms")
    pauses, windows = paused["pause_estimate_ms"].tolist(), paused["broker_window_ms"].dropna().tolist()
    if not pauses:
        return
    page.heading("Longest downtime of each rebalance, beside the broker's window")
    page.drawing(bars.pause_distribution_html(pauses, windows), "longest downtime")
    panels.headline(reader.headline(span, cluster_id, group_id))
    page.note(
        "The broker's window: from its log line \u201cPreparing to rebalance\u201d until it writes the group's record. "
        "Dashboards call it downtime, but members work on in it until their next heartbeat, and one that is gone "
        "worked long before it for the last time."
    )


def time_line(span: Span) -> None:
    room = max(50, span.length_ms // 200)
    also = (charts.election_marks(elections), charts.move_marks(moves), charts.change_marks(marks))
    waits = reader.waits_by_design(cluster_id, group_id, span) if group.protocol_type == "connect" else None
    picture = charts.group_time_line(
        rebalances, members, movements, span.from_ms - room, span.to_ms + room, unit, also, waits
    )
    clicked = page.time_line(
        picture,
        f"Time line of {words.name(group_id)}: {len(picture.lanes)} members, "
        f"{words.count(len(rebalances), 'rebalance')}; the table below has the same.",
        key="group-time-line",
    )
    st.html(bars.family_legend_html(sorted({words.family(t) for t in rebalances["trigger"]}), bool(marks)))
    if len(elections) or len(moves):
        st.html(bars.REPLICAS_LEGEND)
    if len(picture.below_waiting):
        st.html(bars.DOWN_LEGEND)
    page.note(
        "A member's line is filled where it worked, as high as what it held, and empty where it did not. "
        "Drag to look closer, double-click for all, click a mark to open its rebalance."
    )
    page.open_target(clicked, cluster_id, marks)


def nothing_here(last_at_ms: int | None) -> None:
    """Says that the chosen time has no rebalance of this group, when its last was, and links there."""
    page.say(
        "No rebalance in this time; the last was {when}.", when=words.when(last_at_ms, clock.now_ms(), page.zone())
    )
    if last_at_ms is not None:
        page.link(
            "Show the day around it", "group", cluster=cluster_id, group=group_id,
            **{"from": last_at_ms - 12 * HOUR_MS, "to": last_at_ms + 12 * HOUR_MS},
        )  # fmt: skip


def its_incidents(cluster_id: str, group_id: str, span: Span | None = None) -> list[IncidentRow]:
    """Those of the time, or of all evidence, and what was found besides."""
    found = reader.incidents(span, cluster_id=cluster_id, group_id=group_id, most=MOST_INCIDENTS)
    unread = reader.unread("gold.incident")
    if found or unread:
        page.heading("Its incidents")
        if not found:
            page.nothing(unread, "None.")
        new = lambda i: page.JUST_IN if reader.is_just_in(i.cluster_id, i.incident_id) else ""  # noqa: E731
        page.incident_list(
            found, "Incidents of this group, open ones first", "group-incidents", with_cluster=False, badge=new
        )
    shown_there = {f for i in found for f in i.finding_ids}
    asked = FindingFilter(group_id=group_id, cluster_id=cluster_id, status=FindingStatus.OPEN)
    if apart := [f for f in reader.findings(asked) if f.finding_id not in shown_there]:
        page.heading("Also found")
        panels.findings_of_group(apart)
    return found


def what_else_is_known() -> None:
    if cluster_id and group_id:
        its_incidents(cluster_id, group_id)


reader = page.reader_with_groups()
cluster_id, group_id = page.param("cluster"), page.param("group")
group = reader.group(cluster_id, group_id) if cluster_id and group_id else None
if group is None or cluster_id is None or group_id is None:
    page.not_known("group", group_id, cluster_id, "groups", reader.unread("gold.group"), what_else_is_known)

unit = words.resource(group.protocol_type)
page.title(words.name(group_id, 80), over=state_line(group), under="What has this group been through?")
page.present([cluster_id], group_id)
whole = reader.span(cluster_id, group_id)
if whole is None:
    page.nothing(reader.unread("gold.rebalance"), "The group is known, but none of its rebalances was seen.")
    its_incidents(cluster_id, group_id)
    page.stop()
marks = reader.marks(cluster_id=cluster_id, group_ids=[group_id])
span = page.span_of(whole, page.default_span(whole, group.last_rebalance_at_ms), marks)
rebalances = reader.group_rebalances(cluster_id, group_id, span)
members = reader.group_members(cluster_id, group_id, span)
movements = reader.group_movements(cluster_id, group_id, span)
causes = reader.group_causes(cluster_id, group_id, span)
hangs_on = reader.coordination(cluster_id, group_id)
around = Span(from_ms=span.from_ms - coincidence.WITHIN_MS, to_ms=span.to_ms)
elections = reader.elections(cluster_id, around, [*hangs_on.offsets_partitions, *hangs_on.partitions])
moves = reader.moves_of(cluster_id, around, [*hangs_on.offsets_partitions, *hangs_on.partitions])
in_time = coincidence.coincidences(rebalances, elections, hangs_on.offsets_partitions)
if len(members):
    time_line(span)
elif len(rebalances):
    page.nothing(reader.unread("gold.rebalance_member"), "No member is known in that time: not drawn.")
if len(rebalances):
    page.say("{a}", a=sentences.group(rebalances, causes, unit, span))
    if (still := sentences.standstill(group.standstill_seconds_estimate, unit)) is not None:
        page.say("{s}", s=still)
    if (doubt := sentences.doubts(rebalances)) is not None:
        page.note("{d}", d=doubt)
    if in_time:
        page.say("{s}", s=sentences.coincidences(in_time))
else:
    nothing_here(group.last_rebalance_at_ms)
with st.container(horizontal=True):
    page.link("Did a change help? Compare two times", "compare", a=json.dumps([cluster_id, group_id]))
    if group.protocol_type == "connect":
        page.link("Its workers and tasks", "connect", cluster=cluster_id, group=group_id)
    page.outward(span, cluster=cluster_id, group=group_id)

incidents = its_incidents(cluster_id, group_id, span)
panels.would_have_helped(reader, reader.changes(cluster_id, group_id), span, unit)
if in_time:
    page.heading(f"Rebalances within {words.duration(coincidence.WITHIN_MS)} after a leader changed")
    panels.in_time_with(in_time, cluster_id)
if causes:
    page.heading("Rebalances by their incident's root cause" if incidents else "Rebalances by cause")
    page.drawing(bars.rows_html(cause_rows(causes, unit)), "causes")
pause_bars(rebalances, span)
if len(rebalances):
    page.heading("Rebalances, newest first")
    page.note("Click a row to open it.")
    rebalance_table(rebalances)
    last = str(rebalances.iloc[-1]["rebalance_id"])
    staying = [m for m in reader.members_of(cluster_id, [last]).get(last, []) if m.change != MemberChange.LEFT]
    if staying:
        page.heading("Who held what after the last rebalance")
        page.table(
            ["member", "host", "holds", "session timeout"],
            [
                [
                    words.code(sentences.known_as(m), 44),
                    words.code(m.client_host, 32),
                    f"{len(m.assigned)}: {words.resources(m.assigned)}" if m.assigned else words.resources(m.assigned),
                    words.duration(m.session_timeout_ms),
                ]
                for m in staying[:100]
            ],
        )
        if len(staying) > 100:
            page.note("{n} more members are not listed.", n=f"{len(staying) - 100:,}")
