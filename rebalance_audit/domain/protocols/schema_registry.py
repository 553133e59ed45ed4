"""Metadata and assignment of Confluent Schema Registry (`protocol_type` "sr"): JSON with few fields.

Source: SchemaRegistryIdentity.java, SchemaRegistryProtocol.java of confluentinc/schema-registry. Absent fields are left
out by the writer, so every field may be missing.
"""

from __future__ import annotations

from dataclasses import dataclass

from rebalance_audit.domain.frozen import quick
from rebalance_audit.domain.protocols.json_object import JsonObject, parse_object

ERROR_NONE = 0
ERROR_DUPLICATE_URLS = 1


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaRegistryIdentity:
    version: int | None
    host: str | None
    port: int | None
    is_leader_eligible: bool | None
    """`leader_eligibility`, in older releases `master_eligibility`."""
    scheme: str | None


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaRegistryAssignment:
    version: int | None
    error: int
    leader_member_id: str | None
    """`leader`, in older releases `master`."""
    leader_identity: SchemaRegistryIdentity | None


def decode_identity(data: bytes) -> SchemaRegistryIdentity:
    return _identity(parse_object(data, part="subscription"))


def decode_assignment(data: bytes) -> SchemaRegistryAssignment:
    """A registry node's assignment. Raises DecodeError. Bytes of length 0 are no assignment: ask before calling."""
    fields = parse_object(data, part="assignment")
    identity = fields.optional_object("leader_identity") or fields.optional_object("master_identity")
    return SchemaRegistryAssignment(
        version=fields.optional_int("version"),
        error=fields.optional_int("error") or ERROR_NONE,
        leader_member_id=fields.optional_text("leader") or fields.optional_text("master"),
        leader_identity=_identity(identity) if identity is not None else None,
    )


def _identity(fields: JsonObject) -> SchemaRegistryIdentity:
    eligible = fields.optional_bool("leader_eligibility")
    if eligible is None:
        eligible = fields.optional_bool("master_eligibility")
    return SchemaRegistryIdentity(
        version=fields.optional_int("version"),
        host=fields.optional_text("host"),
        port=fields.optional_int("port"),
        is_leader_eligible=eligible,
        scheme=fields.optional_text("scheme"),
    )
