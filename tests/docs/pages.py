"""What the how-to pages say to type."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.captures import GOLDEN

ROOT = GOLDEN.parents[1]
DOCS = ROOT / "docs"
HOW_TO = (
    "index", "install", "tour", "access", "first_answer", "settings", "alerting", "app", "airflow", "sizing", "checks",
    "audit", "cluster", "operate", "upgrade",
)  # fmt: skip
_BLOCK = re.compile(r"^```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)
_YOURS = re.compile(r"^export (\w+)=.*# yours(:|$)")


def blocks(page: str) -> list[str]:
    return _BLOCK.findall((DOCS / f"{page}.md").read_text("utf-8"))


def typed(page: str, yours: Mapping[str, str], at: slice = slice(None)) -> str:
    """The page's commands as one script; lines that say `# yours` get our values. KeyError: one is missing."""
    lines = []
    for line in "".join(blocks(page)[at]).splitlines():
        own = _YOURS.match(line)
        lines.append(f"export {own[1]}='{yours[own[1]]}'" if own else line)
    return "\n".join(lines) + "\n"


def run(
    script: str, folder: Path, environment: Mapping[str, str] | None = None, timeout_s: float = 500
) -> subprocess.CompletedProcess[str]:
    """As somebody types it who has the command on the path and none of our variables set."""
    kept = {n: v for n, v in os.environ.items() if not n.startswith(("AIRFLOW", "REBALANCE_AUDIT", "PYTHONPATH"))}
    path = os.pathsep.join([str(Path(sys.executable).parent), kept.get("PATH", "")])
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script], cwd=folder, env=kept | {"PATH": path} | dict(environment or {}),
        capture_output=True, text=True, timeout=timeout_s, check=False,
    )  # fmt: skip
    assert done.returncode == 0, f"{script}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done
