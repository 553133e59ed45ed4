"""The seven questions that the tool is for, each answered in a real browser within three clicks from home, on the
tables of the demo; and no page of it with a serious fault for those who read by ear or by keyboard (axe-core).
"""

import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from app.answers.rows import Span
from app.queries import Questions
from rebalance_audit import cli
from tests.app.pictures import pages
from tests.app.serving import ROOT, app_on, settled
from tests.app.test_browser import drawn_bars, shows

pytestmark = pytest.mark.browser
AXE = "axe-core@4.14.1"
MOST_CLICKS = 3
MARK, MARKED_MS = "v2.3 of everything", 1_795_278_540_000
"""2026-11-21 16:29 UTC."""


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    location = tmp_path_factory.mktemp("demo") / "warehouse"
    command = [sys.executable, "-m", "rebalance_audit.cli", "demo", "-w", str(location), "--no-serve", "-q"]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=300)
    assert cli.run(["mark", "-w", str(location), "--at", str(MARKED_MS), "--text", MARK, "-q"]) == 0
    return location


@pytest.fixture(scope="module")
def address(demo: Path) -> Iterator[str]:
    with app_on(demo) as found:
        yield found


class Reader:
    """Somebody at the home page, whose clicks are counted."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.clicks = 0

    def click(self, found: Any) -> None:
        self.clicks += 1
        found.first.click()

    def line(self, subject: str) -> None:
        self.click(self.page.locator(".ra-line-open").filter(has=self.page.get_by_text(subject, exact=True)))

    def link(self, label: str) -> None:
        before = self.page.url
        self.click(self.page.get_by_role("link", name=label, exact=True))
        self.page.wait_for_function("before => location.href !== before", arg=before)

    def mark(self, at_ms: int, span: Span) -> None:
        """Click on a mark of the first time line, found by where its flag must be."""
        canvas = self.page.locator("canvas[role=img]").first
        canvas.scroll_into_view_if_needed()
        drawn_bars(self.page)
        box, room = canvas.bounding_box(), span.length_ms // 200
        gutter = min(230, max(112, box["width"] * 0.24))
        x = gutter + (box["width"] - gutter - 4) * (at_ms - span.from_ms + room) / (span.length_ms + 2 * room)
        before = self.page.url
        self.clicks += 1
        self.page.mouse.click(box["x"] + x, box["y"] + 8)
        self.page.wait_for_function("before => location.href !== before", arg=before)

    def reads(self, *texts: str) -> None:
        shows(self.page, *texts)
        assert self.clicks <= MOST_CLICKS


@pytest.fixture
def reader(chromium: Any, address: str) -> Iterator[Reader]:
    context = chromium.new_context(viewport={"width": 1440, "height": 900}, timezone_id="UTC")
    page = context.new_page()
    page.goto(address)
    settled(page)
    page.wait_for_selector(".ra-line-open")
    yield Reader(page)
    context.close()


def test_why_does_my_group_keep_rebalancing_who_starts_it_since_when(reader: Reader) -> None:
    reader.line("stormy-app \u00b7 webshop")
    reader.reads(
        "w3 exceeded its poll interval", "What to do: Process fewer records per poll", "Since 2026-11-21 16:33"
    )


def test_what_did_the_deploy_cost(reader: Reader) -> None:
    reader.click(reader.page.get_by_text("Changes on purpose (deploys, scaling)"))
    reader.line("deploy-app \u00b7 warehouse")
    reader.reads("Deploy of deploy-app: d1, d2 and d3 were restarted", "16.9 partition-seconds (16.1")


def test_what_did_last_nights_deploy_cost_the_fleet(reader: Reader, demo: Path) -> None:
    """Of a deploy that `mark` noted in every cluster. What came after it is all of stormy-app, deploy-app and
    reports-app: 15, 9 and 4 rebalances, and 1.5, 17.3 and 0.1 of the report's partition-seconds, each rounded. One
    click, and one more to what it began."""
    whole = Questions.open(demo).span()
    assert whole is not None
    reader.mark(MARKED_MS, whole)
    reader.reads(
        f"Since {MARK}, 3 h 28 min: 28 rebalances of 3 groups cost 19.0 partition-seconds.",
        "In the 11 min 28 s before, where the evidence begins: 30 rebalances of 4 groups cost",
    )
    reader.page.wait_for_function(f"location.search.includes('from={MARKED_MS}')")  # which may come after the words
    assert reader.clicks == 1
    reader.line("stormy-app \u00b7 webshop")
    reader.reads("w3 exceeded its poll interval")


def test_did_we_fall_back_to_stop_the_world(reader: Reader) -> None:
    reader.line("stormy-app \u00b7 webshop")
    reader.link("Group stormy-app")
    reader.reads("eager (everyone stops)")


def test_which_tasks_were_not_running_and_was_that_by_design(reader: Reader) -> None:
    reader.line("connect-lab \u00b7 reporting")
    reader.link("Open the incident")
    reader.reads("Connect leaves what it ran unassigned for up to 20 s", "waiting by design", "91.6 task-seconds (66.1")


def test_is_the_reassignment_moving_or_stuck_and_why(reader: Reader) -> None:
    reader.line("broker 4 \u00b7 customers")
    reader.link("Open the incident")
    reader.reads(
        "orders-0 is stalled: broker 4, where it should go, was down or fenced", "the move of orders-0 is completed"
    )


def test_is_it_a_storm(reader: Reader) -> None:
    reader.reads("stormy-app rebalanced 12 times in 1 min 39 s", "two owners at once for 11.2 s")


def test_what_did_you_not_see(reader: Reader) -> None:
    reader.link("What was not seen")
    reader.reads("connect-offsets")


@pytest.fixture(scope="module")
def axe() -> str:
    """The checker's script, by npm; kept in .build."""
    kept = ROOT / ".build" / f"{AXE}.js"
    if not kept.is_file():
        if shutil.which("npm") is None:
            if os.environ.get("CI"):
                pytest.fail("no npm, and CI is set; install it")
            pytest.skip("no npm; install it")
        kept.parent.mkdir(exist_ok=True)
        subprocess.run(["npm", "pack", "--silent", AXE], cwd=kept.parent, check=True, capture_output=True, timeout=120)
        packed = kept.parent / f"{AXE.replace('@', '-')}.tgz"
        with tarfile.open(packed) as archive:
            script = archive.extractfile("package/axe.min.js")
            assert script is not None
            kept.write_bytes(script.read())
    return kept.read_text(encoding="utf-8")


