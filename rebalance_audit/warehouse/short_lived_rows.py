"""How a commit writes rows that are replaced before long: into the tail or into leaves (decisions 0040 and 0063).

A leaf is a file of few such rows, which lie together by group. The tail has the latest of them, in the order in which
they came.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rebalance_audit.warehouse.arrow_tables import no_rows, rows_at, rows_where, whole
from rebalance_audit.warehouse.comparing_on_disk import Places
from rebalance_audit.warehouse.file_sizes import SOON_REPLACED_AT_ONCE, in_order, leading_column, soon_replaced
from rebalance_audit.warehouse.footers import row_count_in
from rebalance_audit.warehouse.row_groups import (
    SOON_REPLACED,
    SOON_REPLACED_ROWS,
    TAIL,
    TAIL_ROWS,
    is_soon_replaced,
    is_tail,
    least_text,
)
from rebalance_audit.warehouse.rows_in_files import FileWriter, other_rows, row_groups

_SPLIT_ROWS = 5_000
"""A staged file of more new rows is not split into leaves. It stays as it is."""
_TO_TAIL = range(8, 251)
"""So many new rows go into the tail. Of more, several lie in most leaves that are written anyway. Of fewer, few leaves
are written again when the rows come once more, and beside a quiet cluster they do not."""
_LEAF_ROWS_AT_MOST = 2_400
"""If the leaves out of which a commit takes rows hold more rows than this, as in a round of hundreds of groups,
neighbours become one file of SOON_REPLACED_AT_ONCE rows. To open, read and write fifty rows of 155 columns takes more
than half as long as 250, and each stage does it again. A later commit that changes few groups splits those that it
touches."""
_ROUND_ROWS = 2_500
"""If more new rows come, it is no round but a backfill, after which there may be quiet."""


@dataclass(slots=True)
class LeafWriter:
    """Writes files again whose rows are replaced before long, without the rows that go, and new rows of that kind."""

    writer: FileWriter
    gone: Mapping[str, Places]
    """By file, the rows that go."""
    read: Mapping[str, pa.Table]
    """The rows of files that were read as a whole."""
    kept: list[str] = field(default_factory=list)
    """Names of files that were written with rows that were stored before, and no others."""
    mixed: list[str] = field(default_factory=list)
    """Names of files that were written with new rows among them."""

    def write(self, fresh: Sequence[pa.Table | str]) -> list[pa.Table | str]:
        """Writes what is left of the files in `gone`, and those rows of `fresh` that are replaced before long. Returns
        the rest of `fresh`.

        A round's new rows beside a busy cluster go into the tail: most of them come again within seconds, and then one
        small file is written instead of one for each group. Others go into the leaves of their neighbours, so that a
        group stays in one file."""
        left: list[pa.Table | str] = []
        new: list[pa.Table] = []
        for rows in fresh:
            if isinstance(rows, str) and not (is_soon_replaced(rows) and row_count_in(rows) <= _SPLIT_ROWS):
                left.append(rows)
                continue
            held = whole(pa.concat_tables(row_groups(rows)), self.writer.schema) if isinstance(rows, str) else rows
            is_soon = soon_replaced(self.writer.table, held)
            left += [part for part in [rows_where(held, pc.invert(is_soon))] if part.num_rows]
            new.append(rows_where(held, is_soon))
        arriving = pa.concat_tables([no_rows(self.writer.schema), *new])
        if arriving.num_rows in _TO_TAIL:
            self._add_to_tail(arriving)
            return left
        if self._has_many_rows and arriving.num_rows <= _ROUND_ROWS:
            self._add_to_many_leaves(self.gone, arriving)
            return left
        outside = self._add_to_leaves(arriving)
        return [*left, outside] if outside.num_rows else left

    @property
    def _has_many_rows(self) -> bool:
        return sum(row_count_in(file) for file in self.gone if not is_tail(file)) > _LEAF_ROWS_AT_MOST

    def _left_of(self, files: Mapping[str, Places]) -> Iterator[pa.Table]:
        """What is left of these files."""
        return other_rows(files, self.writer.schema, self.read)

    def _add_to_tail(self, arriving: pa.Table) -> None:
        """Of leaves the rest is written alone. Tails from which rows go become one, in the order in which rows came;
        where it is too long its first rows stay behind in a file of their own, until `small_files` sorts such files
        into leaves."""
        fullest_first = sorted(filter(is_tail, self.gone), key=lambda file: (-row_count_in(file), file))
        tails = {file: self.gone[file] for file in fullest_first}
        leaves = {file: places for file, places in sorted(self.gone.items()) if file not in tails}
        nothing = no_rows(self.writer.schema)
        if self._has_many_rows:
            self._add_to_many_leaves(leaves, nothing)
            leaves = {}
        for file, places in leaves.items():
            if row_count_in(file) > len(places):
                rest = pa.concat_tables(self._left_of({file: places}))
                self.kept.append(self.writer.write(rest, SOON_REPLACED))
        waiting = pa.concat_tables([nothing, *self._left_of(tails)])
        while waiting.num_rows >= SOON_REPLACED_ROWS and waiting.num_rows + arriving.num_rows > TAIL_ROWS:
            self.kept.append(self.writer.write(waiting.slice(0, SOON_REPLACED_ROWS), TAIL))
            waiting = waiting.slice(SOON_REPLACED_ROWS)
        if waiting.num_rows or arriving.num_rows:
            name = self.writer.write(pa.concat_tables([waiting, arriving]), TAIL)
            (self.mixed if arriving.num_rows else self.kept).append(name)

    def _add_to_leaves(self, arriving: pa.Table) -> pa.Table:
        """Each leaf is written with the new rows that lie between its first and its last one. Returns those that lie in
        none."""
        table, by = self.writer.table, leading_column(self.writer.table)
        at = arriving[by].to_pylist()
        taken: set[int] = set()
        for file, places in sorted(self.gone.items()):
            held = self.read[file] if file in self.read else pa.concat_tables(row_groups(file))
            bounds = pc.min_max(held[by]).as_py()
            inside = [
                n for n, value in enumerate(at)
                if n not in taken and None not in (value, bounds["min"]) and bounds["min"] <= value <= bounds["max"]
            ]  # fmt: skip
            taken.update(inside)
            stay = other_rows({file: places}, self.writer.schema, {file: held})
            rows = pa.concat_tables([*stay, rows_at(arriving, pa.array(inside, pa.int64()))])
            # A process that writes many rows leaves long ones. To part such a one at once takes twice as long as to
            # halve it whenever it is touched.
            most = max(SOON_REPLACED_ROWS, -(-row_count_in(file) // 2))
            parts = _even_parts(in_order(table, rows), most)
            names = [self.writer.write(part, SOON_REPLACED) for part in parts]
            (self.mixed if inside else self.kept).extend(names)
        return rows_at(arriving, pa.array([n for n in range(len(at)) if n not in taken], pa.int64()))

    def _add_to_many_leaves(self, gone: Mapping[str, Places], arriving: pa.Table) -> None:
        """Neighbouring leaves, and what is left of tails, become one file with the new rows between them."""
        by, is_new = leading_column(self.writer.table), "is new"
        first = {file: least_text(file, by) for file in gone if not is_tail(file)}
        leaves = sorted(first, key=lambda file: (first[file], file))
        tails = {file: places for file, places in gone.items() if is_tail(file)}
        loose = pa.concat_tables([arriving, *self._left_of(tails)])
        loose = loose.append_column(is_new, pa.array(np.arange(loose.num_rows) < arriving.num_rows))
        loose = loose.take(pc.sort_indices(pc.fill_null(loose[by], "")))
        values = [value or "" for value in loose[by].to_pylist()]
        waiting: list[pa.Table] = []
        begin = 0
        for at, file in enumerate(leaves):
            others = pa.concat_tables(self._left_of({file: gone[file]}))
            waiting.append(others.append_column(is_new, pa.array(np.zeros(others.num_rows, np.bool_))))
            is_last = at + 1 == len(leaves)
            end = len(values) if is_last else bisect_left(values, first[leaves[at + 1]], begin)
            waiting.append(loose.slice(begin, end - begin))
            begin = end
            if is_last or sum(map(len, waiting)) > SOON_REPLACED_AT_ONCE - SOON_REPLACED_ROWS:
                rows = in_order(self.writer.table, pa.concat_tables(waiting))
                waiting = []
                for part in _even_parts(rows, SOON_REPLACED_AT_ONCE):
                    name = self.writer.write(part.select(self.writer.schema.names), SOON_REPLACED)
                    (self.mixed if pc.any(part[is_new]).as_py() else self.kept).append(name)


def _even_parts(rows: pa.Table, most: int) -> Iterator[pa.Table]:
    """As few parts as hold at most so many rows each, of about one size."""
    parts = -(-rows.num_rows // most)
    size = -(-rows.num_rows // parts) if parts else 0
    return (rows.slice(part * size, size) for part in range(parts))
