"""Which tasks were not running?"""

import pandas as pd
import streamlit as st

from app import charts, page, panels, sentences, words
from app.answers.outages import is_by_design
from app.answers.rows import ConnectTask, IncidentRow, Rebalance
from app.charts import bars
from app.words import Html, fill
from rebalance_audit.domain.causes import Cause
from rebalance_audit.domain.detect.history import worker_name
from rebalance_audit.domain.explain.connect_changes import ConnectorChange, Touched, connector_changes
from rebalance_audit.domain.explain.connect_stories import ConnectStory, connect_stories
from rebalance_audit.domain.kinds import STOOD_STILL, FindingStatus, Mode, Severity, TaskState

MOST_STORIES = 6
MOST_ROUNDS = 8
MOST_CHANGES = 20
MOST_HISTORY = 2_000
SEVERITIES = list(Severity)


def name_of(task: ConnectTask) -> str:
    return task.connector if task.task is None else f"{task.connector}-{task.task}"


def is_quiet(story: ConnectStory) -> bool:
    """A worker came, and nothing had to stop for it."""
    return story.kind == "worker_joined" and not any(
        m.kind in STOOD_STILL for r in rounds_of(story) for m in r.movements
    )


def once(stories: list[ConnectStory]) -> list[ConnectStory]:
    """By time; a story all of whose rounds a longer one has is a part of that one."""
    longest_first = sorted(stories, key=lambda s: -len(s.rebalance_ids))
    kept: list[ConnectStory] = []
    for story in longest_first:
        if not any(set(story.rebalance_ids) <= set(other.rebalance_ids) for other in kept):
            kept.append(story)
    return sorted(kept, key=lambda s: s.from_ms)


def rounds_of(story: ConnectStory | ConnectorChange) -> list[Rebalance]:
    return [by_id[i] for i in story.rebalance_ids]


def in_span(from_ms: int | None, to_ms: int | None) -> bool:
    return (from_ms is None or from_ms <= span.to_ms) and (to_ms is None or to_ms >= span.from_ms)


def incident_of(story: ConnectStory) -> IncidentRow | None:
    """The gravest that one of its rounds belongs to."""
    found = [reader.incident_of_rebalance(cluster_id, i) for i in story.rebalance_ids[:MOST_ROUNDS]]
    return min(
        (i for i in found if i is not None),
        key=lambda i: (i.expected, -SEVERITIES.index(i.severity), i.incident_id),
        default=None,
    )


def stories() -> set[str]:
    """The newest, in the order they happened, the rest counted; what connectors' changes did has a place of its own.
    Returns the findings that these stories are about."""
    stories = [
        s for s in connect_stories(whole_rebalances) if s.kind != "connector_changed" and in_span(s.from_ms, s.to_ms)
    ]
    found = once([s for s in stories if not is_quiet(s)])
    quiet = len(stories) - len(found)
    if not stories:
        return set()
    page.heading("What happened, in plain words")
    page.note(
        "Workers share connectors and their tasks. When something changes they agree again who runs what: a "
        "rebalance. Each is numbered, as a generation."
    )
    shown = [(story, incident_of(story)) for story in found[-MOST_STORIES:]]
    for story, incident in shown:
        show_story(story, incident)
    if len(found) > MOST_STORIES:
        page.note(
            "{n} earlier ones in that time; choose a shorter one to read them.", n=f"{len(found) - MOST_STORIES:,}"
        )
    if quiet:
        also = "Besides, a" if found else "A"
        times = "" if quiet == 1 else f" {quiet:,} times"
        page.note("{also} worker joined{times}, and nothing that ran had to stop.", also=also, times=times)
    return {f for _, incident in shown if incident is not None for f in incident.finding_ids}


