"""`python -m infra.lab`: real local clusters, and captures of scenarios run on them."""

from __future__ import annotations

import argparse
import os
import shlex
import signal
import sys
import textwrap
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NoReturn, TextIO

from infra.lab.scenarios.scenario import SCENARIOS, capture

from . import jars
from .processes import LabError, unwind_once


def main(argv: Sequence[str] | None = None, program: str = "python -m infra.lab") -> int:
    """Exit status 0, 1 for a lab that failed with one sentence, 2 for a wrong command line."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    options = _parser(program).parse_args(arguments)
    before = {number: signal.signal(number, unwind_once) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        if options.verb == "list":
            for name, scenario in SCENARIOS.items():
                if options.kafka is not None and not scenario.runs_on(options.kafka):
                    continue
                print(f"{name}\n{_folded(scenario.description, sys.stdout, '    ')}")
        elif options.verb == "capture":
            output = options.output or Path("captures") / options.kafka / options.scenario
            command = shlex.join(["python", "-m", "infra.lab", *arguments])
            capture(options.scenario, version=options.kafka, output=output, command=command, say=_say)
        else:
            from .load import up

            up(options.kafka, brokers=options.brokers, connect_workers=options.connect, load=options.load)
    except LabError as error:
        print(f"lab: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("lab: stopped", file=sys.stderr)
        return 130
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return 0


def _folded(text: str, stream: TextIO, indent: str = "") -> str:
    """Broken at spaces for a terminal; one line for a file or a pipe."""
    columns = os.get_terminal_size(stream.fileno()).columns if stream.isatty() else sys.maxsize
    return textwrap.fill(
        " ".join(text.split()),
        columns,
        initial_indent=indent,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


class _LabFormatter(argparse.RawDescriptionHelpFormatter):
    """Headings as in the help of every other verb."""

    def add_usage(self, usage: Any, actions: Any, groups: Any, prefix: str | None = None) -> None:
        super().add_usage(usage, actions, groups, "Usage: " if prefix is None else prefix)

    def start_section(self, heading: str | None) -> None:
        super().start_section(heading and heading[:1].upper() + heading[1:])


class _LabParser(argparse.ArgumentParser):
    """A wrong command line gets one sentence, as from every other verb."""

    def error(self, message: str) -> NoReturn:
        name = self.prog.partition(" ")[0].replace("python", "lab")
        sentence = f"{name}: {message[:1].upper()}{message[1:]}; see `{self.prog} --help`."
        self.exit(2, _folded(sentence, sys.stderr) + "\n")


def _parser(program: str) -> argparse.ArgumentParser:
    parser = _LabParser(
        prog=program,
        description="Real local clusters, and captures of scenarios run on them.",
        epilog=_examples(program, "list", "up --load", "capture storm --output captures/storm"),
        formatter_class=_LabFormatter,
    )
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)

    def verb(name: str, does: str, *examples: str) -> argparse.ArgumentParser:
        epilog = _examples(f"{program} {name}", *examples)
        return verbs.add_parser(name, help=does, description=does, epilog=epilog, formatter_class=_LabFormatter)

    listing = verb("list", "Show the scenarios.", "", "--kafka 3.9.1")
    listing.add_argument(
        "--kafka", choices=jars.versions(), metavar="V", help="Those that run on this version of Kafka."
    )
    take = verb(
        "capture",
        "Run a scenario on a fresh cluster, and keep its evidence and truth.",
        "storm",
        "storm --kafka 3.9.1 --output captures/storm",
    )
    take.add_argument("scenario", type=_scenario, metavar="SCENARIO", help="One of `lab list`.")
    take.add_argument(
        "--output", type=Path, metavar="FOLDER", help="Folder of the capture.  [default: captures/V/SCENARIO]"
    )
    run = verb("up", "Keep a cluster until Ctrl-C.", "--load", "--brokers 3 --connect 2")
    run.add_argument("--brokers", type=int, default=1, metavar="N", help="How many.  [default: 1]")
    run.add_argument("--connect", type=int, default=0, metavar="N", help="Workers of Connect.  [default: 0]")
    run.add_argument("--load", action="store_true", help="With sample groups, a connector and a producer.")
    for each in (take, run):
        each.add_argument(
            "--kafka",
            default=jars.DEFAULT_VERSION,
            choices=jars.versions(),
            metavar="V",
            help=f"Kafka's version: {', '.join(jars.versions())}.  [default: {jars.DEFAULT_VERSION}]",
        )
    return parser


def _examples(program: str, *examples: str) -> str:
    return "\n".join(["Examples:", *(f"  {program} {example}".rstrip() for example in examples)])


def _scenario(name: str) -> str:
    """The name, if there is such a scenario; argparse would list all of them."""
    if name not in SCENARIOS:
        close = get_close_matches(name, SCENARIOS, n=3)
        raise argparse.ArgumentTypeError(
            f"there is no {name!r}; " + (f"perhaps {', '.join(close)}" if close else "`lab list` shows all")
        )
    return name


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
