"""The input of every stage, and how it finds what is new.

A stage's commits carry, as Delta application transactions `<stage>:<input table>`, the version of each input they
consumed. So the note of what a stage consumed is part of what it wrote: it cannot be lost, and it cannot be ahead of
the rows. An output that a batch does not change has no commit; the stage's last one has all of them (decision 0054).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from rebalance_audit.domain.detect import DEFAULT_OF, LimitsOf
from rebalance_audit.warehouse import unwritten
from rebalance_audit.warehouse.footers import row_count_in
from rebalance_audit.warehouse.queries import expect_small
from rebalance_audit.warehouse.spreading import Spread
from rebalance_audit.warehouse.storage import located
from rebalance_audit.warehouse.warehouse import Warehouse
from spark_jobs.engine import SPARK_FROM_BYTES, Engine, LocalEngine
from spark_jobs.plan import UNLESS_UNCHANGED, Stage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SMALL_BYTES = 4 << 20
"""With less news than this many bytes of Parquet, queries are about few rows."""


class Gate(Protocol):
    """Checks rows, in memory or in files, before they are committed. Raises where a fatal law does not hold."""

    def __call__(self, table: str, rows: pa.Table | Sequence[str], batch_id: str) -> None: ...


def open_gate(table: str, rows: pa.Table | Sequence[str], batch_id: str) -> None:
    """Checks nothing."""


@dataclass(slots=True)
class Run:
    """One run of the pipeline on one warehouse."""

    warehouse: Warehouse
    open_spark: Callable[[], SparkSession]
    gate: Gate = open_gate
    settings: Mapping[str, Any] = field(default_factory=dict)
    """`limits` (detect.LimitsOf), `team` (a function of cluster and group)."""
    reached: Callable[[str], None] = lambda point: None
    """Called after each commit with its name; tests raise here to be a crash at that very point."""
    engine: str = "auto"
    """One of ENGINES."""
    spark_from_bytes: int = SPARK_FROM_BYTES
    """With `auto`: news of fewer bytes is carried by this process."""
    rows_written: dict[str, int] = field(default_factory=dict)
    put_aside: list[str] = field(default_factory=list)
    """Sentences about landing files that went to the quarantine."""
    may_wait: bool = False
    """Whether commits of groups that nobody waits for may be left to a later run (`spark_jobs.commits.waiting`), and
    the judgement of loud groups (`spark_jobs.loud`)."""
    has_left: bool = False
    """Whether a loud group was left to a later run."""
    judged_loud: set[tuple[str, str]] = field(default_factory=set)
    """(cluster, group) of the loud groups that detect judged although the run may wait: so much was left of them."""
    awaited: Collection[tuple[str, str]] | None = None
    """(cluster, group) of the groups whose commits are all in marks; None: those of all groups are."""
    again: bool = False
    """Whether a stage that has no news works on all that its inputs hold (`run --again`, decision 0095)."""

    repeats: bool = False
    """Whether the batch that a stage took last was begun by an earlier run: news may wait behind it."""

    @property
    def limits(self) -> LimitsOf:
        return self.settings.get("limits") or DEFAULT_OF

    @property
    def spark(self) -> SparkSession:
        return self.open_spark()

    def next_batch(self, stage: str, inputs: Sequence[str], outputs: Sequence[str]) -> Batch | None:
        """As `next_batch`; with `again`, where nothing is new, all there is."""
        batch = next_batch(self.warehouse, stage, inputs, outputs)
        self.repeats = batch is not None and batch.is_repeated
        if batch is not None or not self.again:
            return batch
        return replace(nothing_new(self.warehouse, stage, inputs), since=dict.fromkeys(inputs, -1), is_news=False)

    def engine_for(self, files: Sequence[str]) -> Engine:
        """The engine for tasks that read files of this size."""
        return self.engine_of(sum(map(size_of, files)))

    def engine_of(self, byte_count: int) -> Engine:
        expect_small(byte_count < _SMALL_BYTES)
        if self.engine == "local" or (self.engine == "auto" and byte_count < self.spark_from_bytes):
            return LocalEngine()
        from spark_jobs.spark_engine import SparkEngine  # PySpark takes a third of a second to import

        return SparkEngine(self.spark)

    def spread_of(self, byte_count: int) -> Spread | None:
        """How Spark runs tasks on so many bytes; None where they are few, or it is not to be used."""
        least = min(_SMALL_BYTES, self.spark_from_bytes) if self.engine == "spark" else self.spark_from_bytes
        engine = None if byte_count < least else self.engine_of(byte_count)
        return None if engine is None or isinstance(engine, LocalEngine) else engine.spread

    @contextmanager
    def staged(self, table: str, rows: pa.Table) -> Iterator[list[str]]:
        """The rows as Parquet files that belong to no table yet. Gone afterwards, unless a commit linked them."""
        with self.warehouse.staging_file(table, rows) as file:
            yield [file]

    def staging_folder(self) -> AbstractContextManager[str]:
        """Where tasks may write files that belong to no table yet. Gone afterwards, unless a commit linked them."""
        return self.warehouse.staging_folder()

    def replace(
        self,
        table: str,
        rows: pa.Table | Sequence[str],
        keys: pa.Table,
        batch_id: str,
        transaction: Mapping[str, int] | None = None,
        *,
        since: str | None = None,
    ) -> None:
        """Checks rows, in memory or staged, and replaces all rows with these keys by them; `since` as in
        `Warehouse.replace`."""
        count = self._checked(table, rows, batch_id)
        is_optional = table in UNLESS_UNCHANGED
        self.warehouse.replace(table, rows, keys, transaction, since=since, only_if_changed=is_optional)
        self._committed(table, count)

    def add(
        self,
        table: str,
        rows: pa.Table | Sequence[str],
        batch_id: str,
        transaction: Mapping[str, int] | None,
        point: str | None = None,
    ) -> None:
        """Checks rows, in memory or staged, and adds them. `point`: the commit's name, if the table's name is not
        enough."""
        count = self._checked(table, rows, batch_id)
        put = self.warehouse.append if isinstance(rows, pa.Table) else self.warehouse.adopt
        put(table, rows, transaction, only_if_changed=table in UNLESS_UNCHANGED)
        self._committed(table, count, point)

    def _checked(self, table: str, rows: pa.Table | Sequence[str], batch_id: str) -> int:
        """How many rows there are. Staged files have other names once they are committed."""
        if len(rows):
            self.gate(table, rows, batch_id)
        return rows.num_rows if isinstance(rows, pa.Table) else row_count(rows)

    def _committed(self, table: str, count: int, point: str | None = None) -> None:
        self.rows_written[table] = self.rows_written.get(table, 0) + count
        self.reached(point or table)


def added_files(context: Run, table: str, batch: Batch) -> list[str]:
    """The files added to an input since it was consumed; all of them where that is not known any more."""
    changes = context.warehouse.changes(table, batch.since[table], batch.until[table])
    if changes is None:
        return context.warehouse.files(table, batch.until[table])
    return [file for change in changes for file in change.added]


def row_count(files: Sequence[str]) -> int:
    """The number that the files' own footers state."""
    return sum(map(row_count_in, files))


