"""How well the golden captures' histories come out again when they are replayed as they were.

python -m tests.replay_fit [CAPTURE…]
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from rebalance_audit.domain.measure.pauses import measure
from rebalance_audit.domain.reconstruct import reconstruct
from rebalance_audit.domain.replay.situation import TooLittle, situation_of
from rebalance_audit.domain.replay.whatif import LEAST_FIT, Fit, fit_of
from tests.captures import CAPTURES, gathered, name_of
from tests.standstill_truth import true_standstill
from tests.truth import scenario

AFTER_THE_END_MS = 1_000
SHORT_SECONDS = 0.5


def fits(captures: Sequence[Path]) -> Iterator[str]:
    """One row of a table per group that has rebalances, and what they come to; captures without one are left out."""
    found: list[tuple[Fit, str]] = []
    yield "| capture, group | rebalances | causes | replayed s | measured s | bounds | clients s | refused for |"
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
            clients = clients_seconds(capture, group.group_id)
            found.append((fit, clients))
            upper = "…" if fit.measured_upper_seconds is None else f"{fit.measured_upper_seconds:.1f}"
            yield (
                f"| {name} | {fit.rebalances:.0%} | {fit.causes:.0%} | {fit.cost_seconds:.1f} | "
                f"{fit.measured_seconds:.1f} | {fit.measured_lower_seconds:.1f} – {upper} | "
                f"{clients} | {_refused_for(fit)} |"
            )
    yield ""
    yield from _summed_up(found)


def _refused_for(fit: Fit) -> str:
    if fit.refused is None:
        return ""
    return "its causes" if min(fit.rebalances, fit.causes) < LEAST_FIT else "its cost"


def _summed_up(found: Sequence[tuple[Fit, str]]) -> Iterator[str]:
    """Shares of costs above SHORT_SECONDS."""
    said = [(fit, clients) for fit, clients in found if fit.refused is None]
    whole = sum(fit.rebalances == fit.causes == 1 for fit, _ in found)
    yield (
        f"{len(found)} groups: {whole} come out with every rebalance and every cause; "
        f"{len(found) - len(said)} are refused."
    )
    measured = [(fit.cost_seconds, fit.measured_seconds) for fit, _ in said]
    clocks = [(fit.cost_seconds, float(clients)) for fit, clients in said if clients]
    for what, pairs in (("what was measured", measured), ("the clients' own clocks", clocks)):
        off = sorted(abs(cost / seconds - 1) for cost, seconds in pairs if seconds > SHORT_SECONDS)
        yield (
            f"Of the others the cost is off from {what} by {statistics.median(off):.1%} in the median and by "
            f"{off[len(off) * 9 // 10]:.0%} at the ninth decile ({len(off)})."
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
