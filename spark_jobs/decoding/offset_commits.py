"""Tasks that fold offset commits into partial marks. They never become Python objects."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from rebalance_audit.domain.gather.groups import undecoded
from spark_jobs import record_files
from spark_jobs.commits.merging import WaitingMarks
from spark_jobs.commits.partial_marks import fold
from spark_jobs.commits.stretches import Boundaries
from spark_jobs.commits.waiting import ALL_UNFOLDED, Unfolded
from spark_jobs.decoding.output import DecodeCounts, DecodedRows, undecoded_row
from spark_jobs.engine import ArrowTask
from spark_jobs.task_files import Flags, flags_of


def fold_commits(
    folder: str, boundaries: Callable[[], Boundaries | None], unfolded: Unfolded = ALL_UNFOLDED
) -> ArrowTask:
    """Counts, and marks if `boundaries` are given."""

    def task(named: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        out = DecodedRows(folder)
        known = boundaries()
        marks = WaitingMarks(partial(out.add, "mark"))
        for batch in (batch for some in named for batch in record_files.commits_in(some, unfolded.chosen)):
            counts = DecodeCounts("record")
            refusals = []
            legacy = _is_legacy(batch)
            for kind, part in (
                ("LegacyOffsetCommit", _filtered(batch, legacy)),
                ("OffsetCommit", _filtered(batch, ~legacy)),
            ):
                for cluster_id, rows in _by_cluster(part):
                    folded = fold(rows, known)
                    counts.add(cluster_id, kind, "in_count", rows.num_rows)
                    counts.add(cluster_id, kind, "commit_count", folded.commit_count)
                    counts.add(cluster_id, kind, "skipped_count", folded.tombstone_count)
                    counts.add(cluster_id, kind, "undecoded_count", len(folded.refused))
                    refusals += [undecoded_row(source.cluster_id, undecoded(source, e)) for source, e in folded.refused]
                    marks.add(folded.marks)
            out.rows("silver.undecoded", refusals)
            out.rows("count", counts.rows())
        marks.end()
        yield from out.written()

    return task


def _is_legacy(batch: pa.RecordBatch) -> Flags:
    legacy = pa.scalar(b"\x00\x00", pa.binary())
    return flags_of(batch.column("key"), lambda keys: pc.equal(pc.binary_slice(keys, 0, 2), legacy))


def _filtered(batch: pa.RecordBatch, flags: Flags) -> pa.RecordBatch:
    return batch if flags.all() else batch.filter(pa.array(flags))


def _by_cluster(batch: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
    column = batch.column("cluster_id")
    for cluster_id in column.unique().to_pylist():
        yield (
            cluster_id,
            _filtered(batch, flags_of(column, partial(pc.equal, cluster_id))),
        )
