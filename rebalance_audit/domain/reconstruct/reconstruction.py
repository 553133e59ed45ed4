"""What reconstruct gives back."""

from __future__ import annotations

from dataclasses import dataclass

from rebalance_audit.domain.model import ConnectTask, Rebalance


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconstruction:
    """Rebalances in the order they happened, unmeasured; intervals of Connect's connectors and tasks."""

    rebalances: tuple[Rebalance, ...]
    connect_tasks: tuple[ConnectTask, ...] = ()
