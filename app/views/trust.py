"""What did we not see?"""

import pandas as pd
import streamlit as st

from app import page, sentences, words
from app.answers.rows import CheckRow, Coverage
from app.charts import bars
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


def position(c: Coverage) -> str:
    what = "offsets" if c.kind == "record" else "bytes"
    return (
        f"{what} {c.from_position:,} \u2026 {c.to_position - 1:,}"
        if c.to_position is not None
        else f"{what} from {c.from_position:,}"
    )


def gaps(found: list[Coverage]) -> None:
    """The same gap of several clusters is one row."""
    page.heading("What was not seen")
    if not found:
        page.nothing(reader.unread("gold.coverage"), "Nothing is known to be missing.")
        return
    together: dict[tuple[str, str, str, str], list[str]] = {}
    for c in found:
        why = PROBLEMS.get(c.problem_code, words.name(c.problem_code, 30))
        together.setdefault((c.source, position(c), why, c.problem or ""), []).append(c.cluster_id)
    rows: list[list[str | Html]] = []
    for (source, where, why, problem), clusters in list(together.items())[:100]:
        named = words.join([words.code(c, 24) for c in clusters[:2]], ", ")
        more = f" and {len(clusters) - 2:,} more" if len(clusters) > 2 else ""
        rows.append([words.code(source, 60), fill("{n}{m}", n=named, m=more), where, why, words.visible(problem)])
    page.table(["source", "cluster", "where", "why", ""], rows)
    if len(together) > 100:
        page.note("{n} more gaps are not listed.", n=f"{len(together) - 100:,}")


def left_out(found: list[Coverage]) -> None:
    """What nobody asked for is no gap."""
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
    st.html(bars.coverage_html(rows[:MOST_LANES], first, last))
    page.note(
        "{a} to {b}; hatched is a gap.{untimed}{more}",
        untimed=" Gaps whose time is not known are in the list alone."
        if any(c.is_gap and (c.from_at_ms is None or c.to_at_ms is None) for c in found)
        else "",
        a=words.minute(first, page.zone()),
        b=words.minute(last, page.zone()),
        more=f" {len(rows) - MOST_LANES:,} more are not drawn." if len(rows) > MOST_LANES else "",
    )


def contradictions() -> None:
    found = reader.contradictions()
    page.heading("What contradicts the rest")
    if not found:
        page.nothing(
            reader.unread("silver.contradiction"), "Nothing: every record and log line agrees with the others."
        )
        return
    frame = pd.DataFrame(
        {
            "group": [words.name(c.group_id, 40) for c in found],
            "when": [words.instant(c.at_ms, page.zone()) for c in found],
            "why it was left out": [words.name(c.detail, 160) for c in found],
            "where": [words.name(c.ref, 80) for c in found],
            "cluster": [words.name(c.cluster_id, 30) for c in found],
        }
    )
    page.note("{n}. Click a row to see it.", n=words.count(len(found), "piece of evidence", "pieces of evidence"))
    row = page.clickable_table(frame, {"why it was left out": st.column_config.TextColumn(width="large")}, "contra")
    if row is not None and row < len(found):
        page.go("evidence", cluster=found[row].cluster_id, ref=found[row].ref)


def incomplete() -> None:
    found, total = reader.incomplete()
    page.heading("Rebalances with evidence missing around them")
    if not found:
        page.nothing(reader.unread("gold.rebalance"), "None.")
        return
    frame = pd.DataFrame(
        {
            "group": [words.name(r.group_id, 50) for r in found],
            "number": [words.number_of(r.generation_id, r.group_epoch, r.rewrite_seq) for r in found],
            "when": [words.instant(r.at_ms, page.zone()) for r in found],
            "how it ended": [words.OUTCOME_WORDS.get(r.outcome, r.outcome) for r in found],
            "cluster": [words.name(r.cluster_id, 30) for r in found],
        }
    )
    more = f", the newest {len(found):,} listed" if total > len(found) else ""
    page.note("{n}{more}. Click a row to open it.", n=words.count(total, "rebalance"), more=more)
    row = page.clickable_table(frame, {}, "incomplete")
    if row is not None and row < len(found):
        page.go("rebalance", cluster=found[row].cluster_id, rebalance=found[row].rebalance_id)


def silent() -> None:
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


def reopenings() -> None:
    """Evidence that came after its group's history was taken for settled."""
    found, total = reader.reopenings()
    if not found:
        return
    page.heading("Settled histories that late evidence opened again")
    too_old = sum(r.is_too_old for r in found)
    page.note(
        "{n}. Their rows were worked out again.{old}",
        n=words.count(total, "time", "times"),
        old=f" {too_old:,} of those listed belong to what retention has deleted: rows stay as they were."
        if too_old
        else "",
    )
    tz = page.zone()
    page.long_table(
        pd.DataFrame(
            {
                "group": [words.name(r.group_id, 50) for r in found],
                "settled up to": [words.instant(r.settled_at_ms, tz) for r in found],
                "oldest new evidence": [
                    words.instant(r.evidence_at_ms, tz) if r.evidence_at_ms is not None else "a clock, a name or a home"
                    for r in found
                ],
                "worked out again": [
                    "no: too old"
                    if r.is_too_old
                    else "whole"
                    if r.from_ms is None
                    else f"from {words.instant(r.from_ms, tz)}"
                    for r in found
                ],
                "cluster": [words.name(r.cluster_id, 30) for r in found],
            }
        )
    )


