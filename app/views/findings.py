"""What is open, what was?"""

import json
from dataclasses import asdict, replace

import pandas as pd
import streamlit as st

from app import clock, page, panels, sentences, words
from app.answers.rows import FindingFilter, FindingRow, Span
from app.answers.runbook import rule_title, runbook
from app.queries.findings import MOST_ON_A_PAGE
from app.words import Html, fill
from rebalance_audit.domain.kinds import FindingStatus, Severity


def numbers_of(f: FindingRow) -> dict[str, str | Html]:
    return {words.name(str(k).replace("_", " "), 60): said(str(k), v) for k, v in f.facts().items()}


def said(key: str, value: object) -> str:
    if value is None:
        return "not known"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        if key.endswith("_at_ms"):
            return words.instant(int(value), page.zone())
        if key.endswith("_ms"):
            return words.duration(value) if value >= 0 else f"none: two owners for {words.duration(-value)}"
        return f"{value:,.3g}" if isinstance(value, float) else f"{value:,}"
    return words.name(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False), 200)


def since(f: FindingRow) -> str:
    tz = page.zone()
    ended = "last seen" if f.status == FindingStatus.OPEN else "resolved"
    return f"{words.when(f.first_seen_at_ms, clock.now_ms(), tz)}; {ended} {words.minute(f.last_seen_at_ms, tz)}"


def details(f: FindingRow, most: int) -> list[str]:
    """Line breaks of a detail are the rule's own: what clients chose was made visible before."""
    found = (f.detail or "").splitlines()
    shown = [words.utc_in(words.visible(line), page.zone()) for line in found[:most]]
    if len(found) > most:
        shown.append(f"{words.count(len(found) - most, 'more line is', 'more lines are')} not shown here.")
    return shown


def title_of(f: FindingRow) -> str:
    named = "" if f.subject in f.title else f"{words.name(f.subject)}: "
    return named + words.utc_in(words.visible(f.title), page.zone())


def moved(f: FindingRow) -> str | None:
    """The reassignment that it is about."""
    found = f.facts().get("reassignment_id")
    return found if isinstance(found, str) else None


def line(f: FindingRow) -> dict[str, object]:
    """Closed, what and where; opened, its case, what to do, and where more is."""
    is_open = f.status == FindingStatus.OPEN
    facts = [("", text) for text in details(f, 4)]
    if f.advice:
        facts.append((page.ADVICE, words.visible(f.advice)))
    facts.append(("Since", f"{since(f)}."))
    key = {"cluster": f.cluster_id, "finding": f.finding_id}
    links = [page.line_link("Numbers and evidence", "findings", is_main=True, **key)]
    if f.group_id is not None:
        links.append(page.line_link("The group", "group", cluster=f.cluster_id, group=f.group_id))
    if reassignment := moved(f):
        links.append(
            page.line_link("The reassignment", "reassignment", cluster=f.cluster_id, reassignment=reassignment)
        )
    return page.line(
        f"{f.cluster_id}/{f.finding_id}",
        f.severity if is_open else "over",
        page.SIGNS.get(f.severity, "\u00b7") if is_open else "\u25cb",
        (
            f"{rule_title(f.rule_id)} \u00b7 {words.name(f.cluster_id, 30)}",
            words.cut(title_of(f), 300),
            f"{f.severity}, {f.status}",
            words.ago(f.last_seen_at_ms, clock.now_ms()),
        ),
        facts,
        links,
    )


def show(f: FindingRow) -> None:
    st.html(
        fill(
            '<div class="ra-incident ra-{s}"><p class="ra-first"><span class="ra-level">{level}</span>, '
            "{status}: {title}</p>"
            '{detail}<p class="ra-note">{rule} \u00b7 since {since} \u00b7 {cluster}</p>{advice}</div>',
            s=f.severity if f.status == FindingStatus.OPEN else "info",
            level=words.SEVERITY_WORDS[f.severity],
            status=f.status,
            title=title_of(f),
            detail=words.join([fill("<p>{t}</p>", t=text) for text in details(f, 40)]),
            rule=rule_title(f.rule_id),
            since=since(f),
            cluster=words.code(f.cluster_id, 40),
            advice=fill("<p>What to do: {a}</p>", a=words.with_code(f.advice)) if f.advice else Html(""),
        )
    )
    with st.container(horizontal=True):
        if f.group_id is not None:
            page.link("The group", "group", cluster=f.cluster_id, group=f.group_id)
        if reassignment := moved(f):
            page.link("The reassignment", "reassignment", cluster=f.cluster_id, reassignment=reassignment)
    text = runbook(f.rule_id)
    page.heading(f"The runbook: {rule_title(f.rule_id)}")
    if text is None:
        page.note("The runbook has no section on {rule}.", rule=f.rule_id)
    else:
        st.markdown(text)
    page.heading("Evidence")
    groups = [] if f.group_id is None else [f.group_id]
    panels.evidence_links(reader, list(f.evidence), f.cluster_id, groups)
    pairs = numbers_of(f)
    if pairs:
        with st.expander(f"Its numbers, as the table has them: {len(pairs)}"):
            page.facts(pairs)


