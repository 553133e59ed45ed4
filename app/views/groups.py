"""Which groups need care?"""

import pandas as pd
import streamlit as st

from app import page, words
from app.answers.rows import Span
from app.words import fill


def matching(frame: pd.DataFrame, wanted: str, only_findings: bool) -> pd.DataFrame:
    if only_findings:
        frame = frame[frame["open_finding_count"] > 0]
    if wanted:
        low = wanted.lower()
        texts = ("group_id", "team", "assignor", "state", "cluster_id")
        hits = [frame[c].fillna("").astype(str).str.lower().str.contains(low, regex=False) for c in texts]
        frame = frame[pd.concat(hits, axis=1).any(axis=1)]
    return frame.reset_index(drop=True)


def shown(frame: pd.DataFrame, with_cluster: bool) -> pd.DataFrame:
    cluster = {"cluster": [words.name(c, 40) for c in frame["cluster_id"]]}
    return pd.DataFrame(
        {
            "group": [words.name(g, 60) for g in frame["group_id"]],
            **(cluster if with_cluster else {}),
            "open findings": frame["open_finding_count"],
            "rebalances": frame["rebalances"],
            "over time": frame["rebalances_over_time"],
            "pause p95": frame["pause_p95_ms"] / 1000,
            "cost": frame["cost"],
            "state": frame["state"],
            "mode": frame["mode"],
            "assignor": [
                None if a is None else words.name(words.assignor(a), 30)
                for a in frame["assignor"].astype(object).where(frame["assignor"].notna(), None)
            ],
            "members": frame["member_count"],
            "resources": frame["resource_count"],
            "team": frame["team"],
            **({} if with_cluster else cluster),
        }
    )


reader = page.reader_with_groups()
page.title("Which groups need care?")
place_of_answer = st.container()
whole = reader.span() or Span(from_ms=0, to_ms=0)
with st.container(horizontal=True, vertical_alignment="bottom"):
    wanted = page.text_in_address("Search", "search", "group, team, assignor, state")
    only_findings = page.flag_in_address("only with open findings", "care")
span = page.span_of(whole, "24 h")

everything = reader.groups(span)
found = matching(everything, wanted.strip(), only_findings)
busy = int((everything["rebalances"] > 0).sum())
care = int((everything["open_finding_count"] > 0).sum())
with place_of_answer:
    page.say(
        "<b>{care}</b> of {all} {have} open findings; {busy} rebalanced in that time. {shown}",
        care=f"{care:,}",
        all=words.count(len(everything), "group"),
        have="has" if care == 1 else "have",
        busy=f"{busy:,}",
        shown="" if len(found) == len(everything) else f"{words.count(len(found), 'group')} shown.",
    )
page.note(
    "{span}. Costliest first; a column's head sorts, a click on a row opens the group.",
    span=page.span_words(span, page.zone()),
)
if found.empty:
    page.panel(
        fill(
            "<p>No group matches. {all} are known; clear the search to see them.</p>",
            all=words.count(len(everything), "group"),
        )
    )
else:
    row = page.clickable_table(
        shown(found, with_cluster=everything["cluster_id"].nunique() > 1),
        {
            "group": st.column_config.TextColumn(width=170),
            "cluster": st.column_config.TextColumn(width=215),
            "over time": st.column_config.BarChartColumn("rebalances over time", width=160, y_min=0),
            "pause p95": st.column_config.NumberColumn(
                "pause p95, s", format="%.2f", help="Of the longest pause per rebalance"
            ),
            "cost": st.column_config.NumberColumn(
                "cost, resource-s", format="%.2f", help="Resource-seconds standing still; estimate"
            ),
        },
        key="groups",
        height=min(38 + 35 * max(1, len(found)), 640),
    )
    if row is not None and row < len(found):
        page.go(
            "group",
            cluster=found.loc[row, "cluster_id"],
            group=found.loc[row, "group_id"],
        )
