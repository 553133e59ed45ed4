"""Is it moving?"""

import pandas as pd
import streamlit as st

from app import charts, page, panels, sentences, words
from app.answers.rows import ClusterMovesRow, FindingFilter, Reassignment, Span
from app.charts import bars, ladder
from app.words import Html, fill

LADDERS = 8
MOST_QUIET = 5
"""Clusters in which nothing moves; more are folded away."""
MOST_ELECTIONS = 5_000
BESIDE = ("RA002", "RA004", "RA005")  # throttles left, leaders, risk: what the ladders do not show
STATES = {"stalled": "stalled", "moving": "open", "completed": "completed", "cancelled": "cancelled",
          "replaced by another request": "superseded", "ended with its topic": "deleted", "refused": "refused",
          "ended unseen": "unknown"}  # fmt: skip


def matching(frame: pd.DataFrame, wanted: str, state: str | None) -> pd.DataFrame:
    if state is not None:
        is_still = frame["stalled_since_ms"].notna()
        frame = frame[is_still if STATES[state] == "stalled" else (frame["outcome"] == STATES[state]) & ~is_still]
    if wanted:
        names = frame["topic"].astype(str) + "-" + frame["partition"].astype(str)
        frame = frame[names.str.lower().str.contains(wanted.lower(), regex=False)]
    return frame.reset_index(drop=True)


def shown(frame: pd.DataFrame, now_ms: int) -> pd.DataFrame:
    tz = page.zone()
    started, ended, still = (
        [None if pd.isna(v) else int(v) for v in frame[c]] for c in ("started_at_ms", "ended_at_ms", "stalled_since_ms")
    )

    def lasted(began: int | None, end: int | None) -> str:
        return "not known" if began is None else words.duration((now_ms if end is None else end) - began)

    return pd.DataFrame(
        {
            "partition": [f"{words.name(t, 60)}-{p}" for t, p in zip(frame["topic"], frame["partition"], strict=True)],
            "state": [words.state(o, s is not None) for o, s in zip(frame["outcome"], still, strict=True)],
            "from": [words.replicas(words.ids(v)) for v in frame["original_replicas"]],
            "to": [words.replicas(words.ids(v)) for v in frame["target_replicas"]],
            "new replicas in sync": [
                f"{done} of {new}" if new else "adds none"
                for done, new in zip(frame["in_sync_count"], frame["new_count"], strict=True)
            ],
            "what blocks, or did": [
                f"{(b or 'not known').replace('_', ' ')}{_at(r)}" if s is not None or b else ""
                for b, r, s in zip(frame["blocked_by"], frame["blocked_replicas"], still, strict=True)
            ],
            "for": [lasted(a, b) for a, b in zip(started, ended, strict=True)],
            "asked for": [words.instant(a, tz) for a in started],
        }
    )


def _at(replicas: object) -> str:
    ids = words.ids(replicas)
    return f", {words.brokers(ids)}" if ids else ""


def ladders(found: list[Reassignment]) -> None:
    if not found:
        return
    page.heading("Progress of each partition")
    rows: list[list[str | Html]] = [
        [
            fill(
                "{name}<br>{state}",
                name=words.code(r.name, 44),
                state=words.state(r.outcome, r.stalled_since_ms is not None),
            ),
            ladder.small_html(r),
            fill(
                "{a} \u2192 {b}<br>{progress}",
                a=words.replicas(r.original_replicas),
                b=words.replicas(r.target_replicas),
                progress=sentences.progress(r),
            ),
        ]
        for r in found
    ]
    page.table(["partition", "brokers, state after state", "from, to"], rows, saved_as="progress")
    st.html(ladder.LEGEND)


