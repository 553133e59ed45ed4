"""Progress on stderr: bars on a terminal, nothing else anywhere else."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rebalance_audit.commands.output import note

Progress = Callable[[int, int, str], None]
"""Called with how much is done, how much there is, and what is being read."""


@contextmanager
def meter(what: str, *, quiet: bool = False, unit: str = "bytes") -> Iterator[Progress]:
    """A bar that appears as soon as there is something to show."""
    if quiet or not sys.stderr.isatty():
        yield lambda done, total, what: None
        return
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import BarColumn, DownloadColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bars

    amount = DownloadColumn() if unit == "bytes" else MofNCompleteColumn()
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        amount,
        TimeElapsedColumn(),
        TextColumn("{task.fields[now]}"),
    )
    with Bars(*columns, console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task(escape(what), total=None, now="")

        def progress(done: int, total: int, now: str) -> None:
            bars.update(task, completed=done, total=total or None, now=escape(now[:50]))

        yield progress


@contextmanager
def stages(names: list[str], *, quiet: bool = False) -> Iterator[Callable[[str, str], None]]:
    """`progress` of pipeline.run: a bar over the stages, or one line per stage where no terminal is."""
    import time

    started: dict[str, float] = {}
    if quiet:
        yield lambda stage, what: None
        return
    if not sys.stderr.isatty():

        def say(stage: str, what: str) -> None:
            if what == "started":
                started[stage] = time.monotonic()
            else:
                took = f"{time.monotonic() - started[stage]:.1f} s" if what == "ended" else what
                note(f"{stage}: {took}")

        yield say
        return
    with meter("stages", unit="stages") as progress:
        done = 0
        progress(0, len(names), "starting")

        def show(stage: str, what: str) -> None:
            nonlocal done
            done += what != "started"
            progress(done, len(names), stage if what == "started" else "")

        yield show
