"""Captures of real Connect clusters against what their tasks did: running sets, causes, starts, stops, waits.

The expected values are the tasks' own start() and stop() and the scenario's script, never our output.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from rebalance_audit.domain.measure import measure
from rebalance_audit.domain.model import ConnectTask, GroupEvidence, Movement, Rebalance
from rebalance_audit.domain.reconstruct import Reconstruction, reconstruct
from rebalance_audit.domain.reconstruct.connect import is_connect_group
from tests.captures import CAPTURES, gathered, name_of

CONNECT_CAPTURES = [c for c in CAPTURES if "connect" in c.name]
ENDS_GAIN, ENDS_LOSS = ("task_start_end", "connector_start"), ("task_stop_begin", "connector_stop")
SETTLED_MS = 3_000
"""No task starts or stops so shortly before a generation's end."""


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


@dataclass(frozen=True)
class TrueRun:
    """A resource ran on a worker; `end_ms` None: until the capture ended."""

    worker: str
    start_ms: int
    end_ms: int | None
    was_killed: bool = False


def scenario(capture: Path) -> dict[str, Any]:
    return json.loads((capture / "truth" / "scenario.json").read_text())  # type: ignore[no-any-return]


def true_runs(capture: Path) -> dict[str, list[TrueRun]]:
    """By resource; a connector's key begins with `connector `."""
    found: dict[str, list[TrueRun]] = {}
    for line in (capture / "truth" / "clients.jsonl").read_text().splitlines():
        event = json.loads(line)
        worker, at_ms, kind = event["client"], event["at_ms"], event["event"]
        keys = [*event.get("tasks", ()), *(f"connector {c}" for c in event.get("connectors", ()))]
        if kind in ENDS_GAIN:
            for key in keys:
                found.setdefault(key, []).append(TrueRun(worker, at_ms, None))
        for key in keys if kind in ENDS_LOSS else ():
            found[key] = [_ended(r, worker, at_ms, killed=False) for r in found[key]]
        if kind == "killed":
            found = {key: [_ended(r, worker, at_ms, killed=True) for r in runs] for key, runs in found.items()}
    return found


def _ended(run: TrueRun, worker: str, at_ms: int, *, killed: bool) -> TrueRun:
    return run if run.worker != worker or run.end_ms is not None else replace(run, end_ms=at_ms, was_killed=killed)


def reconstructed(capture: Path, variant: str) -> Reconstruction:
    group = next(g for g in gathered(capture).groups if g.group_id == "connect-lab")
    found = reconstruct(VARIANTS[variant](group))
    return replace(found, rebalances=tuple(measure(r) for r in found.rebalances))


def urls(capture: Path) -> dict[str, str]:
    return {w["client"]: w["worker_url"] for w in scenario(capture)["workers"]}


def key_of(row: ConnectTask | Movement) -> str:
    return f"connector {row.connector}" if row.task is None else f"{row.connector}-{row.task}"


def expected_rebalances(capture: Path) -> list[dict[str, Any]]:
    return scenario(capture)["groups"]["connect-lab"]["rebalances"]  # type: ignore[no-any-return]


every_capture = pytest.mark.parametrize("capture", CONNECT_CAPTURES, ids=name_of)
every_variant = pytest.mark.parametrize("variant", VARIANTS)


@every_capture
@every_variant
def test_every_rebalance_is_found_and_none_invented(capture: Path, variant: str) -> None:
    found = reconstructed(capture, variant).rebalances
    told = [(r.generation_id, r.kind, r.outcome) for r in found]
    assert told == [(x["number"], x["kind"], x["outcome"]) for x in expected_rebalances(capture)]
    group = scenario(capture)["groups"]["connect-lab"]
    assert {(r.mode, r.assignor, r.protocol_type) for r in found} == {(group["mode"], group["assignor"], "connect")}


@every_capture
@pytest.mark.parametrize("variant", SAY_CAUSES)
def test_the_causes_are_those_of_the_script(capture: Path, variant: str) -> None:
    for rebalance, x in zip(reconstructed(capture, variant).rebalances, expected_rebalances(capture), strict=True):
        may_be_silent = {"unknown"} if variant == "group-records-only" and "expired" in x["trigger"] else set()
        assert rebalance.trigger in {x["trigger"], *may_be_silent}, (x["number"], rebalance.triggers)
        for word in x.get("note", "").split()[-1:] if variant == "everything" else ():
            assert word in (rebalance.trigger_detail or "")


@every_capture
@every_variant
def test_members_are_those_of_the_script(capture: Path, variant: str) -> None:
    url = urls(capture)
    for rebalance, x in zip(reconstructed(capture, variant).rebalances, expected_rebalances(capture), strict=True):
        present = {m.worker_url for m in rebalance.members if m.change != "left"}
        assert present == {url[name] for name in x["members"]}, x["number"]


@every_capture
@every_variant
def test_each_worker_runs_what_its_tasks_say(capture: Path, variant: str) -> None:
    """Between two generations nothing starts or stops: what runs just before the next is what this one assigned."""
    name_of_url = {url: name for name, url in urls(capture).items()}
    runs = true_runs(capture)
    found = reconstructed(capture, variant).rebalances
    checked = 0
    for rebalance, following in zip(found, [*found[1:], None], strict=True):
        at_ms = _quiet_moment(rebalance, following, runs)
        if at_ms is None:
            continue
        checked += 1
        for member in (m for m in rebalance.members if m.change != "left"):
            name = name_of_url[member.worker_url or ""]
            truth = {k.removeprefix("connector ") for k, r in _running(runs, at_ms) if r.worker == name}
            assert set(member.assigned or ()) == truth, (rebalance.generation_id, name)
    assert checked >= 2