def one(cluster: str, finding_id: str) -> None:
    f = reader.finding(cluster, finding_id)
    if f is None:
        page.not_known("finding", finding_id, cluster, "findings")
    page.title(rule_title(f.rule_id), under="What was found?")
    show(f)
    page.link("All findings", "findings")


def listing() -> None:
    group = page.param("group")
    of_group = FindingFilter(cluster_id=cluster_id if group else None, group_id=group)
    sums = reader.finding_sums(of_group)
    whole = reader.span()
    old = sentences.age(reader.clusters(), whole.to_ms, clock.now_ms(), page.zone()) if whole is not None else None
    page.title("Findings", under=old or "What is open, what was?")
    if unread := reader.unread("gold.finding"):
        page.not_read(unread)
        return
    if not sums.all_count:
        page.say("<b>Nothing was found</b> in what was read.")
        page.note(
            "That is a statement about the evidence, not about the cluster: what was not seen stands on the page Trust."
        )
        return
    if cluster_id and not group and cluster_id in sums.cluster_ids:
        page.put_param("of", cluster_id)
    elif wanted or (cluster_id and not group):
        page.is_not_here(wanted, cluster_id)
    if group:
        page.note("Only those of group {g}.", g=words.code(group))
        page.link("Those of all groups", "findings")
    page.say(
        "<b>{open}</b>, {resolved} resolved.",
        open=words.count(sums.open_count, "finding is open", "findings are open"),
        resolved=f"{sums.all_count - sums.open_count:,}",
    )
    whole = reader.span() or Span(from_ms=0, to_ms=0)
    span = page.span_of(whole, "all")
    chosen = page.filters(
        [
            page.Choice(name="status", label="State", options=[status.value for status in FindingStatus]),
            page.Choice(name="severity", label="Severity", options=[s.value for s in reversed(Severity)]),
            page.Choice(name="rule", label="Rule", options=sums.rule_ids, say=rule_title),
            page.Choice(name="subject", label="Subject", options=sums.subjects),
            page.Choice(name="of", label="Cluster", options=sums.cluster_ids),
            *([page.Choice(name="team", label="Team", options=sums.teams)] if sums.teams else []),
        ]
    )
    asked = replace(
        of_group,
        status=chosen["status"],
        severity=chosen["severity"],
        rule_id=chosen["rule"],
        subject=chosen["subject"],
        team=chosen.get("team"),
        span=span,
        cluster_id=of_group.cluster_id or chosen["of"],
    )
    count = reader.finding_count(asked)
    if count < sums.all_count:
        page.note("{n} of {all} match.", n=f"{count:,}", all=f"{sums.all_count:,}")
    if not count:
        page.panel(Html("<p>No finding matches all of these. Clear one of them.</p>"))
    else:
        taken = lambda: [{**asdict(f), "numbers": f.facts()} for f in reader.findings(asked)]  # noqa: E731
        page.downloads(lambda: pd.DataFrame(taken()), "findings")
    pages = max(1, -(-count // MOST_ON_A_PAGE))
    now = min(max(page.number_param("page") or 1, 1), pages)
    shown = [line(f) for f in reader.findings(asked, most=MOST_ON_A_PAGE, after=(now - 1) * MOST_ON_A_PAGE)]
    page.lines(
        shown, "Findings, open ones first", "findings", ("rule and cluster", "what was found", "state", "last seen")
    )
    if pages > 1:
        turn(now, pages, count)


def turn(now: int, pages: int, count: int) -> None:
    """Links to the previous and the next page of the list; the rest of the address stays."""
    page.note("Page {now} of {pages}: {n}.", now=f"{now:,}", pages=f"{pages:,}", n=words.count(count, "finding"))
    kept = {k: v for k, v in st.query_params.to_dict().items() if k != "page"}
    with st.container(horizontal=True):
        if now > 1:
            page.link("Newer", "findings", **{**kept, "page": str(now - 1)})
        if now < pages:
            page.link("Older", "findings", **{**kept, "page": str(now + 1)})


reader = page.reader_with_groups()
cluster_id, wanted = page.param("cluster"), page.param("finding")
if cluster_id and wanted:
    one(cluster_id, wanted)
else:
    listing()
