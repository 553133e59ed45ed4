"""`explain` without a group: which groups of the evidence are worth explaining, the first one first."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from shlex import quote
from typing import TYPE_CHECKING, Any

from rebalance_audit.commands.meter import meter
from rebalance_audit.commands.options import Output, UsageError
from rebalance_audit.commands.output import output_width, styled, write_rows
from rebalance_audit.domain.visible import visible

if TYPE_CHECKING:
    from ingest.readings import SourceReading
    from rebalance_audit.commands.explain.places import Places, Shown
    from rebalance_audit.domain.detect import LimitsOf
    from rebalance_audit.domain.explain.standstills import StandstillStory
    from rebalance_audit.domain.incidents import Incident
    from rebalance_audit.domain.metadata import SourceMetadata
    from rebalance_audit.domain.model import ConnectTask, Finding, Rebalance, SourceLine, SourceRecord

SHOWN_GROUPS = 20
_COLUMNS = (
    "cluster_id", "group_id", "rebalance_count", "unit", "cost_seconds", "cost_lower_seconds", "cost_upper_seconds",
    "standstill_count", "severity", "status", "incident",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class _Everything:
    """All evidence of one cluster."""

    cluster_id: str
    records: Iterator[SourceRecord]
    lines: Iterator[SourceLine]
    zones: dict[str, str]
    sources: Callable[[], Sequence[SourceReading]]
    """What was read of each; to be asked when records and lines were read."""
    is_live: bool
    metadata: Callable[[], Iterator[SourceMetadata]] | None = None
    """The metadata log, where it is at hand."""


def explain_groups(places: Places, shown: Shown) -> None:
    """Print the groups that are worth explaining, the costliest first. Raises UsageError and CommandError."""
    from rebalance_audit.domain.explain.standstills import standstill_stories

    if places.metadata:
        raise UsageError("--metadata is for reassignments; give --reassignment TOPIC[-PARTITION] with it.")
    with meter("explain", quiet=shown.quiet, unit="items") as progress:
        progress(0, 0, "reading all groups")
        cluster_id, groups, incidents, ended_ms = _judged(_read(places), shown.last_ms, shown.limits)
    standstills = standstill_stories(r for found in groups.values() for r in found)
    rows = [_cost_row(cluster_id, g, found) for g, found in groups.items()]
    write_groups(rows, incidents, standstills, shown, {cluster_id: ended_ms})


def write_groups(
    groups: Sequence[dict[str, Any]],
    incidents: Sequence[Incident],
    standstills: Sequence[StandstillStory],
    shown: Shown,
    ends: Mapping[str, int],
) -> None:
    """Print the table of groups. `groups`: cluster, group, numbers of rebalances and standstills, and cost of each; one
    at least. `ends`: by cluster when its evidence ended."""
    from rebalance_audit.domain.explain.incidents import answer, old_of
    from rebalance_audit.domain.explain.layout import hanging

    of_group: dict[tuple[str, str], list[Incident]] = {}
    for i in incidents:
        for group_id in () if i.expected else i.group_ids:
            of_group.setdefault((i.cluster_id, group_id), []).append(i)
    unknown_since = old_of(ends, time.time_ns() // 1_000_000)
    rows = [_row(g, of_group.get((g["cluster_id"], g["group_id"]), []), unknown_since) for g in groups]
    rows.sort(key=_worth)
    with_cluster = len({row["cluster_id"] for row in rows}) > 1
    if shown.output is not Output.TABLE:
        write_rows(rows, _COLUMNS, shown.output)
        return
    width = output_width()
    lines = [*hanging(answer(incidents, standstills, unknown_since), width, 0), ""]
    for row in rows[:SHOWN_GROUPS]:
        lines += _lines(row, width, with_cluster)
    if len(rows) > SHOWN_GROUPS:
        lines.append(f"and {len(rows) - SHOWN_GROUPS:,} more groups; `-o json` has all")
    lines += ["", *hanging(f"{_next_command(rows)} with the same options explains the first.", width, 3)]
    sys.stdout.write(styled("\n".join(lines)) + "\n")


def _next_command(rows: Sequence[dict[str, Any]]) -> str:
    """How to explain the first group: with its cluster, where another one has a group of this name."""
    first = rows[0]
    same = sum(1 for row in rows if row["group_id"] == first["group_id"]) > 1
    cluster = f" --cluster-id {quote(visible(first['cluster_id']))}" if same else ""
    return f"`rebalance-audit explain {quote(visible(first['group_id']))}{cluster}`"


def _read(places: Places) -> _Everything:
    from ingest.evidence import read_evidence

    if not places.bootstrap:
        folder = places.folder()
        evidence = read_evidence(folder)
        nodes = sorted({node for node, _ in folder.log_files})
        return _Everything(
            cluster_id=folder.cluster_id, records=evidence.records(), lines=evidence.lines(),
            zones=dict.fromkeys(nodes, folder.log_time_zone) if folder.log_time_zone else {},
            sources=lambda: evidence.sources, is_live=False, metadata=evidence.metadata if folder.metadata else None,
        )  # fmt: skip
    from ingest.collect_settings import CollectSettings
    from ingest.folders import EvidenceFolder
    from ingest.live_evidence import live_evidence

    live = live_evidence(CollectSettings(client_config=places.client_config(), connect_topics=places.connect_topics))
    files = [
        (node, path) for node, folder in places.log_folders for path in sorted(folder.glob("*.log*")) if path.is_file()
    ]
    logs = read_evidence(EvidenceFolder(cluster_id=live.cluster_id, log_files=files))
    zone = places.log_time_zone
    return _Everything(
        cluster_id=live.cluster_id, records=live.records(), lines=logs.lines(),
        zones={node: zone for node, _ in places.log_folders} if zone else {}, sources=lambda: logs.sources,
        is_live=True,
    )  # fmt: skip


def _judged(
    read: _Everything, last_ms: int | None, limits: LimitsOf
) -> tuple[str, dict[str, Sequence[Rebalance]], list[Incident], int]:
    from rebalance_audit.commands.explain.group import moves_beside
    from rebalance_audit.commands.explain.group_reading import no_group_in
    from rebalance_audit.domain.detect import detect_group
    from rebalance_audit.domain.gather.groups import gather
    from rebalance_audit.domain.incidents import ClusterRows, incidents_of
    from rebalance_audit.domain.measure.pauses import measure
    from rebalance_audit.domain.numbers import happened_at_ms
    from rebalance_audit.domain.reconstruct import reconstruct

    gathered = gather(read.records, read.lines, read.zones)
    if not gathered.groups:
        raise no_group_in(read.cluster_id, read.sources())
    ends = [s.to_at_ms for s in read.sources() if s.to_at_ms is not None]
    ends += [line.at_ms for g in gathered.groups for line in g.lines if line.at_ms is not None]
    until_ms = time.time_ns() // 1_000_000 if read.is_live else max(ends, default=None)
    groups: dict[str, Sequence[Rebalance]] = {}
    tasks: list[ConnectTask] = []
    findings: list[tuple[str | None, Finding]] = []
    for evidence in gathered.groups:
        found = reconstruct(evidence)
        groups[evidence.group_id] = rebalances = [measure(r) for r in found.rebalances]
        tasks += found.connect_tasks
        own = limits(read.cluster_id, evidence.group_id)
        findings += [
            (evidence.group_id, f) for f in detect_group(rebalances, found.connect_tasks, own, seen_until_ms=until_ms)
        ]
    now_ms = until_ms or max((happened_at_ms(r) or 0 for found in groups.values() for r in found), default=0)
    incidents, _ = incidents_of(
        ClusterRows(
            cluster_id=read.cluster_id,
            now_ms=now_ms,
            groups=groups,
            first_places=dict.fromkeys(groups, 0),
            tasks=tasks,
            leader_moves=moves_beside(read.cluster_id, read.metadata, chain(*groups.values()), groups),
            findings=findings,
            limits=lambda group_id: limits(read.cluster_id, group_id),
        )
    )
    if last_ms is not None:
        since_ms = now_ms - last_ms
        incidents = [i for i in incidents if i.last_at_ms >= since_ms]
        groups = {
            g: [r for r in found if (at_ms := happened_at_ms(r)) is None or at_ms >= since_ms]
            for g, found in groups.items()
        }
    return read.cluster_id, groups, incidents, now_ms


def _cost_row(cluster_id: str, group_id: str, rebalances: Sequence[Rebalance]) -> dict[str, Any]:
    from rebalance_audit.domain.numbers import cost_of, is_counted, unit_of

    cost = cost_of(rebalances)
    return {
        "cluster_id": cluster_id,
        "group_id": group_id,
        "rebalance_count": sum(map(is_counted, rebalances)),
        "unit": unit_of(rebalances),
        "cost_seconds": cost.estimate,
        "cost_lower_seconds": cost.lower,
        "cost_upper_seconds": cost.upper,
        "standstill_count": sum(len(r.standstills) for r in rebalances),
    }


def _row(group: dict[str, Any], incidents: Sequence[Incident], unknown_since: Mapping[str, int]) -> dict[str, Any]:
    from rebalance_audit.domain.explain.incidents import state

    worst = min(incidents, key=_rank, default=None)
    return {
        **group,
        "severity": worst.severity if worst else None,
        "status": worst.status if worst else None,
        "incident": worst.title if worst else None,
        "state": state(worst, unknown_since) if worst else None,
    }


def _rank(incident: Incident) -> tuple[Any, ...]:
    order = ("critical", "warning", "info")
    return incident.status != "open", order.index(incident.severity), -(incident.cost_seconds or 0.0)


def _worth(row: dict[str, Any]) -> tuple[Any, ...]:
    """Open incidents first, then the gravest, then standstills, then the costliest; of equal ones by name."""
    order = ("critical", "warning", "info", None)
    grave = row["status"] != "open", order.index(row["severity"]), not row["standstill_count"]
    return *grave, -(row["cost_seconds"] or 0.0), row["group_id"], row["cluster_id"]


def _nothing(row: dict[str, Any]) -> str:
    from rebalance_audit.domain.detect.wording import counted

    still = row["standstill_count"]
    return f"{counted(still, 'standstill')} of a member without a rebalance" if still else "nothing wrong"


def _lines(row: dict[str, Any], width: int, with_cluster: bool) -> list[str]:
    from rebalance_audit.domain.detect.wording import counted, shown
    from rebalance_audit.domain.explain.layout import hanging

    cost = row["cost_seconds"]
    lost = "downtime not known" if cost is None else f"{cost:,.1f} {row['unit']}-seconds lost"
    what = f"{row['severity']}, {row['state']}: {shown(row['incident'], 300)}" if row["incident"] else _nothing(row)
    where = f" @ {shown(row['cluster_id'], 40)}" if with_cluster else ""
    head = f"{shown(row['group_id'], 60)}{where}   {counted(row['rebalance_count'], 'rebalance')} in all, {lost}"
    return [*hanging(head, width, 3), *hanging(f"   {what}", width, 3)]
