"""`audit`: proof that evidence and publications are what they were when they were written."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from rebalance_audit.commands import options
from rebalance_audit.commands.examples import epilog
from rebalance_audit.commands.output import folded, note
from rebalance_audit.domain.visible import visible

if TYPE_CHECKING:
    from rebalance_audit.warehouse.evidence_log.verdict import Verdict

audit = typer.Typer(
    name="audit",
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Proof that nothing was changed afterwards.",
    epilog=epilog("audit"),
)


@audit.command("verify", epilog=epilog("audit verify"))
def verify(
    warehouse: options.Warehouse,
    heads: Annotated[
        str | None,
        typer.Option(
            "--heads", metavar="DIR", envvar=options.ENVIRONMENT_HEADS, help="The second place of the signed heads."
        ),
    ] = None,
    key: Annotated[
        str | None,
        typer.Option(
            "--key",
            metavar="FILE",
            envvar=options.ENVIRONMENT_KEY,
            help="The key that must have signed, public or private, PEM.",
        ),
    ] = None,
    output: Annotated[options.Output, typer.Option("-o", "--output", help="table or json.")] = options.Output.TABLE,
    config: options.Config = None,
) -> None:
    """Hold every leaf of the log of evidence against what is there. Exit 0 intact, 1 changed, removed or set back."""
    from rebalance_audit.warehouse import signing
    from rebalance_audit.warehouse.evidence_log import verifying

    if output not in (options.Output.TABLE, options.Output.JSON):
        raise options.UsageError(f"-o {output.value}: a verification is printed as table or json.")
    verdict = verifying.verify(warehouse, heads, signing.public_key(key) if key else None)
    if output is options.Output.JSON:
        stated = {"intact": not verdict.faults, **asdict(verdict)}
        sys.stdout.write(json.dumps(stated, indent=1) + "\n")
    else:
        for fault in verdict.faults:
            print(folded(visible(fault.sentence)))
        print(folded(visible(_in_one_line(verdict))))
        for sentence in _open_doors(verdict):
            note(sentence)
    if verdict.faults:
        raise typer.Exit(1)


def _in_one_line(verdict: Verdict) -> str:
    from rebalance_audit.domain.detect.wording import counted

    at = datetime.fromtimestamp(verdict.head.at_ms / 1000, UTC)
    found = counted(len(verdict.faults), "fault") if verdict.faults else "Intact"
    return (
        f"{found}: {counted(verdict.leaves, 'leaf', 'leaves')} until {at:%Y-%m-%d %H:%M:%S} UTC, "
        f"{counted(verdict.publications, 'publication')}, {counted(verdict.files, 'file')}, "
        f"{counted(verdict.rows, 'row')} of evidence. Root {verdict.head.root}."
    )


def _open_doors(verdict: Verdict) -> list[str]:
    """Sentences about what this verification could not notice."""
    found = []
    if verdict.head.key is None:
        found.append(
            "The heads are not signed: whoever writes the warehouse could rewrite the log. Make a key with "
            f"`rebalance-audit audit key FILE` and set {options.ENVIRONMENT_KEY}."
        )
    if not verdict.heads:
        found.append(
            f"Without --heads a warehouse that was set back as a whole looks intact; set {options.ENVIRONMENT_HEADS} "
            "to a place that the warehouse's writer does not share."
        )
    if verdict.unwitnessed:
        found.append(
            f"The second place lacks the newest head: of the last {verdict.unwitnessed} leaves it shows nothing. The "
            "next run with news writes one there."
        )
    found += verdict.clock_back
    if verdict.not_yet:
        found.append(f"Not in the log yet: the newest rows of {', '.join(verdict.not_yet)}; the next run adds them.")
    return found


@audit.command("key", epilog=epilog("audit key"))
def key(
    file: Annotated[str, typer.Argument(metavar="FILE", help="The private key; FILE.pub becomes the public one.")],
) -> None:
    """Make a key for the log of evidence. Keep it outside of the warehouse."""
    from rebalance_audit.warehouse.signing import make_key

    public = make_key(file)
    note(f"{file} signs, {file}.pub verifies ({public[:16]}…). Set {options.ENVIRONMENT_KEY}={file} for every writer.")
