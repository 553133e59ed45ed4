"""Reconstructs a group's history in windows, for groups that do not fit into memory: a storm of 200 generations a
second for an hour, for example.

Each window is folded with what lies around it, and says only what happened in it. What it needs from before is there as
in a compacted topic: the latest record of each key. A history that fits into one window is folded whole, and so is any
of a Connect group, whose tasks' intervals have no seams.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from operator import itemgetter
from typing import NamedTuple

from rebalance_audit.domain.model import (
    CommitMark,
    ConnectRecord,
    GroupEvidence,
    GroupRecord,
    LogEvent,
    Movement,
    Rebalance,
    changed,
)
from rebalance_audit.domain.numbers import happened_at_ms
from rebalance_audit.domain.reconstruct import Reconstruction, is_connect_group, rebalance_id, reconstruct

WINDOW = 8_000
"""Pieces of evidence that are folded at once: some 1,000 generations, and 40 MB with all that is made of them."""
AROUND = 1_000
"""Pieces before and after that each window sees, too: some 125 generations."""
FOLD_VERSION = 21
"""The version of `Checkpoint` and of what windows find. If either changes, this number must change too: then older
checkpoints are not used."""

Piece = GroupRecord | ConnectRecord | LogEvent | CommitMark
Gather = Callable[[Sequence[Piece]], GroupEvidence]
"""The group's evidence made of these pieces, which come in any order."""


class Seam(NamedTuple):
    """The place where the next window takes over: a row that both windows have, known by its evidence, else an
    instant."""

    identity: Hashable
    at_ms: int


class NumberRun(NamedTuple):
    """A stretch of rebalances in which numbers only grew: the group was not deleted in it."""

    low: int
    high: int
    uses: int
    """At most so many rebalances of it have one number: tries without a record, and the one that got it."""


class Checkpoint(NamedTuple):
    """The state of the fold between two windows. What a window sees depends on the evidence alone, so a fold that goes
    on from here gives the rows of one from the beginning, unless evidence came that is not after `read_until_ms`."""

    read_from_ms: int
    """Pieces from this instant on are needed again."""
    read_until_ms: int
    """The instant of the record that ended the last window, the first piece behind it."""
    shown_until_ms: int
    """What happened before is in the rows of the windows before; it is settled."""
    row_count: int
    """Rebalances in the windows before."""
    seam: Seam | None
    runs: tuple[NumberRun, ...]
    latest: tuple[GroupRecord, ...]
    """The latest record of each key before `read_from_ms`."""


def reconstruct_in_windows(
    pieces: Iterable[tuple[int, Piece]],
    gather: Gather,
    *,
    window: int = WINDOW,
    around: int = AROUND,
    start: Checkpoint | None = None,
    note: Callable[[Checkpoint], None] = lambda checkpoint: None,
) -> Iterator[Reconstruction]:
    """Reconstruct one part at a time. `pieces` come in the order of their instants, each with its own; with `start`
    those from its `read_from_ms` on. `note` is given the state between every two windows.

    Ten pieces, 0 to 9, with `window` 6 and `around` 2. Pieces of one instant are never parted:

        sees, with all of it folded    says what happened at   has of the pieces before
        0 1 2 3 4 5                    0 1 2 3
        2 3 4 5 6 7 8                  4 5 6                   the latest record of each key in 0 1
        5 6 7 8 9                      7 8 9                   the latest record of each key in 0 to 4
    """
    coming = iter(pieces)
    held: list[tuple[int, Piece]] = []
    latest: dict[Hashable, GroupRecord] = {}
    seam: Seam | None = None
    since_ms: int | None = None
    row_count = 0
    if start is None:
        numbers = _Numbers()
        ahead = _take(held, next(coming, None), coming, window)
        if ahead is not None and is_connect_group(gather([piece for _, piece in held])):
            held += [ahead, *coming]
            ahead = None
        if ahead is None:  # nearly always: no earlier window has rows that these must agree with
            yield reconstruct(gather([piece for _, piece in held]))
            return
    else:
        numbers = _Numbers(start.runs)
        latest = {_key(record): record for record in start.latest}
        seam, since_ms, row_count = start.seam, start.shown_until_ms, start.row_count
        ahead = next(coming, None)
        while ahead is not None and ahead[0] < start.read_until_ms:
            held.append(ahead)
            ahead = next(coming, None)
        ahead = _take(held, ahead, coming, 1 + window - 2 * around)
    while True:
        evidence = gather([*latest.values(), *(piece for _, piece in held)])
        whole = reconstruct(changed(evidence, is_continued=bool(latest)))
        place = _place(whole.rebalances, seam)
        rows = whole.rebalances[place:]
        until_ms = None if ahead is None else held[-around][0]
        end = len(rows) if until_ms is None else _first_after(rows, until_ms)
        yield Reconstruction(
            rebalances=tuple(numbers.unique(rows[:end], whole.rebalances[:place])),
            connect_tasks=whole.connect_tasks,
            contradictions=tuple(
                c
                for c in whole.contradictions
                if (since_ms is None or (c.at_ms or 0) >= since_ms) and (until_ms is None or (c.at_ms or 0) < until_ms)
            ),
        )
        if ahead is None or until_ms is None:
            return
        seam, since_ms, row_count = _seam_at(rows, end) or seam, until_ms, row_count + end
        read_until_ms, read_from_ms = ahead[0], held[-2 * around][0]
        kept = bisect_left(held, read_from_ms, key=itemgetter(0))
        for _, piece in held[:kept]:
            if isinstance(piece, GroupRecord):
                known = latest.get(_key(piece))
                if known is None or (known.at_ms, known.offset) <= (piece.at_ms, piece.offset):
                    latest[_key(piece)] = piece
        note(Checkpoint(read_from_ms, read_until_ms, until_ms, row_count, seam, numbers.runs, tuple(latest.values())))
        held = held[kept:]
        ahead = _take(held, ahead, coming, 1 + window - 2 * around)


