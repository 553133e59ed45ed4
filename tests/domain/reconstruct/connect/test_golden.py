"""Captures of real Connect clusters against what their tasks did: running sets, causes, starts, stops, waits.

The expected values are the tasks' own start() and stop() and the scenario's script, never our output.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from rebalance_audit.domain.measure.pauses import measure
from rebalance_audit.domain.model import GroupEvidence
from rebalance_audit.domain.reconstruct import Reconstruction, reconstruct
from rebalance_audit.domain.reconstruct.connect.rebalances import is_connect_group
from tests.captures import CAPTURES, gathered, name_of
from tests.connect_scores import ConnectTally, score_connect, with_worker_names
from tests.connect_truth import contradicted_words, true_pauses, true_runs, true_steps, worker_urls
from tests.score import steps_of
from tests.truth import score_pauses

CONNECT_CAPTURES = [c for c in CAPTURES if c.name.startswith("connect_")]
GROUP = "connect-lab"


def _is_of_worker(kind: str) -> bool:
    return kind.startswith(("worker_", "client_"))


Cut = Callable[[GroupEvidence], GroupEvidence]
VARIANTS: dict[str, Cut] = {
    "everything": lambda e: e,
    "no-worker-logs": lambda e: replace(e, lines=tuple(x for x in e.lines if not _is_of_worker(x.kind))),
    "no-broker-logs": lambda e: replace(e, lines=tuple(x for x in e.lines if _is_of_worker(x.kind))),
    "no-statuses": lambda e: replace(e, statuses=()),
    "topics-only": lambda e: replace(e, lines=()),
    "group-records-only": lambda e: replace(e, lines=(), statuses=(), configs=()),
    "logs-only": lambda e: replace(e, records=(), statuses=(), configs=()),
    "worker-logs-only": lambda e: replace(
        e, records=(), statuses=(), configs=(), lines=tuple(x for x in e.lines if _is_of_worker(x.kind))
    ),
}
SAY_CAUSES = ("everything", "no-worker-logs", "no-broker-logs", "no-statuses", "topics-only", "group-records-only")
SEE_RESTARTS = tuple(v for v in VARIANTS if v != "group-records-only")
"""Without statuses and workers' logs nothing shows a task that was restarted where it is."""
SEE_PAUSES = ("everything", "no-worker-logs", "no-broker-logs", "topics-only")
"""That somebody paused a connector stands in its status alone."""


def scenario(capture: Path) -> dict[str, Any]:
    return json.loads((capture / "truth" / "scenario.json").read_text())


@cache
def reconstructed(capture: Path, variant: str) -> Reconstruction:
    group = next(g for g in gathered(capture).groups if g.group_id == GROUP)
    found = reconstruct(VARIANTS[variant](group))
    return replace(found, rebalances=tuple(measure(r) for r in found.rebalances))


@cache
def scored(capture: Path, variant: str) -> ConnectTally:
    return score_connect(capture, reconstructed(capture, variant))


def expected_rebalances(capture: Path) -> list[dict[str, Any]]:
    return scenario(capture)["groups"][GROUP]["rebalances"]


every_capture = pytest.mark.parametrize("capture", CONNECT_CAPTURES, ids=name_of)
every_variant = pytest.mark.parametrize("variant", VARIANTS)


@every_capture
def test_the_truth_does_not_contradict_itself(capture: Path) -> None:
    """What the workers say that they run, and what the tasks wrote down."""
    checked, faults = contradicted_words(capture)
    assert not faults
    assert checked >= 4


@every_capture
@every_variant
def test_every_rebalance_is_found_and_none_invented(capture: Path, variant: str) -> None:
    found = reconstructed(capture, variant).rebalances
    shown = [(r.generation_id, r.kind, r.outcome) for r in found]
    assert shown == [(x["number"], x["kind"], x["outcome"]) for x in expected_rebalances(capture)]
    group = scenario(capture)["groups"][GROUP]
    assert {r.protocol_type for r in found} == {"connect"}
    # Up to 2.3 no line names the protocol (docs/versions.md).
    is_said = not (capture.parent.name == "2.3.1" and variant.endswith("logs-only"))
    assert [(r.mode, r.assignor) for r in found] == [
        (x.get("mode", group["mode"]), x.get("assignor", group["assignor"]) if is_said else None)
        for x in expected_rebalances(capture)
    ]


@every_capture
@pytest.mark.parametrize("variant", SAY_CAUSES)
def test_the_causes_are_those_of_the_script(capture: Path, variant: str) -> None:
    for rebalance, x in zip(reconstructed(capture, variant).rebalances, expected_rebalances(capture), strict=True):
        may_be_silent = {"unknown"} if variant == "group-records-only" and _is_departure(x["trigger"]) else set()
        assert rebalance.trigger in {x["trigger"], *may_be_silent}, (x["number"], rebalance.triggers)
        for word in x.get("note", "").split()[-1:] if variant == "everything" else ():
            assert word in (rebalance.trigger_detail or "")


@every_capture
@every_variant
def test_members_are_those_of_the_script(capture: Path, variant: str) -> None:
    url = {name: url for url, name in worker_urls(capture).items()}
    for rebalance, x in zip(reconstructed(capture, variant).rebalances, expected_rebalances(capture), strict=True):
        present = {m.worker_url for m in rebalance.members if m.change != "left"}
        assert present == {url[name] for name in x["members"]}, x["number"]


@every_capture
@every_variant
def test_each_worker_runs_what_it_says_it_was_given(capture: Path, variant: str) -> None:
    tally = scored(capture, variant)
    assert tally.sets_exact == tally.sets, tally.remarks


