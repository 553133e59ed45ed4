"""What was landed, as the judge reads it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from rebalance_audit.domain.decode import OFFSETS_TOPIC
from rebalance_audit.domain.metadata import SourceMetadata, metadata_of_bronze
from rebalance_audit.domain.model import SourceLine, SourceRecord

_COLUMNS = pa.schema(
    [("offset", pa.int64()), ("timestamp_ms", pa.int64()), ("key", pa.binary()), ("value", pa.binary())]
)

_OF_METADATA = ("offset", "timestamp_ms", "key", "value", "leader_epoch", "is_control")


class AnyLanded(Protocol):
    """What a collector landed: the shape of `ingest.collector.Landed`, which this package does not import."""

    @property
    def cluster_id(self) -> str: ...
    @property
    def runs(self) -> Sequence[Any]: ...
    @property
    def lines(self) -> Sequence[Any]: ...
    @property
    def until_ms(self) -> int | None: ...


@dataclass(frozen=True, slots=True)
class LandedRows:
    """Records of one landing."""

    rows: pa.Table
    """Of all partitions, one after the other: as fifty tables they take three times the memory."""
    places: Mapping[tuple[str, int], tuple[int, int]]
    """Of each topic and partition, the first row and the number of rows."""

    @classmethod
    def of(cls, runs: Iterable[Any]) -> LandedRows:
        tables, places, first = [_COLUMNS.empty_table()], {}, 0
        for run in runs:
            columns = run.columns  # made anew each time
            tables.append(pa.table({name: columns[name] for name in _COLUMNS.names}, _COLUMNS))
            is_of_one = run.partition is not None
            counts = {run.partition: len(columns["key"])} if is_of_one else _counts(columns["partition"])
            for partition, count in counts.items():
                places[run.topic, partition] = first, count
                first += count
        return cls(pa.concat_tables(tables).combine_chunks(), places)

    def of_place(self, place: tuple[str, int]) -> pa.Table:
        return self.rows.slice(*self.places[place])

    def records(self, cluster_id: str, chosen: Sequence[int] | None = None) -> Iterator[SourceRecord]:
        """`chosen`: the numbers of rows, in their order."""
        places = [place for place, (_, count) in self.places.items() for _ in range(count)]
        rows = self.rows
        if chosen is not None:
            places, rows = [places[number] for number in chosen], rows.take(pa.array(chosen, pa.int64()))
        for (topic, partition), row in zip(places, rows.to_pylist(), strict=True):
            yield SourceRecord(cluster_id=cluster_id, topic=topic, partition=partition, **row)


@dataclass(frozen=True, slots=True)
class Heard:
    """What is read of a landing. While the tables take in what was there before, minutes of them wait."""

    cluster_id: str
    offsets: LandedRows
    others: LandedRows
    lines: Sequence[SourceLine]
    until_ms: int | None
    metadata: Sequence[SourceMetadata] = ()

    @classmethod
    def of_metadata(cls, cluster_id: str, runs: Iterable[Any]) -> Heard:
        """Records of the metadata log, which are landed by themselves."""
        nothing = LandedRows.of(())
        records = [record for run in runs for record in _metadata(cluster_id, run)]
        return cls(cluster_id, nothing, nothing, (), None, records)

    @classmethod
    def of(cls, landed: AnyLanded) -> Heard:
        offsets = LandedRows.of(run for run in landed.runs if run.topic == OFFSETS_TOPIC)
        others = LandedRows.of(run for run in landed.runs if run.topic != OFFSETS_TOPIC)
        return cls(landed.cluster_id, offsets, others, _lines(landed), landed.until_ms)


def _metadata(cluster_id: str, run: Any) -> Iterator[SourceMetadata]:
    columns = run.columns
    for values in zip(*(columns[name] for name in _OF_METADATA), strict=True):
        row = dict(zip(_OF_METADATA, values, strict=True))
        yield metadata_of_bronze(cluster_id=cluster_id, topic=run.topic, node=run.node, **row)


def _counts(partitions: pa.ChunkedArray) -> dict[int, int]:
    """Of each partition the number of its rows, in their order; they are sorted."""
    known, counts = np.unique(partitions.to_numpy(), return_counts=True)
    return dict(zip(known.tolist(), counts.tolist(), strict=True))


def _lines(landed: AnyLanded) -> list[SourceLine]:
    """In the order of their files and bytes."""
    lines = [
        SourceLine(
            cluster_id=landed.cluster_id, node=line.node, file_name=line.file_name, file_id=line.file_id,
            byte=line.byte, text=line.text,
        )
        for line in landed.lines
    ]  # fmt: skip
    return sorted(lines, key=lambda line: (line.node, line.file_id, line.byte))
