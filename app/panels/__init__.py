"""Pieces that several views show."""

from collections.abc import Sequence

import streamlit as st

from app import charts, clock, page, sentences, words
from app.answers.coincidence import Coincidence
from app.answers.rows import FindingRow, Headline, Reassignment, Span
from app.answers.runbook import rule_title
from app.charts import bars
from app.queries import Questions
from app.queries.whatif import Change
from app.sentences.reassignment import Advice
from app.words import Html, fill
from rebalance_audit.domain.kinds import FindingStatus

MOST_REASONS = 4
FIRST_EVIDENCE = 24
MOST_EVIDENCE = 224


def headline(found: Headline) -> None:
    """Pauses that clients saw, beside the window that the broker's log shows."""
    said = sentences.headline(found)
    if said is None or found.pause_median_ms is None or found.window_median_ms is None:
        return
    page.say("{s}", s=said)
    page.drawing(bars.headline_html(found.pause_median_ms, found.window_median_ms), "downtime and window")


def findings(found: list[FindingRow]) -> None:
    """Each finding in two lines: what is wrong, and what to do."""
    tz, now = page.zone(), clock.now_ms()
    for f in found:
        st.html(
            fill(
                '<div class="ra-incident ra-{s}"><p><span class="ra-level">{level}</span> {title}</p>'
                '<p class="ra-note">{rule}, {status}, since {since}{advice}</p></div>',
                s=f.severity if f.status == FindingStatus.OPEN else "info",
                level=words.SEVERITY_WORDS[f.severity],
                title=words.utc_in(words.visible(f.title), tz),
                rule=rule_title(f.rule_id),
                status=f.status,
                since=words.when(f.first_seen_at_ms, now, tz),
                advice=f". What to do: {words.visible(f.advice)}" if f.advice else "",
            )
        )


def findings_of_group(found: list[FindingRow]) -> None:
    """The first of these, and where all of their group are."""
    findings(found[:6])
    if len(found) == 1:
        only = found[0]
        page.link("The finding, with its evidence", "findings", cluster=only.cluster_id, finding=only.finding_id)
    elif found:
        page.link("All findings of this group", "findings", cluster=found[0].cluster_id, group=found[0].group_id)


def typed(stalled: list[Reassignment]) -> None:
    """Commands to type, one for each reason. They are shown, never run."""
    reasons = sentences.advice(stalled)
    for one in reasons[:MOST_REASONS]:
        names = [words.code(r.name, 60) for r in one.reassignments[:3]]
        more = f" and {len(one.reassignments) - 3:,} more" if len(one.reassignments) > 3 else ""
        st.html(
            fill(
                '<div class="ra-incident ra-critical"><p class="ra-first"><span class="ra-level">Stalled</span> '
                "{names}{more}: {why}.</p></div>",
                names=words.join(names, ", "),
                more=more,
                why=one.why,
            )
        )
        steps(one)
        if len(one.reassignments) > sentences.MOST_IN_ONE_COMMAND:
            page.note(
                "The command names the first {n} of {all}: with your plan's own file all of them end at once.",
                n=f"{sentences.MOST_IN_ONE_COMMAND:,}",
                all=words.count(len(one.reassignments), "partition"),
            )
    if len(reasons) > MOST_REASONS:
        left = words.count(len(reasons) - MOST_REASONS, "more reason", "more reasons")
        page.note("{n}, each for fewer partitions: the table below names them.", n=left)
    if stalled:
        never_run()


def _by_its_log(ref: str) -> str:
    """What is said beside the link of a record of the metadata log; nothing of other evidence."""
    return ", record of the metadata log" if ref.startswith("metadata:") else ""


