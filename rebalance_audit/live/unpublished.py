"""What the judge worked out and is not published yet: rows of gold, made by the functions of the stages."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from rebalance_audit.domain.incidents import Incident
from rebalance_audit.domain.incidents.model import incident_row
from rebalance_audit.domain.kinds import FindingStatus, Outcome
from rebalance_audit.domain.model import Finding, Rebalance, to_row
from rebalance_audit.domain.numbers import happened_at_ms
from rebalance_audit.domain.publish.groups import group_row
from rebalance_audit.live.group_memory import GroupMemory
from rebalance_audit.warehouse.arrow_tables import rows_to_table
from rebalance_audit.warehouse.just_in import JustInRows
from spark_jobs.flat_rows import TeamOfGroup, flat_rows

MOST_BYTES = 4_000_000
"""Chosen: some 800 rebalances of four members. What came last stays, and the rest is counted."""
LATE_MS = 15_000
"""News of a group may concern a rebalance that ended up to so long before: logs are read later, and sessions end
later."""


@dataclass(slots=True)
class _Owner:
    """A group or an incident with rows here."""

    at: float
    """The evidence that these rest on was landed before this moment of the clock."""
    ids: Mapping[str, int] = field(default_factory=dict)
    """Its rebalances, each with the instant when it happened."""
    gone: frozenset[str] = frozenset()
    """Rebalances that it had before, and that turned out to be none of their own."""


class Unpublished:
    """Rows of one cluster."""

    def __init__(self, cluster_id: str, team: TeamOfGroup = None) -> None:
        self._cluster_id, self._team = cluster_id, team
        self._groups: dict[str, _Owner] = {}
        self._incidents: dict[str, _Owner] = {}
        self._gone_incidents: dict[str, float] = {}
        self._new_groups: dict[str, tuple[GroupMemory, int, int]] = {}
        self._new_incidents: dict[str, Incident] = {}
        self._of_groups: dict[str, pa.Table] = {}
        self._of_incidents: pa.Table | None = None
        self._left_out = 0

    def __bool__(self) -> bool:
        return bool(self._groups or self._incidents or self._gone_incidents)

    def put_group(self, group_id: str, group: GroupMemory, *, from_ms: int, seen_until_ms: int, at: float) -> None:
        """What happened to a group from an instant on, as it was folded now."""
        self._new_groups[group_id] = (group, from_ms, seen_until_ms)
        before = self._groups.get(group_id, _Owner(at))
        ids = {r.rebalance_id: happened_at_ms(r) or 0 for r in group.rebalances if _is_since(r, from_ms)}
        # What happened before the oldest evidence that is left has left the memory, and not the tables.
        left_ms = happened_at_ms(group.rebalances[0]) or 0 if group.rebalances and not group.is_whole else 0
        known = before.gone | {id_ for id_, at_ms in before.ids.items() if at_ms >= left_ms}
        self._groups[group_id] = _Owner(at, ids, known - {r.rebalance_id for r in group.rebalances})

    def put_incidents(self, before: Mapping[str, Incident], now: Collection[Incident], at: float) -> None:
        """The incidents of some groups, before and after these were folded."""
        for incident in now:
            if before.get(incident.incident_id) != incident:
                self._new_incidents[incident.incident_id] = incident
                self._incidents[incident.incident_id] = _Owner(at)
                self._gone_incidents.pop(incident.incident_id, None)
        for incident_id in before.keys() - {i.incident_id for i in now}:
            self._gone_incidents[incident_id] = at
            self._incidents.pop(incident_id, None)
            self._new_incidents.pop(incident_id, None)

    def erase(self, group_id: str) -> None:
        """Neither the group's rows nor those of incidents with it are shown any more."""
        self._groups.pop(group_id, None)
        self._new_groups.pop(group_id, None)
        ids = {i.incident_id for i in self._new_incidents.values() if group_id in i.group_ids}
        if (shown := self._of_incidents) is not None:
            pairs = zip(shown["incident_id"].to_pylist(), shown["group_ids"].to_pylist(), strict=True)
            ids.update(incident_id for incident_id, group_ids in pairs if group_id in group_ids)
        for incident_id in ids:
            self._incidents.pop(incident_id, None)
            self._new_incidents.pop(incident_id, None)

    def published(self, until: float) -> None:
        """Note that the tables hold all that was landed before this moment of the clock."""
        for owners, new in ((self._groups, self._new_groups), (self._incidents, self._new_incidents)):
            for name in [name for name, owner in owners.items() if owner.at < until]:
                del owners[name]
                new.pop(name, None)
        self._gone_incidents = {id_: at for id_, at in self._gone_incidents.items() if at >= until}
        self._left_out = 0

    def rows(self) -> JustInRows:
        """All of them; if they are too many, the newest."""
        self._add_new()
        self._make_room()
        rows = dict(self._of_groups)
        if self._of_incidents is not None:
            rows["gold.incident"] = self._of_incidents
        gone = {
            "rebalance_id": [id_ for owner in self._groups.values() for id_ in owner.gone],
            "incident_id": list(self._gone_incidents),
        }
        return JustInRows(
            rows={name: table for name, table in sorted(rows.items()) if table.num_rows},
            gone={key: [(self._cluster_id, id_) for id_ in ids] for key, ids in gone.items() if ids},
            left_out=self._left_out,
        )

    def _add_new(self) -> None:
        """Make the rows of what is new, and drop the rows that these replace."""
        made = self._rows_of_groups() if self._new_groups else {}
        stays = self._groups.keys() - self._new_groups.keys()
        self._of_groups = {
            name: pa.concat_tables([_only(old, "group_id", stays), *([made[name]] if name in made else [])])
            for name, old in ({name: table.slice(0, 0) for name, table in made.items()} | self._of_groups).items()
        }
        incidents = list(self._new_incidents.values())
        if incidents or self._of_incidents is not None:
            new = rows_to_table("gold.incident", [incident_row(i) for i in incidents])
            old = new.slice(0, 0) if self._of_incidents is None else self._of_incidents
            kept = _only(old, "incident_id", self._incidents.keys() - self._new_incidents.keys())
            self._of_incidents = pa.concat_tables([kept, new]).combine_chunks()
        self._of_groups = {name: table.combine_chunks() for name, table in self._of_groups.items()}
        self._new_groups.clear()
        self._new_incidents.clear()

    def _rows_of_groups(self) -> dict[str, pa.Table]:
        measured: list[dict[str, Any]] = []
        findings: list[dict[str, Any]] = []
        groups: list[dict[str, Any]] = []
        for group_id, (group, from_ms, seen_until_ms) in self._new_groups.items():
            measured += [
                to_row(r) | {"place": place} for place, r in enumerate(group.rebalances) if _is_since(r, from_ms)
            ]
            findings += [to_row(f) | {"group_id": group_id} for f in group.findings if _is_of(f, from_ms)]
            if group.is_new and group.rebalances:
                team = self._team(self._cluster_id, group_id) if self._team is not None else None
                groups.append(group_row(group.rebalances, group.findings, seen_until_ms, team))
        batches = rows_to_table("silver.measured_rebalance", measured).to_batches()
        flat = {table: pa.Table.from_batches([rows]) for b in batches for table, rows in flat_rows(b, self._team)}
        return flat | {
            "gold.finding": rows_to_table("gold.finding", findings),
            "gold.group": rows_to_table("gold.group", groups),
        }

    def _make_room(self) -> None:
        """Drop the oldest, until the rest fits."""
        size = sum(table.nbytes for table in (*self._of_groups.values(), self._of_incidents) if table is not None)
        count = len(self._groups) + len(self._incidents)
        if size <= MOST_BYTES or count == 0:
            return
        both = [*((o.at, False, name) for name, o in self._groups.items()),
                *((o.at, True, name) for name, o in self._incidents.items())]  # fmt: skip
        too_many = sorted(both)[: max(1, round(count * (1 - MOST_BYTES / size)))]
        for _, is_incident, name in too_many:
            del (self._incidents if is_incident else self._groups)[name]
        self._left_out += len(too_many)
        self._add_new()
        self._make_room()


def _only(rows: pa.Table, column: str, owners: Collection[str]) -> pa.Table:
    return rows.filter(pc.is_in(rows[column], pa.array(sorted(owners), pa.string())))


def _is_since(rebalance: Rebalance, from_ms: int) -> bool:
    """Whether it ended then or later, as far as evidence shows."""
    known: Sequence[int | None] = (
        rebalance.ended_at_ms, rebalance.assigned_at_ms, rebalance.joined_at_ms, rebalance.started_at_ms,
    )  # fmt: skip
    return rebalance.outcome == Outcome.OPEN or max((at for at in known if at is not None), default=0) >= from_ms


def _is_of(finding: Finding, from_ms: int) -> bool:
    return finding.status == FindingStatus.OPEN or finding.last_seen_at_ms >= from_ms
