"""Ten million offset commits as a busy cluster would hold them, made once and kept in .build/bench.

    python -m bench.commit_records [records]         # makes them, and says what they are

The same records twice: as Arrow, which is how they come out of the landing files, and framed (int32 length and bytes of
key and value; length -1 is a tombstone) for the decoders of other languages.
"""

from __future__ import annotations

import struct
import sys
from pathlib import Path
from random import Random

import pyarrow as pa

from tests import encoders as enc

FOLDER = Path(__file__).parents[1] / ".build" / "bench"
BATCH_ROWS = 1 << 20
AT_MS = 1_795_276_800_123
TOPIC_ID = "3fkd8mT0QJ-wE1lVt5v_Zw"
GROUPS, TOPICS_OF_A_GROUP, PARTITIONS = 300, 3, 16
"""14,400 distinct keys."""


def _templates() -> list[tuple[bytes, float]]:
    """Values, all but their offsets, and how often each: a cluster half way from Kafka 4.0 to 4.1."""
    metadata = "AgAAAYx2mR5A" * 2  # Kafka Streams keeps a partition time here, in base64
    return [
        (enc.offset_commit_value(0, AT_MS, version=3, leader_epoch=7), 0.45),
        (enc.offset_commit_value(0, AT_MS, version=4, leader_epoch=7, topic_id=TOPIC_ID), 0.45),
        (enc.offset_commit_value(0, AT_MS, version=3, leader_epoch=7, metadata=metadata), 0.05),
        (enc.offset_commit_value(0, AT_MS, version=4, topic_id=TOPIC_ID, metadata=metadata), 0.04),
    ]
    # the rest, 1 %, are tombstones


def files(count: int) -> tuple[Path, Path]:
    """The Arrow file and the framed file with so many records."""
    arrow, framed = FOLDER / f"commits-{count}.arrow", FOLDER / f"commits-{count}.framed"
    if not framed.exists():
        FOLDER.mkdir(parents=True, exist_ok=True)
        _write(count, arrow, framed.with_suffix(".partial"))
        framed.with_suffix(".partial").rename(framed)
    return arrow, framed


def _write(count: int, arrow: Path, framed: Path) -> None:
    random = Random(1)
    keys = [
        enc.offset_commit_key(f"service-{group}-consumers", f"team-{group % 40}.orders.{topic}", partition)
        for group in range(GROUPS)
        for topic in range(TOPICS_OF_A_GROUP)
        for partition in range(PARTITIONS)
    ]
    framed_keys = [struct.pack(">i", len(key)) + key for key in keys]
    templates, weights = zip(*_templates(), strict=True)
    parts = [(value[:2], value[10:], struct.pack(">i", len(value))) for value in templates]
    choices = [*range(len(parts)), -1]
    schema = pa.schema([("key", pa.binary()), ("value", pa.binary())])
    pack = struct.Struct(">q").pack
    with pa.OSFile(str(arrow), "wb") as sink, pa.ipc.new_file(sink, schema) as writer, framed.open("wb") as frames:
        for first in range(0, count, BATCH_ROWS):
            rows = min(BATCH_ROWS, count - first)
            which = random.choices(range(len(keys)), k=rows)
            kinds = random.choices(choices, [*weights, 1 - sum(weights)], k=rows)
            values: list[bytes | None] = []
            out: list[bytes] = []
            for n, (key, kind) in enumerate(zip(which, kinds, strict=True), first):
                out.append(framed_keys[key])
                if kind < 0:
                    values.append(None)
                    out.append(b"\xff\xff\xff\xff")
                else:
                    head, tail, length = parts[kind]
                    value = head + pack(n) + tail
                    values.append(value)
                    out += (length, value)
            frames.write(b"".join(out))
            writer.write_batch(pa.record_batch([[keys[key] for key in which], values], schema=schema))


def main(count: int) -> None:
    arrow, framed = files(count)
    print(f"{count:,} records, {GROUPS * TOPICS_OF_A_GROUP * PARTITIONS:,} distinct keys\n")
    print("| file | MB | bytes a record |")
    print("| --- | ---: | ---: |")
    for name, path in (("Arrow, key and value", arrow), ("framed, for other languages", framed)):
        print(f"| {name} | {path.stat().st_size / 1e6:,.0f} | {path.stat().st_size / count:.1f} |")
    print("\n| value | share |")
    print("| --- | ---: |")
    for value, share in [*_templates(), (None, 1 - sum(share for _, share in _templates()))]:
        kind = "tombstone" if value is None else f"version {value[1]}, {len(value)} bytes"
        print(f"| {kind} | {share:.0%} |")


if __name__ == "__main__":
    main(int(sys.argv[1].replace("_", "")) if len(sys.argv) > 1 else 10_000_000)
