"""Which tasks were not running?"""

import pandas as pd
import streamlit as st

from app import charts, page, panels, sentences, words
from app.answers.outages import is_by_design
from app.answers.rows import ConnectTask, FindingFilter
from app.charts import bars
from app.panels.connect_stories import WorkersInView, stories
from app.panels.connector_changes import connector_changes
from app.words import Html, fill
from rebalance_audit.domain.detect.history import worker_name
from rebalance_audit.domain.kinds import FindingStatus, TaskState

MOST_HISTORY = 2_000


def name_of(task: ConnectTask) -> str:
    return task.connector if task.task is None else f"{task.connector}-{task.task}"


def picture_of(tasks: list[ConnectTask]) -> None:
    page.heading("Who ran what, when")
    by = page.switch_in_address("Lanes", "by", ["tasks", "workers"])
    room = max(50, span.length_ms // 200)
    rebalances = reader.group_rebalances(cluster_id, group_id, span)
    picture = charts.connect_time_line(
        tasks, rebalances, span.from_ms - room, span.to_ms + room, by_worker=by == "workers", marks=marks
    )
    clicked = page.time_line(
        picture, f"Tasks of {words.name(group_id)} over time; the table below has the same.", key=f"connect-{by}"
    )
    st.html(bars.CONNECT_LEGEND)
    st.html(bars.family_legend_html(sorted({words.family(t) for t in rebalances["trigger"]}), bool(marks)))
    page.note(
        "{span}. Drag to look closer, double-click for all, click a mark to open its rebalance.",
        span=page.span_words(span, page.zone()),
    )
    page.open_target(clicked, cluster_id, marks)


def history(tasks: list[ConnectTask]) -> None:
    page.heading("Each task's history")
    names = sorted({name_of(t) for t in tasks}, key=words.natural)
    chosen = page.choice_in_address("Task or connector", "task", names, "choose one, or see what did not run")
    shown = [t for t in tasks if (name_of(t) == chosen if chosen else t.state != TaskState.RUNNING)]
    if not chosen:
        shown.sort(key=lambda t: -t.from_ms)
    tz = page.zone()
    if not shown:
        page.note("Every task and connector ran all the time.")
        return
    left_out, shown = len(shown) - MOST_HISTORY, shown[:MOST_HISTORY] if not chosen else shown[-MOST_HISTORY:]
    frame = pd.DataFrame(
        {
            "what": [words.name(name_of(t), 50) + (" (connector)" if t.task is None else "") for t in shown],
            "state": [
                words.STATE_WORDS.get(t.state, words.name(t.state, 30)).partition(" by design")[0]
                + (", by design" if is_by_design(t) else "")
                for t in shown
            ],
            "from": [words.instant(t.from_ms, tz) for t in shown],
            "for": [words.duration(t.to_ms - t.from_ms) if t.to_ms is not None else "not over" for t in shown],
            "worker": [
                words.name(worker_name(t.worker_url or t.worker_id), 40) if t.worker_url or t.worker_id else "none"
                for t in shown
            ],
            "says": [words.name(t.detail, 160) if t.detail else "" for t in shown],
            "ended by": [
                words.name(t.ended_by, 30).replace("_", " ") if t.ended_by else ("" if t.to_ms is None else "not known")
                for t in shown
            ],
        }
    )
    more = f" {left_out:,} older rows are left out: choose a task, or a shorter time." if left_out > 0 else ""
    page.note("Click a row to see its evidence.{more}", more=more)
    page.long_table(
        frame,
        "history",
        {
            "what": page.ColumnLook(width=165),
            "state": page.ColumnLook(width=175),
            "from": page.ColumnLook(width=235),
            "for": page.ColumnLook(width=80),
            "worker": page.ColumnLook(width=140),
            "says": page.ColumnLook(width=315),
            "ended by": page.ColumnLook(width=120),
        },
        lambda n: ("evidence", {"cluster": cluster_id, "ref": shown[n].evidence[0]}) if shown[n].evidence else None,
    )


reader = page.reader()
groups = reader.connect_groups()
place_of_title = st.container()
QUESTION = "Which tasks were not running?"
if not groups:
    page.title("Connect", under=QUESTION)
if unread := reader.unread("gold.connect_task", "gold.group") if not groups else None:
    page.not_read(unread)
    page.stop()
if not groups:
    page.panel(
        Html("<p>No Connect cluster was seen: no group of workers, and no status topic.</p>"),
        Html(
            "<p>If there is one, give its internal topics (<code>status.storage.topic</code>, "
            "<code>config.storage.topic</code>) to "
            "<code>rebalance-audit import</code> or <code>collect</code>.</p>"
        ),
    )
    page.stop()
cluster_id, group_id = page.group_in_address("Connect cluster", groups)
with place_of_title:
    above = fill("{c} \u00b7 Connect", c=words.code(cluster_id, 40))
    page.title(words.name(group_id, 60), over=above, under=QUESTION)
place_of_answer = st.container()
whole = reader.connect_span(cluster_id, group_id)
if whole is None:
    unread = reader.unread("gold.connect_task")
    page.nothing(unread, "The workers' group {g} is known, but no task of it was seen.", g=words.code(group_id))
    page.stop()
marks = reader.marks(cluster_id=cluster_id, group_ids=[group_id])
span = page.span_of(whole, page.default_span(whole, whole.to_ms), marks)
with st.container(horizontal=True):
    page.link("The workers' group", "group", cluster=cluster_id, group=group_id)
    page.outward(span, cluster=cluster_id, group=group_id)
tasks = reader.connect_tasks(cluster_id, group_id, span)
workers = WorkersInView(reader, cluster_id, group_id, span, reader.rebalances_around(cluster_id, group_id, span))
with place_of_answer:
    if unread := reader.unread("gold.connect_task"):
        page.not_read(unread)
    else:
        page.say("{a}", a=sentences.connect(tasks, span))
if tasks:
    picture_of(tasks)
    in_stories = stories(workers)
    of_group = FindingFilter(group_id=group_id, cluster_id=cluster_id, status=FindingStatus.OPEN)
    open_ = reader.findings(of_group)
    if apart := [f for f in open_ if f.finding_id not in in_stories]:
        page.heading("Also found")
        panels.findings_of_group(apart)
    connector_changes(workers)
    history(tasks)