@every_capture
@every_variant
def test_every_start_and_stop_shown_lies_inside_its_bounds(capture: Path, variant: str) -> None:
    tally = scored(capture, variant)
    if variant not in SEE_RESTARTS:
        return  # two runs may be shown as one
    assert not tally.faults, tally.remarks
    if variant in SEE_PAUSES:
        assert (tally.runs_found, tally.stops_missed) == (tally.runs, 0), tally.remarks


@every_capture
@pytest.mark.parametrize("variant", SEE_RESTARTS)
def test_every_hand_over_is_shown_with_its_owners_and_its_pause_inside_the_bounds(capture: Path, variant: str) -> None:
    watched = with_worker_names(reconstructed(capture, variant).rebalances, capture)
    assert steps_of(watched) == true_steps(capture, GROUP)
    pauses = score_pauses(watched, true_pauses(capture, GROUP))
    assert (pauses.inside, pauses.unmatched, pauses.outside) == (pauses.pauses, [], [])
    # Where nothing shows how the worker went, its death is guessed within its last session.
    guessed = [p for p in true_pauses(capture, GROUP) if p.pause_ms > 10_000]
    assert max(pauses.errors_ms, default=0) < (8_000 if guessed else 2_000)


@every_capture
@pytest.mark.parametrize("variant", [v for v in VARIANTS if v != "group-records-only"])
def test_who_waited_for_the_delay_and_how_long_is_exact(capture: Path, variant: str) -> None:
    tally = scored(capture, variant)
    assert not tally.waits_wrong, tally.remarks
    if variant in SEE_PAUSES:
        assert tally.waits_exact == tally.waits, tally.remarks
    # Without its status, a connector's start is known by the line that it was created, up to 0.2 s before.
    assert max(tally.wait_errors_ms, default=0) < 300


LOST = [c for c in CONNECT_CAPTURES if c.name == "connect_worker_lost"]


@pytest.mark.parametrize("capture", LOST, ids=name_of)
@pytest.mark.parametrize("variant", ["everything", "no-worker-logs", "topics-only", "group-records-only"])
def test_until_the_group_misses_a_dead_worker_its_tasks_are_lost_and_then_wait(capture: Path, variant: str) -> None:
    truth = true_runs(capture)
    dead = {name.partition(" ")[2] for name, runs in truth.items() if any(r.ended_by == "killed" for r in runs)}
    tasks = reconstructed(capture, variant).connect_tasks
    is_death_known = variant != "group-records-only"
    unnoticed = [t for t in tasks if t.state == ("LOST" if is_death_known else "UNASSIGNED")]
    assert {f"{t.connector}-{t.task}" if t.task is not None else t.connector for t in unnoticed} == dead
    assert not any(t.expected for t in unnoticed)
    assert all(t.expected for t in tasks if t.state == "WAITING")
    delays = [r.connect_delay_ms for r in reconstructed(capture, variant).rebalances]
    assert delays[-2:] == [20_000, 0]
    assert not any(delays[:-2])


def _is_departure(trigger: str) -> bool:
    return "expired" in trigger or trigger == "connect_worker_left"


@every_capture
@every_variant
def test_the_order_of_evidence_does_not_matter(capture: Path, variant: str) -> None:
    group = VARIANTS[variant](next(g for g in gathered(capture).groups if g.group_id == GROUP))
    turned = replace(
        group,
        records=group.records[::-1],
        lines=group.lines[::-1],
        statuses=group.statuses[::-1],
        configs=group.configs[::-1],
    )
    assert reconstruct(turned) == reconstruct(group)


@every_capture
def test_no_property_of_a_connector_comes_through(capture: Path) -> None:
    assert "made-up-secret" not in str(reconstructed(capture, "everything"))


@every_capture
@pytest.mark.parametrize("seed", range(40))
def test_whatever_part_of_the_evidence_is_left_the_rows_keep_their_laws(capture: Path, seed: int) -> None:
    """Compaction, rotation and late arrival leave any part; nothing may fail, no key come twice, no bound cross."""
    rng = random.Random(seed)
    group = next(g for g in gathered(capture).groups if g.group_id == GROUP)
    share = rng.choice((0.2, 0.5, 0.9))
    some: dict[str, Any] = {
        name: tuple(item for item in getattr(group, name) if rng.random() < share)
        for name in ("records", "lines", "statuses", "configs")
    }
    left = replace(group, **some)
    if not is_connect_group(left):
        return
    found = reconstruct(left)
    rows = [measure(r) for r in found.rebalances]
    assert len({r.rebalance_id for r in rows}) == len(rows)
    for rebalance in rows:
        assert rebalance.evidence or rebalance.outcome == "missing"
        assert len({m.member_id for m in rebalance.members}) == len(rebalance.members)
        assert len({(m.resource_type, m.resource) for m in rebalance.movements}) == len(rebalance.movements)
        for m in rebalance.movements:
            assert _in_order(m.pause_lower_ms, m.pause_estimate_ms, m.pause_upper_ms)
            assert m.kind not in ("assigned", "revoked") or m.pause_estimate_ms is None
            assert m.evidence
    keys = [(t.resource_type, t.connector, t.task, t.from_ms, t.state) for t in found.connect_tasks]
    assert len(set(keys)) == len(keys)
    for task in found.connect_tasks:
        assert _in_order(task.from_ms, task.to_ms)
        assert _in_order(task.from_lower_ms, task.from_ms, task.from_upper_ms)
        assert _in_order(task.to_lower_ms, task.to_ms, task.to_upper_ms)
        assert task.evidence


def _in_order(*values: int | None) -> bool:
    known = [v for v in values if v is not None]
    return known == sorted(known)
