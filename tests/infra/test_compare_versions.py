"""What two Kafka versions differ in, on classes and schemas made by hand."""

from __future__ import annotations

import json
import struct
import zipfile
from pathlib import Path
from typing import Any

import pytest

from infra.lab.class_files import names, texts
from infra.lab.compare_versions import Version, compare, forms_read, is_printed, lines_of, read_version, schemas_read

MANAGER = "org/apache/kafka/coordinator/group/GroupMetadataManager.class"
RANGE = "org/apache/kafka/clients/consumer/RangeAssignor.class"
OLD_LINE = "[GroupId \x01] Bumped group epoch to \x01."
VALUE: dict[str, Any] = {
    "type": "coordinator-value", "name": "ConsumerGroupMetadataValue", "validVersions": "0", "flexibleVersions": "0+",
    "fields": [{"name": "Epoch", "versions": "0+", "type": "int32", "about": "The group epoch."}],
}  # fmt: skip


def a_class(*constants: str) -> bytes:
    """A class file up to the end of its constants, with a long among them, which takes two numbers."""
    pool = b"\x05" + struct.pack(">q", 7)
    number = 3
    for constant in constants:
        content = constant.encode()
        pool += b"\x01" + struct.pack(">H", len(content)) + content + b"\x08" + struct.pack(">H", number)
        number += 2
    return struct.pack(">IHHH", 0xCAFEBABE, 0, 65, number) + pool


def a_version(place: Path, name: str, classes: dict[str, bytes], value: dict[str, Any]) -> Version:
    jar = place / f"kafka-{name}.jar"
    with zipfile.ZipFile(jar, "w") as archive:
        for path, content in classes.items():
            archive.writestr(path, content)
        text = "// Licensed\n" + json.dumps(value, indent=1).replace('"Epoch"', '"Epoch" /* "n" */') + ' // an "end"'
        archive.writestr("common/message/ConsumerGroupMetadataValue.json", text)
    return read_version(name, {"kafka-clients": jar})


def test_texts_and_names_of_a_class_are_read() -> None:
    content = a_class("first", "second \x01 \u00e9")
    assert list(texts(content)) == ["first", "second \x01 \u00e9"]
    assert names(content) == {b"first", "second \x01 \u00e9".encode()}
    with pytest.raises(ValueError, match="no class file"):
        list(texts(b"PK\x03\x04 and so on"))


def test_all_that_is_read_and_changed_is_listed(tmp_path: Path) -> None:
    old = a_version(tmp_path, "1", {MANAGER: a_class(OLD_LINE), RANGE: a_class("range")}, VALUE)
    fields = [*VALUE["fields"], {"name": "Hash", "versions": "1+", "type": "int64"}]
    new = a_version(
        tmp_path, "2", {MANAGER: a_class("[GroupId \x01] Raised the epoch to \x01."), RANGE: a_class("range", "rack")},
        VALUE | {"validVersions": "0-1", "fields": fields},
    )  # fmt: skip
    found = list(compare(old, new))
    assert ("schema", "ConsumerGroupMetadataValue: validVersions 0 -> 0-1; +Hash (int64, versions=1+)") in found
    assert ("message", "no longer printed: [GroupId <group_id>] Bumped group epoch to <group_epoch:int>.") in found
    assert ("message", "new: [GroupId {}] Raised the epoch to {}.") in found
    assert ("assignor", "org.apache.kafka.clients.consumer.RangeAssignor: calls or says something else") in found
    assert list(lines_of(found))[:1] == ["schema: 1"]


def test_nothing_is_listed_where_nothing_changed(tmp_path: Path) -> None:
    classes = {MANAGER: a_class(OLD_LINE), RANGE: a_class("range")}
    about = VALUE | {"fields": [{"name": "Epoch", "versions": "0+", "type": "int32", "about": "In other words."}]}
    assert list(compare(a_version(tmp_path, "1", classes, VALUE), a_version(tmp_path, "2", classes, about))) == []


def test_a_form_is_printed_where_all_its_fixed_parts_are(tmp_path: Path) -> None:
    version = a_version(tmp_path, "1", {MANAGER: a_class(OLD_LINE)}, VALUE)
    assert is_printed("[GroupId <group_id>] Bumped group epoch to <group_epoch:int>.", version)
    assert not is_printed("Stabilized group <group_id> generation <generation_id:int>", version)


def test_what_is_read_is_known_by_kafkas_names() -> None:
    assert {"GroupMetadataValue", "OffsetCommitKey", "PartitionChangeRecord"} <= schemas_read()
    assert len(forms_read()) > 200
