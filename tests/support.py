"""`make support`: docs/support.md, what was tried with which client library on which broker, and how much is found.

    python -m tests.support > docs/support.md

A cell sums up every capture with a client of that library on that version, golden, in tests/not_yet or below captures/.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from infra.lab.configs import version_key
from rebalance_audit.domain.detect import detect_group
from tests.domain.detect.test_on_captures import EXPECTED
from tests.score import all_captures, reconstructed, score
from tests.truth import scenario

NAMES = {
    "java": "Java",
    "librdkafka": "librdkafka (confluent-kafka)",
    "streams": "Kafka Streams",
    "share": "Java share consumer",
    "connect": "Kafka Connect",
    "mirror-maker": "MirrorMaker 2",
}
ORDER = (*NAMES, "kafkajs", "franz-go", "sarama", "kafka-go", "kafka-python", "aiokafka")
NOT_TRIED = "not tried"


@dataclass(slots=True)
class Count:
    """So many of so many; nothing of nothing is not tried."""

    right: int = 0
    of: int = 0

    def __iadd__(self, other: Count) -> Count:
        self.right += other.right
        self.of += other.of
        return self

    def __str__(self) -> str:
        return f"{self.right} of {self.of}" if self.of else NOT_TRIED


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """One table of the page."""

    title: str
    about: str


MEASURES = (
    Measure(
        title="Generations",
        about="Rebalances found with the right number, kind and outcome, from records and brokers' logs; what was "
        "invented counts as tried and not right.",
    ),
    Measure(title="Causes", about="Rebalances with the right cause, from records and brokers' logs."),
    Measure(
        title="Causes from records alone",
        about="The same without any log. `unknown` counts as not right here; it is allowed, a wrong cause is not.",
    ),
    Measure(
        title="Pauses",
        about="Hand-overs whose pause, by the two clients' own clock, lies inside the bounds; from records and logs.",
    ),
    Measure(
        title="Advice",
        about="Groups whose findings were written down by hand before: those where exactly these were found, each with "
        "its severity. A false alarm is a miss.",
    ),
)


def groups_of(capture: Path) -> dict[str, set[str]]:
    """By library, the groups in which it has a member."""
    described = scenario(capture)
    found: dict[str, set[str]] = {}
    for client in described["clients"]:
        found.setdefault(client["library"], set()).add(client["group"])
    of_workers = {g for g, story in described["groups"].items() if story.get("protocol_type") == "connect"}
    if "mirror_maker" in capture.name:
        found["mirror-maker"] = of_workers
    elif described.get("workers"):
        found["connect"] = of_workers
    return found


def counts_of(capture: Path, groups: Collection[str]) -> list[Count]:
    """One for each of MEASURES."""
    with_logs, records = score(capture, "all", groups), score(capture, "records", groups)
    return [
        Count(with_logs.found, with_logs.found + with_logs.missed + with_logs.invented),
        Count(with_logs.right, with_logs.right + with_logs.unknown + with_logs.wrong),
        Count(records.right, records.right + records.unknown + records.wrong),
        Count(with_logs.pauses.inside, with_logs.pauses.pauses),
        advice_of(capture, groups),
    ]


def advice_of(capture: Path, groups: Collection[str]) -> Count:
    expected = {g: wanted for g, wanted in EXPECTED.get(capture.name, {}).items() if g in groups}
    groups_found = reconstructed(capture, "all") if expected else {}
    right = 0
    for group_id, wanted in expected.items():
        group = groups_found.get(group_id)
        findings = detect_group(group.rebalances, group.connect_tasks) if group is not None else []
        right += sorted((f.rule_id, f.severity) for f in findings) == sorted(wanted.items())
    return Count(right, len(expected))


Cells = dict[tuple[str, str], list[Count]]
"""By library and version of the broker."""


def cells_of(captures: Iterable[Path]) -> Cells:
    cells: Cells = {}
    for capture in captures:
        version = scenario(capture)["kafka_version"]
        for library, groups in groups_of(capture).items():
            counts = counts_of(capture, groups)
            kept = cells.setdefault((library, version), [Count() for _ in MEASURES])
            for mine, more in zip(kept, counts, strict=True):
                mine += more
    return cells


def page(cells: Cells, versions: Sequence[str], captures: int) -> str:
    lines = [
        "# Support",
        "",
        "What was tried with which client library on which broker, and how much of it is found: counts against what",
        "the clients themselves saw in the lab ([lab.md](lab.md)), as `make support` printed it last from "
        f"{captures} captures, golden or not kept.",
        "A group with members of two libraries counts for both. What the libraries do: [clients.md](clients.md);",
        "what the versions write: [versions.md](versions.md).",
    ]
    for at, measure in enumerate(MEASURES):
        lines += ["", f"## {measure.title}", "", measure.about, ""]
        lines += [f"| | {' | '.join(versions)} |", f"|---|{'---|' * len(versions)}"]
        for library in ORDER:
            row = [str(cells[library, v][at]) if (library, v) in cells else NOT_TRIED for v in versions]
            lines.append(f"| {NAMES.get(library, library)} | {' | '.join(row)} |")
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str]) -> int:
    """Prints the page; `arguments` are captures, all there are when there are none."""
    once = {(c / "meta.json").read_text(): c for c in reversed(all_captures())}
    captures = [Path(a) for a in arguments] or sorted(once.values())
    cells = cells_of(captures)
    versions = sorted({version for _, version in cells}, key=version_key)
    print(page(cells, versions, len(captures)), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
