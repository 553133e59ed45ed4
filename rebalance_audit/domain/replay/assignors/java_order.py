"""The orders that decide ties in Kafka: of Java's texts, and of the keys in Java's hash maps and sets.

Several assignors walk a HashMap of members, so which member keeps one partition more follows from the hashes of member
ids. The order is that of the buckets; inside a bucket, of insertion. Buckets with eight keys or more, which Java turns
into trees, are not followed.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from functools import lru_cache
from typing import TypeVar

K = TypeVar("K", bound=Hashable)

_WORD = 0xFFFFFFFF
_SMALLEST_TABLE = 16


@lru_cache(maxsize=65_536)
def text_key(text: str) -> bytes:
    """Sorts as String.compareTo does: by UTF-16 units, not by code points."""
    return text.encode("utf-16-be", "surrogatepass")


@lru_cache(maxsize=65_536)
def text_hash(text: str) -> int:
    """String.hashCode, as 32 bits without a sign."""
    units = text_key(text)
    value = 0
    for at in range(0, len(units), 2):
        value = (31 * value + (units[at] << 8 | units[at + 1])) & _WORD
    return value


def partition_hash(partition: tuple[str, int]) -> int:
    """TopicPartition.hashCode."""
    topic, number = partition
    return (31 * (31 + number) + text_hash(topic)) & _WORD


def id_hash(topic_id: int) -> int:
    """Uuid.hashCode of an id given as its 128 bits."""
    mixed = (topic_id >> 64) ^ (topic_id & 0xFFFFFFFFFFFFFFFF)
    return (mixed >> 32) ^ (mixed & _WORD)


def number_hash(number: int) -> int:
    return number & _WORD


def grown_table(count: int) -> int:
    """Buckets of a map that began empty and took so many keys one by one."""
    buckets = _SMALLEST_TABLE
    while count > buckets * 3 // 4:
        buckets *= 2
    return buckets


def copied_table(count: int) -> int:
    """Buckets of a HashSet made from a collection of that size."""
    wanted = max(int(count / 0.75) + 1, _SMALLEST_TABLE)
    buckets = _SMALLEST_TABLE
    while buckets < wanted:
        buckets *= 2
    return buckets


def hash_order(keys: Iterable[K], hash_of: Callable[[K], int], buckets: int | None = None) -> list[K]:
    """The keys in the order in which a HashMap or HashSet gives them back; `keys` in the order of insertion."""
    found = list(dict.fromkeys(keys))
    last = (grown_table(len(found)) if buckets is None else buckets) - 1

    def bucket(key: K) -> int:
        value = hash_of(key)
        return (value ^ value >> 16) & last

    return sorted(found, key=bucket)
