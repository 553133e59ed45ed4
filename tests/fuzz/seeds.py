"""Whole inputs for every target, to begin from: captured ones and what the test encoders write.

    python -m tests.fuzz.seeds <folder>

writes them as one folder of files per target, as libFuzzer wants them.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random

from tests import encoders as enc
from tests.differential import metadata
from tests.differential.cases import GOLDEN, batches, captured_cases, damage
from tests.differential.oracle import Kind
from tests.fuzz.metadata_targets import as_log
from tests.fuzz.split import joined
from tests.fuzz.targets import TARGETS
from tests.ingest.batch_encoder import CODECS, a_batch, a_record

WHOLE_CASES = 3_000
LINES_OF_A_FILE = 400
STREAMS = Path(__file__).parents[1] / "domain" / "protocols" / "kafka_written" / "streams.json"

_COMMIT_TYPES = (b"\x00\x00", b"\x00\x01")
_TARGET_OF = {
    Kind.RECORD: "group_record",
    Kind.CONSUMER_SUBSCRIPTION: "consumer_subscription",
    Kind.CONSUMER_ASSIGNMENT: "consumer_assignment",
    Kind.EAGER_WORKER_STATE: "connect_worker_state",
    Kind.COOPERATIVE_WORKER_STATE: "connect_worker_state",
    Kind.EAGER_ASSIGNMENT: "connect_assignment",
    Kind.COOPERATIVE_ASSIGNMENT: "connect_assignment",
    Kind.STICKY_USER_DATA: "sticky_user_data",
}


def seeds() -> dict[str, list[bytes]]:
    """By target; none is without."""
    found: dict[str, list[bytes]] = {name: [] for name in TARGETS}
    cases = [*captured_cases(), *(case for batch in batches(1, WHOLE_CASES) for case in batch)]
    for kind, key, value in cases:
        data = joined(key, value) if kind is Kind.RECORD else value or b""
        found[_TARGET_OF[kind]].append(data)
    found["cooperative_sticky_user_data"] = [enc.int32(5), b"", enc.int32(-1)]
    for data in _connect_records():
        found["connect_record"].append(data)
        found["redact_config"].append(data)
    for text in _hex_texts(json.loads(STREAMS.read_text())):
        found["streams_subscription_info"].append(bytes.fromhex(text))
        found["streams_assignment_info"].append(bytes.fromhex(text))
    identity = {"version": 1, "host": "a", "port": 8081, "master_eligibility": True, "scheme": "http"}
    found["schema_registry_identity"] = [json.dumps(identity).encode(), b"{}", b"[]", b'{"host":null}']
    assignment = {"version": 1, "error": 0, "master": "sr-1", "master_identity": identity}
    found["schema_registry_assignment"] = [json.dumps(assignment).encode(), b"{}"]
    found["metadata_record"] = list(_metadata_records())
    found["metadata_log"] = list(_metadata_logs(found["metadata_record"]))
    found["record_batch"] = list(_record_batches())
    found["segment"] = [*found["record_batch"], b"".join(found["record_batch"]), bytes(100)]
    found["commit_rows"] = [
        joined(key, value) for kind, key, value in cases if kind is Kind.RECORD and key and key[:2] in _COMMIT_TYPES
    ]
    lines = [*_log_lines(), *_other_layouts()]
    found["log_line"] = lines
    found["log_file"] = [b"\n".join(lines[at : at + 20]) + b"\n" for at in range(0, len(lines), 20)]
    found["log_lines"] = [b"\n".join(lines[at : at + 5]) for at in range(0, len(lines), 5)]
    found["reason"] = [
        each for line in lines for each in re.findall(rb"(?:reason: |due to |because )([^\n]{3,200})", line)
    ] or [b"member left"]
    return found


def _hex_texts(case: object) -> Iterator[str]:
    if isinstance(case, dict):
        for value in case.values():
            yield from _hex_texts(value)
    elif isinstance(case, list):
        for value in case:
            yield from _hex_texts(value)
    elif isinstance(case, str) and len(case) >= 8 and re.fullmatch(r"(?:[0-9a-f]{2})+", case):
        yield case


def _connect_records() -> Iterator[bytes]:
    status = enc.connect_json({"state": "RUNNING", "trace": None, "worker_id": "w:8083", "generation": 3, "version": 2})
    config = enc.connect_json({"properties": {"connector.class": "C", "tasks.max": "1", "password": "p"}})
    for key in (b"status-connector-c", b"status-task-c-0", b"status-topic-t:connector-c"):
        yield joined(key, status)
        yield joined(key, None)
    contents = (config, enc.connect_json({"tasks": 2}), enc.connect_json({"state": "PAUSED"}), b"{", b"\xff", None)
    names = ("connector-c", "task-c-0", "commit-c", "target-state-c", "session-key", "restart-connector-c")
    for name in (*names, "tasks-fencing-c", "logger-cluster-org.apache"):
        for content in contents:
            yield joined(name.encode(), content)
    yield joined(enc.connect_json(["connector", {"file": "x"}]), enc.connect_json({"position": 1}))


def _metadata_records() -> Iterator[bytes]:
    for case in (*metadata.captured_cases(), *(case for batch in metadata.batches(1, WHOLE_CASES) for case in batch)):
        yield case.value or b""


def _metadata_logs(records: list[bytes]) -> Iterator[bytes]:
    """Stretches of records: as they are, in a transaction that ends or is aborted, in a snapshot up to its footer."""
    begin, end, abort = (b"\x01" + bytes((number, 0, 0)) for number in (23, 24, 25))
    header, footer = ((1 | 2, enc.int16(0) + enc.int16(kind), enc.int16(0) + enc.int64(1)) for kind in (3, 4))
    leader = (1, enc.int16(0) + enc.int16(2), enc.int16(0) + enc.int32(1) + b"\x01\x01\x00")
    for at in range(0, min(len(records), 1_500), 5):
        some = records[at : at + 5]
        yield as_log([leader, *((0, None, value) for value in some)])
        yield as_log([(0, None, value) for value in (begin, *some, end if at % 2 else abort)])
        yield as_log([header, *((2, None, value) for value in some), footer])


def _record_batches() -> Iterator[bytes]:
    records = [
        a_record(0), a_record(1, None, b""), a_record(2, b"", None), a_record(300, b"k" * 200, b"v" * 9_000),
        a_record(301, headers=[("a", b"1"), ("b", None)]),
    ]  # fmt: skip
    for codec in CODECS:
        yield a_batch(5, records, codec=codec, last_offset_delta=301)
    yield a_batch(5, [], last_offset_delta=3)
    yield a_batch(5, [a_record(0, b"\0\0\0\1", bytes(6))], attributes=0x30, producer_id=7, producer_epoch=1)
    yield a_batch(5, [a_record(0)], magic=1)


def _log_lines() -> Iterator[bytes]:
    """Some of every captured file, each kind of message once: lines differ in their letters, not in their numbers."""
    seen: set[bytes] = set()
    for path in sorted(GOLDEN.glob("*/*/logs/*/*")):
        content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        taken = 0
        for line in content.split(b"\n"):
            shape = re.sub(rb"[0-9a-f-]{8,}|\d+", b"#", line)
            if shape not in seen and taken < LINES_OF_A_FILE:
                seen.add(shape)
                taken += 1
                yield line[:2_000]


_STABILIZED = "[GroupCoordinator 1]: Stabilized group g generation 3 (__consumer_offsets-3) with 2 members"
_OTHER_LAYOUTS = (
    '{"@timestamp": "2026-11-21T14:00:00.123Z", "level": "INFO", "logger": "kafka.coordinator.X", "message": "%s"}',
    '{"instant": {"epochSecond": 1795269600, "nanoOfSecond": 123000000}, "message": "%s", "contextMap": {}}',
    '{"time": 1795269600.123, "msg": "%s"}',
    '{"log": "[2026-11-21 14:00:00,123] INFO %s (a.B)\\n", "stream": "stdout", "time": "2026-11-21T14:00:00.2Z"}',
    "2026-11-21T14:00:00.123456789Z stdout F [2026-11-21 14:00:00,123] INFO %s (a.B)",
    "Nov 21 14:00:00 host kafka[12]: [2026-11-21 14:00:00,123] INFO %s (a.B)",
    "2026-11-21T14:00:00.123+02:00  INFO 1 --- [main] a.b.C : %s",
    "2026-11-21 14:00:00,123 [main] INFO a.b.C - %s",
)


def _other_layouts() -> Iterator[bytes]:
    """Layouts that no capture has, and numbers that Java does not print."""
    for layout in _OTHER_LAYOUTS:
        yield (layout % _STABILIZED).encode()
    for number in ("9" * 400, "\u00b2", "--5", "2147483648", "1e999", "NaN", '"x"'):
        yield f"[2026-11-21 14:00:00,123] INFO {_STABILIZED.replace('3', number)} (a.B)".encode()
        yield f'{{"time": {number}, "message": "x"}}'.encode()


def damaged(random: Random, data: bytes, other: bytes) -> bytes:
    """One or a few changes, of bits, bytes, pieces and lengths."""
    changed = damage(random, data, other)
    while random.random() < 0.4:
        changed = damage(random, changed, other)
    return changed


def main(folder: Path) -> None:
    for name, inputs in seeds().items():
        (folder / name).mkdir(parents=True, exist_ok=True)
        for data in inputs:
            (folder / name / hashlib.sha1(data, usedforsecurity=False).hexdigest()).write_bytes(data)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
