"""The app in a real browser, beside a large fleet: first view, clicks, search, Compare.

    python -m bench.app [--groups 10000] [--rebalances 1000000] [--days 30] [--rounds 3] [--warehouse W]

The gold tables are generated, not run through the stages: ten clusters, groups of which a few rebalance much more often
than the others, incidents and findings in proportion; or --warehouse is one that is there, what the stages made of a
fleet (bench.fleet), say. A view counts from the click, or from the address being opened, to the moment at which the
server has nothing more to send for it; "in page", by the page's own clock, to the frame painted after that.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import duckdb
import psutil
import pyarrow as pa

from rebalance_audit.domain import tables
from rebalance_audit.warehouse.arrow_tables import arrow_schema
from rebalance_audit.warehouse.warehouse import Warehouse

T0 = 1_790_000_000_000
DAY_MS = 86_400_000
CLUSTERS = 10
READS_S = 2.0
"""Between the first view and the first click: a reader looks at what he opened, and the app fetches scripts ahead."""
CLOCK = """
window.raClock = {}; const STATE = "data-test-script-state", drawn = () => { raClock.painted = performance.now(); };
addEventListener("click", (e) => { raClock.clicked = e.timeStamp; }, true);
new MutationObserver((seen) => seen.some((m) => m.target.getAttribute(STATE) === "notRunning")
  && requestAnimationFrame(() => setTimeout(drawn))).observe(document, { subtree: true, attributeFilter: [STATE] });
