"""What the incident of a long storm says of the eras that have ended, in place of their rebalances (decision 0113)."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

from rebalance_audit.domain.cost_sums import CostSums
from rebalance_audit.domain.detect.history import Identity
from rebalance_audit.domain.frozen import by_fields
from rebalance_audit.domain.model import Trigger, from_row


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """One link of the chain from the cause to the last consequence."""

    at_ms: int
    what: str
    evidence: tuple[str, ...] = ()

    def __reduce__(self) -> tuple[Any, ...]:
        return by_fields(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class StormBefore:
    """A storm of one group up to the end of an era."""

    finding_id: str
    """That of RB001."""
    first_era: int
    until_ms: int
    """The latest instant of a rebalance of the last of these eras."""
    first_at_ms: int
    first_sign_ms: int
    """When the first thing in its chain was."""
    first_step: tuple[int, str]
    """Since when it is known what happened first, and the id of that rebalance."""
    first_failure: tuple[int, str] | None
    """The same of the first rebalance in which a member failed."""
    round_count: int
    """Without rewrites of static members, as the next."""
    rounds_from_ms: int
    causes: list[tuple[Trigger, int]]
    """The first of each cause, and how many there are; without what the protocol adds."""
    triggers: dict[str, int]
    """How many rebalances began with each."""
    moved_count: int
    counted_count: int
    longest_pause_ms: int | None
    cost: CostSums
    protocol_types: list[str | None]
    links: list[Link]
    """The begin and the end of its chain."""
    link_count: int
    """Of the whole chain."""
    finding_ids: list[str]
    failed: list[tuple[Identity, str]]
    """Of the last of these eras alone, as the next two: who failed first how."""
    turned: list[tuple[Identity, int]]
    """Who came or went, and in how many rebalances."""
    hosts: list[tuple[Identity, str]]
    """Where static members ran that failed."""
    rebalance_ids: list[str]
    """Of its last era alone in `text`."""

    def __reduce__(self) -> tuple[Any, ...]:
        return by_fields(self)

    @property
    def text(self) -> str:
        """As JSON, without the rebalances' ids."""
        row = {name: getattr(self, name) for name in self.__dataclass_fields__ if name != "rebalance_ids"}
        row["cost"] = asdict(self.cost)
        row["causes"] = [(asdict(cause), count) for cause, count in self.causes]
        row["links"] = [asdict(link) for link in self.links]
        return json.dumps(row)

    @classmethod
    def of_text(cls, text: str, rebalance_ids: list[str]) -> StormBefore:
        row: dict[str, Any] = json.loads(text)
        failure = row["first_failure"]
        return cls(**row | {
            "cost": CostSums.of_row(row["cost"]),
            "first_step": tuple(row["first_step"]),
            "first_failure": None if failure is None else tuple(failure),
            "causes": [(from_row(Trigger, cause), count) for cause, count in row["causes"]],
            "links": [Link(**link | {"evidence": tuple(link["evidence"])}) for link in row["links"]],
            "failed": [(tuple(who), way) for who, way in row["failed"]],
            "turned": [(tuple(who), count) for who, count in row["turned"]],
            "hosts": [(tuple(who), host) for who, host in row["hosts"]],
            "rebalance_ids": rebalance_ids,
        })  # fmt: skip
