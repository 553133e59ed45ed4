"""Every page photographed: `python -m tests.app.pictures [FOLDER] [--only KIND] [--docs]`, or `make pictures`.

At 1440 and 390 pixels, light and dark; on the tables of the demo (full), on hostile names, on no tables at all (empty),
and on tables of which one is destroyed (broken). `--docs` renews the few that stand in docs/pictures.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from PIL import Image

from app.queries import Questions
from rebalance_audit.warehouse.warehouse import Warehouse
from tests.app import gold_rows
from tests.app.gold_rows import CLUSTER, HOSTILE_GROUP
from tests.app.serving import ROOT, app_on, browser, settled

KINDS = ("full", "hostile", "empty", "broken")
WIDTHS = {1440: 1000, 390: 844}
SCHEMES = ("light", "dark")
COLOURS = 64
LIST_PAGES = ("", "groups", "connect", "reassignments", "findings", "compare", "whatif", "trust")
DOCS = {
    "full-home-1440-light": "home",
    "full-home-390-dark": "home-phone",
    "full-incident-1440-light": "incident",
    "full-incident-1440-dark": "incident-dark",
    "full-group-1440-light": "group",
    "full-rebalance-1440-light": "rebalance",
    "full-connect-1440-light": "connect",
    "full-reassignment-1440-light": "reassignment",
    "full-groups-1440-light": "groups",
    "full-reassignments-1440-light": "reassignments",
    "full-findings-1440-light": "findings",
    "full-compare-1440-light": "compare",
    "full-whatif-1440-light": "settings",
    "full-trust-1440-light": "trust",
    "full-evidence-1440-light": "evidence",
    "hostile-group-1440-light": "hostile",
    "empty-home-1440-light": "empty",
    "broken-home-1440-light": "broken",
}
"""Pictures of the docs, and what they are called there."""


def demo_warehouse(folder: Path) -> Path:
    command = [sys.executable, "-m", "rebalance_audit.cli", "demo", "-w", str(folder), "--no-serve", "-q"]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    return folder


def written(kind: str, folder: Path) -> Path:
    """A warehouse of that kind."""
    if kind == "full":
        return demo_warehouse(folder)
    if kind == "empty":
        Warehouse.open(folder, create=True)
        return folder
    gold_rows.write(folder, many=20)
    if kind == "broken":
        for file in (folder / "gold" / "movement").glob("*.parquet"):
            file.unlink()
    return folder


def pages(kind: str, folder: Path) -> Iterator[tuple[str, str]]:
    """Name and address of every page there is to see."""
    yield from ((view or "home", view) for view in LIST_PAGES)
    if kind == "empty":
        return
    reader = Questions.open(folder)
    reader.refresh()
    if kind == "full":
        group = {"cluster": "reporting", "group": "connect-lab"}
        rebalance = {"cluster": "orders", "rebalance": "orders/orders-app/6"}
    else:
        group = {"cluster": CLUSTER, "group": HOSTILE_GROUP}
        rebalance = {"cluster": CLUSTER, "rebalance": "hostile/1"}
    found = reader.rows(
        "SELECT cluster_id, incident_id FROM gold.incident WHERE list_contains(group_ids, ?) ORDER BY expected, "
        "cost_seconds DESC NULLS LAST",
        (group["group"],),
    )
    yield "group", f"group?{urlencode(group)}"
    yield "rebalance", f"rebalance?{urlencode(rebalance)}"
    if found:
        incident = {"cluster": found[0]["cluster_id"], "incident": found[0]["incident_id"]}
        yield "incident", f"incident?{urlencode(incident)}"
    for row in reader.rows(
        "SELECT cluster_id, group_id FROM gold.whatif ORDER BY saved_seconds DESC NULLS LAST LIMIT 1"
    ):
        helped = {"cluster": row["cluster_id"], "group": row["group_id"]}
        yield "whatif-group", f"whatif?{urlencode(helped)}"
        yield "helped-group", f"group?{urlencode(helped)}"
    for row in reader.rows("SELECT cluster_id, reassignment_id FROM gold.reassignment ORDER BY 1 DESC, 2 LIMIT 1"):
        move = {"cluster": row["cluster_id"], "reassignment": row["reassignment_id"]}
        yield "reassignment", f"reassignment?{urlencode(move)}"
    for row in reader.rows("SELECT cluster_id, evidence[1] AS ref FROM gold.incident ORDER BY 1, 2 LIMIT 1"):
        yield "evidence", f"evidence?{urlencode({'cluster': row['cluster_id'], 'ref': row['ref']})}"


def photograph(chromium: Any, address: str, kind: str, folder: Path, into: Path) -> list[Path]:
    made = []
    for width, height in WIDTHS.items():
        for scheme in SCHEMES:
            context = chromium.new_context(
                viewport={"width": width, "height": height}, color_scheme=scheme, timezone_id="UTC"
            )
            page = context.new_page()
            for name, path in pages(kind, folder):
                page.goto(f"{address}/{path}")
                settled(page)
                page.wait_for_timeout(600)  # canvases and tables of Streamlit draw after the run
                file = into / f"{kind}-{name}-{width}-{scheme}.png"
                page.screenshot(path=str(file))
                small(file)
                made.append(file)
            context.close()
    return made


def small(file: Path) -> None:
    """The same picture in few colours: a fifth of the bytes."""
    with Image.open(file) as image:
        few = image.convert("RGB").quantize(COLOURS, method=Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE)
    few.save(file, optimize=True)


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("folder", nargs="?", type=Path, default=ROOT / ".build" / "pictures")
    asked.add_argument("--only", choices=KINDS, action="append")
    asked.add_argument("--docs", action="store_true", help="renew those of docs/pictures")
    arguments = asked.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    made: list[Path] = []
    for kind in arguments.only or KINDS:
        with tempfile.TemporaryDirectory() as temporary:
            warehouse = written(kind, Path(temporary) / "warehouse")
            with app_on(warehouse) as address, browser() as chromium:
                made += photograph(chromium, address, kind, warehouse, arguments.folder)
    if arguments.docs:
        for file in made:
            if (name := DOCS.get(file.stem)) is not None:
                (ROOT / "docs" / "pictures" / f"{name}.png").write_bytes(file.read_bytes())
    print(f"{len(made)} pictures in {arguments.folder}, {sum(f.stat().st_size for f in made) / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
