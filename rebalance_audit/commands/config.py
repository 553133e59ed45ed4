"""`config`: the settings file, checked as a whole and shown as it is understood. Secrets are never in it."""

from __future__ import annotations

import json
import sys
from typing import Annotated, Any

import typer

from rebalance_audit.commands import options
from rebalance_audit.commands.examples import epilog
from rebalance_audit.commands.output import note
from rebalance_audit.domain.visible import visible

Config = Annotated[
    str | None,
    typer.Option("--config", metavar="FILE", envvar=options.ENVIRONMENT_CONFIG, help="The settings file."),
]
config = typer.Typer(
    name="config", no_args_is_help=True, rich_markup_mode=None, help="The settings file.", epilog=epilog("config")
)


@config.command("check", epilog=epilog("config check"))
def check(file: Config = None, quiet: options.Quiet = False) -> None:
    """Name every fault of the settings file at once, with its line. Exit 1 if there is one."""
    from rebalance_audit.domain.detect.wording import counted

    settings = options.settings(needed(file))
    note(
        f"{file} holds {counted(len(settings.clusters), 'cluster')}, {counted(len(settings.teams), 'team')}, "
        f"{counted(len(settings.alerts), 'alert target')}, "
        f"{counted(len(settings.limits), 'entry', 'entries')} of limits.",
        quiet=quiet,
    )


@config.command("show", epilog=epilog("config show"))
def show(file: Config = None) -> None:
    """Print the settings as they are understood. Of a secret, where it comes from is shown, never itself."""
    import yaml

    settings = options.settings(needed(file))
    shown: dict[str, Any] = settings.model_dump(mode="json", exclude_none=True)
    sys.stdout.write("\n".join(visible(line) for line in yaml.safe_dump(shown, sort_keys=False).splitlines()) + "\n")


@config.command("schema", epilog=epilog("config schema"))
def schema() -> None:
    """Print the JSON Schema of the settings file, for editors."""
    sys.stdout.write(schema_text())


def schema_text() -> str:
    from rebalance_audit.settings.model import Settings

    return json.dumps(Settings.model_json_schema(), indent=1, sort_keys=True) + "\n"


def needed(file: str | None) -> str:
    if file is None:
        raise options.UsageError(
            f"Which settings? Give --config FILE or set {options.ENVIRONMENT_CONFIG}; docs/settings.md has an example."
        )
    return file