def evidence_links(reader: Questions, refs: list[str], cluster_id: str, group_ids: Sequence[str], **back: str) -> None:
    """Each piece of evidence as a link, with what it says; of many, the rest is folded away.

    `back`: where its page leads back to.
    """

    listed = refs[:MOST_EVIDENCE]
    kinds, commits = reader.kinds(cluster_id, listed), reader.commits(cluster_id, group_ids, listed)

    def links(some: list[str]) -> None:
        with st.container(gap="xsmall"):
            for ref in some:
                says = words.evidence_says(kinds.get(ref), commits.get(ref))
                what = f", {says}" if says is not None else _by_its_log(ref)
                page.link(f"{words.name(ref, 100)}{what}", "evidence", cluster=cluster_id, ref=ref, **back)

    links(refs[:FIRST_EVIDENCE])
    if len(refs) > FIRST_EVIDENCE:
        with st.expander(f"{len(refs) - FIRST_EVIDENCE:,} more"):
            links(refs[FIRST_EVIDENCE:MOST_EVIDENCE])
            if len(refs) > MOST_EVIDENCE:
                page.note("{n} more are not listed.", n=f"{len(refs) - MOST_EVIDENCE:,}")


def steps(advice: Advice) -> None:
    for i, (text, command) in enumerate(advice.steps):
        page.say(
            "{lead}{text}{end}",
            lead=Html("<b>What to do:</b> ") if i == 0 else "",
            text=words.visible(text),
            end=":" if command else "",
        )
        if command is not None:
            st.code(command, language=None, wrap_lines=True, height=180 if len(command) > 700 else "content")


def would_have_helped(reader: Questions, found: list[Change], span: Span, unit: str) -> None:
    """The best change of settings of one group, by replay, and the time of the page as it would have been; nothing
    where no change stands out, or nothing was replayed."""
    best = next((c for c in found if (c.saved_lower_seconds or 0.0) > 0), None)
    if best is None:
        return
    page.heading("What would have helped")
    page.say("{s}", s=sentences.saving(best, unit))
    for sentence in sentences.explained(best):
        page.say("{s}", s=sentence)
    page.note(
        "A replay of this group's own history says so: {what}. Waits for a first assignment and members that took too "
        "long between two polls count in it, so its seconds are not those of the cost above.",
        what=words.cut(words.visible(sentences.replayed(best)), 300),
    )
    _beside(reader, [c for c in found if c.settings and c.saved_seconds is not None], best, span, unit)
    page.link(
        f"What to paste, and other settings for {words.name(best.group_id, 40)}",
        "whatif",
        cluster=best.cluster_id,
        group=best.group_id,
    )


@page.fragment
def _beside(reader: Questions, changes: list[Change], best: Change, span: Span, unit: str) -> None:
    """Two time lines under each other, of the best change first; not replayed where they are folded away."""
    place = st.expander("As it was, and as it would have been", expanded=True, key="fold-beside", on_change="rerun")
    if not place.open:
        return
    with place:
        change = best
        if len(changes) > 1:
            change = st.selectbox(
                "Under",
                changes,
                index=changes.index(best),
                key="beside-change",
                format_func=lambda c: words.name("  ".join(c.settings), 120),
            )
        found = reader.beside(change)
        if found is None:
            page.note("It cannot be replayed any more: the history it was made of has changed since.")
            return
        room = max(50, span.length_ms // 200)
        rebalances = reader.group_rebalances(change.cluster_id, change.group_id, span)
        lines = charts.beside_time_lines(
            found.was, found.would, rebalances, found.would_rebalances, span.from_ms - room, span.to_ms + room, unit
        )
        if lines is None:
            page.note("Nothing stood still in this time, and nothing would have.")
            return
        said = sentences.beside(found.fit, found.option, unit, change.rebalances_replayed)
        for line, what, key in zip(lines, said, ("beside-was", "beside-would"), strict=True):
            page.say("{s}", s=what)
            clicked = page.time_line(line, words.plain(what), key=key)
            page.open_target(clicked, change.cluster_id)
        page.note("{f}", f=sentences.fit(found.fit))


def never_run() -> None:
    page.note("Nothing is ever run from here: copy it, put your broker for HOST:PORT, and check it first.")


def in_time_with(found: list[Coincidence], cluster_id: str) -> None:
    tz = page.zone()
    for c in found[:12]:
        page.note("{s}", s=sentences.coincidence(c, tz))
    with st.container(horizontal=True):
        for c in found[:6]:
            page.link(
                f"{words.name(c.group_id, 30)} at {words.clock(c.began_at_ms, tz)}",
                "rebalance",
                cluster=cluster_id,
                rebalance=c.rebalance_id,
            )
