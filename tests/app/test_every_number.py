"""Every number of every page stands in the tables: as a value of the rows that the page is about, or as a sum of them
that is made here, by Python and not by the SQL of the app. No page shows a duration below zero."""

from __future__ import annotations

import itertools
import json
import math
import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from ingest.folders import open_folder
from rebalance_audit.commands.collect import land_folder
from rebalance_audit.commands.company import COMPANY, RECORDED
from rebalance_audit.commands.pipeline import Carried, run_stages
from rebalance_audit.commands.whatif_fleet import weigh
from rebalance_audit.domain.detect.client_advice import WEIGHS
from rebalance_audit.warehouse.warehouse import Warehouse
from tests.app.checked_rows import (
    check_line,
    check_reassignment,
    check_rebalance,
    check_record,
    holds_pause,
    refs_of,
    same,
    words_after,
    words_for,
)
from tests.app.opening import shown
from tests.app.reading import Known, Shown, below_zero, damages, durations, recorded
from tests.app.table_numbers import (
    NOW_MS,
    Row,
    Walk,
    at_ms,
    booked_causes,
    cost,
    costs_of,
    hands_out_tasks,
    headline_of,
    hold,
    is_counted,
    of,
    seen,
    steps_of,
    total,
    were,
)

MORE = {
    "statics": "4.3.0/static_restart",
    "server-statics": "4.3.0/kip848_static_restart",
    "slow": "4.3.0/kip848_poll_timeout",
    "frozen": "3.9.1/frozen_in_turn",
    "eager-workers": "4.3.0/connect_eager",
    "bounced": "3.9.1/connect_rolling_bounce",
    "connectors": "2.7.2/connect_connector_life",
    "replaced": "4.3.0/reassign_cancel_replace",
    "streams": "4.3.0/streams_protocol",
    "shares": "4.3.0/share_group",
    "hostile": "4.3.0/hostile_names",
}
"""Beside the demo's clusters: rewrites, two owners, standstills, all protocols, each end of a move, odd names."""
TABLES = (
    "rebalance", "rebalance_member", "movement", "standstill", "group", "incident", "finding", "connect_task",
    "coverage", "reassignment", "reassignment_step", "leader_election", "whatif", "mark", "check",
)  # fmt: skip


