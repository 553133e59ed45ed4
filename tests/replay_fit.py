"""How well the golden captures' histories come out again when they are replayed as they were.

python -m tests.replay_fit [CAPTURE…]
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from rebalance_audit.domain.measure.pauses import measure
from rebalance_audit.domain.reconstruct import reconstruct
from rebalance_audit.domain.replay.situation import TooLittle, situation_of
from rebalance_audit.domain.replay.whatif import fit_of
from tests.captures import CAPTURES, gathered, name_of
from tests.standstill_truth import true_standstill
from tests.truth import scenario

AFTER_THE_END_MS = 1_000


def fits(captures: Sequence[Path]) -> Iterator[str]:
    """One row of a table per group that has rebalances; captures without one are left out."""
    yield "| capture, group | rebalances | causes | replayed s | measured s | bounds | clients s | |"
    yield "| --- | --- | --- | --- | --- | --- | --- | --- |"
    for capture in captures:
        for group in gathered(capture).groups:
            rows = [measure(r) for r in reconstruct(group).rebalances]
            if not rows:
                continue
            name = f"{name_of(capture)}, `{group.group_id[:24]}`" if group.group_id.isprintable() else name_of(capture)
            try:
                situation = situation_of(rows, max(r.ended_at_ms or 0 for r in rows) + AFTER_THE_END_MS)
                fit = fit_of(situation)
            except TooLittle as reason:
                said = str(reason).split(": ", 1)[-1] if "too short" in str(reason) else str(reason).split("; ")[-1]
                yield f"| {name} | | | | | | | {said[:70]} |"
                continue
            upper = "…" if fit.measured_upper_seconds is None else f"{fit.measured_upper_seconds:.1f}"
            yield (
                f"| {name} | {fit.rebalances:.0%} | {fit.causes:.0%} | {fit.cost_seconds:.1f} | "
                f"{fit.measured_seconds:.1f} | {fit.measured_lower_seconds:.1f} – {upper} | "
                f"{clients_seconds(capture, group.group_id)} | {fit.refused or ''} |"
            )


def clients_seconds(capture: Path, group_id: str) -> str:
    """By the clients' own clocks, without first waits; nothing for Connect, whose workers keep no such clock."""
    story = scenario(capture)["groups"].get(group_id, {})
    if not story or story.get("protocol_type") == "connect":
        return ""
    truth = true_standstill(capture, group_id)
    return f"{truth.between_owners_seconds + truth.owner_idle_seconds:.1f}"


if __name__ == "__main__":
    for line in fits([Path(argument) for argument in sys.argv[1:]] or CAPTURES):
        print(line)