def elections_table(found: pd.DataFrame) -> None:
    page.heading("Changes of leaders")
    if found.empty:
        page.nothing(reader.unread("gold.leader_election"), "None in that time.")
        return
    newest = found.iloc[::-1].head(MOST_ELECTIONS)
    tz = page.zone()
    page.note(
        "{n}{cut}.",
        n=words.count(len(found), "election"),
        cut=f", the newest {MOST_ELECTIONS:,} listed" if len(found) > MOST_ELECTIONS else ", newest first",
    )
    prevented = [
        "" if v is None or pd.isna(v) else words.name(str(v).replace("_", " "), 80) for v in newest["prevented_by"]
    ]
    page.long_table(
        pd.DataFrame(
            {
                "when": [words.instant(int(v), tz) for v in newest["at_ms"]],
                "partition": [words.name(v, 60) for v in newest["name"]],
                "from": [_broker(v) for v in newest["previous_leader"]],
                "to": [_broker(v) for v in newest["elected"]],
                "preferred": [_broker(v) for v in newest["preferred_replica"]],
                "why": [words.ELECTION_WORDS.get(v, v) for v in newest["cause"]],
                "outcome": [str(v).replace("_", " ") for v in newest["outcome"]],
                **({"why not the preferred": prevented} if any(prevented) else {}),
            }
        ),
        "changes of leaders",
        {"when": page.ColumnLook(width=235)},
        rows=10,
    )


def _broker(value: object) -> str:
    return "nobody" if value is None or pd.isna(value) else f"broker {int(value)}"  # type: ignore[call-overload]


def longest_of(c: ClusterMovesRow) -> str:
    if not c.longest_standstill_ms:
        return "none did"
    why = "not known why" if c.blocked_by is None else c.blocked_by.replace("_", " ")
    return f"{words.duration(c.longest_standstill_ms)}: {why}"


def going_on(moving: int, stalled: int) -> str:
    """How many move and how many are stalled; a number that is 0 is left out."""
    moves = words.count(moving, "reassignment is moving", "reassignments are moving")
    still = words.count(stalled, "reassignment is stalled", "reassignments are stalled")
    if moving and stalled:
        return f"{still}, {words.count(moving, 'is moving', 'are moving')}"
    if stalled:
        return f"{still}, no other is moving"
    return f"{moves}, none is stalled" if moving else "Nothing is moving, and nothing is stalled"


def all_clusters() -> None:
    """Every cluster in a line, since a stalled one may be in another than the one that is looked at."""
    found = reader.reassignments_by_cluster()
    if unread := reader.unread("gold.reassignment"):
        page.not_read(unread)
        return
    running, still = sum(c.open_count for c in found), sum(c.stalled_count for c in found)
    page.say(
        "<b>{what}</b>, in {n}.",
        what=going_on(running - still, still),
        n=words.count(len(found), "cluster"),
    )
    shown = max(MOST_QUIET, sum(c.open_count > 0 for c in found))
    cluster_table(found[:shown])
    if quiet := found[shown:]:
        with st.expander(f"{words.count(len(quiet), 'more cluster', 'more clusters')}, in which nothing moves"):
            cluster_table(quiet)


def cluster_table(found: list[ClusterMovesRow]) -> None:
    tz = page.zone()
    page.table(
        ["cluster", "stalled", "moving", "seen", "stalled the longest", "last asked for"],
        [
            [
                words.code(c.cluster_id, 40),
                f"{c.stalled_count:,}, since {words.minute(c.stalled_since_ms, tz)}" if c.stalled_count else "0",
                f"{c.open_count - c.stalled_count:,}",
                f"{c.all_count:,}",
                longest_of(c),
                words.minute(c.last_at_ms, tz),
            ]
            for c in found
        ],
    )


