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
from typing import NoReturn, TextIO

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
        epilog=f"Examples:\n  {program} list\n  {program} up --load\n  {program} capture storm --output captures/storm",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)
    listing = verbs.add_parser("list", help="the scenarios")
    listing.add_argument("--kafka", choices=jars.versions(), help="those that run on this version")
    take = verbs.add_parser("capture", help="run a scenario on a fresh cluster and keep its evidence and truth")
    take.add_argument("scenario", type=_scenario, metavar="SCENARIO")
    take.add_argument("--output", type=Path, help="folder of the capture (captures/<version>/<scenario>)")
    run = verbs.add_parser("up", help="a cluster until Ctrl-C")
    run.add_argument("--brokers", type=int, default=1)
    run.add_argument("--connect", type=int, default=0, metavar="WORKERS")
    run.add_argument("--load", action="store_true", help="sample groups, a connector and a producer")
    for verb in (take, run):
        verb.add_argument("--kafka", default=jars.DEFAULT_VERSION, choices=jars.versions(), help="version")
    return parser


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
