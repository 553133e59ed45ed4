"""`explain --plan`: what became of each line of a plan of kafka-reassign-partitions."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rebalance_audit.commands.explain import live_partitions
from rebalance_audit.commands.options import CommandError, Output
from rebalance_audit.commands.output import json_text, write_rows
from rebalance_audit.domain.visible import visible

if TYPE_CHECKING:
    from rebalance_audit.commands.explain.places import Places, Shown
    from rebalance_audit.domain.reassign import ReassignmentHistory
    from rebalance_audit.domain.reassign.plan import PlanVerdict, ReassignmentPlan

COLUMNS = (
    "topic", "partition", "replicas", "status", "detail", "reassignment_id", "started_at_ms", "ended_at_ms", "phase",
    "stalled_since_ms", "blocked_by", "blocked_replicas",
)  # fmt: skip
_OF_REASSIGNMENT = COLUMNS[COLUMNS.index("reassignment_id") :]


def explain_plan(file: Path, places: Places, shown: Shown) -> None:
    """Print the outcome of each line of a reassignment plan. Raises UsageError and CommandError."""
    asked = read(file)  # before reading for minutes
    if places.is_brokers_alone:
        history = live_partitions.history_of_plan(places.client_config(), asked)
    else:
        _, history = places.reassignments(quiet=shown.quiet)
    write(asked, history, str(file), shown.output)


def read(file: Path) -> ReassignmentPlan:
    """The plan in a file, or on stdin. Raises CommandError."""
    from rebalance_audit.domain.reassign.plan import PlanError, read_plan

    try:
        return read_plan(file.read_text(encoding="utf-8-sig"))
    except (PlanError, UnicodeDecodeError) as error:
        fault = "The plan is not JSON (it is not even text)." if isinstance(error, UnicodeDecodeError) else str(error)
        raise CommandError(f"{file}: {fault}") from error


def write(plan: ReassignmentPlan, history: ReassignmentHistory, file: str, output: Output) -> None:
    from rebalance_audit.domain.explain.reassignment import explain_plan as plan_lines
    from rebalance_audit.domain.explain.reassignment import plan_steps, remaining, unzoned
    from rebalance_audit.domain.reassign.plan import compare, throttle_removable_since_ms

    verdicts = compare(plan.moves, history)
    if not any(verdict.is_there for verdict in verdicts):
        raise CommandError(
            f"Cluster {history.cluster_id} has none of the partitions of {file}; check whether evidence and plan are "
            f"of the same cluster."
        )
    if output is Output.TABLE:
        lines = [*plan_lines(plan, verdicts, history, file), *unzoned(history)]
        sys.stdout.write("\n".join(map(visible, lines)) + "\n")
    elif output is Output.JSON:
        shown = {
            "cluster_id": history.cluster_id,
            "seen_until_ms": history.seen_until_ms,
            "is_rollback": plan.is_rollback,
            "throttle_removable_since_ms": throttle_removable_since_ms(verdicts),
            "partitions": list(map(_row, verdicts)),
            "remaining": remaining(verdicts),
            "do": list(plan_steps(plan, verdicts, history, file)),
        }
        sys.stdout.write(json_text(shown) + "\n")
    else:
        write_rows(map(_row, verdicts), COLUMNS, output)


def _row(verdict: PlanVerdict) -> dict[str, Any]:
    r = verdict.reassignment
    known = {name: getattr(verdict, name) for name in COLUMNS if name not in _OF_REASSIGNMENT}
    return known | {name: None if r is None else getattr(r, name) for name in _OF_REASSIGNMENT}
