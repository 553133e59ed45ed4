"""`lab`: real local clusters, started from Maven's jars."""

from __future__ import annotations

import typer

from rebalance_audit.commands.options import CommandError


def lab(context: typer.Context) -> None:
    """Real local clusters: list, capture SCENARIO, up [--load]."""
    try:
        from infra.lab.__main__ import main
    except ModuleNotFoundError as error:
        raise CommandError(f"The lab is not installed here ({error}); it comes with a checkout.") from error
    raise typer.Exit(main(context.args, "rebalance-audit lab"))
