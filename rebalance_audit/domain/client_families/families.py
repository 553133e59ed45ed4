"""The client libraries, and how a column names those that a member may be."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from functools import cache


class ClientFamily(StrEnum):
    """Libraries that behave the same where it matters here; the values are the names people know them by."""

    JAVA = "java"
    LIBRDKAFKA = "librdkafka"
    FRANZ_GO = "franz-go"
    SARAMA = "sarama"
    KAFKAJS = "kafkajs"
    KAFKA_GO = "kafka-go"
    KAFKA_PYTHON = "kafka-python"
    AIOKAFKA = "aiokafka"


Families = frozenset[ClientFamily]
"""Those that a member may be. Never empty: all of them where nothing narrows it down."""

ALL: Families = frozenset(ClientFamily)


def narrowed(families: Families, stated: Families) -> Families:
    """The libraries that both pieces of evidence allow. If there are none, the second piece is not believed."""
    return families & stated or families


@cache
def shown(families: Families) -> tuple[str, ...] | None:
    """The libraries as `client_libraries` columns hold them; None where nothing narrows them down."""
    return None if families == ALL else tuple(sorted(f.value for f in families))


def families_shown(client_libraries: Iterable[str] | None) -> Families:
    """The libraries that a `client_libraries` column names. Names that a later version added are left out."""
    return frozenset(_BY_NAME[name] for name in client_libraries or () if name in _BY_NAME) or ALL


_BY_NAME = {family.value: family for family in ClientFamily}
