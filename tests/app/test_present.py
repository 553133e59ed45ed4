"""The note that `watch` keeps of the present, on the pages: shown while it is fresh, hostile names included."""

from __future__ import annotations

import shutil
from pathlib import Path

from rebalance_audit.domain.causes import Cause
from rebalance_audit.domain.explain.present import Awaited, Running, WaitsFor, Whereabouts
from rebalance_audit.live.present import FRESH_MS, Present, keep
from rebalance_audit.warehouse.warehouse import Warehouse
from tests.app.gold_rows import CLUSTER, HOSTILE_GROUP, T0
from tests.app.opening import Open, markup, said

RUNNING = Running(
    cluster_id=CLUSTER, group_id=HOSTILE_GROUP, rebalance_id="r", number=5, waits_for=WaitsFor.JOIN,
    cause=Cause.MEMBER_SESSION_EXPIRED, since_ms=T0 - 9_300, now_ms=T0, until_ms=None, unit="partition",
    standing_count=3, standing_ms=20_300,
    members=(Awaited(name="<b>c1</b>", whereabouts=Whereabouts.GONE, resource_count=3),),
)  # fmt: skip
NOTE = Present(cluster_id=CLUSTER, written_at_ms=T0, running_count=7, running=(RUNNING,))


def _copy(full_warehouse: Path, tmp_path: Path) -> Path:
    location = tmp_path / "w"
    shutil.copytree(full_warehouse, location)
    return location


def test_what_goes_on_is_on_the_first_page(opened: Open, full_warehouse: Path, tmp_path: Path) -> None:
    location = _copy(full_warehouse, tmp_path)
    keep(Warehouse.open(location), NOTE)
    at = opened(location, "home", now_ms=T0 + 500)
    assert "waits for its members to join, for 9.3 s: a member's session expired" in said(at)
    assert "3 partitions stand still for up to 20.3 s; gone: <b>c1</b>" in said(at)
    assert "and 6 more" in said(at)
    assert "<b>c1" not in markup(at)
    assert "waits for its members" in said(opened(location, "group", T0 + 500, cluster=CLUSTER, group=HOSTILE_GROUP))
    other = opened(location, "group", T0 + 500, cluster=CLUSTER, group="orders-app")
    assert "waits for its members" not in said(other)
    assert "waits for its members" not in said(opened(location, "home", now_ms=T0 + FRESH_MS + 1))
