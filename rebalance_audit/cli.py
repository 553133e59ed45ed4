"""The command line: the composition root, the only module (with `commands`) that may import every edge.

Data on stdout, everything else on stderr. Exit status 0 ok, 1 error, 2 usage, 3 findings at or above --fail-on.
"""

from __future__ import annotations

import argparse
import atexit
import os
import signal
import sys
from collections.abc import Sequence
from types import FrameType
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from rebalance_audit import __version__
from rebalance_audit.arrow_alone import arrow_alone
from rebalance_audit.commands import (
    audit,
    collect,
    config,
    demo,
    erase,
    export,
    lab,
    maintain,
    mark,
    options,
    outward,
    pipeline,
    report,
    respond,
    serve,
    stream,
    watch,
    whatif,
)
from rebalance_audit.commands import doctor as doctor_verb
from rebalance_audit.commands.examples import epilog, first_steps
from rebalance_audit.commands.explain.command import explain
from rebalance_audit.commands.output import ENVIRONMENT_LOG_FORMAT, LogFormat, complain
from rebalance_audit.domain.visible import visible


class _WholeHelp(TyperGroup):
    """Lists each verb's first sentence whole: on a narrow terminal it continues below, where Click would cut it."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        verbs = [(name, command) for name in self.list_commands(ctx) if (command := self.get_command(ctx, name))]
        with formatter.section("Commands"):
            formatter.write_dl([(name, command.get_short_help_str(200)) for name, command in verbs])


EXIT_ERROR, EXIT_USAGE, EXIT_FINDINGS, EXIT_INTERRUPTED = 1, 2, 3, 130
ENVIRONMENT_DEBUG = "REBALANCE_AUDIT_DEBUG"
_HELP_NAMES = ["-h", "--help"]
_CONTEXT: dict[str, Any] = {"help_option_names": _HELP_NAMES, "max_content_width": 120}

app = typer.Typer(
    name="rebalance-audit",
    cls=_WholeHelp,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings=_CONTEXT,
    help="Every Kafka rebalance: why it happened, what moved, how long it stood still, and the evidence for it.",
    epilog=first_steps(),
)
app.command("explain", epilog=epilog("explain"))(explain)
app.command("whatif", epilog=epilog("whatif"))(whatif.whatif)
app.command("import", epilog=epilog("import"))(collect.import_folder)
app.command("collect", epilog=epilog("collect"))(collect.collect)
app.command("stream", epilog=epilog("stream"))(stream.stream)
app.command("run", epilog=epilog("run"))(pipeline.run)
app.command("watch", epilog=epilog("watch"))(watch.watch)
app.command("report", epilog=epilog("report"))(report.report)
app.command("export", epilog=epilog("export"))(export.export)
app.command("mark", epilog=epilog("mark"))(mark.mark)
app.command("ack", epilog=epilog("ack"))(respond.ack)
app.command("silence", epilog=epilog("silence"))(respond.silence)
app.command("maintain", epilog=epilog("maintain"))(maintain.maintain)
app.command("erase", epilog=epilog("erase"))(erase.erase)
app.command("check", epilog=epilog("check"))(report.check)
app.command("alert", epilog=epilog("alert"))(report.alert)
app.command("trace", epilog=epilog("trace"))(outward.trace)
app.command("annotate", epilog=epilog("annotate"))(outward.annotate)
app.command("serve", epilog=epilog("serve"))(serve.serve)
app.command("ui", epilog=epilog("ui"))(serve.ui)
app.add_typer(config.config)
app.add_typer(audit.audit)
app.command("demo", epilog=epilog("demo"))(demo.demo)
app.command("doctor", epilog=epilog("doctor"))(doctor_verb.doctor)
app.command(
    "lab",
    add_help_option=False,
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []},
)(lab.lab)


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"rebalance-audit {__version__}")
        raise typer.Exit


@app.callback()
def _globals(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version.")
    ] = False,
    log_format: Annotated[
        LogFormat | None,
        typer.Option(
            "--log-format", help=f"Lines on stderr as text or as JSON, one object a line; {ENVIRONMENT_LOG_FORMAT} too."
        ),
    ] = None,
    debug: Annotated[bool, typer.Option("--debug", help="With an error, show where in the program it arose.")] = False,
) -> None:
    if log_format is not None:
        os.environ[ENVIRONMENT_LOG_FORMAT] = log_format.value
    if debug:
        os.environ[ENVIRONMENT_DEBUG] = "1"


def main(argv: Sequence[str] | None = None) -> None:
    """Ends the process. Every fault is one sentence on stderr."""
    signal.signal(signal.SIGTERM, _unwind)
    arrow_alone()
    sys.exit(run(sys.argv[1:] if argv is None else argv))


def script() -> None:
    """The command `rebalance-audit`: `main`, and a quick end. To free every object takes a tenth of a short run's time,
    and the system takes the memory back anyhow."""
    status: list[int] = []
    atexit.register(_leave, status)  # registered first: so it comes after all that libraries close when a process ends
    try:
        main()
    except SystemExit as ended:
        status.append(ended.code if isinstance(ended.code, int) else EXIT_ERROR)
        raise


def _leave(status: Sequence[int]) -> None:
    """Nothing where an error nobody caught ends the process, or where output is lost: Python itself says so."""
    try:
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:  # closed by whoever began this
                stream.flush()
    except (OSError, ValueError):
        return
    if status:
        os._exit(status[0])


def _unwind(number: int, frame: FrameType | None) -> None:
    """SIGTERM ends like Ctrl-C does: children are stopped, leases given back."""
    raise KeyboardInterrupt


def run(argv: Sequence[str]) -> int:
    """The exit status."""
    try:
        status = _called(list(argv))
        return status if isinstance(status, int) else 0
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except (KeyboardInterrupt, typer.Abort):
        return EXIT_INTERRUPTED
    except typer.TyperException as error:
        return _misused(error)
    except BrokenPipeError:
        # The reader (head, less) has gone; Python would complain once more while closing stdout.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_ERROR
    except Exception as error:
        if os.environ.get(ENVIRONMENT_DEBUG):
            raise
        sentence = sentence_for(error)
        if sentence is None or sentence == _A_TABLE:
            sentence = _damage_of(argv) or sentence
        if sentence is None:
            sentence = (
                f"Something unexpected went wrong ({type(error).__name__}: {error}); run it again as "
                f"`rebalance-audit --debug …` to see where, and report it."
            )
        for fault in getattr(error, "faults", (sentence,)):
            complain(fault, f"rebalance-audit: {visible(fault)}")
        return EXIT_USAGE if _is_of_command_line(error) else EXIT_ERROR


def _is_of_command_line(error: Exception) -> bool:
    targets = sys.modules.get("rebalance_audit.alerts.target")
    return isinstance(error, (options.UsageError, *([] if targets is None else [targets.NoTargetError])))


def _damage_of(argv: Sequence[str]) -> str | None:
    """What is wrong with the tables of the warehouse that a failed verb was about, if it is that."""
    from rebalance_audit.warehouse.damage import damages
    from rebalance_audit.warehouse.warehouse import Warehouse

    known = argparse.ArgumentParser(add_help=False, exit_on_error=False, allow_abbrev=False)
    known.add_argument("-w", "--warehouse", default=os.environ.get(options.ENVIRONMENT_WAREHOUSE))
    try:
        location = known.parse_known_args(argv)[0].warehouse
        found = [] if location is None else [*damages(Warehouse.open(location)).values()]
    except Exception:  # the error at hand is the one to show
        return None
    if not found:
        return None
    more = (
        f" {len(found) - 1} more are damaged: `rebalance-audit doctor -w {location}` lists them." if found[1:] else ""
    )
    return f"The table {found[0]}.{more}"


def _called(argv: list[str]) -> Any:
    """Runs the verb. Where nothing but its help is asked for, without the values of the options before it: Typer makes
    them with pydantic, whose import takes as long as all the rest."""
    names, asked = argv[:-1], argv[-1:]
    if names and asked[0] in _HELP_NAMES:
        command: Any = typer.main.get_command(app)
        for name in names:
            command = getattr(command, "commands", {}).get(name)
        if command is not None and command.add_help_option:
            return command.main(
                asked, prog_name=" ".join(["rebalance-audit", *names]), standalone_mode=False, **_CONTEXT
            )
    return app(argv, prog_name="rebalance-audit", standalone_mode=False)


def _misused(error: Any) -> int:
    """A wrong command line in one sentence, as every other error, with where to read more."""
    if type(error).__name__ == "NoArgsIsHelpError":
        error.show()
        return EXIT_USAGE
    context = getattr(error, "ctx", None)
    command = "rebalance-audit" if context is None else context.command_path
    said = error.format_message().rstrip(".").replace("Value error, ", "")
    fault = f"{said}{'' if said.endswith('?') else ';'} {'See' if said.endswith('?') else 'see'} `{command} --help`."
    complain(fault, f"rebalance-audit: {visible(fault)}")
    return EXIT_USAGE


_KNOWN_ERRORS = (
    ("rebalance_audit.warehouse.storage", "WarehouseError"),
    ("rebalance_audit.alerts.target", "AlertError"),
    ("rebalance_audit.domain.detect.limits", "LimitsError"),
    ("rebalance_audit.settings.reading", "SettingsError"),
    ("ingest.errors", "IngestError"),
    ("spark_jobs.session", "NoJavaError"),
    ("spark_jobs.spark_engine", "WorkerError"),
    ("spark_jobs.streaming", "StreamError"),
    ("spark_jobs.checks", "QualityError"),
    ("infra.lab.processes", "LabError"),
)
"""Errors whose text is a sentence for the user. Looked up by name: importing them all would cost seconds."""


_A_TABLE = "A table of the warehouse cannot be read; `rebalance-audit doctor -w W` says which."
_TOO_LARGE = (
    "A query over the tables needs more memory than it may have; no table was harmed. Run it with more cores, "
    "since each thread has its share, and report it."
)
_EXTRAS = {
    "confluent_kafka": "collector", "pyspark": "spark", "great_expectations": "spark", "streamlit": "ui",
    "pandas": "ui", "opentelemetry": "otel", "airflow": "airflow",
}  # fmt: skip
"""Which extra of the package brings a module that a small installation lacks."""


def sentence_for(error: Exception) -> str | None:
    """The sentence to show; None for an error nobody foresaw."""
    if isinstance(error, options.CommandError):
        return str(error)
    if isinstance(error, ModuleNotFoundError) and (missing := (error.name or "").partition(".")[0]) in _EXTRAS:
        return f"This needs {missing}, which is not installed: pip install 'rebalance-audit[{_EXTRAS[missing]}]'."
    for module, name in _KNOWN_ERRORS:
        kind = getattr(sys.modules.get(module), name, None)
        if kind is not None and isinstance(error, kind):
            return str(error)
    from rebalance_audit.warehouse.storage import passing_fault

    if (sentence := passing_fault(error)) is not None:
        return sentence
    if isinstance(error, FileNotFoundError) and "No usable temporary directory" in str(error):
        return "There is no temporary folder that can be written; set TMPDIR to one."
    if type(error).__name__ == "OutOfMemoryException":  # DuckDB's
        return _TOO_LARGE
    if type(error).__module__.partition(".")[0] in ("duckdb", "_duckdb", "deltalake", "pyarrow", "_internal"):
        return _A_TABLE
    if isinstance(error, PermissionError | FileNotFoundError | IsADirectoryError | NotADirectoryError):
        return f"{error.filename or 'A file'}: {error.strerror or error}; check the path and your rights."
    return None


if __name__ == "__main__":
    script()
