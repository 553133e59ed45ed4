"""Options that several verbs share, spelt as Kafka's own tools spell them, and the values behind them."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rebalance_audit.settings.model import Settings

ENVIRONMENT_WAREHOUSE = "REBALANCE_AUDIT_WAREHOUSE"
ENVIRONMENT_CONFIG = "REBALANCE_AUDIT_CONFIG"
ENVIRONMENT_KEY = "REBALANCE_AUDIT_KEY"
"""The file with the private key that signs the log of evidence, PEM."""
ENVIRONMENT_HEADS = "REBALANCE_AUDIT_HEADS"
"""The second place of the signed heads: a folder or an object-store URL that the warehouse's writer does not share."""

Warehouse = Annotated[
    str,
    typer.Option("-w", "--warehouse", metavar="W", envvar=ENVIRONMENT_WAREHOUSE, help="Folder or object-store URL."),
]
Config = Annotated[
    str | None,
    typer.Option(
        "--config",
        metavar="FILE",
        envvar=ENVIRONMENT_CONFIG,
        is_eager=True,
        callback=lambda ctx, value: _defaults_from(ctx, "config", value),
        help="Settings file (docs/settings.md); flags and environment variables win over it.",
    ),
]
Cluster = Annotated[
    str | None,
    typer.Option(
        "--cluster",
        metavar="NAME",
        is_eager=True,
        callback=lambda ctx, value: _defaults_from(ctx, "cluster", value),
        help="Which cluster of the settings file, if it has several.",
    ),
]
Bootstrap = Annotated[
    str | None,
    typer.Option("-b", "--bootstrap-server", metavar="HOST:PORT", help="Brokers to ask, comma between them."),
]
CommandConfig = Annotated[
    Path | None,
    typer.Option("--command-config", metavar="FILE", help="Client properties, as for Kafka's own tools."),
]
Overrides = Annotated[
    list[str] | None, typer.Option("-X", metavar="KEY=VALUE", help="A librdkafka setting; may be repeated.")
]
Logs = Annotated[
    list[str] | None,
    typer.Option(
        "--logs", metavar="DIR", help="Logs of one node, or one folder per node; NODE=DIR names the node. Repeatable."
    ),
]
Evidence = Annotated[
    Path | None, typer.Option("--evidence", metavar="DIR", help="An evidence folder: data/<node>/, logs/<node>/.")
]
DataDir = Annotated[
    Path | None, typer.Option("--data-dir", metavar="D", help="A broker's own data directory, read in place.")
]
Node = Annotated[str | None, typer.Option("--node", metavar="N", help="The node it belongs to.")]
Group = Annotated[str | None, typer.Option("-g", "--group", metavar="GROUP", help="Only this group.")]
ClusterId = Annotated[str | None, typer.Option("--cluster-id", metavar="ID", help="Only this cluster.")]
Quiet = Annotated[bool, typer.Option("-q", "--quiet", help="No progress and no notes.")]
From = Annotated[
    str | None, typer.Option("--from", metavar="T", help="From then on: 2026-11-21T14:00 (UTC), epoch ms, or -2h.")
]
To = Annotated[str | None, typer.Option("--to", metavar="T", help="Until then (exclusive); as --from.")]
ConnectTopics = Annotated[
    list[str] | None,
    typer.Option(
        "-t", "--topic", metavar="TOPIC[=status|config]", help="Connect's topics; found by themselves if not given."
    ),
]


def _known_zone(value: str | None) -> str | None:
    """Refused here: once it is stored beside the lines, no stage can read them."""
    if value is not None:
        from rebalance_audit.domain.gather.clocks import zone_of

        try:
            zone_of(value)
        except ValueError as error:
            raise UsageError(f"--log-time-zone: {error}.") from None
    return value


LogTimeZone = Annotated[
    str | None,
    typer.Option(
        "--log-time-zone",
        metavar="Z",
        callback=_known_zone,
        help="Zone of the log times, Europe/Berlin; inferred if not given.",
    ),
]


