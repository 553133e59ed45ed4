"""`explain`: its options, and which of its three subjects they name."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rebalance_audit.commands import options
from rebalance_audit.commands.collect import Metadata
from rebalance_audit.commands.explain.group import explain_group, explain_stored_group
from rebalance_audit.commands.explain.groups import explain_groups
from rebalance_audit.commands.explain.places import WAYS, Places, Shown
from rebalance_audit.commands.explain.plan import explain_plan
from rebalance_audit.commands.explain.reassignment import explain_reassignment
from rebalance_audit.commands.explain.stored import explain_stored_groups
from rebalance_audit.commands.options import Output, UsageError


def explain(
    group: Annotated[
        str | None, typer.Argument(metavar="GROUP", help="The group id, or a Connect cluster's group.id.")
    ] = None,
    reassignment: Annotated[
        str | None,
        typer.Option(
            "--reassignment",
            metavar="TOPIC[-PARTITION]",
            help="Instead of a group: what became of a partition's moves.",
        ),
    ] = None,
    plan: Annotated[
        Path | None,
        typer.Option(
            "--plan", metavar="FILE", help="Instead of a group: what became of this plan of kafka-reassign-partitions."
        ),
    ] = None,
    bootstrap: options.Bootstrap = None,
    command_config: options.CommandConfig = None,
    overrides: options.Overrides = None,
    evidence: options.Evidence = None,
    warehouse: Annotated[
        str | None, typer.Option("-w", "--warehouse", metavar="W", help="A warehouse that `run` has filled.")
    ] = None,
    cluster_id: options.ClusterId = None,
    data_dir: options.DataDir = None,
    node: options.Node = None,
    logs: options.Logs = None,
    metadata: Metadata = None,
    log_time_zone: options.LogTimeZone = None,
    topics: options.ConnectTopics = None,
    last: Annotated[
        str | None, typer.Option("--last", metavar="TIME", help="Only so much before the end of the evidence: 2d.")
    ] = None,
    latest: Annotated[int | None, typer.Option("--latest", metavar="N", min=1, help="Show only the newest N.")] = None,
    oldest_first: Annotated[bool, typer.Option("--oldest-first", help="In the order they happened.")] = False,
    bounds: Annotated[bool, typer.Option("--bounds", help="Show hard bounds beside the likely ranges.")] = False,
    output: Annotated[Output, typer.Option("-o", "--output", help="table is the text for people.")] = Output.TABLE,
    quiet: options.Quiet = False,
    config: options.Config = None,
) -> None:
    """Why a group rebalanced, or a partition was reassigned.

    For how long, and how sure that is; and what became of a plan.

    Without a GROUP it lists those that are worth explaining.

    Reads an evidence folder, a data directory or a running cluster, and needs no warehouse and no Spark; or, with -w,
    what a warehouse holds.
    """
    from rebalance_audit.commands.pipeline import stage_settings
    from rebalance_audit.domain.detect import DEFAULT_OF

    if [group is None, reassignment is None, plan is None].count(False) > 1:
        raise UsageError("Explain one thing: GROUP, or --reassignment TOPIC[-PARTITION], or --plan FILE.")
    last_ms = None if last is None else options.duration_ms(last)
    if last_ms == 0:
        raise UsageError(f"--last {last} is no time at all; write it as 90s, 30m, 1h or 2d.")
    shown = Shown(
        last_ms=last_ms,
        latest=latest,
        oldest_first=oldest_first,
        bounds=bounds,
        output=output,
        quiet=quiet,
        limits=stage_settings(config).get("limits", DEFAULT_OF),
    )
    if warehouse is not None:
        options.one_place(
            {
                "-w": warehouse, "-b": bootstrap, "--evidence": evidence, "--data-dir": data_dir, "--logs": logs,
                "--metadata": metadata,
            },
            WAYS,
        )  # fmt: skip
        if reassignment is not None or plan is not None:
            raise UsageError(
                f"-w explains groups; `rebalance-audit export reassignment -w {warehouse}` has the reassignments, and "
                "--metadata DIR explains one."
            )
        if group is None:
            explain_stored_groups(warehouse, cluster_id, shown)
            return
        explain_stored_group(group, warehouse, cluster_id, shown)
        return
    if cluster_id is not None:
        raise UsageError("--cluster-id says which cluster of a warehouse; give -w W with it.")
    places = Places(
        bootstrap=bootstrap,
        command_config=command_config,
        overrides=overrides,
        evidence=evidence,
        data_dir=data_dir,
        node=node,
        logs=logs,
        metadata=metadata,
        log_time_zone=log_time_zone,
        topics=topics,
    )
    if group is not None:
        explain_group(group, places, shown)
    elif plan is not None:
        explain_plan(plan, places, shown)
    elif reassignment is not None:
        explain_reassignment(reassignment, places, shown)
    else:
        explain_groups(places, shown)