"""
"""Runs in each page: notes when it was clicked, and when the frame after the last message of a run was painted."""
CLICK_TOOK_MS = "new Promise(done => setTimeout(done, 50)).then(() => raClock.painted - raClock.clicked)"
GOALS_S = {"first view": 1.5, "click": 0.3, "search": 0.2, "Compare": 2.0}


def generate(location: str, groups: int, rebalances: int, days: int) -> Warehouse:
    """A published warehouse. Deterministic: the numbers are hashes of the row's number."""
    opened = Warehouse.open(location, create=True)
    span_ms = days * DAY_MS
    with duckdb.connect() as db:
        db.execute(
            f"""
            CREATE TABLE x AS
            SELECT i, (pow(h1, 2) * {groups})::INT AS g, {T0} + (h2 * {span_ms})::BIGINT AS at_ms, h3, h4
            FROM (SELECT i, (hash(i) % 1000003) / 1000003.0 AS h1, (hash(i + 7000000001) % 1000003) / 1000003.0 AS h2,
                         (hash(i * 31 + 5) % 1000003) / 1000003.0 AS h3, (hash(i * 17 + 3) % 1000003) / 1000003.0 AS h4
                  FROM range({rebalances}) t(i));
            CREATE TABLE r AS
            SELECT 'cluster-' || (g % {CLUSTERS}) AS cluster_id, 'team-' || (g % 40) || '-app-' || g AS group_id,
                   'team-' || (g % 40) AS team,
                   row_number() OVER (PARTITION BY g ORDER BY at_ms, i)::INT AS generation_id,
                   at_ms, h3, h4, i, g FROM x ORDER BY at_ms;
            CREATE TABLE rebalance AS
            SELECT cluster_id, cluster_id || '/' || group_id || '/' || generation_id AS rebalance_id, group_id,
                   generation_id, team, 'classic' AS group_type, 'consumer' AS protocol_type, 'rebalance' AS kind,
                   0 AS rewrite_seq, 'completed' AS outcome,
                   CASE WHEN g % 3 = 0 THEN 'cooperative' ELSE 'eager' END AS mode,
                   CASE WHEN g % 3 = 0 THEN 'cooperative-sticky' ELSE 'range' END AS assignor, 6 AS member_count,
                   at_ms - 3000 AS started_at_ms, at_ms - 100 AS joined_at_ms, at_ms AS assigned_at_ms,
                   (h3 * 3000)::BIGINT AS broker_window_ms,
                   CASE (h4 * 5)::INT WHEN 0 THEN 'member_session_expired' WHEN 1 THEN 'member_joined'
                     WHEN 2 THEN 'member_left' WHEN 3 THEN 'member_poll_timeout' ELSE 'member_joined' END AS trigger,
                   'logged' AS trigger_tier, h4 > 0.95 AS expected, 48 AS resource_count,
                   0 AS kept_count, 8 AS moved_count, 40 AS returned_count, 0 AS revoked_count, 0 AS assigned_count,
                   2 AS avoidable_moved_count, (h3 * 4000)::BIGINT AS pause_lower_ms,
                   (h3 * 5000)::BIGINT AS pause_estimate_ms, (h3 * 9000)::BIGINT AS pause_upper_ms,
                   'logged' AS pause_tier, h3 * 100 AS resource_seconds_lower, h3 * 200 AS resource_seconds_estimate,
                   h3 * 400 AS resource_seconds_upper, true AS is_complete_evidence, true AS is_final, 1 AS revision,
                   ['record:__consumer_offsets-' || (g % 50) || '@' || i] AS evidence
            FROM r ORDER BY at_ms;
            CREATE TABLE incident AS
            SELECT any_value(cluster_id) AS cluster_id, 'in:' || lpad(min(i)::VARCHAR, 16, '0') AS incident_id,
                   'member_fault' AS kind, 'partition' AS unit,
                   'member_session_expired' AS root_cause, 'logged' AS root_cause_tier,
                   ['consumer-' || (min(i) % 6)] AS culprits, [group_id] AS group_ids,
                   list(cluster_id || '/' || group_id || '/' || generation_id ORDER BY at_ms) AS rebalance_ids,
                   [] AS reassignment_ids, [] AS finding_ids, min(at_ms) - 10000 AS first_at_ms,
                   max(at_ms) AS last_at_ms,
                   CASE WHEN max(at_ms) > {T0 + span_ms} - 1200000 THEN 'open' ELSE 'over' END AS status,
                   min(h4) > 0.03 AS expected, CASE WHEN max(h3) > 0.9 THEN 'warning' ELSE 'info' END AS severity,
                   sum(h3) * 200 AS cost_seconds, sum(h3) * 100 AS cost_lower_seconds,
                   sum(h3) * 400 AS cost_upper_seconds,
                   'consumer-' || (min(i) % 6) || ' of ' || group_id
                       || ' sent no heartbeat until its session expired' AS title,
                   'It vanished. It cost partition-seconds. It is over.' AS story, 'Look at that host.' AS advice,
                   [{{'at_ms': min(at_ms), 'what': 'it vanished', 'evidence': ['a']}}] AS chain, ['a'] AS evidence
            FROM r GROUP BY g, group_id, generation_id // 4 ORDER BY first_at_ms;
            CREATE TABLE finding AS
            SELECT cluster_id, 'rb007:' || lpad(i::VARCHAR, 16, '0') AS finding_id, 'RB007' AS rule_id,
                   CASE WHEN h3 > 0.9 THEN 'warning' ELSE 'info' END AS severity, 'group' AS subject_type,
                   group_id AS subject,
                   CASE WHEN at_ms > {T0 + span_ms} - 3600000 THEN 'open' ELSE 'resolved' END AS status,
                   at_ms - 10000 AS first_seen_at_ms, at_ms AS last_seen_at_ms,
                   group_id || ': a member vanished' AS title,
                   'It vanished.' AS detail, '{{"count": 1}}' AS numbers, 'Look at that host.' AS advice, group_id,
                   ['a'] AS evidence FROM r WHERE i % 100 = 0;
            CREATE TABLE "group" AS
            SELECT cluster_id, group_id, team, 'classic' AS group_type, 'consumer' AS protocol_type, 'Stable' AS state,
                   any_value(mode) AS mode, any_value(assignor) AS assignor, max(generation_id) AS generation_id,
                   6 AS member_count, 48 AS resource_count, min(assigned_at_ms) AS first_seen_at_ms,
                   max(assigned_at_ms) AS last_rebalance_at_ms,
                   arg_max(rebalance_id, assigned_at_ms) AS last_rebalance_id,
                   count(*)::INT AS rebalance_count, 0 AS rebalance_count_1h,
                   (count(*) FILTER (assigned_at_ms > {T0 + span_ms - DAY_MS}))::INT AS rebalance_count_24h,
                   median(pause_estimate_ms) AS pause_p50_ms, quantile_cont(pause_estimate_ms, 0.95) AS pause_p95_ms,
                   sum(resource_seconds_estimate) AS resource_seconds_estimate, 'member_joined' AS top_trigger,
                   coalesce(any_value(f.n), 0)::INT AS open_finding_count, any_value(f.severity) AS worst_severity
            FROM rebalance LEFT JOIN (SELECT cluster_id, group_id, count(*) AS n, min(severity) AS severity FROM finding
                                      WHERE status = 'open' GROUP BY ALL) f USING (cluster_id, group_id)
            GROUP BY ALL;
            CREATE TABLE coverage AS
            SELECT 'cluster-' || c AS cluster_id, 'record:__consumer_offsets-' || p AS source, 'record' AS kind,
                   0 AS from_position, 1000000 AS to_position, {T0} AS from_at_ms, {T0 + span_ms} AS to_at_ms,
                   1000000 AS item_count, false AS is_gap, 'none' AS problem_code
            FROM range({CLUSTERS}) t(c), range(50) u(p);
            """
        )
        versions = {}
        for name in ("rebalance", "incident", "finding", "group", "coverage"):
            known = {row[0] for row in db.execute(f'DESCRIBE "{name}"').fetchall()}
            schema = arrow_schema(f"gold.{name}")
            rows = db.execute(f'SELECT * FROM "{name}"').to_arrow_table()
            columns = [
                rows.column(f.name).cast(f.type) if f.name in known else pa.nulls(rows.num_rows, f.type) for f in schema
            ]
            opened.append(f"gold.{name}", pa.table(columns, schema=schema))
            versions[f"gold.{name}"] = opened.version(f"gold.{name}") or 0
    opened.publish(versions)
    return opened


