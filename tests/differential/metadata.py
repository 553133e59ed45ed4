"""Records of the metadata log: our decoder beside Kafka's MetadataRecordSerde.

A record is compared with each release that knows its type and version. Kafka reads text that is not UTF-8 and puts
U+FFFD in its place; we refuse it. Types that we name and skip are held to their names alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from random import Random
from typing import Any

from ingest.segments import read_segment
from rebalance_audit.domain.metadata import RECORD_TYPES, MetadataRecord, decode_metadata
from rebalance_audit.domain.metadata.others import FeatureLevelRecord
from rebalance_audit.domain.metadata.registry import read_frame
from rebalance_audit.domain.wire import DecodeError, DecodeReason
from tests.differential.cases import GOLDEN, damage
from tests.differential.oracle import Answer, Case, Kind
from tests.differential.tally import Disagreement, Tally
from tests.domain.metadata.dumped_form import camel
from tests.domain.metadata.encoder import LAYOUTS, record, topic_id

DAMAGED_PER_WHOLE = 9
_NOT_YET: Mapping[str, Mapping[int, int]] = {
    "4.3.0": {29: 0},
    "4.1.1": {0: 4, 17: 3, 29: 0},
    "3.9.1": {0: 4, 17: 3, 28: 0, 29: 0},
}
"""From which version on a release does not know a type."""
_TEXTS = ("", "a", "orders", "\u00e9\u4e2d\U0001f600", "x" * 300)


def captured_cases() -> Iterator[Case]:
    seen: set[bytes] = set()
    for pattern in ("*.log*", "*.checkpoint*"):
        for segment in sorted(GOLDEN.glob(f"*/*/data/*/__cluster_metadata-0/{pattern}")):
            for batch in read_segment(segment):
                assert isinstance(batch, list), batch
                for row in batch:
                    value = row[3]
                    if not row[9] and value is not None and value not in seen:
                        seen.add(value)
                        yield Case(Kind.METADATA, None, value)


def batches(seed: int, count: int, batch_size: int = 2_000) -> Iterator[list[Case]]:
    random = Random(seed)
    captured = [case.value or b"" for case in captured_cases()]
    batch: list[Case] = []
    made = 0
    while made < count:
        whole, other = (random.choice(captured) if random.random() < 0.1 else _made(random) for _ in range(2))
        for data in (whole, *(damage(random, whole, other) for _ in range(DAMAGED_PER_WHOLE))):
            batch.append(Case(Kind.METADATA, None, bytes(data)))
            made += 1
            if len(batch) == batch_size or made == count:
                yield batch
                batch = []
            if made == count:
                return


def _made(random: Random) -> bytes:
    number, version = random.choice(list(LAYOUTS))
    plain, tagged = LAYOUTS[number, version]
    given = {name: _value(random, kind) for name, kind in plain}
    given |= {name: _value(random, kind) for name, kind in tagged.values() if random.random() < 0.5}
    unknown = {40 + n: random.randbytes(random.randrange(4)) for n in range(random.choice((0, 0, 0, 1, 2)))}
    return record(number, version, given, unknown_tags=unknown)


def _value(random: Random, kind: str) -> Any:
    if kind.startswith("[]"):
        return [_value(random, kind[2:]) for _ in range(random.choice((0, 1, 2, 3)))]
    match kind:
        case "endpoint":
            names = {"name": "string", "host": "string", "port": "uint16", "securityProtocol": "int16"}
        case "feature":
            names = {"name": "string", "minSupportedVersion": "int16", "maxSupportedVersion": "int16"}
        case "string":
            return random.choice(_TEXTS)
        case "string?":
            return random.choice((None, *_TEXTS))
        case "bool":
            return random.random() < 0.5
        case "uuid":
            return topic_id(random.choice((0, 1, random.getrandbits(128))))
        case "uint16":
            return random.choice((0, 9092, 65_535))
        case _:
            bits = int(kind.removeprefix("int"))
            return random.choice((0, 1, -1, -2, 2 ** (bits - 1) - 1, -(2 ** (bits - 1))))
    return {name: _value(random, inner) for name, inner in names.items()}


def compare(case: Case, answers: list[Answer], releases: tuple[str, ...], tally: Tally) -> None:
    tally.cases += 1
    ours: MetadataRecord | DecodeError
    try:
        ours = decode_metadata(case.value)
    except DecodeError as refused:
        ours = refused
    for answer, release in zip(answers, releases, strict=True):
        if not _is_known(case.value, release):
            continue
        if isinstance(answer, str) and isinstance(ours, MetadataRecord) and _is_read_on_purpose(ours.value):
            continue
        if isinstance(ours, DecodeError) and ours.reason is DecodeReason.BAD_VALUE and release != releases[0]:
            continue  # a tag that a later release gave to a later version: the earlier one keeps it as unknown
        tally.comparisons += 1
        what = _difference(case.value or b"", ours, answer)
        if what is not None:
            tally.disagreements.append(Disagreement(case, release, what, answer, str(ours)))
        elif isinstance(ours, MetadataRecord):
            tally.accepted += 1
            tally.seen.add((release, ours.record_type, ours.version))
        elif isinstance(answer, str):
            tally.refused += 1
        else:
            tally.bad_utf8 += 1


def _is_read_on_purpose(value: Any) -> bool:
    """Only the name is wanted; or a feature in the layout of releases to 3.2, which had the same version number."""
    return value is None or (isinstance(value, FeatureLevelRecord) and value.min_feature_level is not None)


def _is_known(value: bytes | None, release: str) -> bool:
    """A version it does not know a release reads as its newest one, and we refuse it."""
    try:
        _, number, version = read_frame(value)
    except DecodeError:
        return True
    kind = RECORD_TYPES.get(number)
    return kind is None or version <= min(kind.latest_version, _NOT_YET[release].get(number, version + 1) - 1)


def _difference(value: bytes, ours: MetadataRecord | DecodeError, answer: Answer) -> str | None:
    if isinstance(ours, DecodeError):
        if isinstance(answer, str):
            return None
        # Kafka's answer need not show U+FFFD: of a tag that stands there twice it shows the last.
        is_replaced = ours.reason is DecodeReason.BAD_UTF8 and value[ours.at] >= 0x80
        return None if is_replaced else "only Kafka reads it"
    if isinstance(answer, str):
        return "only we read it"
    if (ours.record_type, ours.version) != (answer["type"], answer["version"]):
        return "type or version"
    return None if ours.value is None or _same(ours.value, answer["value"]) else "fields"


def _same(ours: Any, kafka: Any) -> bool:
    if isinstance(kafka, list):
        return ours is not None and len(ours) == len(kafka) and all(map(_same, ours, kafka))
    if not isinstance(kafka, dict):
        return bool(ours == kafka)
    assert is_dataclass(ours)
    read = {camel(each.name): getattr(ours, each.name) for each in fields(ours)}
    tags = [(tag & 0xFFFFFFFF, data) for tag, data in kafka.get("~", ())]
    if [(tag, data.hex()) for tag, data in read.pop("unknownTags")] != tags:
        return False
    names = kafka.keys() - {"~"}
    if any(read[name] not in _ABSENT for name in read.keys() - names):
        return False  # of a later release, or in an older layout
    return all(
        name in read and (_same(read[name], kafka[name]) or _is_default(read[name], kafka[name])) for name in names
    )


_ABSENT: tuple[Any, ...] = (None, (), False)


def _is_default(ours: Any, kafka: Any) -> bool:
    """None where the layout has no such field or it was left out; Kafka's classes hold a default in its place."""
    return ours is None and kafka in (None, [], 0, -1, "", False)
