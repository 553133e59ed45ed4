"""Which tasks were not running?"""

import pandas as pd
import streamlit as st

from app import bars, charts, connect_stories, page, sentences, words
from app.answers import ConnectTask, is_by_design
from app.connect_stories import Absence, name_of
from app.words import Html, fill

MOST_STORIES = 6


def stories() -> None:
    """The newest, the rest counted."""
    gone = [(a.gone_at_ms, a) for a in connect_stories.absences(tasks)]
    joined = [
        (story.from_ms, story)
        for story in connect_stories.rounds(rebalances, connect_stories.JOINS)
        if sum(story.revoked_counts)
    ]
    found = sorted([*gone, *joined], key=lambda each: -each[0])
    if not found:
        return
    page.heading("What happened, in plain words")
    tz = page.zone()
    for at_ms, story in found[:MOST_STORIES]:
        if isinstance(story, Absence):
            said, end_ms = sentences.absence(story, span.to_ms), story.back_at_ms or span.to_ms
            opened = []
        else:
            opened = [r for i in story.rebalance_ids[:6] if (r := reader.rebalance(cluster_id, i)) is not None]
            said, end_ms = sentences.joining(story, opened), story.to_ms
        st.html(
            fill(
                '<div class="ra-incident"><p class="ra-note">{at}</p><p>{said}</p></div>',
                at=words.instant(at_ms, tz),
                said=said,
            )
        )
        room = max(2_000, (end_ms - at_ms) // 5)
        with st.container(horizontal=True):
            closer = {"from": at_ms - room, "to": end_ms + room}
            page.link("Look closer", "connect", cluster=cluster_id, group=group_id, by="workers", **closer)
            for number, r in enumerate(opened, start=1):
                page.link(f"Round {number}", "rebalance", cluster=cluster_id, rebalance=r.rebalance_id)
    if len(found) > MOST_STORIES:
        page.note("{n} more in that time; choose a shorter one to read them.", n=f"{len(found) - MOST_STORIES:,}")


def neighbours_hit() -> None:
    """What one team's change did to the others."""
    changes = connect_stories.rounds(rebalances, ("connect_config_changed",))
    rows: list[list[str | Html]] = []
    quiet = 0
    for change in reversed(changes[-30:]):
        opened = [r for i in change.rebalance_ids if (r := reader.rebalance(cluster_id, i)) is not None]
        own, others = connect_stories.others_hit(change, [m for r in opened for m in r.movements])
        if not own and not others:
            quiet += 1
            continue
        what = words.visible(change.detail or "what changed is not known")
        number = words.number_of(opened[0].generation_id, opened[0].group_epoch)
        rows.append(
            [
                words.instant(change.from_ms, page.zone()),
                fill("{what}<br>{cost}", what=what, cost=sentences.cost_beside_eager(change)),
                hit(own),
                hit(others),
                number,
            ]
        )
    if not changes:
        return
    page.heading("What one connector's change did to the others")
    if rows:
        known = any(c.changed_connectors is not None for c in changes)
        page.table(
            ["when", "what changed", "its own tasks that stood still", "others' tasks that stood still", "number"]
            if known
            else ["when", "what changed", "", "connectors whose tasks stood still", "number"],
            rows,
        )
    if quiet:
        page.note("{n} stopped nobody's task.", n=words.count(quiet, "configuration change"))


def hit(stood: dict[str, list[int | None]]) -> Html:
    if not stood:
        return Html("none")
    return words.join(
        [
            fill(
                "{c}: {n}, up to {t}",
                c=words.code(c, 30),
                n=words.count(len(pauses), "task"),
                t=words.duration(max((p for p in pauses if p is not None), default=None)),
            )
            for c, pauses in sorted(stood.items())
        ],
        "<br>",
    )


def history(tasks: list[ConnectTask]) -> None:
    page.heading("Each task's history")
    names = sorted({name_of(t) for t in tasks}, key=words.natural)
    chosen = page.choice_in_address("Task or connector", "task", names, "choose one, or see what did not run")
    shown = [t for t in tasks if (name_of(t) == chosen if chosen else t.state not in ("RUNNING",))]
    tz = page.zone()
    if not shown:
        page.note("Nothing but running.")
        return
    frame = pd.DataFrame(
        {
            "what": [words.name(name_of(t), 50) + (" (connector)" if t.task is None else "") for t in shown],
            "state": [words.STATE_WORDS.get(t.state, words.name(t.state, 30)) for t in shown],
            "from": [words.instant(t.from_ms, tz) for t in shown],
            "for": [
                words.duration(t.to_ms - t.from_ms) if t.to_ms is not None else "still so when evidence ends"
                for t in shown
            ],
            "by design": ["yes" if is_by_design(t) else "no" for t in shown],
            "worker": [
                words.name(t.worker_url or t.worker_id, 40) if t.worker_url or t.worker_id else "none" for t in shown
            ],
            "ended by": [
                words.name(t.ended_by, 30) if t.ended_by else ("" if t.to_ms is None else "not known") for t in shown
            ],
            "says": [words.name(t.detail, 160) if t.detail else "" for t in shown],
            "evidence": [words.name(t.evidence[0], 60) if t.evidence else "" for t in shown],
        }
    )
    page.note("Click a row to see its evidence.")
    row = page.clickable_table(
        frame,
        {"state": st.column_config.TextColumn(width=265), "from": st.column_config.TextColumn(width=235)},
        key="history",
    )
    if row is not None and row < len(shown) and shown[row].evidence:
        page.go("evidence", cluster=cluster_id, ref=shown[row].evidence[0])


reader = page.reader()
groups = reader.connect_groups()
page.title("Which tasks were not running?")
if not groups:
    page.panel(
        Html("<p>No Connect cluster was seen: no group of workers, and no status topic.</p>"),
        Html(
            "<p>If there is one, give its internal topics (<code>status.storage.topic</code>, "
            "<code>config.storage.topic</code>) to "
            "<code>rebalance-audit import</code> or <code>collect</code>.</p>"
        ),
    )
    st.stop()
if len(groups) > 1:
    by_label = {f"{words.name(g, 50)} @ {words.name(c, 30)}": (c, g) for c, g in groups}
    wanted = page.choice_in_address("Connect cluster", "connect", list(by_label), "choose one")
    named = (page.param("cluster"), page.param("group"))
    cluster_id, group_id = by_label[wanted] if wanted else next((g for g in groups if g == named), groups[0])
else:
    cluster_id, group_id = groups[0]
place_of_answer = st.container()
whole = reader.connect_span(cluster_id, group_id)
if whole is None:
    page.say("The workers' group {g} is known, but no task of it was seen.", g=words.code(group_id))
    st.stop()
span = page.span_of(whole, page.default_span(whole, whole.to_ms))
tasks = reader.connect_tasks(cluster_id, group_id, span)
rebalances = reader.group_rebalances(cluster_id, group_id, span)
with place_of_answer:
    st.html(fill('<p class="ra-say">{a}</p>', a=sentences.connect(tasks, span)))
    page.link("The workers' group", "group", cluster=cluster_id, group=group_id)
if tasks:
    stories()
    page.heading("Who ran what, when")
    by = page.switch_in_address("Lanes", "by", ["tasks", "workers"])
    room = max(50, span.length_ms // 200)
    picture = charts.connect_time_line(
        tasks, rebalances, span.from_ms - room, span.to_ms + room, by_worker=by == "workers"
    )
    clicked = page.time_line(
        picture, f"Tasks of {words.name(group_id)} over time; the table below has the same.", key=f"connect-{by}"
    )
    st.html(bars.CONNECT_LEGEND)
    page.note(
        "{span}. Drag to look closer, double-click for all, click a mark to open its rebalance.",
        span=page.span_words(span, page.zone()),
    )
    page.open_target(clicked, cluster_id)
    neighbours_hit()
    history(tasks)
