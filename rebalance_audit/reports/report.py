"""The cost of one period, over all groups: incidents first, then the worst groups, causes, and what was not seen.

`read_report` asks the gold tables, the others only lay out what it found: as text, JSON, or one HTML file that needs
nothing else. Times are those of the evidence; the same warehouse gives the same report.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rebalance_audit.domain.detect.finding import numbers_of
from rebalance_audit.domain.detect.wording import clock, meaning_of_unit, shown
from rebalance_audit.domain.explain.layout import cells, hanging
from rebalance_audit.domain.explain.reassignment import summary
from rebalance_audit.reports import words
from rebalance_audit.reports.html import report_html
from rebalance_audit.reports.period import Cost, GroupRow, Report
from rebalance_audit.reports.read import read_report

REASSIGNMENTS_IN_TEXT = 10
INCIDENTS_IN_TEXT = 15
_LEAST_NAME = 12
_SPARE = (2, 1, 4)
"""Columns of the worst groups that are left out first where the line is narrow: members, mode, worst pause."""


def report_dict(report: Report) -> dict[str, Any]:
    """The report for `--output json`. Text of clients stays as it is: JSON escapes it."""
    found = asdict(report)
    for finding in (*found["open_findings"], *found["past_findings"]):
        finding["numbers"] = numbers_of(finding["numbers"])
    return found


def report_text(report: Report, width: int = 110, *, bounds: bool = False) -> str:
    """The report for a terminal of `width` columns. `bounds`: hard bounds, too, beside the likely ranges."""
    heads = [
        words.headline(report, bounds=bounds),
        words.period(report),
        *(meaning_of_unit(u) for u in list(report.costs)[:1]),
    ]
    lines = [*(line for head in heads for line in hanging(head, width, 0)), ""]
    lines += _incident_lines(report, width, bounds=bounds)
    if not report.open_findings and not report.past_findings:
        lines.append("No findings.")
    for heading, findings in (("Open", report.open_findings), ("Past", report.past_findings)):
        if findings:
            lines.append(f"{heading} findings")
        for f in findings:
            head = f"  {f['rule_id']} {f['severity']:<8}  "
            lines += hanging(f"{head}{shown(f['title'], 400)}", width, len(head))
            if heading == "Open":
                since = f"{' ' * len(head)}since {clock(f['first_seen_at_ms'])}{words.where(report, f['cluster_id'])}"
                lines += hanging(f"{since}. {shown(f['advice'] or '', 600)}", width, len(head))
    if report.past_finding_count > len(report.past_findings):
        lines.append(f"  and {report.past_finding_count - len(report.past_findings)} more that are over")
    if report.groups:
        lines += ["", "Worst groups"]
        is_one = len(report.cluster_ids) == 1
        names = [g.group_id if is_one else f"{g.group_id} @ {g.cluster_id}" for g in report.groups]
        rows = [("group", "mode", "members", "rebalances", "longest downtime", "seconds lost", "costliest cause")]
        rows += [
            (
                shown(name, 44), g.mode, _or_not_known(g.member_count),
                words.counts(g.rebalance_count, g.expected_count),
                words.milliseconds(g.worst_pause_ms), g.cost.text(bounds=bounds), words.cause(g.top_trigger),
            )
            for name, g in zip(names, report.groups, strict=True)
        ]  # fmt: skip
        lines += _columns(rows, width, _SPARE)
        lines += _standstills(names, report.groups, width)
    if report.causes:
        lines += ["", "Causes"]
        causes = [("cause", "rebalances", "seconds lost")]
        causes += [
            (words.cause(c.trigger), words.counts(c.rebalance_count, c.expected_count), c.cost.text(bounds=bounds))
            for c in report.causes
        ]
        lines += [*_columns(causes, width), *hanging(f"  {words.CAUSES_NOTE}", width, 2)]
    if report.reassignments:
        lines += ["", "Reassignments"]
        for r in report.reassignments[:REASSIGNMENTS_IN_TEXT]:
            lines += hanging(f"  {summary(r).rstrip('.')}{words.where(report, r.cluster_id)}.", width, 4)
        rest = sum(report.reassignment_counts.values()) - REASSIGNMENTS_IN_TEXT
        if rest > 0:
            lines.append(f"  and {rest:,} more; `export gold.reassignment` has all")
    if report.changes:
        lines += ["", "Settings that would have saved the most", *hanging(f"  {words.CHANGES_NOTE}", width, 2)]
        for c in report.changes:
            what = f"  {shown(c['group_id'], 44)}  {shown('  '.join(c['settings']), 200)}: "
            lines += hanging(what + words.what_it_saves(report, c), width, 4)
    lines += ["", "Not seen"]
    lines += [line for note in words.not_seen(report) for line in hanging(f"  {note}", width, 4)]
    return "\n".join(lines) + "\n"


def _incident_lines(report: Report, width: int, *, bounds: bool) -> list[str]:
    if not report.incidents:
        return []
    lines = ["Incidents"]
    for i in report.incidents[:INCIDENTS_IN_TEXT]:
        mark = "normal work" if i["expected"] else f"{i['severity']}, {i['status']}"
        head = f"  {mark:<15}  "
        cost = Cost(
            lower=i["cost_lower_seconds"],
            estimate=i["cost_seconds"],
            upper=i["cost_upper_seconds"],
            likely_lower=i["cost_likely_lower_seconds"],
            likely_upper=i["cost_likely_upper_seconds"],
        )
        lost = f"{cost.of(i['unit'] or 'resource', bounds=bounds)} lost"
        if cost.estimate is None:
            lost = "downtime not known" if i["rebalance_count"] else "no downtime seen"
        still = ""
        if i["status"] == "open" and (said := words.still(i)):
            still = f"; {said}"
        what = f"{shown(i['title'], 300)}{words.where(report, i['cluster_id'])}; {lost}{still}"
        lines += hanging(f"{head}{clock(i['first_at_ms'])}  {what}", width, len(head))
        lines += [line for said in i["answers"] for line in hanging(" " * len(head) + said, width, len(head))]
    rest = report.incident_count - min(len(report.incidents), INCIDENTS_IN_TEXT)
    if rest > 0:
        lines.append(f"  and {rest:,} more; `export incident` has all")
    if said := words.longer_incidents(report):
        lines += hanging(f"  {said}", width, 2)
    return [*lines, ""]


def _standstills(names: Sequence[str], groups: Sequence[GroupRow], width: int) -> list[str]:
    still = [
        f"{shown(name, 44)} {g.standstill_seconds_estimate:,.1f} s"
        for name, g in zip(names, groups, strict=True)
        if g.standstill_seconds_estimate is not None
    ]
    said = f"  Members hung without a rebalance, in all evidence (inferred): {', '.join(still)}"
    return hanging(said, width, 4) if still else []


def _or_not_known(value: object) -> str:
    return "not known" if value is None else str(value)


def _columns(rows: Sequence[Sequence[str]], width: int, spare: Sequence[int] = ()) -> list[str]:
    """Rows in columns that fit. `spare`: columns to leave out where they do not, the least needed first; then the last
    column stands below its row, with its head; only then is the first, a name, cut in its middle. Numbers never are."""
    kept = list(range(len(rows[0])))
    widths = [max(cells(row[i]) for row in rows) for i in kept]
    for i in spare:
        if _line_width(widths, kept) > width:
            kept.remove(i)
    below = None
    if _line_width(widths, kept) > width and len(kept) > 2:
        below = kept.pop()
    room = widths[0] - max(0, _line_width(widths, kept) - width)
    widths[0] = max(room, _LEAST_NAME)
    lines = []
    for at, row in enumerate(rows):
        texts = [shown(row[0], widths[0]) if cells(row[0]) > widths[0] else row[0], *row[1:]]
        lines.append("  " + "  ".join(texts[i] + " " * (widths[i] - cells(texts[i])) for i in kept).rstrip())
        if below is not None and at > 0:
            lines += hanging(f"      {rows[0][below]}: {row[below]}", width, 8)
    return lines


def _line_width(widths: Sequence[int], kept: Sequence[int]) -> int:
    return sum(widths[i] + 2 for i in kept)


__all__ = ["Report", "read_report", "report_dict", "report_html", "report_text"]
