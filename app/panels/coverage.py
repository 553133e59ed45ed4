"""What was seen, what was not, and by whose clock: pieces of the page Trust."""

import pandas as pd
import streamlit as st

from app import page, words
from app.answers.rows import Coverage
from app.charts import bars
from app.queries import Questions
from app.words import Html, fill

MOST_LANES, MOST_STRETCHES = 24, 400
SILENT_AFTER_MS = 3_600_000
"""Chosen: a topic of status records is quiet for minutes, a broker's log hardly ever."""
MOST_SILENT = 20
PROBLEMS = {
    "none": "seen without a break",
    "compacted": "compaction may have taken some",
    "unreadable": "could not be read",
    "rotated": "rotated away before it was read",
    "skipped": "left out",
    "not_given": "was not given",
    "time_zone": "its time zone is a guess",
}


def _position(c: Coverage) -> str:
    what = "offsets" if c.kind == "record" else "bytes"
    return (
        f"{what} {c.from_position:,} \u2026 {c.to_position - 1:,}"
        if c.to_position is not None
        else f"{what} from {c.from_position:,}"
    )


def gaps(reader: Questions, found: list[Coverage]) -> None:
    """The same gap of several clusters is one row."""
    page.heading("What was not seen")
    if not found:
        page.nothing(reader.unread("gold.coverage"), "Nothing is known to be missing.")
        return
    together: dict[tuple[str, str, str, str], list[str]] = {}
    for c in found:
        why = PROBLEMS.get(c.problem_code, words.name(c.problem_code, 30))
        together.setdefault((c.source, _position(c), why, c.problem or ""), []).append(c.cluster_id)
    rows: list[list[str | Html]] = []
    for (source, where, why, problem), clusters in list(together.items())[:100]:
        named = words.join([words.code(c, 24) for c in clusters[:2]], ", ")
        more = f" and {len(clusters) - 2:,} more" if len(clusters) > 2 else ""
        rows.append([words.code(source, 60), fill("{n}{m}", n=named, m=more), where, why, words.visible(problem)])
    page.table(["source", "cluster", "where", "why", ""], rows)
    if len(together) > 100:
        page.note("{n} more gaps are not listed.", n=f"{len(together) - 100:,}")


def left_out(found: list[Coverage]) -> None:
    """Names the topics that were left out on purpose; they are no gaps."""
    if found:
        page.note(
            "Left out on purpose: {what}.",
            what="; ".join(dict.fromkeys(words.visible((c.problem or c.source).rstrip(".")) for c in found[:20])),
        )


def over_time(found: list[Coverage]) -> None:
    """Each kind of source of each cluster, drawn to scale: those with gaps first, then those that ended first."""
    timed = [c for c in found if c.from_at_ms is not None and c.to_at_ms is not None and c.problem_code != "skipped"]
    if not timed:
        return
    page.heading("Seen over time")
    first = min(c.from_at_ms or 0 for c in timed)
    last = max(c.to_at_ms or 0 for c in timed)
    lanes: dict[tuple[str, str], list[tuple[int, int, bool]]] = {}
    for c in timed:
        what = "logs" if c.kind == "log" else "records"
        lanes.setdefault((c.cluster_id, what), []).append((c.from_at_ms or 0, c.to_at_ms or 0, c.is_gap))
    rows = [
        (fill("{c}, {w}", c=words.code(cluster, 24), w=what), sorted(set(stretches))[:MOST_STRETCHES])
        for (cluster, what), stretches in sorted(
            lanes.items(),
            key=lambda lane: (not any(is_gap for _, _, is_gap in lane[1]), max(end for _, end, _ in lane[1])),
        )
    ]
    page.drawing(bars.coverage_html(rows[:MOST_LANES], first, last), "seen over time")
    page.note(
        "{a} to {b}; hatched is a gap.{untimed}{more}",
        untimed=" Gaps whose time is not known are in the list alone."
        if any(c.is_gap and (c.from_at_ms is None or c.to_at_ms is None) for c in found)
        else "",
        a=words.minute(first, page.zone()),
        b=words.minute(last, page.zone()),
        more=f" {len(rows) - MOST_LANES:,} more are not drawn." if len(rows) > MOST_LANES else "",
    )


def silent(reader: Questions) -> None:
    """What stopped while the rest of its cluster went on."""
    found = reader.silent(SILENT_AFTER_MS)
    if not found:
        return
    page.heading("What fell silent before the rest of its cluster")
    page.note("A topic that nobody writes to is silent by itself; of a node's logs ask its collector, and the node.")
    tz = page.zone()
    page.table(
        ["source", "cluster", "ends", "before the rest"],
        [
            [
                fill("{w} {n}", w="logs of" if s.kind == "log" else "records of", n=words.code(s.name, 50)),
                words.code(s.cluster_id, 30),
                words.minute(s.ended_at_ms, tz),
                words.duration(s.last_at_ms - s.ended_at_ms),
            ]
            for s in found[:MOST_SILENT]
        ],
    )
    if len(found) > MOST_SILENT:
        page.note("{n} more are not listed.", n=f"{len(found) - MOST_SILENT:,}")


@page.fragment
def ledger(found: list[Coverage]) -> None:
    """A line per file and partition; made when somebody opens it."""
    place = st.expander(f"All {words.count(len(found), 'line')}", key="fold-seen", on_change="rerun")
    if place.open:
        with place:
            _ledger_table(found)


def _ledger_table(found: list[Coverage]) -> None:
    tz = page.zone()
    frame = pd.DataFrame(
        {
            "source": [words.name(c.source, 80) for c in found],
            "how": [PROBLEMS.get(c.problem_code, words.name(c.problem_code, 30)) for c in found],
            "where": [_position(c) for c in found],
            "items": [c.item_count for c in found],
            "from": [words.minute(c.from_at_ms, tz) for c in found],
            "to": [words.minute(c.to_at_ms, tz) for c in found],
            "cluster": [words.name(c.cluster_id, 40) for c in found],
        }
    )
    page.long_table(
        frame,
        "what was seen",
        {
            "source": page.ColumnLook(width=340),
            "where": page.ColumnLook(width=170),
            "from": page.ColumnLook(width=165),
            "to": page.ColumnLook(width=165),
        },
    )


def _utc_words(ms: int | None, how: str | None) -> str:
    if ms is None:
        return "as its time zone says" if how is not None else "not known"
    sign = "+" if ms >= 0 else "\u2212"
    return f"{sign}{abs(ms) // 3_600_000}:{abs(ms) // 60_000 % 60:02d} h"


def clocks(found: list[Coverage]) -> None:
    logs = [c for c in found if c.kind == "log" and not c.is_gap]
    if not logs:
        return
    page.heading("Clocks of the logs")
    page.note("Log lines carry local time without a zone: how far each node's is from UTC, and how that is known.")
    together: dict[tuple[str, int | None, str | None], set[tuple[str, str]]] = {}
    for c in logs:
        if c.utc_offset_source is not None:
            node = c.source.removeprefix("log:").partition("/")[0]
            together.setdefault((node, c.utc_offset_ms, c.utc_offset_source), set()).add((c.cluster_id, c.source))
    if not together:
        page.note("No line of a log was needed to rebuild a group.")
        return
    with st.container(key="clocks"):
        page.table(
            ["node", "from UTC", "known how", "files", "clusters"],
            [
                [
                    words.code(node, 40),
                    _utc_words(ms, how),
                    words.name(how, 20),
                    f"{len(files):,}",
                    f"{len({cluster for cluster, _ in files}):,}",
                ]
                for (node, ms, how), files in sorted(together.items(), key=str)
            ],
        )
