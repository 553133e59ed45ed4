"""What Kafka's own dump tool says about captured metadata logs, saved as the expected values of test_dumped.py.

    python -m tests.domain.metadata.dump_golden '<jars of Kafka 4.3.0>/*'

Run it again when a capture was taken again. No-op records, which are most of a quiet log and all alike, are left out.
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
_RECORD = re.compile(r"\| offset: (\d+) CreateTime: (\d+) .*? payload: (\{.*\})$")


def dump(file: Path, jars: str) -> Iterator[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as folder:
        plain = Path(folder) / file.name.removesuffix(".gz")
        plain.write_bytes(gzip.decompress(file.read_bytes()))
        tool = ["java", "-Xmx128m", "-cp", jars, "org.apache.kafka.tools.DumpLogSegments"]
        command = [*tool, "--cluster-metadata-decoder", "--files", str(plain)]
        said = subprocess.run(command, capture_output=True, text=True, check=True)
    for line in said.stdout.splitlines():
        if found := _RECORD.match(line):
            record = json.loads(found[3])
            if record["type"] != "NO_OP_RECORD":
                yield {"offset": int(found[1]), "at_ms": int(found[2]), "record": record}


def metadata_files(capture: Path) -> list[Path]:
    """Of one node: the others' are copies."""
    files = sorted(
        path
        for path in capture.glob("data/*/__cluster_metadata-0/*")
        if path.name.endswith((".log.gz", ".checkpoint.gz"))
    )
    return [path for path in files if path.parent == files[0].parent]


def main(jars: str) -> None:
    DUMPED.mkdir(exist_ok=True)
    for capture in sorted(path.parent for path in GOLDEN.glob("*/*/origin.json")):
        lines = [
            json.dumps({"file": path.relative_to(capture).as_posix(), **record})
            for path in metadata_files(capture)
            for record in dump(path, jars)
        ]
        if lines:
            name = f"{capture.parent.name}_{capture.name}.jsonl.gz"
            (DUMPED / name).write_bytes(gzip.compress(("\n".join(lines) + "\n").encode(), 9, mtime=0))


if __name__ == "__main__":
    main(sys.argv[1])
