"""Did the change help?"""

import json
from dataclasses import asdict
from datetime import datetime

import pandas as pd
import streamlit as st

from app import page, sentences, words
from app.answers.compare import Difference, Side, differences
from app.answers.rows import Span
from app.charts import bars
from app.sentences.compare import VERDICT_WORDS, amount, interval
from app.words import fill

MOST_MARKS = 8
MOST_CHOICES = 500  # the costliest: a longer list helps nobody choose; a link may name any other group


def choices() -> list[str]:
    """`[cluster, group]` as JSON, each null for all."""
    found: list[tuple[str | None, str | None]] = [(None, None)]
    clusters = [c.cluster_id for c in reader.clusters()]
    if len(clusters) > 1:
        found += [(c, None) for c in clusters]
    found += reader.costliest_groups(MOST_CHOICES)
    return [json.dumps(each) for each in found]


def parsed(text: str | None) -> tuple[str | None, str | None] | None:
    try:
        found = json.loads(text or "")
    except ValueError:
        return None
    is_pair = isinstance(found, list) and len(found) == 2 and all(e is None or isinstance(e, str) for e in found)
    return (found[0], found[1]) if is_pair else None


def is_known(text: str) -> bool:
    """Whether the warehouse has what the address names. What cannot be read may be there."""
    pair = parsed(text)
    if pair is None or reader.unread("gold.group"):
        return pair is not None
    cluster, group = pair
    if cluster is None or group is None:
        return group is None and cluster in (None, *(c.cluster_id for c in reader.clusters()))
    return reader.group(cluster, group) is not None


def said(text: str) -> str:
    cluster, group = parsed(text) or (None, None)
    if group is not None:
        return f"{words.name(group, 40)} @ {words.name(cluster, 24)}"
    return "all groups" if cluster is None else f"all groups of {words.name(cluster, 40)}"


def chosen(label: str, name: str, options: list[str]) -> str:
    """One of the options, or what the address names."""
    named = page.param(name)
    if named is not None and parsed(named) is not None and named not in options:
        options = [*options, named]
    return page.choice_in_address(label, name, options, said(options[0]), said) or options[0]


def cut_at(span: Span) -> int:
    """The moment of the change, from the address; the middle where it says none."""
    at = page.number_param("at")
    at = at if at is not None and span.from_ms < at < span.to_ms else (span.from_ms + span.to_ms) // 2
    tz = page.zone()
    low, high = (datetime.fromtimestamp(ms / 1000, tz).replace(tzinfo=None) for ms in (span.from_ms, span.to_ms))
    now = low + (high - low) * ((at - span.from_ms) / max(1, span.length_ms))
    st.session_state["cut"] = now

    def change() -> None:
        share = (st.session_state["cut"] - low) / (high - low)
        st.query_params["at"] = str(int(span.from_ms + share * span.length_ms))

    if high > low:
        st.slider(
            "When was the change?",
            low,
            high,
            key="cut",
            on_change=change,
            step=(high - low) / 200,
            format="D MMM, HH:mm:ss",
        )
    return at


def side_of(label: str, choice: str, span: Span) -> Side:
    cluster, group = parsed(choice) or (None, None)
    cells, causes = reader.compared(span, cluster, group)
    return Side(label=label, span=span, cells=cells, causes=causes)


def span_of(choice: str) -> Span:
    cluster, group = parsed(choice) or (None, None)
    return reader.span(cluster, group) or whole


WATCHED = 0.9
"""The share of a side that a cluster's evidence must cover for its number to mean anything."""


def unwatched(choices: tuple[str, str], spans: tuple[Span, Span]) -> list[str]:
    """Clusters with groups of these choices whose evidence covers one side and not the other."""
    found = []
    for c in reader.clusters():
        if not c.group_count or c.first_at_ms is None or c.last_at_ms is None:
            continue
        sides = [
            min(c.last_at_ms, span.to_ms) - max(c.first_at_ms, span.from_ms) >= WATCHED * span.length_ms
            for choice, span in zip(choices, spans, strict=True)
            if (parsed(choice) or (None, None))[0] in (None, c.cluster_id)
        ]
        if len(sides) == 2 and not all(sides):
            found.append(c.cluster_id)
    return found


def taken(found: list[Difference], before: Side, after: Side) -> pd.DataFrame:
    """What the page shows: its numbers, then how many rebalances each cause began."""
    numbers = [{"what": "number", **asdict(d), "verdict": d.verdict} for d in found]
    causes = [
        {"what": "cause", "name": t, "before": before.causes.get(t, 0), "after": after.causes.get(t, 0)}
        for t in sorted({*before.causes, *after.causes})
    ]
    return pd.DataFrame([*numbers, *causes])


