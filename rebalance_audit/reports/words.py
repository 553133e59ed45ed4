"""Sentences and numbers of a report, the same in text and HTML."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rebalance_audit.domain.causes import phrase_of
from rebalance_audit.domain.detect.wording import clock, counted, duration, shown
from rebalance_audit.domain.incidents.words import still_words
from rebalance_audit.domain.replay.meanings import beyond_pauses
from rebalance_audit.reports.period import Report

_OUTCOME_WORDS = {
    "superseded": "replaced by another request",
    "deleted": "ended with the topic",
    "open": "still moving",
    "stalled": "stalled",
    "unknown": "ended where evidence has a gap",
}


def headline(report: Report, *, bounds: bool = False) -> str:
    """The period in a sentence or two."""
    if not report.rebalance_count:
        return f"No rebalance was seen in this period{_moved(report, '; ')}."
    costs = [cost.of(unit, bounds=bounds) for unit, cost in report.costs.items()]
    lost = f"{' and '.join(costs)} lost" if costs else "what it cost is not known"
    return (
        f"{counted(report.rebalance_count, 'rebalance')} of {counted(report.group_count, 'group')}"
        f"{_expected(report.expected_count)}; {lost}{_moved(report, '. ')}."
    )


def reassignments(report: Report) -> str:
    """`227 partitions were given other replicas: 214 completed, 8 cancelled, …`"""
    total = sum(report.reassignment_counts.values())
    each = ", ".join(f"{n:,} {_OUTCOME_WORDS.get(o, o)}" for o, n in report.reassignment_counts.items())
    return f"{counted(total, 'reassignment')} of a partition: {each}"


def _moved(report: Report, joined_by: str) -> str:
    return joined_by + reassignments(report) if report.reassignment_counts else ""


def where(report: Report, cluster_id: str) -> str:
    """`, cluster prod-1` where there is more than one."""
    return f", cluster {shown(cluster_id)}" if len(report.cluster_ids) > 1 else ""


def not_seen(report: Report) -> list[str]:
    """Sentences about what the report cannot know; one that says so if there is none."""
    notes = [
        f"{shown(gap['source'], 120)}{where(report, gap['cluster_id'])}: "
        f"{shown(gap['problem'] or gap['problem_code'], 300)} "
        f"(from {gap['from_position']}{'' if gap['to_position'] is None else ' to ' + str(gap['to_position'])})"
        for gap in report.gaps
    ]
    if report.gap_count > len(report.gaps):
        notes.append(f"and {report.gap_count - len(report.gaps)} more gaps")
    for row in report.undecoded:
        notes.append(
            f"{counted(row['count'], 'record')} could not be read: {row['reason'].replace('_', ' ')}, for instance "
            f"{shown(row['example'], 160)}"
        )
    if report.unknown_cause_count:
        notes.append(
            f"The cause of {counted(report.unknown_cause_count, 'rebalance')} is not known: no log line says it."
        )
    if report.unknown_cost_count:
        notes.append(
            f"The cost of {counted(report.unknown_cost_count, 'rebalance')} is not known: something stopped, and no "
            "evidence shows for how long. Sums are of the others."
        )
    if report.incomplete_count:
        notes.append(f"The evidence of {counted(report.incomplete_count, 'rebalance')} is incomplete.")
    for check in report.failed_checks:
        notes.append(
            f"Data check failed: {check['table_name']}: {check['check_name']} ({check['unexpected_count']} of "
            f"{check['checked_count']} rows)"
        )
    return notes or ["Nothing is known to be missing: every source was read without a gap."]


def period(report: Report) -> str:
    if report.from_ms is None or report.to_ms is None:
        return "No time is covered."
    return f"{clock(report.from_ms)} to {clock(report.to_ms)} ({duration(max(report.to_ms - report.from_ms, 0))})."


def _expected(count: int) -> str:
    return f" ({count:,} of them the protocol's own work)" if count else ""


def counts(count: int, expected_count: int) -> str:
    return f"{count:,}" + (f" ({expected_count:,} expected)" if expected_count else "")


CAUSES_NOTE = "Each rebalance of an incident counts for the incident's root cause."
CHANGES_NOTE = "Each group's latest history, replayed under other settings; not of this period alone."


def longer_incidents(report: Report) -> str:
    """Why the incidents' costs may add up to more than the period's; empty where they do not."""
    count = report.longer_incident_count
    if not count:
        return ""
    whole = "counts" if count == 1 else "count"
    return f"{count:,} of them began before this period or went on after it, and {whole} whole."


def stands(incident: Mapping[str, Any]) -> str:
    """Whether a row of gold.incident is open and, if so, what of it has not ended, or since when that is not known."""
    said = still(incident) if incident["status"] == "open" else ""
    return f"{incident['status']}, {said}" if said else str(incident["status"])


def still(incident: Mapping[str, Any]) -> str:
    """What of a row of gold.incident that is open has not ended, or since when that is not known."""
    unknown_since_ms = incident["unknown_since_ms"]
    return still_words(
        incident["still"],
        clock(incident["last_at_ms"]),
        None if unknown_since_ms is None else clock(unknown_since_ms),
    )


def what_it_saves(report: Report, change: Mapping[str, Any]) -> str:
    """A row of gold.whatif in words: why, where, and why it may count more than the group's pauses."""
    beyond = beyond_pauses(change["beyond_pauses_seconds"])
    said = f"{shown(change['why'], 300)}{where(report, change['cluster_id'])}"
    return said if beyond is None else f"{said}. {beyond}"


def cause(trigger: str | None) -> str:
    return "" if trigger is None else phrase_of(trigger)


def milliseconds(value: float | None) -> str:
    return "not known" if value is None else duration(value)