def overview() -> None:
    page.title("Reassignments", under="Is it moving?")
    if len(clusters) > 1 and asked is None:
        all_clusters()
    place_of_choice, place_of_answer = st.container(), st.container()
    with place_of_choice:
        if len(clusters) > 1:
            page.choice_in_address("Cluster", "cluster", clusters, words.name(cluster_id, 60))
    span = page.span_of(whole, page.default_span(whole, whole.to_ms))
    everything = reader.reassignments(cluster_id, span)
    still = everything[everything["stalled_since_ms"].notna()]
    stalled = reader.reassignments_with_steps(cluster_id, still["reassignment_id"].head(500).tolist())
    with place_of_answer:
        unread = reader.unread("gold.reassignment")
        said = sentences.reassignments(everything, stalled[0] if stalled else None, span, stood_longest(everything))
        if unread is None:
            page.say("{s}", s=said)
        else:
            page.not_read(unread)
        page.note("As of {at}: there the evidence of this cluster ends.", at=words.instant(whole.to_ms, page.zone()))
        panels.typed(stalled)
        with st.container(horizontal=True):
            for r in stalled[:6]:
                page.link(
                    f"Open {words.name(r.name, 40)}", "reassignment", cluster=cluster_id, reassignment=r.reassignment_id
                )
        beside = [
            f for f in reader.findings(FindingFilter(status="open", cluster_id=cluster_id)) if f.rule_id in BESIDE
        ]
        panels.findings(beside[:6])
        if beside:
            page.link("All findings", "findings", status="open")
    elections = reader.elections(cluster_id, span)
    rebalances = reader.rebalances_of_cluster(cluster_id, span)
    copies, stalls = reader.copies(cluster_id, span), reader.stalls(cluster_id, span)
    if len(copies) or len(stalls) or len(elections):
        page.heading("What each broker had to copy, or held up")
        room = max(50, span.length_ms // 200)
        ends = (span.from_ms - room, span.to_ms + room)
        picture = charts.brokers_time_line(copies, stalls, elections, rebalances, *ends)
        clicked = page.time_line(
            picture,
            f"Replicas on their way to {words.count(len(picture.lanes), 'broker')}; the table below has the same.",
            key="brokers-time-line",
        )
        st.html(bars.brokers_legend_html(with_groups=not rebalances.empty))
        page.note(
            "{span}. Drag to look closer, double-click for all{click}.",
            span=page.span_words(span, page.zone()),
            click="" if rebalances.empty else ", click a rebalance's mark to open it",
        )
        page.open_target(clicked, cluster_id)
    first = everything["reassignment_id"].head(LADDERS).tolist()
    ladders(reader.reassignments_with_steps(cluster_id, first))
    page.heading("Every reassignment")
    if everything.empty:
        page.nothing(reader.unread("gold.reassignment"), "None in that time.")
    else:
        listing(everything)
    elections_table(elections)


def stood_longest(everything: pd.DataFrame) -> Reassignment | None:
    """The ended reassignment that was stalled the longest for a known reason."""
    stood = everything[(everything["outcome"] != "open") & everything["blocked_by"].notna()]
    if stood.empty:
        return None
    longest = stood.loc[stood["longest_standstill_ms"].astype(float).idxmax(), "reassignment_id"]
    return next(iter(reader.reassignments_with_steps(cluster_id, [longest])), None)


def listing(everything: pd.DataFrame) -> None:
    with st.container(horizontal=True, vertical_alignment="bottom"):
        wanted = page.text_in_address("Search", "search", "topic-partition")
        state = page.choice_in_address("State", "state", list(STATES))
    found = matching(everything, wanted.strip(), state)
    if found.empty:
        page.panel(
            fill(
                "<p>None matches. {all} are known in that time; clear the search or the state to see them.</p>",
                all=words.count(len(everything), "reassignment"),
            )
        )
        return
    ids = found["reassignment_id"].tolist()
    page.note(
        "{n}: those that are stalled, those that move, then the newest. Click a row to open it.",
        n=words.count(len(found), "reassignment"),
    )
    page.long_table(
        shown(found, whole.to_ms),
        "reassignments",
        {"partition": page.ColumnLook(width=230), "asked for": page.ColumnLook(width=235)},
        lambda n: ("reassignment", {"cluster": cluster_id, "reassignment": ids[n]}),
        is_searched=False,
    )


reader = page.reader()
clusters = reader.reassignment_clusters()
if not clusters:
    page.title("Reassignments", under="Is it moving?")
    page.panel(
        Html("<p>No reassignment and no change of a leader was seen.</p>"),
        Html(
            "<p>They stand in the metadata log of any broker or controller (the folder "
            "<code>__cluster_metadata-0</code>), and with ZooKeeper in <code>controller.log</code> and "
            "<code>state-change.log</code>: give them to <code>rebalance-audit import</code>, then "
            "<code>rebalance-audit run</code>.</p>"
        ),
    )
    page.stop()
asked = page.param("cluster")
cluster_id = asked if asked in clusters else clusters[0]
whole = reader.reassignment_span(cluster_id) or Span(from_ms=0, to_ms=1)
overview()