@pytest.fixture(scope="module")
def walked(tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    location = str(tmp_path_factory.mktemp("walked") / "w")
    for name, place in {**COMPANY, **MORE}.items():
        land_folder(open_folder(RECORDED / place, cluster_id=name), location, quiet=True)
    opened = Warehouse.open(location)
    run_stages(opened, quiet=True)
    weigh(opened, seconds=5, days=30, carried=Carried())
    return opened


@pytest.fixture(scope="module")
def gold(walked: Warehouse) -> dict[str, list[Row]]:
    found = {name: walked.read(f"gold.{name}").to_pylist() for name in TABLES}
    causes = booked_causes(found["incident"])
    for r in found["rebalance"]:
        r["cause"] = causes.get((r["cluster_id"], r["rebalance_id"]), r["trigger"])
    for r in [*found["incident"], *found["finding"]]:
        r |= with_replays(r, found["whatif"])
    return found


def with_replays(r: Row, replays: Sequence[Row]) -> Row:
    """A page says in advice what replays of that group say, in place of the words that `whatif` can be asked."""
    if WEIGHS not in (r["advice"] or ""):
        return {}
    groups = r["group_ids"] if "group_ids" in r else [r["subject"]]
    numbers = ("settings", "saved_seconds", "saved_lower_seconds", "saved_upper_seconds")
    said = [w for w in replays if w["cluster_id"] == r["cluster_id"] and [w["group_id"]] == groups]
    return {"around": r["advice"].split(WEIGHS), "replays": [{name: w[name] for name in numbers} for w in said]}


def waited(i: Row, tasks: Sequence[Row]) -> float:
    """Task-seconds of an incident's cost that its tasks waited by design."""
    mine = [t for t in tasks if t["cluster_id"] == i["cluster_id"] and t["group_id"] in i["group_ids"]]
    ms = [
        min(i["last_at_ms"] if t["to_ms"] is None else t["to_ms"], i["last_at_ms"])
        - max(t["from_ms"], i["first_at_ms"])
        for t in mine
        if t["state"] == "WAITING" or (t["expected"] and t["state"] in ("LOST", "FAILED", "UNASSIGNED", "RESTARTING"))
    ]
    return min(math.fsum(max(0, each) for each in ms) / 1000, i["cost_seconds"] or 0.0)


@pytest.fixture
def walk(walked: Warehouse, monkeypatch: pytest.MonkeyPatch) -> Walk:
    monkeypatch.setattr("sys.argv", ["streamlit"])
    monkeypatch.setattr("app.clock.now_ms", lambda: NOW_MS)
    monkeypatch.setenv("REBALANCE_AUDIT_WAREHOUSE", walked.location)
    drawn = recorded(monkeypatch)

    def opened(view: str, unfolded: str | None = None, **params: str) -> Shown:
        drawn.clear()
        # The lines of a replay have numbers that no table has; test_whatif_page compares them with the replay.
        return Shown(at=shown(view, params, unfolded, folded="fold-beside"), pictures=list(drawn))

    return opened


def test_fleet(walk: Walk, gold: dict[str, list[Row]]) -> None:
    page = walk("home", last="all")
    rows, incidents = gold["rebalance"], gold["incident"]
    real = [i for i in incidents if not i["expected"]]
    open_, over = ([i for i in real if (i["status"] == "open") is wanted] for wanted in (True, False))
    on_purpose = [i for i in incidents if i["expected"]]
    groups = {(r["cluster_id"], r["group_id"]): r for r in rows}
    known = Known(incidents, [c for c in gold["coverage"] if c["is_gap"]]).between(*seen(gold))
    known.counts |= {waited(i, gold["connect_task"]) for i in incidents}
    costs_of(rows, known)
    known.counts |= {len(groups), len(open_), len(over), len(on_purpose)}
    known.counts |= {sum(i["severity"] == "critical" for i in open_), len(open_) - 12, len(over) - 6}
    for some, is_task in itertools.product((on_purpose, open_), (True, False)):
        mine = [
            i["cost_seconds"]
            for i in some
            if any(
                hands_out_tasks(groups[i["cluster_id"], g]) for g in i["group_ids"] if (i["cluster_id"], g) in groups
            )
            is is_task
        ]
        known.add(total(mine) or 0.0, "seconds")
    known.counts.add(len(over_clusters := {c["cluster_id"] for c in gold["coverage"]}) - 8)
    for cluster in over_clusters:
        mine = of(gold, "rebalance", cluster_id=cluster)
        known.counts |= {sum(map(is_counted, mine)), len(of(gold, "group", cluster_id=cluster))}
        known.counts |= {len(of(gold, "reassignment", cluster_id=cluster))}
        known.counts |= {len(of(gold, "finding", cluster_id=cluster, status="open"))}
        known.counts |= {len({c["source"] for c in of(gold, "coverage", cluster_id=cluster)})}
        known.counts |= {sum(c["is_gap"] for c in of(gold, "coverage", cluster_id=cluster))}
    overlaps = {(m["cluster_id"], m["rebalance_id"], m["overlap_ms"]) for m in gold["movement"] if m["overlap_ms"]}
    known.ms |= {ms for _, _, ms in overlaps}
    # What stands where.
    assert f"Incidents: {len(open_)} open, {len(over)} over" in page.words
    counted = sum(map(is_counted, rows))
    assert f"{counted:,} rebalances of {len(groups):,} groups" in page.words
    by_key = {f"{i['cluster_id']}/{i['incident_id']}": i for i in incidents}
    for line in page.lines:
        row = by_key[line["key"]]
        said = list(damages(line["cost"]))
        assert [n.is_near(row["cost_seconds"]) for n in said] == ([] if row["cost_seconds"] is None else [True]), line
        longest = max(
            (ms for c, r, ms in overlaps if c == row["cluster_id"] and r in row["rebalance_ids"]), default=None
        )
        twice = line["cause"].partition("two owners at once for ")[2]
        assert [n.is_near(longest or -1) for n in durations(twice)] == ([] if longest is None else [True]), line
    for table in page.tables():
        for cells in table:
            mine = of(gold, "rebalance", cluster_id=cells["cluster"])
            assert cells["rebalances"] == f"{sum(map(is_counted, mine)):,}"
            wrong = of(gold, "incident", cluster_id=cells["cluster"], status="open", expected=False)
            assert cells["open incidents"] == f"{len(wrong):,}"
            assert cells["reassignments"] == f"{len(of(gold, 'reassignment', cluster_id=cells['cluster'])):,}"
    (strip,) = page.pictures
    assert strip.below["value"].sum() + strip.above["value"].sum() == pytest.approx(cost(rows))
    for text in strip.texts:  # each is a bucket's sum of some rows
        known.add([n.low for n in durations(text)])
    buckets = [re.match(r"([\d,]+) rebalances?", t) for t in strip.texts]
    assert sum(int(b[1].replace(",", "")) for b in buckets if b) == counted
    bucket_sums: dict[tuple[str, int, bool], float] = defaultdict(float)
    for r in rows:
        n = min(119, int((at_ms(r) - strip.from_ms) // ((strip.to_ms - strip.from_ms) / 120)))
        lane = r["cluster_id"] if r["cluster_id"] in strip.lanes else "others"
        bucket_sums[lane, n, hands_out_tasks(r)] += r["resource_seconds_estimate"] or 0.0
    known.seconds |= set(bucket_sums.values())
    known.ms |= {NOW_MS - max(seen(gold)), 900_000}  # from so long before the newest on, evidence is old
    known.counts |= set(range(counted))  # of the strip's texts, whose sum is held above
    hold(page, known)


def test_groups(walk: Walk, gold: dict[str, list[Row]]) -> None:
    page = walk("groups", last="all")
    (table,) = page.frames
    found = {(r["cluster"], r["group"]): r for r in table.to_dict("records")}
    opened = Counter(
        (i["cluster_id"], g)
        for i in gold["incident"]
        if i["status"] == "open" and not i["expected"]
        for g in i["group_ids"]
    )
    first, last = min(seen(gold)), max(seen(gold))
    assert len(found) == len(gold["group"])
    for g in gold["group"]:
        if g["group_id"].isascii() and g["group_id"].isprintable() and len(g["group_id"]) < 60:
            row = found[g["cluster_id"], g["group_id"]]
            mine = of(gold, "rebalance", cluster_id=g["cluster_id"], group_id=g["group_id"])
            assert row["rebalances"] == sum(map(is_counted, mine))
            parts = Counter(min(23, (at_ms(r) - first) * 24 // (last - first)) for r in mine if is_counted(r))
            assert list(row["over time"]) == [parts[n] for n in range(24)]
            assert (None if math.isnan(row["downtime, s"]) else row["downtime, s"]) == pytest.approx(cost(mine))
            pauses = [r["pause_estimate_ms"] for r in mine if r["pause_estimate_ms"] is not None]
            p95 = max(0.0, float(np.quantile(pauses, 0.95)) / 1000) if pauses else None
            assert (None if math.isnan(row["p95, s"]) else row["p95, s"]) == pytest.approx(p95)
            assert row["members"] == g["member_count"] or math.isnan(row["members"])
            wanted = opened[g["cluster_id"], g["group_id"]]
            assert row["open"].partition(" ")[0] == (str(wanted) if wanted else "")
    known = Known(gold["group"]).between(*seen(gold))
    known.counts |= {len(opened), len(found), len({(r["cluster_id"], r["group_id"]) for r in gold["rebalance"]})}
    known.counts |= set(opened.values())
    known.counts |= ended_before(gold)
    known.counts.add(empty := sum(g["state"] == "Empty" for g in gold["group"]))
    assert f"; {empty} groups are empty (no member)" in page.words
    hold(page, known)


def keys_of_groups() -> list[str]:
    return sorted({**COMPANY, **MORE})


@pytest.mark.parametrize("cluster", keys_of_groups())
def test_group_and_its_rebalances(cluster: str, walk: Walk, gold: dict[str, list[Row]]) -> None:
    for g in of(gold, "group", cluster_id=cluster):
        key = {"cluster_id": cluster, "group_id": g["group_id"]}
        rows = sorted(of(gold, "rebalance", **key), key=at_ms)
        parts = {
            t: of(gold, t, **key)
            for t in ("rebalance_member", "movement", "standstill", "finding", "whatif", "connect_task")
        }
        incidents = [i for i in of(gold, "incident", cluster_id=cluster) if g["group_id"] in i["group_ids"]]
        page = walk("group", cluster=cluster, group=g["group_id"])
        known = Known(g, rows, *parts.values(), incidents, of(gold, "mark", cluster_id=cluster))
        known.between(min(r["started_at_ms"] or at_ms(r) for r in rows), *seen(gold, cluster), *map(at_ms, rows))
        known.add([w["why"].partition("; ")[2] for w in parts["whatif"]]).add(were(parts["whatif"]))
        costs_of(rows, known)
        headline_of(rows, known)
        known.counts |= {n for _, *pair in steps_of(rows, known) for n in pair}
        known.counts |= {sum(r["kind"] != "rebalance" for r in rows), sum(not r["is_complete_evidence"] for r in rows)}
        counted = [r for r in rows if is_counted(r)]
        # What stands where.
        if rows:
            assert f"{len(counted):,} rebalance{'s' if len(counted) != 1 else ''} in " in page.words
        bars = {label: said for label, *said in page.bars() if len(said) == 1}
        for cause in {r["cause"] for r in rows}:
            mine = [r for r in rows if r["cause"] == cause]
            said = next(s[0] for label, s in bars.items() if label.endswith(words_for(cause)))
            assert said.startswith(f"{sum(map(is_counted, mine)):,} time"), said
            expected = cost(mine)
            assert [n.is_near(expected or 0.0) for n in damages(said)] == ([True] if expected else []), said
            assert said.endswith(", no downtime") == (expected == 0), said
        pairs = [tuple(map(int, each[1:])) for each in page.bars() if len(each) == 3 and each[0] != "length"]
        assert [p for p in pairs if p != (0, 0)] == [(p, w) for _, p, w in steps_of(rows, known)]
        table = next((f for f in page.frames if "longest downtime" in f.columns), None)
        assert (0 if table is None else len(table)) == len(rows)
        for cells, r in zip(() if table is None else table.to_dict("records"), reversed(rows), strict=True):
            holds_pause(cells["longest downtime"], r)
            assert [n.is_near(r["broker_window_ms"]) for n in durations(cells["window"])] == (
                [] if r["broker_window_ms"] is None else [True]
            )
            assert (cells["moved"], cells["members"]) == (r["moved_count"], r["member_count"])
        strip = next((p for p in page.pictures if p.above_name.startswith("rebalances per")), None)
        if strip is not None and len(strip.above):
            assert strip.above["value"].max() <= len(counted)
        hold(page, known, "p95")
        for r in rows:
            check_rebalance(walk, gold, r)


def test_incidents(walk: Walk, gold: dict[str, list[Row]]) -> None:
    for i in gold["incident"]:
        page = walk("incident", cluster=i["cluster_id"], incident=i["incident_id"])
        in_cluster = {t: of(gold, t, cluster_id=i["cluster_id"]) for t in TABLES if t not in ("check",)}
        rows = [r for r in in_cluster["rebalance"] if r["group_id"] in i["group_ids"]]
        own = [r for r in rows if r["rebalance_id"] in i["rebalance_ids"]]
        known = Known(
            i, rows, *(in_cluster[t] for t in ("movement", "rebalance_member", "connect_task", "finding", "mark"))
        )
        known.add([w["why"].partition("; ")[2] for w in in_cluster["whatif"]]).add(were(in_cluster["whatif"]))
        known.add([in_cluster["whatif"], in_cluster["reassignment"]]).between(i["first_at_ms"], i["last_at_ms"])
        costs_of(own, known)
        known.counts.add(by_design := waited(i, in_cluster["connect_task"]))
        designed = re.search(r", ([\d.,]+) of them waiting by design", page.words)
        assert bool(designed) == (by_design >= 0.05), i["title"]
        for g in i["group_ids"]:
            costs_of([r for r in own if r["group_id"] == g], known)
        assert same(cost(own), i["cost_seconds"])
        likely = words_after(page, "<summary>")
        assert [n.is_near(i["cost_seconds"] or 0.0) for n in list(damages(likely))[:1]] == (
            [] if i["cost_seconds"] is None else [True]
        )
        by_group = [t for t in page.tables() if t and "downtime, hard bounds" in t[0]]
        assert bool(by_group) == bool(own and (i["cost_seconds"] is not None or len(i["group_ids"]) > 1))
        for table in by_group:
            said = [int(cells["rebalances"].replace(",", "")) for cells in table]
            assert sum(said) == sum(map(is_counted, own))
        # The story's own numbers, which the tables hold as text.
        said = i["story"]
        assert not below_zero(said)
        if i["cost_seconds"] is not None:
            assert any(n.is_near(i["cost_seconds"]) for n in damages(said)) or not list(damages(said)), said
        counted = re.search(r"It took ([\d,]+) rebalance", said)
        assert counted is None or int(counted[1].replace(",", "")) == sum(map(is_counted, own)), said
        runbook = "\n".join(str(m.value) for m in page.at.markdown)
        hold(page, known, runbook)


@pytest.mark.parametrize("cluster", ["reporting", "eager-workers", "bounced", "connectors"])
def test_connect(cluster: str, walk: Walk, gold: dict[str, list[Row]]) -> None:
    for group in sorted({t["group_id"] for t in of(gold, "connect_task", cluster_id=cluster)}):
        key = {"cluster_id": cluster, "group_id": group}
        tasks, rows = of(gold, "connect_task", **key), of(gold, "rebalance", **key)
        page = walk("connect", cluster=cluster, group=group)
        end = max(seen(gold, cluster))
        ran_not = ("WAITING", "LOST", "FAILED", "UNASSIGNED", "RESTARTING")
        down = [t for t in tasks if t["state"] in ran_not]
        by_design = [t for t in down if t["expected"] or t["state"] == "WAITING"]
        length = [((end if t["to_ms"] is None else t["to_ms"]) - t["from_ms"]) / 1000 for t in down]
        designed = [((end if t["to_ms"] is None else t["to_ms"]) - t["from_ms"]) / 1000 for t in by_design]
        who = {(t["connector"], t["task"]) for t in tasks}
        in_order = sorted(rows, key=at_ms)
        stopped = {(t["connector"], t["task"]) for t in down}
        known = Known(tasks, rows, *(of(gold, t, **key) for t in ("movement", "finding", "rebalance_member")))
        known.add([math.fsum(length), math.fsum(designed)], "seconds").add([math.fsum(designed)])  # `60.1 of them`
        for a, b in itertools.combinations(range(len(rows) + 1), 2):  # a story is of rounds that follow each other
            costs_of(in_order[a:b], known)
            known.add(total(r["eager_seconds_lower"] for r in in_order[a:b]) or 0.0, "seconds")
        known.between(*seen(gold, cluster), *(t[c] for t in tasks for c in ("from_ms", "to_ms")))
        known.between(*(r[c] for r in rows for c in ("started_at_ms", "assigned_at_ms", "started_lower_ms")), end)
        known.add([r["eager_seconds_lower"] for r in rows], "seconds")
        moved = [m for m in of(gold, "movement", **key) if (m["pause_estimate_ms"] or 0) > 0]
        for a, b in itertools.combinations(range(len(rows) + 1), 2):  # what one connector's change did to the others
            there = [m for m in moved if m["rebalance_id"] in {r["rebalance_id"] for r in in_order[a:b]}]
            for name in {m["connector"] for m in there}:
                others = [m for m in there if m["connector"] != name]
                known.add(math.fsum(m["pause_estimate_ms"] for m in others) / 1000, "seconds").counts.add(len(others))
        costs_of(rows, known)
        known.counts |= {len(who), len(stopped), *range(len(rows) + 1)}
        if stopped:
            first = re.search(
                r"(\d+) of (\d+) tasks and connectors did not run at some time : (.*?) in all, (.*?)\.", page.words
            )
            assert first is not None, page.words[:200]
            assert (int(first[1]), int(first[2])) == (len(stopped), len(who))
            (lost,) = damages(first[3])
            assert lost.is_near(math.fsum(length)), (lost, math.fsum(length))
        history = next((f for f in page.frames if "ended by" in f.columns), None)
        other = [t for t in tasks if t["state"] != "RUNNING"]
        assert (0 if history is None else len(history)) == len(other)
        known.counts.add(len(other))
        hold(page, known)


def test_reassignments(walk: Walk, gold: dict[str, list[Row]]) -> None:
    for cluster in sorted({r["cluster_id"] for r in gold["reassignment"]}):
        page = walk("reassignments", cluster=cluster)
        mine = {
            t: of(gold, t, cluster_id=cluster)
            for t in ("reassignment", "reassignment_step", "leader_election", "finding", "rebalance")
        }
        known = Known(*mine.values()).between(*seen(gold, cluster))
        every = mine["reassignment"]
        known.between(
            *(r[c] for r in every for c in ("started_at_ms", "ended_at_ms", "stalled_since_ms")), *seen(gold, cluster)
        )
        known.counts |= set(Counter(r["outcome"] for r in every).values())
        table = next(f for f in page.frames if "new replicas in sync" in f.columns)
        assert len(table) == len(every)
        for r in every:
            check_reassignment(walk, gold, r)
        known.counts |= {
            b for s in mine["reassignment_step"] for name in ("replicas", "isr") for b in s.get(name) or ()
        }
        hold(page, known)


def ended_before(gold: Mapping[str, list[Row]]) -> set[int]:
    """Of how many clusters, of how many, evidence ended before the newest."""
    clusters = {c["cluster_id"] for c in gold["coverage"]}
    return {len(clusters), len(clusters) - 1}


def test_findings(walk: Walk, gold: dict[str, list[Row]]) -> None:
    rows = gold["finding"]
    page = walk("findings")
    opened = sum(f["status"] == "open" for f in rows)
    assert f"{opened} findings are open , {len(rows) - opened} resolved." in page.words
    known = Known(rows).between(*seen(gold))
    known.counts |= {opened, len(rows) - opened, -(-len(rows) // 20)} | ended_before(gold)
    known.counts |= {len((f["detail"] or "").splitlines()) - 4 for f in rows}
    hold(page, known)
    for f in rows:
        page = walk("findings", cluster=f["cluster_id"], finding=f["finding_id"])
        runbook = "\n".join(str(m.value) for m in page.at.markdown)
        known = Known(f)
        numbers = json.loads(f["numbers"] or "{}")
        known.add(numbers if isinstance(numbers, dict) else {})
        known.counts |= {len(numbers), len(f["evidence"]) - 24, *(v for v in numbers.values() if isinstance(v, float))}
        hold(page, known, runbook)


@pytest.mark.parametrize("cluster", keys_of_groups())
def test_evidence(cluster: str, walk: Walk, gold: dict[str, list[Row]], walked: Warehouse) -> None:
    """Of each source some: what is said of a record or a line is what its bytes hold."""
    refs = refs_of(gold, cluster)
    by_source: dict[str, list[str]] = {}
    for ref in refs:
        by_source.setdefault(ref.rpartition("@")[0], []).append(ref)
    chosen = [ref for of_one in by_source.values() for ref in of_one[:: len(of_one) // 2 + 1]][:6]
    assert chosen
    for ref in chosen:
        page = walk("evidence", cluster=cluster, ref=ref)
        if ref.startswith("log:"):
            check_line(page, walked, cluster, ref)
        else:
            check_record(page, walked, cluster, ref)
        assert not [text for text in page.texts if below_zero(text)]


def test_trust(walk: Walk, gold: dict[str, list[Row]], walked: Warehouse) -> None:
    page = walk("trust", unfolded="fold-seen")
    rows, checks = gold["coverage"], gold["check"]
    gaps = [c for c in rows if c["is_gap"]]
    sources = len({(c["cluster_id"], c["source"]) for c in rows})
    assert f"{len(gaps)} gap{'s' if len(gaps) != 1 else ''} in {sources} sources" in page.words or not gaps
    known = Known(rows, checks).between(*seen(gold))
    known.ms.add(900_000)  # from so long before the newest on, evidence is old
    for table in ("silver.contradiction", "silver.undecoded"):
        known.add(walked.read(table).to_pylist())
    counts = walked.read("silver.decode_count").to_pylist()
    for name in {k for r in counts for k, v in r.items() if isinstance(v, int)}:
        known.counts.add(sum(r[name] or 0 for r in counts))
    known.counts |= set(Counter(r.get("reason") for r in walked.read("silver.undecoded").to_pylist()).values())
    known.counts |= {len(gaps), sources, len(checks), sum(c["success"] for c in checks)}
    known.counts |= {c["to_position"] - 1 for c in rows if c["to_position"] is not None}
    half_seen = [r for r in gold["rebalance"] if not r["is_complete_evidence"]]
    missing = Counter((r["outcome"] in ("missing", "open"), r["started_at_ms"] is None) for r in half_seen)
    known.counts |= {len(half_seen), *missing.values()}
    known.counts |= set(range(len(rows)))  # files of one node and clock
    hold(page, known)


def test_compare(walk: Walk, gold: dict[str, list[Row]]) -> None:
    for cluster, group in (("webshop", "stormy-app"), ("reporting", "connect-lab")):
        mine = of(gold, "rebalance", cluster_id=cluster, group_id=group)
        first = min(r["started_at_ms"] or at_ms(r) for r in mine)
        last = max(*seen(gold, cluster), *(max(at_ms(r), r["ended_at_ms"] or 0) for r in mine))
        cut = (first + last) // 2
        page = walk("compare", a=json.dumps([cluster, group]), b=json.dumps([cluster, group]), at=str(cut))
        table = {cells[""]: cells for cells in page.tables()[0]}
        known = Known(mine).between(first, cut, last)
        for side, from_ms, to_ms in (("before", first, cut), ("after", cut, last)):
            rows = [r for r in mine if from_ms <= at_ms(r) <= to_ms]
            hours = (to_ms - from_ms) / 3_600_000
            counted = [r for r in rows if is_counted(r)]
            pauses = [max(0, r["pause_estimate_ms"]) for r in counted if r["pause_estimate_ms"] is not None]
            holds_amount(table["cost, partition- or task-seconds per hour"][side], (cost(rows) or 0.0) / hours)
            holds_amount(table["rebalances per hour"][side], len(counted) / hours)
            if pauses:
                for name, share in (("longest downtime, median", 0.5), ("longest downtime, 95th percentile", 0.95)):
                    (said,) = durations(table[name][side])
                    assert said.is_near(float(np.quantile(pauses, share)))
            known.counts |= {len(counted), *Counter(r["cause"] for r in counted).values()}
        bars = page.bars()
        assert sum(int(a) for label, a, _ in bars if " – " not in label and "under" not in label and label) == sum(
            is_counted(r) and at_ms(r) <= cut for r in mine
        )
        assert not [text for text in page.texts if below_zero(text)]


def holds_amount(said: str, value: float) -> None:
    """Two or three digits are said."""
    assert float(said.replace(",", "")) == pytest.approx(value, rel=0.06, abs=0.006), (said, value)


def test_compare_claims_nothing_of_clusters_that_were_not_watched(walk: Walk) -> None:
    page = walk("compare", a="[null, null]", b="[null, null]")
    assert "Not comparable : the evidence of" in page.words
    assert "it got" not in page.words


def test_settings(walk: Walk, gold: dict[str, list[Row]]) -> None:
    page = walk("whatif")
    best = {(w["cluster_id"], w["group_id"]): w for w in gold["whatif"] if w["place"] == 1}
    (table,) = page.frames
    assert len(table) == len(best) > 0
    for cells in table.to_dict("records"):
        w = best[cells["cluster"], cells["group"]]
        if cells["what it does"].startswith("saves"):
            said = [float(n.replace(",", "")) for n in re.findall(r"[\d,]+\.\d", cells["what it does"])]
            assert said == pytest.approx([w[f"saved{end}_seconds"] for end in ("", "_lower", "_upper")], abs=0.051)
        assert cells["causes found again"].split()[0] in ("not", f"{w['fit_causes'] or 0:.0%}")
