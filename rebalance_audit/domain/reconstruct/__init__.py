"""All rebalances of one group, from everything known about it. Any order of evidence gives the same result."""

from __future__ import annotations

from rebalance_audit.domain.model import GroupEvidence, Rebalance

from .classic import reconstruct_classic
from .connect import is_connect_group, reconstruct_connect
from .modern import reconstruct_modern
from .reconstruction import Reconstruction

__all__ = ["Reconstruction", "reconstruct"]


def reconstruct(evidence: GroupEvidence) -> Reconstruction:
    """Each event of the evidence belongs to one rebalance or to none; commits alone make no rebalance."""
    if is_connect_group(evidence):
        return reconstruct_connect(evidence)
    classic, modern = reconstruct_classic(evidence), reconstruct_modern(evidence)
    if not modern:
        return Reconstruction(rebalances=tuple(classic))
    # A converted group goes on counting: numbers one side lacks are the other side's.
    numbers = {r.group_epoch for r in modern if r.outcome != "missing"} | {
        r.generation_id for r in classic if r.outcome != "missing"
    }
    rows = [r for r in (*classic, *modern) if r.outcome != "missing" or _number(r) not in numbers]
    rows.sort(key=lambda r: (_number(r), r.group_epoch is not None, r.rewrite_seq))
    return Reconstruction(rebalances=tuple(rows))


def _number(rebalance: Rebalance) -> int:
    return (rebalance.generation_id if rebalance.generation_id is not None else rebalance.group_epoch) or 0
