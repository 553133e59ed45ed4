"""The app as `rebalance-audit ui` starts it: `streamlit run app/asgi.py`, ready when it says so.

Streamlit imports a page when somebody first asks for it; pandas, Arrow and DuckDB take seconds. Here they are there
before the server is, and Home's questions have been asked.
"""

from __future__ import annotations

import contextlib
import gc
import os
import sys
import threading
from pathlib import Path

import pyarrow.pandas_compat  # noqa: F401  # Streamlit loads it with the first table
from streamlit.web import cli

from app import access
from app.answers import coincidence, compare, evidence, ranges  # noqa: F401
from app.charts import BUCKETS
from app.queries import WarehouseError, opened

LONGEST_WAIT_S = 20
"""For first answers, before the server starts without them; 1,000,000 rebalances in 1,000 files take five."""


def ask_homes_questions(location: str) -> None:
    """Ask what home asks: the answers are remembered for all who see everything. Pages show what cannot be read."""
    with contextlib.suppress(WarehouseError):
        reader = opened(location, access.SEES_ALL if access.rules() is None else access.AUDITOR)
        reader.refresh()
        reader.group_count()
        reader.clusters()
        reader.marks()
        reader.doubts()
        if (whole := reader.span()) is not None:
            first = ranges.preset(ranges.of_home(reader.open_at_home(whole), whole), whole)
            reader.open_at_home(first)
            reader.open_kinds(first)
            reader.fleet(first)
            reader.fleet_over_time(first, BUCKETS)
            reader.incident_count(first)
            reader.over_at_home(first)
            reader.groups(ranges.preset("24 h", whole))


def main(arguments: list[str]) -> None:
    """`arguments` as `streamlit run` takes them after the file."""
    if location := os.environ.get("REBALANCE_AUDIT_WAREHOUSE"):
        asking = threading.Thread(target=ask_homes_questions, args=(location,), name="first answers", daemon=True)
        asking.start()
        asking.join(LONGEST_WAIT_S)
    # Streamlit collects all garbage after each run of a page or fragment, 90 ms beside everything imported, of which an
    # open page makes two a second. Python collects by itself; what is here now stays, so that need not look at it.
    gc.collect()
    gc.freeze()
    page = str(Path(__file__).with_name("asgi.py"))
    cli.main(["run", page, "--runner.postScriptGC", "false", *arguments], prog_name="streamlit")


if __name__ == "__main__":
    main(sys.argv[1:])
