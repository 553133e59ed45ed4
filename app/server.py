"""The app as `rebalance-audit ui` starts it: `streamlit run app/asgi.py`, ready when it says so.

Streamlit imports a page when somebody first asks for it; pandas, Arrow and DuckDB take seconds. Here they are there
before the server is, and Home's questions have been asked; those of the pages behind it are asked while it serves.
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

from app import access, hands, page, panels, sentences  # noqa: F401
from app.answers import coincidence, compare, evidence, ranges  # noqa: F401
from app.answers.rows import FindingFilter, Span
from app.charts import BUCKETS, ladder  # noqa: F401
from app.panels import coverage
from app.queries import Questions, WarehouseError, opened
from app.queries.findings import MOST_ON_A_PAGE
from rebalance_audit.domain.kinds import FindingStatus

LONGEST_WAIT_S = 20
"""For first answers, before the server starts without them; 1,000,000 rebalances in 1,000 files take five."""


def ask_homes_questions(location: str) -> None:
    """Ask what home asks: the answers are remembered for all who see everything. Pages show what cannot be read."""
    with contextlib.suppress(WarehouseError):
        reader = _reader(location)
        reader.refresh()
        reader.group_count()
        reader.clusters()
        reader.marks()
        reader.doubts()
        if (first := _homes_time(reader)) is not None:
            reader.open_at_home(first)
            reader.open_kinds(first)
            reader.fleet(first)
            reader.fleet_over_time(first, BUCKETS)
            reader.incident_count(first)
            reader.over_at_home(first)


def ask_first_clicks(location: str) -> None:
    """The same of what a click on home leads to, with the time that it carries."""
    with contextlib.suppress(WarehouseError):
        reader = _reader(location)
        if (first := _homes_time(reader)) is None:
            return
        reader.groups(first)
        all_ = FindingFilter()
        reader.finding_sums(all_)
        for asked in (FindingFilter(span=first), FindingFilter(status=FindingStatus.OPEN, span=first)):
            reader.finding_count(asked)
            reader.findings(asked, most=MOST_ON_A_PAGE)
        reader.coverage()
        reader.incomplete()
        reader.incomplete_counts()
        reader.checks()
        reader.contradictions()
        reader.reopenings()
        reader.let_go()
        reader.undecoded_counts()
        reader.undecoded()
        reader.decode_counts()
        reader.silent(coverage.SILENT_AFTER_MS)
        reader.connect_groups()
        reader.reassignments_by_cluster()
        reader.changes(None, None)
        reader.topics_read()


def _reader(location: str) -> Questions:
    return opened(location, access.SEES_ALL if access.rules() is None else access.AUDITOR)


def _homes_time(reader: Questions) -> Span | None:
    whole = reader.span()
    return None if whole is None else ranges.preset(ranges.of_home(reader.open_at_home(whole), whole), whole)


def main(arguments: list[str]) -> None:
    """`arguments` as `streamlit run` takes them after the file."""
    if location := os.environ.get("REBALANCE_AUDIT_WAREHOUSE"):
        home = threading.Event()

        def ask() -> None:
            try:
                ask_homes_questions(location)
            finally:
                home.set()
            ask_first_clicks(location)

        threading.Thread(target=ask, name="first answers", daemon=True).start()
        home.wait(LONGEST_WAIT_S)
    # Streamlit collects all garbage after each run of a page or fragment, 90 ms beside everything imported, of which an
    # open page makes two a second. Python collects by itself; what is here now stays, so that need not look at it.
    gc.collect()
    gc.freeze()
    script = str(Path(__file__).with_name("asgi.py"))
    cli.main(["run", script, "--runner.postScriptGC", "false", *arguments], prog_name="streamlit")


if __name__ == "__main__":
    main(sys.argv[1:])
