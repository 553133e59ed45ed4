"""Input and output of incidents: rows of gold.incident and gold.mark. Instants are epoch ms UTC."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rebalance_audit.domain.detect.limits import DEFAULT, Limits
from rebalance_audit.domain.incidents.storm_before import Link, StormBefore
from rebalance_audit.domain.kinds import MemberChange
from rebalance_audit.domain.model import ConnectTask, Finding, Movement, Rebalance, changed
from rebalance_audit.domain.publish.leader_moves import LeaderMove
from rebalance_audit.domain.reassign.model import Reassignment


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterRows:
    """The rows that incidents are made of, of one cluster and one range of time."""

    cluster_id: str
    now_ms: int
    """The end of the cluster's evidence, never the wall clock."""
    groups: Mapping[str, Sequence[Rebalance]] = field(default_factory=dict)
    """Measured, in order, by group. Members that stayed and movements of members that stayed may be left out."""
    tasks: Sequence[ConnectTask] = ()
    """Intervals that have not ended are enough."""
    reassignments: Sequence[Reassignment] = ()
    leader_moves: Sequence[LeaderMove] = ()
    findings: Sequence[tuple[str | None, Finding]] = ()
    """Each with the group whose history shows it; None where it is about no group."""
    limits: Callable[[str], Limits] = lambda group_id: DEFAULT
    first_places: Mapping[str, int] = field(default_factory=dict)
    """The place of each group's first rebalance here in its whole history, where that is known."""
    storms: Mapping[str, StormBefore] = field(default_factory=dict)
    """By group the storm that was going on before its first rebalance here."""


def narrowed(rebalance: Rebalance) -> Rebalance:
    """What incidents ask of a rebalance, as the stages read it (`spark_jobs/incidents/rows.py`): less than half of
    its memory. Three hours of a busy cluster are 50,000."""
    gone = {member_id for trigger in rebalance.triggers for member_id in trigger.members}
    return changed(
        rebalance,
        members=tuple(m for m in rebalance.members if m.change != MemberChange.STAYED),
        movements=tuple(
            Movement(
                resource_type=m.resource_type, resource=m.resource, kind=m.kind, from_member_id=m.from_member_id,
                stopped_at_lower_ms=m.stopped_at_lower_ms,
            )
            for m in rebalance.movements
            if m.from_member_id in gone
        ),
        standstills=(),
    )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Incident:
    """One trouble, from its cause to its last consequence; columns of gold.incident."""

    cluster_id: str
    incident_id: str
    kind: str
    """One of tables.INCIDENT_KINDS."""
    root_cause: str
    """A trigger, what blocks a reassignment, or the id of the rule that alone shows it."""
    root_cause_tier: str
    culprits: tuple[str, ...] = ()
    """Instance id, worker URL or client id of members, `broker 4`; who came or went where nobody is at fault."""
    hosts: tuple[str, ...] = ()
    """Where those members ran, in their order, each once, as Kafka writes it: `/10.0.0.9`. Workers have theirs in their
    URL. None where no evidence names it."""
    group_ids: tuple[str, ...] = ()
    connectors: tuple[str, ...] = ()
    """Connect: those whose change began it, and those that its findings are about."""
    rebalance_ids: tuple[str, ...] = ()
    """By time, then group."""
    reassignment_ids: tuple[str, ...] = ()
    finding_ids: tuple[str, ...] = ()
    first_at_ms: int
    last_at_ms: int
    """When the last thing that belongs to it happened, also while it is open."""
    status: str
    """`open` or `over`: over when nothing is left to settle and it was quiet for the limit."""
    still: str | None = "nothing"
    """One of tables.INCIDENT_STILL; None of an open finding that is about neither members nor tasks nor replicas."""
    expected: bool
    """Normal work: deploys, scaling, changes on purpose. It has a cost all the same."""
    severity: str
    unit: str = "resource"
    """What its cost counts: see `numbers.unit_of`."""
    cost_seconds: float | None = None
    """Resource-seconds of its rebalances; None: of none of them known."""
    cost_lower_seconds: float | None = None
    cost_upper_seconds: float | None = None
    """None: nothing bounds it."""
    cost_likely_lower_seconds: float | None = None
    cost_likely_upper_seconds: float | None = None
    """Nine of ten truths lie between these two."""
    title: str
    story: str
    """Three sentences: what happened, what it did, how it stands."""
    advice: str | None = None
    chain: tuple[Link, ...] = ()
    evidence: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeMark:
    """A deploy or a change of configuration, to be drawn on time lines; columns of gold.mark."""

    cluster_id: str
    at_ms: int
    source: str
    """`evidence` or `told`."""
    text: str
    scope: str
    """A group, or a pattern of groups; `*` for all."""
    evidence: tuple[str, ...] = ()


def incident_row(incident: Incident) -> dict[str, Any]:
    """Columns of gold.incident."""
    row = {name: getattr(incident, name) for name in Incident.__dataclass_fields__}
    row["chain"] = [{"at_ms": e.at_ms, "what": e.what, "evidence": list(e.evidence)} for e in incident.chain]
    return row


def incident_of(row: Mapping[str, Any]) -> Incident:
    """The incident of a row of gold.incident."""
    values = {name: row[name] for name in Incident.__dataclass_fields__ if name in row}
    for name, value in values.items():
        if isinstance(value, list):
            values[name] = tuple(value)
    values["connectors"] = values.get("connectors") or ()  # null in rows older than the column, as the next two
    values["hosts"] = values.get("hosts") or ()
    values["unit"] = values.get("unit") or "resource"
    chain = (Link(at_ms=e["at_ms"], what=e["what"], evidence=tuple(e["evidence"] or ())) for e in row["chain"] or ())
    return Incident(**values | {"chain": tuple(chain)})


def mark_row(mark: ChangeMark) -> dict[str, Any]:
    """Columns of gold.mark. The same mark has the same id: given twice, it is there once."""
    parts = "\x00".join((mark.cluster_id, str(mark.at_ms), mark.source, mark.scope, mark.text))
    mark_id = f"mk:{hashlib.sha256(parts.encode('utf-8', 'surrogatepass')).hexdigest()[:16]}"
    return {"mark_id": mark_id} | {name: getattr(mark, name) for name in ChangeMark.__dataclass_fields__}
