"""`erase` beside a `watch` that runs and has the group in its memory: real processes."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from app import clock
from app.queries import Questions
from bench.growing_cluster import BASE_MS, WrittenRebalance
from rebalance_audit.live.present import all_kept
from rebalance_audit.warehouse.warehouse import Warehouse
from tests.faults.processes import command, started

GONE, KEPT = 1, 2
PATIENCE_S = 400.0
"""On a busy machine a start alone takes half a minute."""


def test_an_erased_group_does_not_come_back_from_the_memory_of_watch(tmp_path: Path) -> None:
    logs, warehouse = tmp_path / "broker-1", tmp_path / "w"
    logs.mkdir()
    log = logs / "server.log"
    log.write_text("".join(f"[2026-11-18 00:00:00,000] INFO starting {n} (kafka.Kafka$)\n" for n in range(40)))
    write(log, GONE, range(1, 8))
    write(log, KEPT, range(1, 8))
    watch = command(
        "watch", "-w", str(warehouse), "--logs", str(logs), "--cluster-id", "lab", "--engine", "local", "-q"
    )  # fmt: skip
    said = tmp_path / "said.txt"
    watching = started(watch, said)
    try:
        until(lambda: {GONE, KEPT} <= published(warehouse).keys(), said)
        write(log, GONE, range(8, 12))  # into the memory, with all that came before
        write(log, KEPT, range(8, 12))
        until(lambda: {11} <= published(warehouse)[GONE] and {11} <= published(warehouse)[KEPT], said)
        reader = Questions.open(warehouse)
        reader.refresh(clock.now_ms())
        assert asked(reader)

        erase = command("erase", name_of(GONE), "-w", str(warehouse))
        until(lambda: subprocess.run(erase, check=False, capture_output=True).returncode == 0, said)
        reader.refresh(clock.now_ms())
        assert not asked(reader)

        write(log, GONE, range(12, 14))  # what is collected afterwards is kept again, and nothing else
        write(log, KEPT, range(12, 14))
        shown: set[int] = set()

        def is_published() -> bool:
            shown.update(just_in(warehouse))
            return {13} <= published(warehouse).get(GONE, set()) and {13} <= published(warehouse)[KEPT]

        until(is_published, said)
        assert shown <= {11, 12, 13}  # the generation that the next one follows is named as the one before
        assert published(warehouse)[GONE] <= {12, 13}
        assert published(warehouse)[KEPT] >= set(range(1, 14))
        watching.send_signal(signal.SIGTERM)
        assert watching.wait(PATIENCE_S) == 0, said.read_text()
    finally:
        watching.kill()
        watching.wait()
    assert Warehouse.open(warehouse).query("SELECT * FROM gold.erasure").num_rows == 1


def name_of(model: int) -> str:
    return f"group-{model:06d}"


def write(log: Path, model: int, generations: range) -> None:
    """Half a second apart: all of it is news to a note that reaches back for 15 s."""
    with log.open("a") as lines:
        for number in generations:
            written = WrittenRebalance.of(model, number, BASE_MS + number * 500)
            lines.write("".join(f"{line}\n" for line in written.lines))


def published(warehouse: Path) -> dict[int, set[int]]:
    """The generations of each group in the tables."""
    if not (warehouse / "published.json").exists():
        return {}
    rows = Warehouse.open(warehouse).query("SELECT group_id, generation_id FROM gold.rebalance").to_pylist()
    found: dict[int, set[int]] = {}
    for row in rows:
        found.setdefault(int(row["group_id"][-6:]), set()).add(row["generation_id"])
    return found


def just_in(warehouse: Path) -> set[int]:
    """The generations of the erased group in the note."""
    found: set[int] = set()
    for present in all_kept(Warehouse.open(warehouse)):
        for name, rows in present.just_in.rows.items():
            if name == "gold.rebalance":
                found.update(r["generation_id"] for r in rows.to_pylist() if r["group_id"] == name_of(GONE))
    return found


def asked(reader: Questions) -> int:
    """How many rebalances of the group a page shows."""
    span = reader.span()
    assert span is not None
    return len(reader.group_rebalances("lab", name_of(GONE), span))


def until(is_so: Callable[[], Any], said: Path) -> None:
    give_up_at = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < give_up_at, said.read_text("utf-8", "replace")[-4_000:]
        time.sleep(0.2)
