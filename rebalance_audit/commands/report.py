"""`report`, `check` and `alert`: what is published, for people, for CI and for those on call."""

from __future__ import annotations

import sys
import time
from collections.abc import Collection
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rebalance_audit.commands import options
from rebalance_audit.commands.options import Output
from rebalance_audit.commands.output import folded, json_text, note, output_width, styled, write_rows
from rebalance_audit.commands.rows import known_table, published, refuse_unknown_cluster, selection
from rebalance_audit.commands.stored import evidence_ends, refuse_unknown
from rebalance_audit.domain.kinds import FindingStatus, Severity
from rebalance_audit.domain.visible import visible

if TYPE_CHECKING:
    from rebalance_audit.alerts.routing import Routes
    from rebalance_audit.alerts.state import KeptState, StoredState

EXIT_FINDINGS = 3
_SHOWN = ("severity", "rule_id", "cluster_id", "subject", "status", "title", "finding_id")


def check(
    warehouse: options.Warehouse,
    fail_on: Annotated[Severity, typer.Option("--fail-on", help="Exit 3 for findings this severe.")] = Severity.WARNING,
    group: options.Group = None,
    cluster_id: options.ClusterId = None,
    resolved: Annotated[bool, typer.Option("--resolved", help="Count what is over, too.")] = False,
    suite: Annotated[
        bool, typer.Option("--suite", help="Check the rows of every table with Great Expectations first.")
    ] = False,
    docs: Annotated[
        Path | None,
        typer.Option("--docs", metavar="DIR", help="Only write pages with every check and its result (data docs)."),
    ] = None,
    release: Annotated[
        str | None,
        typer.Option(
            "--release", metavar="BATCH", help="Only take this batch out of the quarantine, if it is good now."
        ),
    ] = None,
    output: Annotated[Output, typer.Option("-o", "--output")] = Output.TABLE,
    quiet: options.Quiet = False,
    config: options.Config = None,
) -> None:
    """For CI: list grave findings, and exit 3 if there are any. So it does if evidence waits in the quarantine."""
    from rebalance_audit.domain.detect.finding import numbers_of
    from rebalance_audit.domain.detect.wording import counted
    from rebalance_audit.domain.tables import SEVERITIES
    from rebalance_audit.warehouse.warehouse import Warehouse

    opened = Warehouse.open(warehouse)
    if release is not None:
        _release(opened, release, quiet=quiet)
        return
    if docs is not None:
        _write_docs(opened, docs, quiet=quiet)
        return
    published(opened)
    if suite:
        from rebalance_audit.commands.pipeline import check_stages
        from spark_jobs.plan import STAGES

        check_stages(opened, [stage.name for stage in STAGES], quiet=quiet)
    refuse_unknown_cluster(opened, cluster_id)
    if group is not None:
        refuse_unknown(opened, group)
    table = known_table("gold.finding")
    rows: list[dict[str, Any]] = opened.query(*selection(table, group=group, cluster_id=cluster_id)).to_pylist()
    least = SEVERITIES.index(fail_on.value)
    found = [
        r for r in rows if SEVERITIES.index(r["severity"]) >= least and (resolved or r["status"] == FindingStatus.OPEN)
    ]
    found.sort(key=lambda r: (-SEVERITIES.index(r["severity"]), r["cluster_id"], r["subject"], r["rule_id"]))
    if output is not Output.TABLE or found:
        if output in (Output.JSON, Output.JSONL):
            found = [row | {"numbers": numbers_of(row["numbers"])} for row in found]
        columns = _SHOWN[:-1] if output is Output.TABLE else [column.name for column in table.columns]
        write_rows(found, columns, output)
    waiting = _state_of_tables(opened, quiet=quiet)
    if found:
        note(f"{counted(len(found), 'finding')} at or above {fail_on.value}.", quiet=quiet)
    if found or waiting:
        raise typer.Exit(EXIT_FINDINGS)
    note(f"No {'finding' if resolved else 'open finding'} at or above {fail_on.value}.", quiet=quiet)


def _state_of_tables(opened: Any, *, quiet: bool) -> int:
    """Returns how many files wait in the quarantine. Prints which, and what differs from the days before."""
    from rebalance_audit.commands.pipeline import usual_verdicts
    from spark_jobs.quarantine import held

    for verdict in usual_verdicts(opened):
        if not verdict["success"]:
            note(f"{verdict['table_name']}: not {verdict['check_name']}: {verdict['examples'][0]}.", quiet=quiet)
    waiting = held(opened)
    for row in waiting:
        note(
            f"{row['batch']} is in quarantine: its file for {row['table_name']} {row['problem']}; when that is mended, "
            f"`rebalance-audit check -w {opened.location} --release {row['batch']}`.",
            quiet=quiet,
        )
    return len(waiting)


def _release(opened: Any, batch: str, *, quiet: bool) -> None:
    from spark_jobs.quarantine import release

    with opened.lease("check"):
        count = release(opened, batch)
    note(f"{batch}: {count} file{'s' * (count > 1)} released; the next `run` takes {'them' if count > 1 else 'it'} in.",
         quiet=quiet)  # fmt: skip


def _write_docs(opened: Any, folder: Path, *, quiet: bool) -> None:
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())) and not (folder / "index.html").exists():
        raise options.UsageError(f"--docs {folder} is not empty and no folder of data docs; give a new folder.")
    from spark_jobs.data_docs import write_data_docs

    page, left_out = write_data_docs(opened, folder)
    for table in left_out:
        note(f"{table} is too large for pages; `check --suite` checks it.", quiet=quiet)
    print(page)


