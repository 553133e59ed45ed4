"""Evidence folders of a fleet that never was: thousands of groups, each a recorded one under another name and time.

    python -m bench.fleet FOLDER [--rebalances 10000] [--groups N] [--days 1] [--seed 1]

The bytes are real: records and log lines of the golden captures, group by group, of every protocol and library, with
the group's id and all instants replaced; partitions, offsets, batches, segments and rotated logs are rewritten. A
cluster has up to 400 groups, all of one Kafka version. Beside each stand a Connect cluster and one with reassignments,
which are whole captures under another id. The same seed writes the same bytes. `truth/fleet.json` of each cluster says
which rebalances must be found: those that were written down by hand for the captures.

A group does again what was recorded of it only if that left it empty: it is deleted in between, as an administrator
does it, and comes back with new member ids. Each client id of a group has a host of its own.
"""

from __future__ import annotations

import argparse
import base64
import functools
import hashlib
import json
import re
import shutil
import struct
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

import google_crc32c

from ingest.evidence import read_evidence
from rebalance_audit.domain.model import SourceRecord
from tests.captures import CAPTURES
from tests.encoders import string
from tests.ingest.batch_encoder import a_batch, a_record

OFFSETS_TOPIC, OFFSETS_PARTITIONS = "__consumer_offsets", 50
BASE_MS = 1_795_000_000_000
DAY_MS = 86_400_000
GROUPS_OF_A_CLUSTER = 400
RECORDS_OF_A_BATCH = 16
LINES_OF_A_FILE = 20_000
"""Then the log is rotated."""
AROUND_MS = 3_600_000
DELETED_AFTER_MS, BACK_AFTER_MS = 5_000, 10_000
"""Of a group that is empty: then it is deleted, and then it may come back."""
OF_EACH = ("number", "kind", "outcome", "trigger")
_ALSO = "or_trigger"
"""In the truth of a rebalance whose evidence cannot distinguish two causes."""
_STAMP = re.compile(r"\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d),(\d{3})\]")
_MAYBE_TIME = re.compile(rb"(?=\x00\x00\x01([\s\S]{5}))")
_COORDINATOR = re.compile(r"topic=__consumer_offsets partition=\d+\]")
_LAB_HOST = rb"/127\.0\.0\.1"
_HOST = re.compile(rb"([\x20-\x7e]+)(\x00\x0a|\x0b)" + _LAB_HOST)
"""A client id before its host, in the records of each kind of group; two lengths that a string may have."""
_HOST_IN_LINE = re.compile(rb"clientId=([^,]+), clientHost=" + _LAB_HOST)
_UUID = re.compile(rb"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_MADE_BY_CLIENT = re.compile(rb"([\w+/-]{22})(==)?")
"""A UUID in base 64, as members of newer groups call themselves."""
_OFFSET_KEYS = (0, 1)
_MEMBER_KEYS = (5, 7, 8)
"""Keys that end with a member id: of its metadata, and of what it shall have and has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """One group of a capture. Instants count from its first."""

    capture: str
    group_id: str
    version: str
    records: list[tuple[int, bytes, bytes, bytes | None, list[tuple[int, int]]]]
    """(instant, record type, rest of the key, value, places of instants in it with what they say)."""
    lines: list[tuple[int, str, str]]
    """(instant, node, what follows the time)."""
    truth: list[dict[str, Any]]
    member_ids: list[bytes]
    """What makes them unlike any other: UUIDs, and ids that clients made themselves."""

    @property
    def ends_empty(self) -> bool:
        return bool(self.truth) and self.truth[-1]["outcome"] == "emptied"

    @property
    def length_ms(self) -> int:
        return max([r[0] for r in self.records] + [line[0] for line in self.lines])

    def deletion(self) -> list[tuple[int, bytes, bytes, bytes | None, list[tuple[int, int]]]]:
        """The tombstones of an empty group, in the coordinator's order: commits, then what stands of the group."""
        last = {(kind, rest): value for _, kind, rest, value, _ in self.records}
        left = [key for key, value in last.items() if value is not None]
        left.sort(key=lambda key: ((of := int.from_bytes(key[0], "big")) not in _OFFSET_KEYS, -of, key[1]))
        return [(self.length_ms + DELETED_AFTER_MS, kind, rest, None, []) for kind, rest in left]


def _instants(value: bytes | None, first_ms: int, last_ms: int) -> list[tuple[int, int]]:
    """Eight bytes that read as a time of the capture are one: by chance that happens once in 10^11 bytes."""
    found = []
    for match in _MAYBE_TIME.finditer(value or b""):
        at_ms = int.from_bytes(b"\0\0\1" + match[1], "big")
        if first_ms - AROUND_MS <= at_ms <= last_ms + AROUND_MS:
            found.append((match.start(), at_ms - first_ms))
    return found


def _group_of(key: bytes) -> tuple[str, int]:
    """(group id, where it ends)."""
    end = 4 + int.from_bytes(key[2:4], "big")
    return key[4:end].decode(), end


@functools.cache
def models() -> dict[str, list[Model]]:
    """Groups of consumers, by Kafka version."""
    found: dict[str, list[Model]] = {}
    for capture in CAPTURES:
        truth = json.loads((capture / "truth" / "scenario.json").read_text())
        if truth.get("connectors") or capture.name.startswith(("connect", "mirror", "hostile")):
            continue
        evidence = read_evidence(capture)
        kept = [r for r in evidence.records() if isinstance(r, SourceRecord) and r.topic == OFFSETS_TOPIC and r.key]
        if any(record.is_control for record in kept):
            continue  # an aborted commit has its place among others
        lines = [line for line in evidence.lines() if _STAMP.match(line.text)]
        for group_id, of_group in truth.get("groups", {}).items():
            model = _model(capture, group_id, of_group["rebalances"], kept, [(line.node, line.text) for line in lines])
            found.setdefault(model.version, []).append(model)
    return found


def _model(
    capture: Path,
    group_id: str,
    truth: list[dict[str, Any]],
    kept: Sequence[SourceRecord],
    lines: Iterable[tuple[str, str]],
) -> Model:
    whole = re.compile(rf"(?<![\w-]){re.escape(group_id)}(?![\w-])")
    mine = [record for record in kept if _group_of(record.key or b"")[0] == group_id]
    said = [(node, text) for node, text in lines if whole.search(text)]
    times = [_time_of(text) for _, text in said] + [record.timestamp_ms for record in mine]
    first_ms, last_ms = min(times), max(times)
    records = [
        (r.timestamp_ms - first_ms, (r.key or b"")[:2], (r.key or b"")[_group_of(r.key or b"")[1] :], r.value,
         _instants(r.value, first_ms, last_ms))
        for r in mine
    ]  # fmt: skip
    texts = [part for _, _, rest, value, _ in records for part in (rest, value or b"")]
    texts += [text.encode() for _, text in said]
    member_ids = {each for text in texts for each in _UUID.findall(text)}
    member_ids |= {rest[2:] for _, kind, rest, _, _ in records if int.from_bytes(kind, "big") in _MEMBER_KEYS}
    return Model(
        capture=f"{capture.parent.name}/{capture.name}", group_id=group_id, version=capture.parent.name, truth=truth,
        member_ids=sorted(member_ids), records=records,
        lines=[
            (_time_of(text) - first_ms, node, whole.sub("\0", _STAMP.sub("", text, count=1))) for node, text in said
        ],
    )  # fmt: skip


def _time_of(text: str) -> int:
    match = _STAMP.match(text)
    assert match is not None
    at = datetime.strptime(match[1], "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC)
    return int(at.timestamp()) * 1000 + int(match[2])


@dataclass(slots=True)
class _Cluster:
    """What is to be written of one cluster."""

    version: str
    records: dict[int, list[tuple[int, bytes, bytes | None]]] = field(default_factory=dict)
    lines: dict[str, list[tuple[int, str]]] = field(default_factory=dict)
    truth: list[dict[str, Any]] = field(default_factory=list)

    def add(self, model: Model, group_id: str, at_ms: int, *, is_deleted: bool = False) -> None:
        """What was recorded of it, from then on. `is_deleted`: the group is deleted after that."""
        partition = _java_hash(group_id) % OFFSETS_PARTITIONS
        of_partition = self.records.setdefault(partition, [])
        renamed = _renamed(model, group_id, at_ms)
        for after_ms, kind, rest, value, instants in model.records + (model.deletion() if is_deleted else []):
            if instants and value is not None:
                changed = bytearray(value)
                for place, then_ms in instants:
                    struct.pack_into(">q", changed, place, at_ms + then_ms)
                value = bytes(changed)
            new_value = None if value is None else renamed(value)
            of_partition.append((at_ms + after_ms, kind + string(group_id) + renamed(rest), new_value))
        for after_ms, node, text in model.lines:
            text = _COORDINATOR.sub(f"topic=__consumer_offsets partition={partition}]", text)
            text = renamed(text.encode()).decode().replace("\0", group_id)
            self.lines.setdefault(node, []).append((at_ms + after_ms, text))
        self.truth.append({
            "group": group_id, "capture": model.capture, "of": model.group_id, "at_ms": at_ms,
            "rebalances": [{name: each[name] for name in (*OF_EACH, _ALSO) if name in each} for each in model.truth],
        })  # fmt: skip

    def write(self, folder: Path, seed: int) -> None:
        for partition, records in sorted(self.records.items()):
            place = folder / "data" / "broker-1" / f"{OFFSETS_TOPIC}-{partition}"
            place.mkdir(parents=True)
            records.sort(key=lambda record: record[0])
            with (place / f"{0:020d}.log").open("wb") as segment:
                for at in range(0, len(records), RECORDS_OF_A_BATCH):
                    segment.write(_batch(at, records[at : at + RECORDS_OF_A_BATCH]))
        for node, lines in self.lines.items():
            (logs := folder / "logs" / node).mkdir(parents=True)
            lines.sort(key=lambda line: line[0])
            files = range(0, len(lines), LINES_OF_A_FILE)
            for number, at in enumerate(files):
                name = "server.log" if number == len(files) - 1 else f"server.log.{len(files) - 1 - number}"
                with (logs / name).open("w", encoding="utf-8") as file:
                    for at_ms, text in lines[at : at + LINES_OF_A_FILE]:
                        file.write(f"{_stamp(at_ms)}{text}\n")
        _write_meta(folder, {"kafka_version": self.version, "log_time_zone": "UTC"}, seed, self.truth)


def _renamed(model: Model, group_id: str, at_ms: int) -> Callable[[bytes], bytes]:
    """Of bytes of this model, the same with the hosts and member ids that they have here; no length changes."""
    ids = {old: _like(old, f"{group_id} {at_ms}") for old in model.member_ids}
    any_id = re.compile(b"|".join(re.escape(old) for old in sorted(ids, key=len, reverse=True)) or b"(?!)")

    def with_host(match: re.Match[bytes]) -> bytes:
        return match[1] + match[2] + _host_of(match[1], group_id)

    def with_host_in_line(match: re.Match[bytes]) -> bytes:
        return b"clientId=" + match[1] + b", clientHost=" + _host_of(match[1], group_id)

    def rename(text: bytes) -> bytes:
        text = _HOST_IN_LINE.sub(with_host_in_line, _HOST.sub(with_host, text))
        return any_id.sub(lambda match: ids[match[0]], text)

    return rename


def _host_of(client_id: bytes, group_id: str) -> bytes:
    """As long as the lab's."""
    digest = hashlib.sha256(client_id + group_id.encode()).digest()
    return f"/10.{digest[0] % 10}.{digest[1] % 10}.{10 + digest[2] % 90}".encode()


def _like(member_id: bytes, salt: str) -> bytes:
    """Another id of the same form."""
    digest = hashlib.sha512(member_id + salt.encode()).digest()
    if _UUID.fullmatch(member_id):
        return str(uuid.UUID(bytes=digest[:16], version=4)).encode()
    if tail := _UUID.search(member_id):
        return member_id[: tail.start()] + _like(tail[0], salt) + member_id[tail.end() :]
    own = _MADE_BY_CLIENT.fullmatch(member_id)
    return base64.b64encode(digest)[: len(own[1])] + (own[2] or b"") if own else member_id


def _batch(first_offset: int, records: Sequence[tuple[int, bytes, bytes | None]]) -> bytes:
    base_ms, last_ms = records[0][0], records[-1][0]
    encoded = [a_record(n, key, value, timestamp_delta=at - base_ms) for n, (at, key, value) in enumerate(records)]
    return a_batch(
        first_offset, encoded, base_timestamp=base_ms, max_timestamp=last_ms, checksum=google_crc32c.value
    )  # fmt: skip


def _write_meta(folder: Path, meta: dict[str, Any], seed: int, truth: list[dict[str, Any]]) -> None:
    (folder / "truth").mkdir(parents=True, exist_ok=True)
    (folder / "meta.json").write_text(json.dumps(meta | {"cluster_id": folder.name}))
    (folder / "truth" / "fleet.json").write_text(json.dumps({"seed": seed, "groups": truth}))


def _stamp(at_ms: int) -> str:
    at = datetime.fromtimestamp(at_ms // 1000, UTC)
    return f"[{at:%Y-%m-%d %H:%M:%S},{at_ms % 1000:03d}]"


def _java_hash(text: str) -> int:
    """Java's String.hashCode, by which a coordinator finds a group's partition."""
    value = 0
    for unit in text.encode("utf-16-be")[1::2]:  # our names are ASCII
        value = (31 * value + unit) & 0xFFFFFFFF
    return value & 0x7FFFFFFF


def write_fleet(
    folder: Path, *, rebalances: int, days: float = 1, seed: int = 1, groups: int | None = None
) -> Iterator[Path]:
    """Each cluster's folder, once it is written. Connect and reassignments come on top of the rebalances asked for.
    `groups`: so many share the rebalances, by doing again what was recorded of them; else each did it once."""
    random = Random(seed)
    by_version = models()
    versions, weights = list(by_version), [len(of_version) for of_version in by_version.values()]
    whole = [capture for capture in CAPTURES if capture.name.startswith(("connect_", "reassign_"))]
    connect = [capture for capture in whole if capture.name.startswith("connect_")]
    reassigned = [capture for capture in whole if capture.name.startswith("reassign_")]
    left, number, written = rebalances, 0, 0

    def is_over() -> bool:
        return left <= 0 if groups is None else written == groups

    while not is_over():
        (version,) = random.choices(versions, weights)
        cluster, first = _Cluster(version), written
        while not is_over() and written - first < GROUPS_OF_A_CLUSTER:
            share = 0 if groups is None else left // (groups - written)
            model, times = _drawn(random, by_version[version], share)
            written += 1
            begins = _begins(random, model, times, int(days * DAY_MS))
            for at_ms in begins:
                is_last = at_ms == begins[-1]
                cluster.add(model, f"{model.group_id}-{written:06d}", BASE_MS + at_ms, is_deleted=not is_last)
            left -= len(begins) * len(model.truth)
        place = folder / f"fleet-{number:04d}"
        cluster.write(place, seed)
        yield place
        for kind, captures in (("connect", connect), ("reassign", reassigned)):
            yield _copied(random.choice(captures), folder / f"{kind}-{number:04d}", seed)
        number += 1


def _drawn(random: Random, of_version: Sequence[Model], share: int) -> tuple[Model, int]:
    """A group, and how often it does what was recorded of it, to have about so many rebalances. Where it would have to
    do so twice, every other one is a group that can."""
    model = random.choice(of_version)
    if share >= 2 * len(model.truth) and random.random() < 0.5:
        model = random.choice([m for m in of_version if m.ends_empty] or [model])
    return model, max(1, round(share / len(model.truth))) if model.ends_empty else 1


def _begins(random: Random, model: Model, times: int, span_ms: int) -> list[int]:
    """So many begins in that time, or as many as it has room for, sorted; none while an earlier one lasts."""
    slot_ms = model.length_ms + BACK_AFTER_MS
    slots = max(1, span_ms // slot_ms)
    jitter_ms = max(0, span_ms - slots * slot_ms)
    shift_ms = random.randrange(jitter_ms + 1)
    return [shift_ms + slot_ms * slot for slot in sorted(random.sample(range(slots), min(times, slots)))]


def _copied(capture: Path, place: Path, seed: int) -> Path:
    for part in ("data", "logs"):
        if (capture / part).is_dir():
            shutil.copytree(capture / part, place / part)
    groups = json.loads((capture / "truth" / "scenario.json").read_text()).get("groups", {})
    truth = [{"group": group, "capture": f"{capture.parent.name}/{capture.name}"} | of for group, of in groups.items()]
    _write_meta(place, json.loads((capture / "meta.json").read_text()), seed, truth)
    return place


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("folder", type=Path)
    options.add_argument("--rebalances", type=int, default=10_000)
    options.add_argument("--groups", type=int, help="that many; default: each group has what was recorded of it once")
    options.add_argument("--days", type=float, default=1)
    options.add_argument("--seed", type=int, default=1)
    given = options.parse_args()
    counted: Counter[str] = Counter()
    wanted = write_fleet(
        given.folder, rebalances=given.rebalances, days=given.days, seed=given.seed, groups=given.groups
    )
    for place in wanted:
        truth = json.loads((place / "truth" / "fleet.json").read_text())["groups"]
        counted["clusters"] += 1
        counted["groups"] += len({group["group"] for group in truth})
        counted["rebalances"] += sum(len(group["rebalances"]) for group in truth)
        counted["bytes"] += sum(file.stat().st_size for file in place.rglob("*") if file.is_file())
    print(", ".join(f"{count:,} {what}" for what, count in counted.items()))


if __name__ == "__main__":
    main()
