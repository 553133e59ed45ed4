"""Which tasks were not running?"""

from collections import defaultdict

import pandas as pd
import streamlit as st

from app import bars, charts, page, sentences, words
from app.answers import ConnectTask, is_by_design
from app.words import Html, fill


def name_of(t: ConnectTask) -> str:
    return t.connector if t.task is None else f"{t.connector}-{t.task}"


def neighbours_hit(rebalances: pd.DataFrame, cluster: str) -> None:
    """What one team's change did to the others."""
    changes = rebalances[rebalances["trigger"] == "connect_config_changed"] if len(rebalances) else rebalances
    rows: list[list[str | Html]] = []
    for change in changes.tail(20).itertuples():
        full = reader.rebalance(cluster, change.rebalance_id)
        if full is None:
            continue
        by_connector: dict[str, list[int | None]] = defaultdict(list)
        for m in full.movements:
            if m.kind in ("moved", "returned", "restarted") and m.connector is not None:
                by_connector[m.connector].append(m.pause_estimate_ms)
        if by_connector:
            hit = [
                fill(
                    "{c} ({n}, {t})",
                    c=words.code(c, 30),
                    n=len(p),
                    t=words.duration(max((x for x in p if x is not None), default=None)),
                )
                for c, p in sorted(by_connector.items())
            ]
            rows.append(
                [
                    words.instant(int(change.at_ms), page.zone()),
                    words.number_of(full.generation_id, full.group_epoch),
                    words.visible(full.trigger_detail or "not known"),
                    words.join(hit, ", "),
                ]
            )
    if rows:
        page.heading("What a configuration change did to the others")
        page.table(["when", "number", "what changed", "stood still (tasks, longest)"], rows)


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
    if clicked is not None:
        page.go("rebalance", cluster=cluster_id, rebalance=clicked)
    neighbours_hit(rebalances, cluster_id)
    history(tasks)