def _take(
    held: list[tuple[int, Piece]], ahead: tuple[int, Piece] | None, coming: Iterator[tuple[int, Piece]], count: int
) -> tuple[int, Piece] | None:
    """Put so many more pieces into `held`, and others until a window may end there. The piece after them.

    It may end where the next piece is of a later instant, and before a record that all commits in the window precede:
    marks go on growing until there is one. Where none comes (logs alone, a group that never gets one) it ends anyway.
    """
    most = 2 * count + len(held)
    over_ms = max((piece.last_at_ms for _, piece in held if isinstance(piece, CommitMark)), default=None)
    while ahead is not None:
        instant, piece = ahead
        if count <= 0 and instant != held[-1][0]:
            closes = over_ms is None or (isinstance(piece, GroupRecord) and instant > over_ms)
            if closes or len(held) >= most:
                break
        if isinstance(piece, CommitMark):
            over_ms = max(piece.last_at_ms, over_ms or 0)
        held.append(ahead)
        count -= 1
        ahead = next(coming, None)
    return ahead


def _key(record: GroupRecord) -> Hashable:
    return record.record.name, record.record.key


def _seam_at(rows: Sequence[Rebalance], end: int) -> Seam | None:
    if end < len(rows):
        return Seam(_identity(rows[end]), happened_at_ms(rows[end]) or 0)
    return Seam(None, (happened_at_ms(rows[-1]) or 0) + 1) if rows else None


def _first_after(rows: Sequence[Rebalance], at_ms: int) -> int:
    later = (place for place, row in enumerate(rows) if row.evidence and (happened_at_ms(row) or 0) >= at_ms)
    return next(later, len(rows))


def _place(rows: Sequence[Rebalance], seam: Seam | None) -> int:
    if seam is None:
        return 0
    known = (place for place, row in enumerate(rows) if _identity(row) == seam.identity)
    return next(known, _first_after(rows, seam.at_ms))


def _identity(row: Rebalance) -> Hashable:
    return row.generation_id, row.group_epoch, row.rewrite_seq, row.evidence[:1]


class _Numbers:
    """Numbers that the windows before have used: a group that was deleted begins again at 1, with ids of its own."""

    def __init__(self, runs: Iterable[NumberRun] = ()) -> None:
        self._runs = list(runs)

    @property
    def runs(self) -> tuple[NumberRun, ...]:
        return tuple(self._runs)

    def unique(self, rows: Sequence[Rebalance], seen_again: Sequence[Rebalance]) -> Iterator[Rebalance]:
        """The rows, with ids no earlier one has. `seen_again`: the rows before them that this window has as well; among
        all of these the ids are unique already."""
        hidden = self._hidden(seen_again)
        renamed: dict[str, str] = {}
        for row in rows:
            number = _number(row)
            uses = sum(run.uses for run in hidden if run.low <= number <= run.high)
            if uses:
                renamed[row.rebalance_id] = _renamed(row, uses)
            _go_on(self._runs, row)
            yield _with_ids(row, renamed) if renamed else row

    def _hidden(self, seen_again: Sequence[Rebalance]) -> list[NumberRun]:
        """The runs without what this window sees again, which is their end."""
        again: list[NumberRun] = []
        for row in seen_again:
            _go_on(again, row)
        if not again:
            return list(self._runs)
        *hidden, cut = self._runs[: max(1, 1 + len(self._runs) - len(again))]
        return [*hidden, cut._replace(high=min(cut.high, again[0].low - 1))]


def _go_on(runs: list[NumberRun], row: Rebalance) -> None:
    """Adds the next rebalance: a smaller number begins a run."""
    number = _number(row)
    if not runs or number < runs[-1].high:
        runs.append(NumberRun(number, number, 1))
    else:
        last = runs[-1]
        is_used_again = number == last.high and not row.rewrite_seq
        runs[-1] = NumberRun(last.low, number, last.uses + is_used_again)


def _number(row: Rebalance) -> int:
    return (row.group_epoch if row.generation_id is None else row.generation_id) or 0


def _renamed(row: Rebalance, uses: int) -> str:
    def with_use(use: int) -> str:
        is_epoch = row.generation_id is None
        return rebalance_id(
            row.cluster_id, row.group_id, _number(row), rewrite_seq=row.rewrite_seq, use=use, epoch=is_epoch
        )

    own = row.rebalance_id.removeprefix(with_use(0)).removeprefix("~")
    return with_use(uses + int(own or 0))


def _with_ids(row: Rebalance, renamed: dict[str, str]) -> Rebalance:
    def with_id(movement: Movement) -> Movement:
        revoked_in = movement.revoked_in_rebalance_id
        known = revoked_in is not None and revoked_in in renamed
        return changed(movement, revoked_in_rebalance_id=renamed[revoked_in]) if known else movement  # type: ignore[index]

    return changed(
        row,
        rebalance_id=renamed.get(row.rebalance_id, row.rebalance_id),
        movements=tuple(map(with_id, row.movements)),
    )