def ask(options: list[str]) -> None:
    """What to compare, before anything is claimed: a change that is known, or groups and a moment."""
    page.say("<b>What changed, and for which groups?</b> Choose a change, or groups and a moment.")
    named = page.param("a")
    cluster, group = parsed(named) or (None, None)
    marks = reader.marks(cluster_id=cluster, group_ids=None if group is None else [group], most=MOST_MARKS)
    if group is not None and not marks:
        page.note("No change of {group} is known.", group=said(str(named)))
    if marks:
        page.heading("Changes that are known" + (f" of {said(str(named))}" if group is not None else ""))
        with st.container(gap="xsmall"):
            for mark in marks:
                is_group = not set("*?[") & set(mark.scope)
                of = (
                    str(named) if group is not None else json.dumps([mark.cluster_id, mark.scope if is_group else None])
                )
                is_named = is_group and mark.scope in mark.text  # its cluster is all that is left to say
                where = words.name(mark.cluster_id, 40) if is_named and mark.cluster_id else said(of)
                label = f"{words.minute(mark.at_ms, page.zone())} \u00b7 {words.name(mark.text, 140)} \u00b7 {where}"
                page.link(label, "compare", a=of, b=of, at=mark.at_ms)
    page.heading("Groups and a moment")
    a = chosen("Which groups", "a", options)
    page.link(f"Compare {said(a)} before and after", "compare", a=a, b=a)
    page.stop()


reader = page.reader_with_groups()
whole = reader.span() or Span(from_ms=0, to_ms=1)
page.title("Compare", under="Did the change help?")
options = choices()
named = {name: text for name in ("a", "b") if (text := page.param(name)) is not None}
if unknown := [text for text in dict.fromkeys(named.values()) if not is_known(text)]:
    for text in unknown:
        cluster, group = parsed(text) or (None, text)
        page.is_not_here(group, cluster)
    for name in named:
        page.put_param(name, "")
if page.param("b") is None:
    ask(options)
place_of_answer = st.container()
left, right = st.columns(2)
with left:
    a = chosen("Before", "a", options)
with right:
    b = chosen("After", "b", [a, *[o for o in options if o != a]])
if a == b:
    both = span_of(a)
    at = cut_at(both)
    spans = (Span(from_ms=both.from_ms, to_ms=at), Span(from_ms=at, to_ms=both.to_ms))
else:
    spans = (span_of(a), span_of(b))
before, after = side_of("before", a, spans[0]), side_of("after", b, spans[1])
found = differences(before, after)
tz = page.zone()
with place_of_answer:
    page.say("{s}", s=sentences.compare(before, after, found, unwatched((a, b), spans)))
page.note("Before: {a}, {ta}.", a=said(a), ta=page.span_words(spans[0], tz))
page.note("After: {b}, {tb}.", b=said(b), tb=page.span_words(spans[1], tz))

page.heading("Number by number")
page.table(
    ["", "before", "after", "difference"],
    [
        [
            d.name,
            amount(d.before, d.unit),
            amount(d.after, d.unit),
            fill("{verdict}<br>{interval}", verdict=VERDICT_WORDS[d.verdict], interval=interval(d)),
        ]
        for d in found
    ],
)
page.note(
    "How sure: both times are cut into 24 slices, slices are drawn again a thousand times, and 95 % of the differences "
    "lie between the two ends. Nothing is claimed on under five rebalances: on each side, or together for what is "
    "counted by the hour."
)

page.downloads(lambda: taken(found, before, after), "comparison")

page.heading("Longest downtime of each rebalance")
pauses = [side.of("pause") for side in (before, after)]
if any(len(each) for each in pauses):
    lengths = [(each["value"].to_numpy(), each["n"].to_numpy()) for each in pauses]
    page.drawing(bars.pair_distribution_html(lengths[0], lengths[1], "before", "after"), "downtime before and after")
else:
    page.note("Not known: no rebalance of either side has a pause.")

page.heading("Why groups rebalanced")
counts = [side.causes for side in (before, after)]
causes = sorted({*counts[0], *counts[1]}, key=lambda t: -(counts[0].get(t, 0) + counts[1].get(t, 0)))
if causes:
    page.drawing(
        bars.pairs_html(
            [(bars.cause_label(t), counts[0].get(t, 0), counts[1].get(t, 0)) for t in causes], "before", "after"
        ),
        "causes before and after",
    )
else:
    page.note("No rebalance was seen on either side.")
if a == b and (target := parsed(a)) is not None and target[1] is not None:
    page.link("The group", "group", cluster=target[0], group=target[1])