@dataclass(frozen=True, slots=True)
class Subjects:
    """The pages and rows of a warehouse that are looked at."""

    group: dict[str, str]
    """The busiest, and its cluster."""
    clusters: list[str]
    searched: list[str]
    """Parts of names, no two of which have as many groups."""
    sizes: str
    span_ms: tuple[int, int]


def subjects(location: str) -> Subjects:
    found = Warehouse.open(location)
    groups = found.query(
        "SELECT cluster_id, group_id, sum(rebalance_count) OVER () AS n FROM gold.group "
        "ORDER BY rebalance_count DESC, cluster_id, group_id"
    ).to_pylist()
    names = [g["group_id"] for g in groups]
    matches: dict[int, str] = {}
    for name in names[:: max(1, len(names) // 40)]:
        for part in (name[:5], name[-2:], name[-3:]):
            matches.setdefault(sum(part.lower() in other.lower() for other in names), part)
    whole = found.query("SELECT min(from_at_ms) AS f, max(to_at_ms) AS t FROM gold.coverage").to_pylist()[0]
    return Subjects(
        group={"cluster": groups[0]["cluster_id"], "group": groups[0]["group_id"]},
        clusters=sorted({g["cluster_id"] for g in groups}),
        searched=[part for count, part in matches.items() if count < len(names)],
        sizes=f"{len(groups):,} groups, {int(groups[0]['n']):,} rebalances",
        span_ms=(whole["f"], whole["t"]),
    )


class Browser:
    """One page of a headless browser, and the seconds it takes to settle."""

    def __init__(self, page: Any, address: str) -> None:
        self.page, self.address = page, address
        page.add_init_script(CLOCK)

    def timed(self, act: Callable[[], object]) -> float:
        begun = time.monotonic()
        act()
        self.settle()
        return time.monotonic() - begun - self._idle_s

    def settle(self) -> None:
        """Streamlit marks the page while a script runs; two quiet looks in a row end the wait."""
        quiet, self._idle_s = 0, 0.0
        while quiet < 3:
            state = self.page.evaluate(
                "document.querySelector('[data-testid=stApp]')?.getAttribute('data-test-script-state') ?? 'initial'"
            )
            has_words = self.page.evaluate("document.querySelectorAll('.ra-title').length > 0")
            quiet = quiet + 1 if state == "notRunning" and has_words else 0
            self._idle_s = 0.03 * max(0, quiet - 1)
            time.sleep(0.03)

    def open(self, view: str, **params: str) -> float:
        from urllib.parse import urlencode

        return self.timed(lambda: self.page.goto(f"{self.address}/{view}?{urlencode(params)}"))

    def search(self, text: str) -> float:
        """Until the number of matches is there. Text that is pasted is sent at once; of one that is typed, each key but
        the first waits 0.04 s for another."""
        answer = self.page.locator(".ra-say").first
        before, begun = answer.inner_text(), time.monotonic()
        self.page.locator("input.ra-search").fill(text)
        while answer.inner_text() == before and time.monotonic() - begun < 30:
            time.sleep(0.01)
        return time.monotonic() - begun

    def click(self, label: str) -> float:
        def act() -> None:
            self.page.get_by_role("link", name=label, exact=True).first.click()
            self.page.locator(".ra-title", has_text=label).first.wait_for(timeout=60_000)

        return self.timed(act)


@dataclass(slots=True)
class Took:
    """One thing done `len(wall)` times: wall seconds, CPU seconds of the server and the browser, bytes sent."""

    wall: list[float] = field(default_factory=list)
    server: list[float] = field(default_factory=list)
    browser: list[float] = field(default_factory=list)
    sent: list[int] = field(default_factory=list)
    in_page: list[float] = field(default_factory=list)  # of clicks


class Meter:
    """Measures what each act costs the server and the browser."""

    def __init__(self, server: psutil.Process) -> None:
        self.server, self.sent = server, 0
        self.took: dict[str, Took] = {}

    def watch(self, page: Any) -> None:
        def opened(socket: Any) -> None:
            socket.on("framereceived", lambda payload: setattr(self, "sent", self.sent + len(payload)))

        page.on("websocket", opened)

    def of(self, name: str, act: Callable[[], float]) -> None:
        server, browser, sent = cpu_s([self.server]), cpu_s(self._browsers()), self.sent
        took = self.took.setdefault(name, Took())
        took.wall.append(act())
        took.server.append(cpu_s([self.server]) - server)
        took.browser.append(cpu_s(self._browsers()) - browser)
        took.sent.append(self.sent - sent)

    def _browsers(self) -> list[psutil.Process]:
        return [child for child in psutil.Process().children() if child.pid != self.server.pid]


def cpu_s(processes: Sequence[psutil.Process]) -> float:
    """CPU time of these processes and all below them, as long as they live."""
    total = 0.0
    for process in processes:
        for each in [process, *process.children(recursive=True)]:
            with contextlib.suppress(psutil.Error):
                times = each.cpu_times()
                total += times.user + times.system
    return total


class WithoutBrowser:
    """One reader, who has no browser: how long the server alone takes for a view."""

    def __init__(self, address: str) -> None:
        from websockets.sync.client import connect

        stream = address.replace("http", "ws") + "/_stcore/stream"
        self.socket = connect(stream, subprotocols=["streamlit"], max_size=1 << 28)  # type: ignore[list-item]

    def view(self, view: str, **params: str | int) -> float:
        from urllib.parse import urlencode

        from streamlit.proto.BackMsg_pb2 import BackMsg
        from streamlit.proto.ForwardMsg_pb2 import ForwardMsg

        asked = BackMsg()
        asked.rerun_script.query_string = urlencode(params)
        asked.rerun_script.page_name = view
        asked.rerun_script.context_info.timezone = "UTC"
        begun = time.monotonic()
        self.socket.send(asked.SerializeToString())
        while True:
            message = ForwardMsg()
            message.ParseFromString(self.socket.recv())
            if message.WhichOneof("type") == "script_finished":
                return time.monotonic() - begun


def beside(location: str, span_ms: tuple[int, int], views: int = 40) -> dict[str, list[float]]:
    """Seconds per view of one reader, alone and while another compares all groups again and again."""
    from tests.app.serving import served_as_ui

    with served_as_ui(location) as address, contextlib.ExitStack() as open_:
        one, other = (WithoutBrowser(address) for _ in range(2))
        for reader in (one, other):
            open_.callback(reader.socket.close)
            reader.view("")
        stop = threading.Event()
        compared: list[float] = []

        def compare() -> None:
            while not stop.is_set():
                at = sum(span_ms) // 2 + len(compared) * 900_001  # another question each time
                compared.append(other.view("compare", a="[null, null]", b="[null, null]", at=at))

        def click() -> list[float]:
            return [one.view(("", "groups")[i % 2]) for i in range(views)]

        alone = click()
        thread = threading.Thread(target=compare)
        thread.start()
        try:
            both = click()
        finally:
            stop.set()
            thread.join()
        return {"alone": alone, "while another compares": both, "Compare": compared}


def measure(location: str, of: Subjects, rounds: int) -> dict[str, Took]:
    from playwright.sync_api import sync_playwright

    from tests.app.serving import CHROMIUM_ARGS, chromium_path, served_as_ui

    with served_as_ui(location) as address, sync_playwright() as playwright:
        (server,) = [p for p in psutil.Process().children() if "app.server" in p.cmdline()]
        meter = Meter(server)
        browser = playwright.chromium.launch(executable_path=chromium_path(), args=CHROMIUM_ARGS)
        for number in range(rounds):
            page = browser.new_page(viewport={"width": 1440, "height": 1400})
            meter.watch(page)
            b = Browser(page, address)
            again = ", again" if number else ""
            meter.of("first view" + again, partial(b.open, ""))
            page.wait_for_timeout(READS_S * 1000)
            for label in ("Groups", "Fleet", "Findings", "Trust", "Groups"):
                meter.of(f"click {label}{again}", partial(b.click, label))
                meter.took[f"click {label}{again}"].in_page.append(page.evaluate(CLICK_TOOK_MS) / 1000)
            for text in [of.searched[(2 * number + i) % len(of.searched)] for i in range(2)]:
                meter.of("search, after the last key", partial(b.search, text))
            meter.of(f"the busiest group's week{again}", partial(b.open, "group", last="7d", **of.group))
            pair = json.dumps([of.clusters[number % len(of.clusters)], None])
            meter.of("Compare, a cluster", partial(b.open, "compare", a=pair, b=pair))
            meter.of(f"Compare, all groups{again}", partial(b.open, "compare", a="[null, null]", b="[null, null]"))
            page.close()
        browser.close()
    return meter.took


def p95(seconds: Sequence[float]) -> float:
    return sorted(seconds)[int(len(seconds) * 0.95)]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--groups", type=int, default=10_000)
    options.add_argument("--rebalances", type=int, default=1_000_000)
    options.add_argument("--days", type=int, default=30)
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--warehouse", help="Kept and used again; a scratch folder by default.")
    chosen = options.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench-app-") as scratch:
        location = chosen.warehouse or f"{scratch}/w"
        if not Path(location, "published.json").exists():
            begun = time.monotonic()
            generate(location, chosen.groups, chosen.rebalances, chosen.days)
            print(f"generated in {time.monotonic() - begun:.0f} s")
        of = subjects(location)
        print(f"{of.sizes}, {(of.span_ms[1] - of.span_ms[0]) / DAY_MS:.0f} days; load {os.getloadavg()[0]:.1f}")
        print("medians".ljust(40) + "  wall s  longest  in page  longest  server CPU s  browser CPU s  kB sent  of")
        for what, took in (measured := measure(location, of, chosen.rounds)).items():
            inside = f"{median(took.in_page):9.2f}{max(took.in_page):9.2f}" if took.in_page else " " * 18
            print(
                f"{what:<40}{median(took.wall):8.2f}{max(took.wall):9.2f}{inside}{median(took.server):14.2f}"
                f"{median(took.browser):15.2f}{median(took.sent) / 1000:9.0f}{len(took.wall):4}"
            )
        print(f"all clicks, in page: {p95([s for took in measured.values() for s in took.in_page]):.2f} p95")
        print("home and groups, without a browser:")
        for what, seconds in beside(location, of.span_ms).items():
            print(f"{what:<40}{median(seconds):8.2f}{p95(seconds):9.2f} p95")
        print(f"load at the end {os.getloadavg()[0]:.1f}")
        print(f"goals: {', '.join(f'{k} {v} s' for k, v in GOALS_S.items())}; tables of schema {tables.SCHEMA_VERSION}")


if __name__ == "__main__":
    main()