@pytest.mark.parametrize(("scheme", "width"), [("light", 1440), ("dark", 1440), ("light", 390)])
def test_no_page_has_a_serious_fault_of_access(
    chromium: Any, demo: Path, address: str, axe: str, scheme: str, width: int
) -> None:
    context = chromium.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme, bypass_csp=True)
    page = context.new_page()
    faults = []
    for name, path in pages("full", demo):
        page.goto(f"{address}/{path}")
        settled(page)
        page.evaluate(axe)
        # Streamlit's own frame (its header, its menu) is not ours to change.
        found = page.evaluate(
            "axe.run({include: [['[data-testid=stMainBlockContainer]']]}, {resultTypes: ['violations']})"
        )
        faults += [
            f"{name}: {v['id']}: {v['nodes'][0]['html'][:200]}"
            for v in found["violations"]
            if v["impact"] in ("serious", "critical")
        ]
    context.close()
    assert faults == []


def test_on_a_phone_no_table_of_ours_scrolls_sideways_nor_is_cut(chromium: Any, demo: Path, address: str) -> None:
    context = chromium.new_context(viewport={"width": 390, "height": 844}, timezone_id="UTC")
    page = context.new_page()
    wide = []
    for name, path in pages("full", demo):
        page.goto(f"{address}/{path}")
        settled(page)
        wide += [
            f"{name}: {text[:80]}"
            for text in page.evaluate(
                "[...document.querySelectorAll('.ra-scroll, .ra-long-box')]"
                ".filter(e => e.scrollWidth > e.clientWidth + 1)"
                ".map(e => e.innerText)"
            )
        ]
    context.close()
    assert wide == []