def show_story(story: ConnectStory, incident: IncidentRow | None) -> None:
    rounds = rounds_of(story)
    is_trouble = incident is not None and incident.status == "open" and not incident.expected
    advice = incident.advice if incident is not None and is_trouble else None
    st.html(
        fill(
            '<div class="ra-incident ra-{tone}"><p class="ra-note">{at}{until}</p><p><b>{title}.</b> {text} {cost}</p>'
            "{advice}</div>",
            tone=incident.severity if incident is not None and is_trouble else "info",
            at=words.instant(story.from_ms, page.zone()),
            until=f", for {words.duration(story.to_ms - story.from_ms)}" if story.to_ms is not None else ", goes on",
            title=story.title,
            text=story.text,
            cost=sentences.cost_beside_eager(rounds),
            advice=fill("<p>What to do: {a}</p>", a=words.with_code(advice)) if advice else Html(""),
        )
    )
    end_ms = story.to_ms if story.to_ms is not None else span.to_ms
    room = max(2_000, (end_ms - story.from_ms) // 5)
    with st.container(horizontal=True):
        closer = {"from": story.from_ms - room, "to": end_ms + room}
        if incident is not None:
            page.link("Its incident", "incident", cluster=cluster_id, incident=incident.incident_id)
        page.link("Look closer", "connect", cluster=cluster_id, group=group_id, by="workers", **closer)
        for r in rounds[:MOST_ROUNDS]:
            number = words.number_of(r.generation_id, r.group_epoch, r.rewrite_seq)
            page.link(number.capitalize(), "rebalance", cluster=cluster_id, rebalance=r.rebalance_id)


def neighbours_hit() -> None:
    """The effect of one team's change on the others."""
    changes = [c for c in connector_changes(whole_rebalances) if in_span(c.at_ms, c.at_ms)]
    if not changes:
        return
    page.heading("What one connector's change did to the others")
    st.html(fill('<p class="ra-say">{s}</p>', s=sentences.connector_changes(changes)))
    loud = [c for c in reversed(changes) if c.own or c.others]
    rows: list[list[str | Html]] = [
        [
            words.instant(c.at_ms, page.zone()),
            fill(
                "{whose}{why}{mixed}",
                whose=words.join([words.code(each, 30) for each in c.connectors], ", "),
                why=_why(rounds_of(c)),
                mixed=Html("<br>A worker came or went as well: not all of it is the change's doing.")
                if c.is_mixed
                else "",
            ),
            hit(c.own),
            hit(c.others),
            *_prices(rounds_of(c)),
        ]
        for c in loud[:MOST_CHANGES]
    ]
    if rows:
        page.table(
            [
                "when",
                "what changed",
                "its own work that stopped",
                "others' work that stopped",
                "cost",
                "had all stopped",
            ],
            rows,
        )
        with st.container(horizontal=True):
            for c in loud[:MOST_CHANGES]:
                label = words.number_of(c.generation_id, None).capitalize()
                page.link(label, "rebalance", cluster=cluster_id, rebalance=c.rebalance_ids[0])
    if len(loud) > MOST_CHANGES:
        page.note("{n} older ones are not listed.", n=f"{len(loud) - MOST_CHANGES:,}")


def _prices(rounds: list[Rebalance]) -> list[str | Html]:
    cost, eager = sentences.costs(rounds)
    if all(r.mode == Mode.EAGER for r in rounds):
        beside = "all did stop"
    else:
        beside = f"at least {words.seconds(eager, 'task')}" if eager else "not known"
    return [sentences.likely_cost(cost), beside]


def _why(rounds: list[Rebalance]) -> Html:
    of_config = [r.trigger_detail for r in rounds if r.trigger == Cause.CONNECT_CONFIG_CHANGED and r.trigger_detail]
    said = list(dict.fromkeys(words.visible(text) for text in of_config))
    return fill(": {said}", said="; ".join(said[:3])) if said else Html("")


def hit(touched: tuple[Touched, ...]) -> Html:
    if not touched:
        return Html("none")
    return words.join(
        [
            fill(
                "{c}: {n}, up to {t}",
                c=words.code(each.connector, 30),
                n=words.things("connect", len(each.resources)),
                t=words.duration(each.longest_ms),
            )
            for each in touched
        ],
        "<br>",
    )


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
        page.note("Nothing but running.")
        return
    left_out, shown = len(shown) - MOST_HISTORY, shown[:MOST_HISTORY] if not chosen else shown[-MOST_HISTORY:]
    frame = pd.DataFrame(
        {
            "what": [words.name(name_of(t), 50) + (" (connector)" if t.task is None else "") for t in shown],
            "state": [
                words.STATE_WORDS.get(t.state, words.name(t.state, 30)).partition(" by design")[0] for t in shown
            ],
            "by design": ["yes" if is_by_design(t) else "no" for t in shown],
            "from": [words.instant(t.from_ms, tz) for t in shown],
            "for": [
                words.duration(t.to_ms - t.from_ms) if t.to_ms is not None else "still so when evidence ends"
                for t in shown
            ],
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
    row = page.clickable_table(
        frame,
        {
            "what": st.column_config.TextColumn(width=130),
            "state": st.column_config.TextColumn(width=140),
            "by design": st.column_config.TextColumn(width=85),
            "from": st.column_config.TextColumn(width=235),
        },
        key="history",
    )
    if row is not None and row < len(shown) and shown[row].evidence:
        page.go("evidence", cluster=cluster_id, ref=shown[row].evidence[0])


reader = page.reader()
groups = reader.connect_groups()
page.title("Connect", under="Which tasks were not running?")
if unread := reader.unread("gold.connect_task", "gold.group") if not groups else None:
    page.not_read(unread)
    st.stop()
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
cluster_id, group_id = page.group_in_address("Connect cluster", groups)
place_of_answer = st.container()
whole = reader.connect_span(cluster_id, group_id)
if whole is None:
    unread = reader.unread("gold.connect_task")
    page.nothing(unread, "The workers' group {g} is known, but no task of it was seen.", g=words.code(group_id))
    st.stop()
marks = reader.marks(cluster_id=cluster_id, group_ids=[group_id])
span = page.span_of(whole, page.default_span(whole, whole.to_ms), marks)
with st.container(horizontal=True):
    page.link("The workers' group", "group", cluster=cluster_id, group=group_id)
    page.outward(span, cluster=cluster_id, group=group_id)
tasks = reader.connect_tasks(cluster_id, group_id, span)
whole_rebalances = reader.rebalances_around(cluster_id, group_id, span)
by_id = {r.rebalance_id: r for r in whole_rebalances}
with place_of_answer:
    if unread := reader.unread("gold.connect_task"):
        page.not_read(unread)
    else:
        st.html(fill('<p class="ra-say">{a}</p>', a=sentences.connect(tasks, span)))
if tasks:
    picture_of(tasks)
    in_stories = stories()
    open_ = reader.findings(group_id=group_id, cluster_id=cluster_id, status=FindingStatus.OPEN)
    if apart := [f for f in open_ if f.finding_id not in in_stories]:
        page.heading("Also found")
        panels.findings_of_group(apart)
    neighbours_hit()
    history(tasks)