class Output(StrEnum):
    TABLE = "table"
    JSON = "json"
    JSONL = "jsonl"
    CSV = "csv"


class EngineName(StrEnum):
    AUTO = "auto"
    SPARK = "spark"
    LOCAL = "local"


EngineChoice = Annotated[
    EngineName,
    typer.Option(
        "--engine",
        envvar="REBALANCE_AUDIT_ENGINE",
        help="What runs the stages: this process, Spark, or whichever fits the size of the news.",
    ),
]
SparkFrom = Annotated[
    str,
    typer.Option("--spark-from", metavar="SIZE", help="With --engine auto: news of this size and more runs in Spark."),
]
SPARK_FROM = "16MB"


class CommandError(Exception):
    """An error the user can act on: one sentence with the fault, the place and the remedy."""


class UsageError(CommandError):
    """The command line itself is wrong."""


def one_place(given: Mapping[str, object], ways: str, *, is_needed: bool = True) -> None:
    """Raises UsageError where `given`, places to look at by the option that names them, has several or, if one is
    needed, none. `ways`: those options as people type them."""
    named = [option for option, value in given.items() if value]
    if len(named) > 1:
        raise UsageError(f"{' and '.join(named)} are {len(named)} places to look at; give one of {ways}.")
    if not named and is_needed:
        raise UsageError(f"Say where to look: {ways}.")


_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d|w)")
_UNIT_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}


def duration_ms(text: str) -> int:
    """The milliseconds of `90s`, `1h` or `1.5d`."""
    match = _DURATION.fullmatch(text.strip())
    if match is None:
        raise UsageError(f"{text!r} is no duration; write it as 90s, 30m, 1h or 2d.")
    return int(float(match[1]) * _UNIT_MS[match[2]])


_SIZE = re.compile(r"(\d+)\s*([kmg]?)i?b?", re.IGNORECASE)
_UNIT_BYTES = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


def size_bytes(text: str) -> int:
    """The bytes of `16MB`, `512k` or `1g`; in steps of 1,024."""
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise UsageError(f"{text!r} is no size; write it as 16MB, 512k or 1g.")
    return int(match[1]) * _UNIT_BYTES[match[2].lower()]


def instant_ms(name: str, text: str, now_ms: int, relative: str = "-2h") -> int:
    """An ISO instant (UTC where it has no offset), epoch milliseconds, or a duration before now (`-2h`).

    `name`: of the option; `relative`: how its error shows a time beside now. Raises UsageError, also for an instant
    that no calendar has.
    """
    text = text.strip()
    try:
        if text.isdigit() and len(text) >= 11:
            at_ms = int(text)
        elif text.startswith("-"):
            at_ms = now_ms - duration_ms(text[1:])
        else:
            at_ms = _iso_ms(text, relative)
        datetime.fromtimestamp(at_ms / 1000, UTC)
    except (OverflowError, OSError, ValueError):
        raise UsageError(f"{name} {text}: no calendar has this time; write it as 2026-11-21T14:00.") from None
    return at_ms


def _iso_ms(text: str, relative: str) -> int:
    try:
        instant = datetime.fromisoformat(text)
    except ValueError:
        written = f"2026-11-21T14:00, epoch milliseconds, or {relative}"
        raise UsageError(f"{text!r} is no time; write it as {written}.") from None
    return round((instant if instant.tzinfo else instant.replace(tzinfo=UTC)).timestamp() * 1000)


def refuse_no_text(name: str, value: str) -> None:
    """Raise UsageError for text that no table can hold: of a terminal in another encoding, or half a character of
    JSON."""
    try:
        value.encode()
    except UnicodeEncodeError:
        raise UsageError(f"{name} has bytes that are no character; write it in UTF-8.") from None


def this_user() -> str:
    """Who types this, for the record."""
    import getpass

    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a user id without a name, as in containers
        return "somebody"


