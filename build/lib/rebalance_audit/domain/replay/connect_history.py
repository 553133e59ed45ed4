"""The script of a Connect cluster: its workers' lives, and what became of its connectors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from rebalance_audit.domain.causes import Cause
from rebalance_audit.domain.client_families import ClientFamily
from rebalance_audit.domain.model import Member, Rebalance

from .assignors import Partition
from .connect import CONNECTOR_ITSELF
from .history import ScriptReader, script_from
from .life import Grown, Life, Moment, Script

CONFIGURED = frozenset({Cause.CONNECT_CONFIG_CHANGED})


@dataclass(slots=True)
class ConnectReader(ScriptReader):
    resources: dict[str, Partition] = field(default_factory=dict)
    """The connector or task each resource's text names; a connector may have a name that reads like another's task."""
    is_there_from_the_beginning: bool = False

    def sees_partitions(self, row: Rebalance, start: Moment, is_first: bool) -> None:
        """Only a change of configuration changes what there is: what waits for its worker is not gone."""
        for movement in row.movements:
            if movement.connector is not None:
                task = CONNECTOR_ITSELF if movement.task is None else movement.task
                self.resources[movement.resource] = (movement.connector, task)
        there = [self.meaning(text) for m in row.members for text in m.assigned or ()]
        counts: dict[str, int] = {}
        for name, task in there:
            counts[name] = max(counts.get(name, 0), task + 1)
        if row.trigger in CONFIGURED:
            kept = {name: count for name, count in self.partitions.items() if name in counts}
            self.partitions = {name: max(count, kept.get(name, 0)) for name, count in counts.items()}
            self.grown.append(Grown(at_ms=start.at_ms, partitions=dict(self.partitions)))
        elif is_first or not self.partitions:
            self.partitions = counts

    def meaning(self, text: str) -> Partition:
        """The meaning a movement gives it; else a number at the end is a task's."""
        name, _, number = text.rpartition("-")
        is_task = bool(name) and number.isascii() and number.isdigit()
        return self.resources.get(text) or ((name, int(number)) if is_task else (text, CONNECTOR_ITSELF))

    def weighs_cause(self, row: Rebalance, start: Moment) -> None:
        if row.outcome == "missing" or (row.trigger == Cause.UNKNOWN):
            self.unexplained.append(f"generation {row.generation_id}: {row.trigger}")

    def life_of(self, member: Member, started: Moment | None) -> Life:
        member = replace(member, client_id=member.worker_url or member.client_id, client_libraries=(ClientFamily.JAVA,))
        return ScriptReader.life_of(self, member, started)

    def with_owned(self, life: Life, member: Member) -> Life:
        return replace(life, owned_at_first=tuple(map(self.meaning, member.owned_before or ())))


def connect_script_of(rows: Sequence[Rebalance], until_ms: int) -> Script:
    """`rows` in the order they happened, measured; those of one Connect cluster."""
    return script_from(rows, until_ms, ConnectReader)


def connect_delay_of(rows: Sequence[Rebalance]) -> int:
    """scheduled.rebalance.max.delay.ms as the longest delay shows it; Connect's default where none was announced."""
    return max((r.connect_delay_ms or 0 for r in rows), default=0) or 300_000
