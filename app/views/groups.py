"""Which groups need care?"""

from functools import reduce

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import streamlit as st

from app import clock, page, sentences, words
from app.answers import ranges
from app.answers.rows import Span
from app.words import Html, fill
from rebalance_audit.domain.kinds import Severity

EMPTY_SIGN = "\u25cb"
MOST_ON_A_PHONE = 30
MOST_SHOWN = 200
"""Rows that are sent: a table of thousands is searched, not scrolled."""
FILTERS = {
    "cluster": "cluster_id",
    "team": "team",
    "mode": "mode",
    "assignor": "assignor",
    "state": "state",
    "severity": "worst_severity",
}


def matching(groups: pa.Table, wanted: str, chosen: dict[str, str | None], only_open: bool) -> pa.Table:
    masks = [pc.equal(groups[FILTERS[name]], value) for name, value in chosen.items() if value is not None]
    if only_open:
        masks.append(pc.greater(groups["open_incident_count"], 0))
    if wanted:
        masks.append(pc.match_substring(groups["found_by"], wanted.lower()))
    return groups.filter(reduce(pc.and_, masks)) if masks else groups


def filters(groups: pa.Table) -> list[page.Choice]:
    """The filters that would leave something out."""
    choices = []
    for name, column in FILTERS.items():
        different = pc.unique(groups[column]).to_pylist()
        options = sorted(each for each in different if each is not None)
        if name == "severity":
            options = [s.value for s in reversed(Severity) if s.value in options]
        if len(different) > 1:
            choices.append(page.Choice(name=name, label=name.capitalize(), options=options))
    return choices


def with_sparks(groups: pa.Table, span: Span) -> pd.DataFrame:
    frame = groups.drop_columns(["found_by"]).to_pandas()
    keys = list(zip(frame["cluster_id"], frame["group_id"], strict=True))
    return frame.assign(rebalances_over_time=reader.over_time(span, keys))


def open_words(count: int, severity: str | None) -> str:
    return f"{count:,} {severity}" if count and severity else ""


def care_words(care: int, all_: int) -> Html:
    groups = words.count(all_, "group")
    if unread := reader.unread("gold.group", "gold.incident"):
        return fill("Which groups have open incidents is <b>not known</b>: {t} cannot be read", t=unread)
    return fill(
        "<b>{n}</b> of {all} {have} open incidents", n=f"{care:,}", all=groups, have="has" if care == 1 else "have"
    )


def empty_words(groups: pa.Table) -> Html:
    """How many have no member, which whoever expects one to read has to know. Nothing is said of none."""
    empty = pc.sum(pc.equal(groups["state"], "Empty")).as_py() or 0
    return fill("; {n} empty (no member)", n=words.count(empty, "group is", "groups are")) if empty else Html("")


def state_words(state: str) -> str:
    return f"{EMPTY_SIGN} {state}" if state == "Empty" else state


def shown(frame: pd.DataFrame, with_cluster: bool) -> pd.DataFrame:
    cluster = {"cluster": [words.name(c, 40) for c in frame["cluster_id"]]}
    return pd.DataFrame(
        {
            "group": [words.name(g, 60) for g in frame["group_id"]],
            "open": [
                open_words(*pair) for pair in zip(frame["open_incident_count"], frame["worst_severity"], strict=True)
            ],
            "downtime, s": frame["cost"],
            "p95, s": frame["pause_p95_ms"].clip(lower=0) / 1000,
            **(cluster if with_cluster else {}),
            "rebalances": frame["rebalances"],
            "over time": frame["rebalances_over_time"],
            "state": [state_words(s) for s in frame["state"]],
            "mode": frame["mode"],
            "assignor": [
                None if a is None else words.name(words.assignor(a), 30)
                for a in frame["assignor"].astype(object).where(frame["assignor"].notna(), None)
            ],
            "members": frame["member_count"],
            **({"team": frame["team"]} if frame["team"].notna().any() else {}),
        }
    )