def period_ms(from_: str | None, to: str | None, now_ms: int) -> tuple[int | None, int | None]:
    """The period between --from and --to; None: open at that end. Raises UsageError if it ends before it begins."""
    from_ms = None if from_ is None else instant_ms("--from", from_, now_ms)
    to_ms = None if to is None else instant_ms("--to", to, now_ms)
    if from_ms is not None and to_ms is not None and from_ms >= to_ms:
        raise UsageError(f"--from {from_} is not before --to {to}; nothing lies between them.")
    if from_ms is not None and from_ms > now_ms:
        raise UsageError(f"--from {from_} lies in the future; give a time that has been.")
    return from_ms, to_ms


def settings(file: str | None) -> Settings:
    """The settings of the file; the defaults without one. Raises SettingsError with every fault."""
    from rebalance_audit.settings.model import Settings
    from rebalance_audit.settings.reading import read_settings

    return Settings() if file is None else read_settings(file)


def _defaults_from(context: typer.Context, option: str, value: str | None) -> str | None:
    """Makes what the settings say the defaults of this verb's other options.

    Click asks its `default_map` after the command line and the environment. `--config` and `--cluster` come in any
    order, and before all others.
    """
    context.meta[option] = value
    if context.meta.get("config") is None or {"config", "cluster"} & _eager(context) - context.meta.keys():
        return value
    from rebalance_audit.settings.choices import option_defaults

    verb = context.info_name or ""
    given = settings(context.meta["config"])
    context.default_map = option_defaults(given, verb, context.meta.get("cluster"))
    for name, stated in ((ENVIRONMENT_KEY, given.evidence_log.key_file), (ENVIRONMENT_HEADS, given.evidence_log.heads)):
        if stated is not None:
            os.environ.setdefault(name, stated)  # whoever ends a lease adds to the log, in whatever verb
    return value


def _eager(context: typer.Context) -> set[str]:
    return {parameter.name or "" for parameter in context.command.params if parameter.is_eager}


def client_config(bootstrap: str | None, command_config: Path | None, overrides: list[str] | None) -> dict[str, str]:
    """The clients' settings for librdkafka. The command line wins over the file."""
    from ingest.client_config import parse_overrides, read_command_config

    config = read_command_config(command_config) if command_config else {}
    config |= parse_overrides(overrides or [])
    if bootstrap:
        config["bootstrap.servers"] = bootstrap
    return config


def connect_topics(given: list[str] | None) -> dict[str, str] | None:
    """Kind by topic, from `connect-status=status`; without a kind it follows from the name."""
    if not given:
        return None
    topics = {}
    for text in given:
        name, _, kind = text.partition("=")
        kind = kind or next((k for k in ("status", "config") if k in name.lower()), "")
        if kind not in ("status", "config"):
            raise UsageError(f"-t {text}: say which it is, {name}=status or {name}=config.")
        topics[name] = kind
    return topics


def named_folder(text: str) -> tuple[str, Path]:
    """(node, folder) of `NODE=DIR`; the node is "" for a plain `DIR`, which may hold an equals sign itself."""
    node, equals, path = text.partition("=")
    if equals and not Path(text).exists():
        return node, Path(path)
    return "", Path(text)


def _may_be_listed(folder: Path) -> None:
    """Raises PermissionError where it may not be: a search for files would find none, and no fault."""
    os.scandir(folder).close()


def log_folders(given: list[str] | None) -> list[tuple[str, Path]]:
    """(node, folder with its logs) of every `--logs`."""
    found: list[tuple[str, Path]] = []
    for text in given or []:
        node, folder = named_folder(text)
        if not folder.is_dir():
            raise UsageError(f"--logs {text}: {folder} is not a folder; give one that holds a node's *.log files.")
        _may_be_listed(folder)
        if node or any(folder.glob("*.log*")):  # a named node may have yet to write its first
            found.append((node or folder.resolve().name, folder))
            continue
        nodes = [sub for sub in sorted(folder.iterdir()) if sub.is_dir() and any(sub.glob("*.log*"))]
        if not nodes:
            raise UsageError(f"--logs {text}: no *.log file in {folder}, nor in a folder below it; check the path.")
        found += [(sub.name, sub) for sub in nodes]
    return found
