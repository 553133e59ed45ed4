"""What Kafka's own dump tool says about the captured segments, saved as the expected values of test_dumped.py.

    python -m tests.domain.records.dump_golden '<jars of Kafka 4.3.0>/*'

Run it again when a capture was taken again. Any release's segments are read by the tool of 4.3.0.
"""

from __future__ import annotations

import gzip
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

GOLDEN = Path(__file__).parents[2] / "golden"
DUMPED = Path(__file__).parent / "dumped"
SCENARIOS = (
    "2.7.2/eager_join_leave_kill",
    "3.9.1/eager_join_leave_kill",
    "4.3.0/eager_join_leave_kill",
    "4.3.0/cooperative_scale_up",
    "4.3.0/static_restart",
    "4.3.0/kip848_join_leave",
    "4.3.0/kip848_static_restart",
    "4.3.0/connect_worker_lost",
    "4.3.0/share_group",
    "4.3.0/streams_protocol",
)
MOST_COMMITS = 40
"""Per segment: commits are many and all alike."""

_RECORD = re.compile(r"\| offset: (\d+) CreateTime: (\d+) .*? key: (\{.*\}) payload: (.*)$")


def dump(segment: Path, jars: str) -> Iterator[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as folder:
        plain = Path(folder) / segment.name.removesuffix(".gz")
        plain.write_bytes(gzip.decompress(segment.read_bytes()))
        tool = ["java", "-Xmx128m", "-cp", jars, "org.apache.kafka.tools.DumpLogSegments"]
        said = subprocess.run(
            [*tool, "--offsets-decoder", "--files", str(plain)], capture_output=True, text=True, check=True
        )
    commits = 0
    for line in said.stdout.splitlines():
        found = _RECORD.match(line)
        if found is None:
            continue
        key = json.loads(found[3])
        commits += key["type"] == "1"
        if key["type"] == "1" and commits > MOST_COMMITS:
            continue
        value = None if found[4] == "<DELETE>" else json.loads(found[4])
        yield {"offset": int(found[1]), "at_ms": int(found[2]), "key": key, "value": value}


def main(jars: str) -> None:
    for scenario in SCENARIOS:
        lines: list[str] = []
        for segment in sorted((GOLDEN / scenario / "data").glob("*/__consumer_offsets-*/*.log.gz")):
            path = segment.relative_to(GOLDEN / scenario).as_posix()
            lines += [json.dumps({"segment": path, **record}) for record in dump(segment, jars)]
        DUMPED.mkdir(exist_ok=True)
        (DUMPED / (scenario.replace("/", "_") + ".jsonl")).write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
