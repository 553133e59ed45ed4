"""An incident as text for a chat, and as a postmortem in Markdown."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import tzinfo

from app import words
from app.answers.rows import GroupCost, IncidentRow
from app.answers.runbook import rule_name
from app.sentences.incidents import cost_words, stands, story
from rebalance_audit.domain.incidents.blame import whose_doing

_ACTS = re.compile(r"[\\`*\[\]<|~]|(?<![^\W_])_|_(?![^\W_])|^[#>]|^[+-](?= )|(?<=^\d)[.)]")
"""What Markdown and chats read. An underscore within a word, a `#` or a `>` within a line stay as they are: Slack shows
each backslash, and most names have underscores."""


def _safe(text: str, most: int = 400) -> str:
    """No client's text becomes a link, a mention or a heading: what Markdown and chats read is set off."""
    return _ACTS.sub(r"\\\g<0>", words.cut(words.visible(text), most)).replace("@", "@\u200b")


def _with_commands(text: str, most: int) -> str:
    """Advice: the commands in it, between backticks, stay as they are."""
    parts = re.split(r"(`[^`]+`)", words.whole_sentences(words.visible(text), most))
    return "".join(part if at % 2 else _safe(part, most) for at, part in enumerate(parts))


def _cost(i: IncidentRow) -> str:
    if i.cost_seconds is None:
        return cost_words(i)
    likely = words.seconds_likely(i.cost_likely_lower_seconds, i.cost_seconds, i.cost_likely_upper_seconds, i.unit)
    return f"{likely}; for certain {words.seconds_ends(i.cost_lower_seconds, i.cost_upper_seconds)}"


def for_chat(i: IncidentRow, subject: str, now_ms: int, tz: tzinfo, url: str) -> str:
    """A line each: what and how it stands, whose doing, what it cost, what to do, where more is."""
    lines = [
        f"[{i.severity}, {stands(i, now_ms, tz)}] {_safe(subject)} @ {_safe(i.cluster_id, 60)}: "
        f"{_safe(words.utc_in(i.title, tz))}",
        f"Whose doing: {_safe(whose_doing(i, rule_name))}.",
        f"Cost: {_cost(i)}. Since {words.minute(i.first_at_ms, tz)}.",
    ]
    if i.advice:
        lines.append(f"What to do: {_with_commands(i.advice, 400)}")
    return "\n".join([*lines, url])


def postmortem(
    i: IncidentRow,
    subject: str,
    costs: Sequence[GroupCost],
    now_ms: int,
    tz: tzinfo,
    url: str,
    picture_url: str | None = None,
) -> str:
    """Summary, impact, time line, and headings for what only people know. `picture_url`: where its picture is, if there
    is an address that a wiki can show."""
    tier = words.TIER_WORDS[i.root_cause_tier] if i.root_cause_tier != "unknown" else ""
    parts = [
        f"# {_safe(subject)}: {_safe(words.utc_in(i.title, tz))}",
        f"Cluster {_safe(i.cluster_id, 60)} \u00b7 {i.severity} \u00b7 {stands(i, now_ms, tz)} \u00b7 "
        f"{words.instant(i.first_at_ms, tz)} to {words.instant(i.last_at_ms, tz)} "
        f"({words.duration(i.last_at_ms - i.first_at_ms)})",
        "## Summary",
        _safe(words.utc_in(story(i), tz), 1200),
        "## Impact",
        f"{_cost(i)}.",
        "| group | team | rebalances | cost, for certain between |\n| --- | --- | --- | --- |\n"
        + "\n".join(
            f"| {_safe(c.group_id, 80)} | {_safe(c.team or '-', 40)} | {c.rebalance_count:,} | "
            f"{words.seconds_bounds(c.lower, c.estimate, c.upper, c.unit)} |"
            for c in costs[:40]
        )
        if costs
        else "No group rebalanced because of it.",
        "## Time line",
        "\n".join(f"- {words.instant(link.at_ms, tz)}: {_safe(link.what)}" for link in i.chain),
        "*Picture: save it with the button PNG of the page below, and put it here.*"
        if picture_url is None
        else f"![Time line of the incident]({picture_url})",
        "## Cause",
        _safe(whose_doing(i, rule_name)) + (f" ({tier})" if tier else ""),
        "## What to do",
        _with_commands(i.advice or "not known", 800),
        "## What went well, what did not",
        "",
        f"Picture and evidence: {url}",
    ]
    return "\n\n".join(parts) + "\n"