def size_of(file: str) -> int:
    """Its bytes; 0 of a file that is not written yet, since its rows are in this process."""
    if unwritten.is_waiting(file):
        return 0
    fs, path = located(file)
    return int(fs.get_file_info(path).size)


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """From which version (exclusive; -1: from the beginning) to which (inclusive) each input is consumed."""

    stage: str
    since: Mapping[str, int]
    until: Mapping[str, int]
    is_news: bool = True
    """Whether the stage has not consumed this yet."""
    is_repeated: bool = False
    """Whether an earlier run has begun this."""

    @property
    def transaction(self) -> dict[str, int] | None:
        """What a commit notes as consumed. None where that is noted already: it would pass for done."""
        return {f"{self.stage}:{name}": version for name, version in self.until.items()} if self.is_news else None

    @property
    def batch_id(self) -> str:
        """The same for the same work: what a repeated batch counts and checks replaces what it did before."""
        return (
            self.stage
            + ":"
            + ",".join(f"{name.partition('.')[2]}@{self.since[name]}-{self.until[name]}" for name in sorted(self.until))
        )


def next_batch(warehouse: Warehouse, stage: str, inputs: Sequence[str], outputs: Sequence[str]) -> Batch | None:
    """The news for a stage; None if nothing is new.

    If a crash fell between the commits of a batch, that batch again: the outputs that have it skip it. The last output
    has every batch that is done; the others may lack those that changed nothing in them.
    """
    done = [
        {name: _version(warehouse.transaction_version(output, f"{stage}:{name}")) for name in inputs}
        for output in outputs
    ]
    since = done[-1]
    furthest = {name: max(d[name] for d in done) for name in inputs}
    if furthest != since:
        return Batch(stage=stage, since=since, until=furthest, is_repeated=True)
    now = {name: _version(warehouse.version(name)) for name in inputs}
    return None if now == since else Batch(stage=stage, since=since, until=now)


def nothing_new(warehouse: Warehouse, stage: str, inputs: Sequence[str]) -> Batch:
    """For a stage that has something to do although nothing is new: what it left before."""
    now = {name: _version(warehouse.version(name)) for name in inputs}
    return Batch(stage=stage, since=now, until=now, is_news=False)


def is_due(warehouse: Warehouse, stage: Stage) -> bool:
    """Whether rows came or changed that the stage has not worked on. Commits of `maintain` and `erase` are no such
    news: they write the same rows into other files, or take rows away."""
    batch = next_batch(warehouse, stage.name, stage.reads, stage.writes)
    return batch is not None and has_changes(warehouse, batch.since, batch.until)


def has_changes(warehouse: Warehouse, since: Mapping[str, int], until: Mapping[str, int]) -> bool:
    """Whether rows came or changed between these versions of the tables, or that is not known any more."""
    return any(warehouse.changes(name, since.get(name, -1), version) != [] for name, version in until.items())


def _version(version: int | None) -> int:
    return -1 if version is None else version