def alert(
    warehouse: options.Warehouse,
    to: Annotated[
        list[str],
        typer.Option("--to", metavar="URL", help="https://… (Alertmanager) or any target of apprise. Repeatable."),
    ],
    least: Annotated[Severity, typer.Option("--min-severity", help="Send nothing less severe.")] = Severity.WARNING,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would be sent; send nothing.")] = False,
    state: Annotated[
        Path | None, typer.Option("--state", metavar="FILE", help="What was sent to whom; in the warehouse by default.")
    ] = None,
    quiet: options.Quiet = False,
    config: options.Config = None,
) -> None:
    """Send news of incidents to each target once. An incident is news when it is new, graver, wider or over."""
    from rebalance_audit.warehouse.warehouse import Warehouse

    opened, by_team = published(Warehouse.open(warehouse)), routes_of_teams(config)
    if not send(opened, to, least, state, dry_run=dry_run, quiet=quiet, routes=by_team):
        raise typer.Exit(1)


def send(
    opened: Any,
    to: list[str],
    least: Severity,
    state: Path | StoredState | KeptState | None = None,
    *,
    dry_run: bool = False,
    quiet: bool = False,
    except_ids: Collection[str] = (),
    routes: Routes | None = None,
) -> bool:
    """Send news of incidents. False if a target could not be reached; the others have theirs. `except_ids`: incidents
    about which something newer than the tables was sent."""
    from rebalance_audit.alerts.news import AlertRound
    from rebalance_audit.alerts.sending import send_alerts, would_be_sent
    from rebalance_audit.domain.detect.wording import counted
    from rebalance_audit.domain.incidents import incident_of
    from rebalance_audit.warehouse.advice import advised
    from rebalance_audit.warehouse.responses import responses

    rows = opened.query(*selection(known_table("gold.incident"))).to_pylist()
    asked = AlertRound(
        [incident_of(row) for row in rows], min_severity=least, is_all=True, except_ids=except_ids,
        responses=responses(opened), now_ms=time.time_ns() // 1_000_000, routes=routes,
        advised=partial(advised, opened=opened), ends=evidence_ends(opened),
    )  # fmt: skip
    place = state or alert_state(opened)
    if dry_run:
        messages = list(would_be_sent(asked, to, place))
        for message in messages:
            _print_message(message)
        note(f"{counted(len(messages), 'message')} would be sent.", quiet=quiet)
        return True
    sent = send_alerts(asked, to, place)
    for failure in sent.failures:
        note(failure)
    note(f"{sent.in_words()}.", quiet=quiet)
    return not sent.failures


def routes_of_teams(config: str | None) -> Routes | None:
    """The incidents that each target gets, by the settings file. Raises SettingsError."""
    if config is None:
        return None
    from rebalance_audit.settings.choices import routes_of

    return routes_of(options.settings(config))


def alert_state(opened: Any) -> Path | StoredState:
    """The place where a warehouse remembers what was sent."""
    from rebalance_audit.alerts.state import state_of

    return state_of(opened.location)


def _print_message(text: str) -> None:
    print("\n".join(folded(visible(line)) for line in text.splitlines()) + "\n")


class ReportFormat(StrEnum):
    TABLE = "table"
    JSON = "json"
    HTML = "html"


def report(
    warehouse: options.Warehouse,
    group: options.Group = None,
    from_: options.From = None,
    to: options.To = None,
    output: Annotated[
        ReportFormat, typer.Option("-o", "--output", help="html is one file that needs nothing else.")
    ] = ReportFormat.TABLE,
    bounds: Annotated[bool, typer.Option("--bounds", help="Show hard bounds beside the likely ranges.")] = False,
    quiet: options.Quiet = False,
    config: options.Config = None,
) -> None:
    """What a period cost: incidents, worst groups, causes, the unseen."""
    from rebalance_audit.reports.report import read_report, report_dict
    from rebalance_audit.warehouse.warehouse import Warehouse

    opened = published(Warehouse.open(warehouse))
    now_ms = time.time_ns() // 1_000_000
    from_ms, to_ms = options.period_ms(from_, to, now_ms)
    if group is not None:
        refuse_unknown(opened, group)
    if output is ReportFormat.TABLE:
        print_report(opened, group=group, from_ms=from_ms, to_ms=to_ms, bounds=bounds)
        return
    found = read_report(opened, group_id=group, from_ms=from_ms, to_ms=to_ms, now_ms=now_ms)
    if output is ReportFormat.JSON:
        sys.stdout.write(json_text(report_dict(found)) + "\n")
    else:
        from rebalance_audit.reports.report import report_html

        sys.stdout.write(report_html(found))


def print_report(
    opened: Any,
    *,
    group: str | None = None,
    from_ms: int | None = None,
    to_ms: int | None = None,
    bounds: bool = False,
) -> None:
    from rebalance_audit.reports.report import read_report, report_text

    now_ms = time.time_ns() // 1_000_000
    found = read_report(opened, group_id=group, from_ms=from_ms, to_ms=to_ms, now_ms=now_ms)
    sys.stdout.write(styled(report_text(found, output_width(), bounds=bounds)))
    sys.stdout.flush()
