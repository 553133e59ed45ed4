"""The report as one HTML file: no scripts, nothing fetched, all text from clients escaped."""

from __future__ import annotations

from dataclasses import dataclass

import jinja2

from rebalance_audit.domain.detect.wording import bounded, clock, duration, likely, shown
from rebalance_audit.domain.explain.reassignment import summary
from rebalance_audit.domain.reassign.advice import next_steps
from rebalance_audit.reports import words
from rebalance_audit.reports.period import Bucket, Report
from rebalance_audit.reports.read import PAST_FINDINGS_SHOWN

CHART_WIDTH, CHART_HEIGHT, _LABEL_SPACE = 960, 120, 18


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """One bar of the time line, in the chart's own units."""

    x: float
    width: float
    unexpected_y: float
    unexpected_height: float
    expected_y: float
    expected_height: float
    says: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    bars: tuple[Bar, ...]
    ticks: tuple[tuple[float, str], ...]
    most: int
    bucket: str


def report_html(report: Report) -> str:
    """One file that needs nothing else."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("rebalance_audit.reports", "."),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        shown=lambda text, width=90: shown(str(text), width),
        clock=clock,
        duration=duration,
        ms=words.milliseconds,
        cause=words.cause,
        stands=words.stands,
    )
    rows: dict[tuple[str, str], list[object]] = {}
    for row in report.rebalances:
        rows.setdefault((row.cluster_id, row.group_id), []).append(row)
    return environment.get_template("report.html.j2").render(
        report=report,
        headline=words.headline(report),
        period=words.period(report),
        not_seen=words.not_seen(report),
        chart=_chart(report),
        rows=rows,
        bounded=bounded,
        likely=likely,
        counts=words.counts,
        moved=words.reassignments(report),
        summary=summary,
        next_steps=next_steps,
        most_lost=max((g.cost.estimate or 0.0 for g in report.groups), default=0.0),
        most_caused=max((c.rebalance_count for c in report.causes), default=0),
        past_limit=PAST_FINDINGS_SHOWN,
        causes_note=words.CAUSES_NOTE,
        changes_note=words.CHANGES_NOTE,
        what_it_saves=words.what_it_saves,
        longer_incidents=words.longer_incidents(report),
        chart_width=CHART_WIDTH,
        chart_height=CHART_HEIGHT,
        label_space=_LABEL_SPACE,
    )


def _chart(report: Report) -> Chart | None:
    """Rebalances over time; quiet buckets keep their place, so that distances are true."""
    if not report.buckets:
        return None
    size = report.bucket_ms
    first = report.buckets[0].from_ms
    count = (report.buckets[-1].from_ms - first) // size + 1
    width = CHART_WIDTH / max(count, 24)
    most = max(b.rebalance_count for b in report.buckets)
    bars = tuple(_bar(b, (b.from_ms - first) / size * width, width, most, size) for b in report.buckets)
    places = sorted({0, count // 2, count - 1} if count > 8 else {0})
    ticks = tuple((place * width, clock(first + place * size)[:16]) for place in places)
    return Chart(bars=bars, ticks=ticks, most=most, bucket=duration(size))


def _bar(bucket: Bucket, x: float, width: float, most: int, size: int) -> Bar:
    unit = CHART_HEIGHT / most
    unexpected = bucket.rebalance_count - bucket.expected_count
    said = words.counts(bucket.rebalance_count, bucket.expected_count)
    return Bar(
        x=round(x, 2),
        width=round(max(width - 1, 1), 2),
        unexpected_y=round(CHART_HEIGHT - unexpected * unit, 2),
        unexpected_height=round(unexpected * unit, 2),
        expected_y=round(CHART_HEIGHT - bucket.rebalance_count * unit, 2),
        expected_height=round(bucket.expected_count * unit, 2),
        says=f"{clock(bucket.from_ms)}, {duration(size)}: {said}",
    )
