from __future__ import annotations

import json

import pytest

from rebalance_audit.domain.protocols.schema_registry import SchemaRegistryIdentity, decode_assignment, decode_identity
from rebalance_audit.domain.wire import DecodeError, DecodeReason

IDENTITY = {"version": 1, "host": "sr-1", "port": 8081, "master_eligibility": True, "scheme": "http"}


def test_an_identity_with_the_old_and_the_new_name_of_its_eligibility() -> None:
    expected = SchemaRegistryIdentity(version=1, host="sr-1", port=8081, is_leader_eligible=True, scheme="http")
    assert decode_identity(json.dumps(IDENTITY).encode()) == expected
    renamed = {**IDENTITY, "leader_eligibility": IDENTITY["master_eligibility"]}
    del renamed["master_eligibility"]
    assert decode_identity(json.dumps(renamed).encode()) == expected


def test_an_instance_that_may_not_lead_is_not_one_that_says_nothing() -> None:
    assert decode_identity(b'{"leader_eligibility":false}').is_leader_eligible is False
    assert decode_identity(b"{}").is_leader_eligible is None


@pytest.mark.parametrize("word", ["master", "leader"])
def test_an_assignment_names_the_leader(word: str) -> None:
    content = {"version": 1, "error": 0, word: "sr-1-uuid", f"{word}_identity": IDENTITY}
    read = decode_assignment(json.dumps(content).encode())
    assert (read.version, read.error, read.leader_member_id) == (1, 0, "sr-1-uuid")
    assert read.leader_identity is not None
    assert read.leader_identity.port == 8081


def test_no_leader_at_all_is_legal() -> None:
    read = decode_assignment(b'{"version":1,"error":1,"master":null,"master_identity":null}')
    assert (read.error, read.leader_member_id, read.leader_identity) == (1, None, None)


@pytest.mark.parametrize(
    ("content", "reason", "at"),
    [
        (b"", DecodeReason.BAD_JSON, 0),
        (b'{"host":"\xff"}', DecodeReason.BAD_UTF8, 9),
        ('{"é": x}'.encode(), DecodeReason.BAD_JSON, 7),
        (b"[1]", DecodeReason.BAD_VALUE, 0),
        (b'{"port":"8081"}', DecodeReason.BAD_VALUE, 0),
        (b'{"port":true}', DecodeReason.BAD_VALUE, 0),
        (b'{"port":9223372036854775808}', DecodeReason.BAD_VALUE, 0),
        (b'{"port":NaN}', DecodeReason.BAD_JSON, 0),
        (b'{"port":' + b"9" * 5000 + b"}", DecodeReason.BAD_JSON, 0),
        (b"[" * 100_000, DecodeReason.BAD_JSON, 0),
    ],
    ids=["empty", "not-utf8", "no-json", "a-list", "text", "bool", "too-big", "nan", "many-digits", "deep"],
)
def test_what_is_not_the_object_expected_is_refused(content: bytes, reason: DecodeReason, at: int) -> None:
    with pytest.raises(DecodeError) as refused:
        decode_identity(content)
    assert (refused.value.reason, refused.value.at, refused.value.part) == (reason, at, "subscription")


def test_half_a_character_does_not_break_what_comes_after() -> None:
    host = decode_identity(b'{"host":"a\\ud800b"}').host
    assert host == "a\ufffdb"