def phone_lines(frame: pd.DataFrame, count: int, with_cluster: bool) -> None:
    """The same groups as lines that open in place: a table of eleven columns scrolls sideways there."""
    rows = []
    for g in frame.head(MOST_ON_A_PHONE).astype(object).itertuples():
        open_ = open_words(g.open_incident_count, g.worst_severity)
        times = words.count(g.rebalances, "rebalance")
        facts = [("State:", f"{words.name(state_words(g.state), 30)}, {words.MODE_WORDS.get(g.mode, g.mode)}")]
        if not pd.isna(g.pause_p95_ms):
            facts.append(("Longest downtime, 19 of 20 had less:", words.duration(max(0.0, g.pause_p95_ms))))
        where = f" \u00b7 {words.name(g.cluster_id, 30)}" if with_cluster else ""
        rows.append(
            page.line(
                f"{g.cluster_id}/{g.group_id}",
                g.worst_severity if open_ else "over",
                page.SIGNS.get(g.worst_severity, "\u00b7") if open_ else "",
                (
                    words.name(g.group_id, 40) + where,
                    f"{open_} open, {times}" if open_ else times,
                    "" if pd.isna(g.cost) else words.seconds(g.cost, words.resource(g.protocol_type)),
                    "" if pd.isna(g.last_rebalance_at_ms) else words.ago(int(g.last_rebalance_at_ms), clock.now_ms()),
                ),
                facts,
                [page.line_link("Open the group", "group", is_main=True, cluster=g.cluster_id, group=g.group_id)],
            )
        )
    with st.container(key="groups-phone"):
        page.lines(rows, "Groups, open incidents first, then by cost", "groups-lines")
        if count > len(rows):
            page.note("{n} more: search or filter for them.", n=f"{count - len(rows):,}")


@page.fragment
def listing(span: Span) -> None:
    """All below the time: searching and filtering run nothing else of the page again."""
    everything = reader.groups(span)
    place_of_answer = st.container()
    wanted = page.search("Search", "search", "Search while you type: group, team, assignor, state, cluster")
    chosen = page.filters(filters(everything), {"care": "only with open incidents"})
    only_open = chosen.pop("care") is not None
    found = matching(everything, wanted, chosen, only_open)
    busy = pc.sum(pc.greater(everything["rebalances"], 0)).as_py() or 0
    care = pc.sum(pc.greater(everything["open_incident_count"], 0)).as_py() or 0
    said_busy = f"{busy:,} rebalanced in that time"
    if unread := reader.unread("gold.rebalance"):
        said_busy = f"how many rebalanced is not known, since {unread} cannot be read"
    with place_of_answer:
        page.say(
            "{care}; {busy}{empty}. {shown}",
            care=care_words(care, len(everything)),
            busy=said_busy,
            empty=empty_words(everything),
            shown="" if len(found) == len(everything) else f"{words.count(len(found), 'group')} match.",
        )
    page.note(
        "{span}. Open incidents first, then by cost; a column's head sorts, a click on a row opens the group. "
        "A dash: not known, or no rebalance in that time.{more}",
        span=page.span_words(span, page.zone()),
        more=f" The first {MOST_SHOWN:,} are listed: search or filter for the others."
        if len(found) > MOST_SHOWN
        else "",
    )
    if unread := reader.unread("gold.group"):
        page.not_read(unread)
    elif not len(found):
        page.panel(
            fill(
                "<p>No group matches. {all} are known; clear the search and the filters to see them.</p>",
                all=words.count(len(everything), "group"),
            )
        )
    else:
        page.downloads(lambda: with_sparks(found, span), "groups")
        listed = with_sparks(found.slice(0, MOST_SHOWN), span)
        most = max((max(line, default=0) for line in listed["rebalances_over_time"]), default=0)
        with_cluster = len(pc.unique(everything["cluster_id"])) > 1
        phone_lines(listed, len(found), with_cluster)
        keys = list(zip(listed["cluster_id"], listed["group_id"], strict=True))
        with st.container(key="groups-table"):
            page.long_table(
                shown(listed, with_cluster),
                "groups",
                {
                    "group": page.ColumnLook(width=160),
                    "cluster": page.ColumnLook(width=105),
                    "open": page.ColumnLook(width=88, help="Open incidents, and the gravest severity among them"),
                    "rebalances": page.ColumnLook(width=88),
                    "over time": page.ColumnLook(width=84, top=max(1, int(most))),
                    "p95, s": page.ColumnLook(
                        decimals=2,
                        width=64,
                        help="Of the longest downtime per rebalance: 19 of 20 had less",
                    ),
                    "downtime, s": page.ColumnLook(
                        decimals=1,
                        width=94,
                        help="Seconds of downtime, summed over partitions or tasks; estimate",
                    ),
                    "state": page.ColumnLook(width=136),
                    "mode": page.ColumnLook(width=98),
                    "assignor": page.ColumnLook(width=130),
                    "members": page.ColumnLook(width=74),
                    "team": page.ColumnLook(width=70),
                },
                lambda n: ("group", {"cluster": keys[n][0], "group": keys[n][1]}),
                rows=18,
                placeholder="\u2014",
                is_searched=False,
                is_taken=False,
            )


reader = page.reader_with_groups()
whole = reader.span() or Span(from_ms=0, to_ms=0)
old = sentences.age(reader.clusters(), whole.to_ms, clock.now_ms(), page.zone()) if whole.to_ms else None
page.title("Groups", under=old or "Which groups need care?")
listing(page.span_of(whole, ranges.of_home(reader.open_at_home(whole), whole)))