def _quiet_moment(rebalance: Rebalance, following: Rebalance | None, runs: dict[str, list[TrueRun]]) -> int | None:
    """Just before the next generation was prepared, if its own assignment was carried out by then."""
    if following is None:
        return 1 << 61
    began_ms = following.started_at_ms or following.joined_at_ms or following.assigned_at_ms or 0
    last_change_ms = max(
        (t for rs in runs.values() for r in rs for t in (r.start_ms, r.end_ms) if t is not None and t < began_ms),
        default=0,
    )
    is_carried_out = (rebalance.assigned_at_ms or 0) < last_change_ms or not any(m.added for m in rebalance.members)
    has_room = began_ms - max(last_change_ms, rebalance.assigned_at_ms or 0) > SETTLED_MS
    return began_ms - 1 if is_carried_out and has_room and not _is_killed_meanwhile(rebalance, began_ms, runs) else None


def _is_killed_meanwhile(rebalance: Rebalance, before_ms: int, runs: dict[str, list[TrueRun]]) -> bool:
    return any(
        r.was_killed and (rebalance.assigned_at_ms or 0) < (r.end_ms or 0) < before_ms
        for rs in runs.values()
        for r in rs
    )


def _running(runs: dict[str, list[TrueRun]], at_ms: int) -> Iterator[tuple[str, TrueRun]]:
    for key, found in runs.items():
        for run in found:
            if run.start_ms <= at_ms and (run.end_ms is None or at_ms < run.end_ms):
                yield key, run


@every_capture
@every_variant
def test_every_start_and_stop_lies_inside_its_bounds(capture: Path, variant: str) -> None:
    url = urls(capture)
    rows: dict[str, list[ConnectTask]] = {}
    for row in reconstructed(capture, variant).connect_tasks:
        if row.state == "RUNNING":
            rows.setdefault(key_of(row), []).append(row)
    truth = true_runs(capture)
    assert rows.keys() == truth.keys()
    for key, runs in truth.items():
        assert [r.worker_url for r in rows[key]] == [url[r.worker] for r in runs]
        for row, run in zip(rows[key], runs, strict=True):
            assert (row.from_lower_ms or 0) <= run.start_ms <= (row.from_upper_ms or 1 << 62), (key, "start")
            assert (run.end_ms is None) == (row.to_ms is None)
            if run.end_ms is not None:
                assert (row.to_lower_ms or 0) <= run.end_ms <= (row.to_upper_ms or 1 << 62), (key, "stop")
                how_it_went = "worker_gone" if variant in ("group-records-only", "worker-logs-only") else "worker_lost"
                assert row.ended_by == (how_it_went if run.was_killed else "revoked")


@every_capture
@every_variant
def test_every_pause_lies_inside_its_bounds(capture: Path, variant: str) -> None:
    movements = {
        key_of(m): m for r in reconstructed(capture, variant).rebalances for m in r.movements if m.kind == "moved"
    }
    pauses = {k: r[1].start_ms - (r[0].end_ms or 0) for k, r in true_runs(capture).items() if len(r) > 1}
    assert movements.keys() == pauses.keys()
    # Where nothing tells how the worker went, its death is guessed within its last session.
    largest_ms = 8_000 if variant in ("group-records-only", "worker-logs-only") else 4_000
    for key, pause_ms in pauses.items():
        found = movements[key]
        assert (found.pause_lower_ms or 0) <= pause_ms <= (found.pause_upper_ms or 1 << 62), key
        assert found.pause_estimate_ms is not None
        assert abs(found.pause_estimate_ms - pause_ms) < (500 if pause_ms < 10_000 else largest_ms)
        assert found.revoked_in_rebalance_id is not None
        assert (
            found.pause_upper_ms is not None
            or variant in ("no-statuses", "group-records-only", "logs-only")
            or (found.task is None and variant == "worker-logs-only")
        )


LOST = [c for c in CONNECT_CAPTURES if c.name == "connect_worker_lost"]


@pytest.mark.parametrize("capture", LOST, ids=name_of)
@pytest.mark.parametrize("variant", ["everything", "no-worker-logs", "topics-only", "group-records-only"])
def test_what_the_dead_worker_ran_waits_for_the_delay_and_nothing_else_does(capture: Path, variant: str) -> None:
    truth = true_runs(capture)
    lost = {key for key, runs in truth.items() if any(r.was_killed for r in runs)}
    found = reconstructed(capture, variant)
    waits = {key_of(t): t for t in found.connect_tasks if t.state == "WAITING"}
    assert waits.keys() == lost
    for key, wait in waits.items():
        assert wait.expected
        assert abs((wait.to_ms or 0) - wait.from_ms - 20_000) < 150, "the delay the scenario sets, and the start"
        assert abs((wait.to_ms or 0) - truth[key][1].start_ms) < 150
    is_death_known = variant != "group-records-only"
    unnoticed = [t for t in found.connect_tasks if t.state == ("LOST" if is_death_known else "UNASSIGNED")]
    assert {key_of(t) for t in unnoticed} == lost
    assert not any(t.expected for t in unnoticed)
    delays = [r.connect_delay_ms for r in found.rebalances]
    assert delays[-2:] == [20_000, 0]
    assert not any(delays[:-2])


@every_capture
@every_variant
def test_the_order_of_evidence_does_not_matter(capture: Path, variant: str) -> None:
    group = VARIANTS[variant](next(g for g in gathered(capture).groups if g.group_id == "connect-lab"))
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
    group = next(g for g in gathered(capture).groups if g.group_id == "connect-lab")
    share = rng.choice((0.2, 0.5, 0.9))
    left = replace(
        group,
        **{
            name: tuple(item for item in getattr(group, name) if rng.random() < share)
            for name in ("records", "lines", "statuses", "configs")
        },
    )
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
