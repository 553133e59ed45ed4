"""What did we not see?"""

from shlex import quote

import pandas as pd
import streamlit as st

from app import clock, page, sentences, words
from app.answers.rows import CheckRow, IncompleteCount
from app.panels import coverage
from app.queries import WarehouseError
from rebalance_audit.domain.explain.hints import missing_evidence

MOST_FAULTS = 6


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
    page.long_table(
        frame,
        "contradictions",
        {"why it was left out": page.ColumnLook(width=400)},
        lambda n: ("evidence", {"cluster": found[n].cluster_id, "ref": found[n].ref}),
    )


def incomplete(counts: list[IncompleteCount]) -> None:
    found, total = reader.incomplete(), sum(c.rebalance_count for c in counts)
    page.heading("Rebalances with missing evidence")
    if not found:
        page.nothing(reader.unread("gold.rebalance"), "None.")
        return
    by_what: dict[str, int] = {}
    for c in counts:
        what = " and ".join(missing_evidence(c))
        by_what[what] = by_what.get(what, 0) + c.rebalance_count
    lists = [(f"{n:,}", what) for what, n in sorted(by_what.items(), key=lambda item: (-item[1], item[0]))]
    page.table(["rebalances", "what was not seen"], [list(row) for row in lists])
    frame = pd.DataFrame(
        {
            "group": [words.name(r.group_id, 50) for r in found],
            "number": [words.number_of(r.generation_id, r.group_epoch, r.rewrite_seq) for r in found],
            "when": [words.instant(r.at_ms, page.zone()) for r in found],
            "what was not seen": [" and ".join(missing_evidence(r)) for r in found],
            "how it ended": [words.OUTCOME_WORDS.get(r.outcome, r.outcome) for r in found],
            "cluster": [words.name(r.cluster_id, 30) for r in found],
        }
    )
    more = f", the newest {len(found):,} listed" if total > len(found) else ""
    page.note("{n}{more}. Click a row to open it.", n=words.count(total, "rebalance"), more=more)
    page.long_table(
        frame,
        "incomplete rebalances",
        {
            "group": page.ColumnLook(width=200),
            "number": page.ColumnLook(width=110),
            "when": page.ColumnLook(width=225),
            "what was not seen": page.ColumnLook(width=170),
            "how it ended": page.ColumnLook(width=400),
            "cluster": page.ColumnLook(width=120),
        },
        lambda n: ("rebalance", {"cluster": found[n].cluster_id, "rebalance": found[n].rebalance_id}),
    )


def reopenings() -> None:
    """Evidence that came after its group's history was taken for settled."""
    found, total = reader.reopenings()
    if not found:
        return
    page.heading("Settled histories that late evidence reopened")
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
                "settled up to": [
                    words.instant(r.settled_at_ms, tz) if r.settled_at_ms is not None else "not known" for r in found
                ],
                "oldest new evidence": [
                    words.instant(r.evidence_at_ms, tz)
                    if r.evidence_at_ms is not None
                    else "not known"
                    if r.settled_at_ms is None
                    else "a clock, a name or a home"
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
        ),
        "reopened histories",
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


def unread(counts: dict[str, int]) -> None:
    page.heading("What could not be understood")
    books = reader.decode_counts()
    if books["in"]:
        page.note(
            "Of {n} records and lines: {e}, {c}, {s} that say nothing of groups or partitions, {u} not understood.",
            n=f"{books['in']:,}",
            e=words.count(books["event"], "event"),
            c=words.count(books["commit"], "commit"),
            s=f"{books['skipped']:,}",
            u=f"{books['undecoded']:,}",
        )
    if not counts:
        if (table := reader.unread("silver.undecoded")) or not books["in"]:
            page.nothing(table, "Nothing.")
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
    page.long_table(
        frame,
        "not understood",
        {"where": page.ColumnLook(width=400)},
        lambda n: ("evidence", {"cluster": found[n].cluster_id, "ref": found[n].ref}),
    )


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
            ),
            "checks",
        )


def proof() -> None:
    """Whether the log of evidence is what its head says, and the command that holds all tables against it."""
    page.heading("Proof that nothing was changed")
    try:
        log = reader.evidence_log(clock.now_ms())
    except WarehouseError as error:
        page.say("<b>The log of evidence cannot be read.</b> {why}", why=words.with_code(str(error)))
        return
    if log is None:
        page.note("No log of evidence was begun yet: the next {run} does that.", run=words.code("rebalance-audit run"))
        return
    page.say("{s}", s=sentences.evidence_log(log, page.zone()))
    for fault in (log.faults or ())[:MOST_FAULTS]:
        page.note("{f}", f=words.visible(fault))
    page.note(
        "Whether evidence and publications still are what the log says, with a second place of the heads: {c}",
        c=words.code(f"rebalance-audit audit verify -w {quote(reader.location)} --heads DIR", 300),
    )


reader = page.reader()
page.title("Trust", under="What did we not see?")
sources = reader.coverage()
half_seen = reader.incomplete_counts()
counts = reader.undecoded_counts()
checks = reader.checks()
page.say(
    "{a}",
    a=sentences.trust(
        sources,
        sum(counts.values()),
        checks,
        sum(c.rebalance_count for c in half_seen),
        tuple(reader.damaged()),
    ),
)
if (said := reader.behind()) is not None:
    page.say("{s}", s=sentences.behind(said, page.zone()))
if not sources and not checks and not reader.group_count():
    page.reader_with_groups()
if (early := sentences.ended_early(reader.clusters())) is not None:
    page.say("{s}", s=early)
if sources:
    page.downloads(lambda: pd.DataFrame(sources), "sources")
coverage.gaps(reader, [c for c in sources if c.is_gap and c.problem_code != "skipped"])
coverage.left_out([c for c in sources if c.problem_code == "skipped"])
coverage.over_time(sources)
if seen := [c for c in sources if not c.is_gap]:
    page.heading("What was seen, source by source")
    coverage.ledger(seen)
coverage.silent(reader)
contradictions()
incomplete(half_seen)
reopenings()
let_go()
if sources:
    coverage.clocks(sources)
unread(counts)
verdicts(checks)
if reader.sight is None:
    proof()
