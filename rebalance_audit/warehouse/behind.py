"""Whether the tables are behind: a note beside them, from `watch` for the app and the exporter."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from rebalance_audit.warehouse.warehouse import Warehouse

NOTE = "behind"
LAST_RUN = "last_run"
"""The note in which a run leaves its times and counts."""


@dataclass(frozen=True, slots=True)
class Behind:
    """What `watch` said after its last round of the stages, by the clock of its host."""

    said_at_ms: int
    since_ms: int | None = None
    """What was landed from this instant on is not in the tables. None: they keep up."""
    round_ms: int | None = None
    """How long the round took, if they are behind."""


def keep(warehouse: Warehouse, behind: Behind) -> None:
    warehouse.remember(NOTE, asdict(behind))


def kept(warehouse: Warehouse) -> Behind | None:
    """None where it is not known: no `watch` says it, or another run has ended since the tables were behind."""
    try:
        behind = Behind(**warehouse.recall(NOTE))
    except TypeError:
        return None
    if behind.since_ms is not None and warehouse.recall(LAST_RUN).get("ended_at_ms", 0) > behind.said_at_ms:
        return None
    return behind