def let_go() -> None:
    """What retention deleted: known once, and not readable any more."""
    found = reader.let_go()
    if not found:
        return
    page.heading("What retention has deleted")
    page.note("The beginning of these sources is deleted, as the settings say; what was made of it stays.")
    page.table(
        ["cluster", "sources", "such as"],
        [[words.code(r.cluster_id, 40), f"{r.source_count:,}", words.code(r.example, 60)] for r in found],
    )


@st.fragment
def ledger(found: list[Coverage]) -> None:
    """A line per file and partition; made when somebody opens it."""
    place = st.expander(f"All {words.count(len(found), 'line')}", key="fold-seen", on_change="rerun")
    if place.open:
        with place:
            ledger_table(found)


def ledger_table(found: list[Coverage]) -> None:
    tz = page.zone()
    frame = pd.DataFrame(
        {
            "source": [words.name(c.source, 80) for c in found],
            "how": [PROBLEMS.get(c.problem_code, words.name(c.problem_code, 30)) for c in found],
            "where": [position(c) for c in found],
            "items": [c.item_count for c in found],
            "from": [words.minute(c.from_at_ms, tz) for c in found],
            "to": [words.minute(c.to_at_ms, tz) for c in found],
            "cluster": [words.name(c.cluster_id, 40) for c in found],
        }
    )
    page.long_table(
        frame,
        {
            "source": st.column_config.TextColumn(width=340),
            "where": st.column_config.TextColumn(width=170),
            "from": st.column_config.TextColumn(width=165),
            "to": st.column_config.TextColumn(width=165),
        },
    )


def utc_words(ms: int | None, how: str | None) -> str:
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
                    utc_words(ms, how),
                    words.name(how, 20),
                    f"{len(files):,}",
                    f"{len({cluster for cluster, _ in files}):,}",
                ]
                for (node, ms, how), files in sorted(together.items(), key=str)
            ],
        )


def unread(counts: dict[str, int]) -> None:
    page.heading("What could not be understood")
    books = reader.decode_counts()
    if books["in"]:
        page.note(
            "Of {n} records and lines: {e}, {c}, {s} of no interest, {u} not understood.",
            n=f"{books['in']:,}",
            e=words.count(books["event"], "event"),
            c=words.count(books["commit"], "commit"),
            s=f"{books['skipped']:,}",
            u=f"{books['undecoded']:,}",
        )
    if not counts:
        page.nothing(reader.unread("silver.undecoded"), "Nothing.")
        return
    found = reader.undecoded()
    page.note(
        "{all}. Click a row to see its bytes.",
        all="; ".join(f"{words.name(r, 40).replace('_', ' ')}: {n:,}" for r, n in counts.items()),
    )
    frame = pd.DataFrame(
        {
            "where": [words.name(u.ref, 90) for u in found],
            "why": [words.name(u.reason, 40).replace("_", " ") for u in found],
            "in": [words.name(u.part, 20) for u in found],
            "at byte": [u.byte_position for u in found],
            "field": [words.name(u.field, 40) if u.field else "" for u in found],
            "says": [words.name(u.detail, 160) if u.detail else "" for u in found],
        }
    )
    row = page.clickable_table(frame, {"where": st.column_config.TextColumn(width="large")}, key="undecoded")
    if row is not None and row < len(found):
        page.go("evidence", cluster=found[row].cluster_id, ref=found[row].ref)


def verdicts(found: list[CheckRow]) -> None:
    page.heading("Checks of the tables")
    if not found:
        page.nothing(reader.unread("gold.check"), "No check has run yet.")
        return
    failed = [c for c in found if not c.success]
    page.note("{ok} of {all} hold.", ok=f"{len(found) - len(failed):,}", all=words.count(len(found), "check"))
    if failed:
        page.table(
            ["table", "check", "", "rows", "the first of them"],
            [
                [
                    c.table_name,
                    words.visible(c.check_name),
                    "stops publishing" if c.is_fatal else "recorded only",
                    "not known"
                    if c.unexpected_count is None
                    else f"{c.unexpected_count:,} of {c.checked_count or 0:,}",
                    words.join([words.code(e, 60) for e in c.examples[:3]], ", "),
                ]
                for c in failed
            ],
        )
    with st.expander(f"All {len(found):,} checks"):
        page.long_table(
            pd.DataFrame(
                {
                    "table": [c.table_name for c in found],
                    "check": [c.check_name for c in found],
                    "holds": ["yes" if c.success else "NO" for c in found],
                    "rows": [c.checked_count for c in found],
                    "against it": [c.unexpected_count for c in found],
                }
            )
        )


reader = page.reader()
page.title("Trust", under="What did we not see?")
coverage = reader.coverage()
counts = reader.undecoded_counts()
checks = reader.checks()
st.html(
    fill(
        '<p class="ra-say">{a}</p>',
        a=sentences.trust(coverage, sum(counts.values()), checks, tuple(reader.damaged())),
    )
)
if not coverage and not checks and not reader.group_count():
    page.reader_with_groups()
gaps([c for c in coverage if c.is_gap and c.problem_code != "skipped"])
left_out([c for c in coverage if c.problem_code == "skipped"])
over_time(coverage)
if seen := [c for c in coverage if not c.is_gap]:
    page.heading("What was seen, source by source")
    ledger(seen)
silent()
contradictions()
incomplete()
reopenings()
let_go()
if coverage:
    clocks(coverage)
unread(counts)
verdicts(checks)
