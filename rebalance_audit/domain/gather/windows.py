"""A group's history in windows, for groups larger than the memory: a storm of 200 generations a second for an hour.

Each window is folded with what lies around it, and says only what happened in it. What it needs from before is there as
in a compacted topic: the latest record of each key. A history that fits into one window is folded whole, and so is any
of a Connect group, whose tasks' intervals have no seams.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from itertools import islice
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

WINDOW = 20_000
"""Pieces of evidence that are folded at once: some 2,500 generations, and 100 MB with all that is made of them."""
AROUND = 2_000
"""Pieces before and after that each window sees, too: some 250 generations."""

Piece = GroupRecord | ConnectRecord | LogEvent | CommitMark
Gather = Callable[[Sequence[Piece]], GroupEvidence]
"""The group's evidence made of these pieces, which come in any order."""


def reconstruct_in_windows(
    pieces: Iterable[tuple[int, Piece]], gather: Gather, *, window: int = WINDOW, around: int = AROUND
) -> Iterator[Reconstruction]:
    """Reconstruct one part at a time. `pieces` come in the order of their instants, each with its own.

    Ten pieces, 0 to 9, with `window` 6 and `around` 2:

        sees, with all of it folded    says what happened at   has of the pieces before
        0 1 2 3 4 5                    0 1 2 3
        2 3 4 5 6 7 8                  4 5 6                   the latest record of each key in 0 1
        5 6 7 8 9                      7 8 9                   the latest record of each key in 0 to 4
    """
    coming = iter(pieces)
    held = list(islice(coming, window))
    ahead = next(coming, None)
    if ahead is not None and is_connect_group(gather([piece for _, piece in held])):
        held += [ahead, *coming]
        ahead = None
    if ahead is None:  # as nearly always: nothing to bring into line with what was said before
        yield reconstruct(gather([piece for _, piece in held]))
        return
    latest: dict[Hashable, GroupRecord] = {}
    numbers = _Numbers()
    seam: _Seam | None = None
    since_ms: int | None = None
    while True:
        evidence = gather([*latest.values(), *(piece for _, piece in held)])
        whole = reconstruct(changed(evidence, is_continued=bool(latest)))
        rows = whole.rebalances[_place(whole.rebalances, seam) :]
        until_ms = None if ahead is None else held[-around][0]
        end = len(rows) if until_ms is None else _first_after(rows, until_ms)
        yield Reconstruction(
            rebalances=tuple(numbers.unique(rows[:end], whole.rebalances)),
            connect_tasks=whole.connect_tasks,
            contradictions=tuple(
                c
                for c in whole.contradictions
                if (since_ms is None or (c.at_ms or 0) >= since_ms) and (until_ms is None or (c.at_ms or 0) < until_ms)
            ),
        )
        if ahead is None:
            return
        seam, since_ms = _seam_at(rows, end) or seam, until_ms
        for _, piece in held[: -2 * around]:
            if isinstance(piece, GroupRecord):
                latest[piece.record.name, piece.record.key] = piece
        held = [*held[-2 * around :], ahead, *islice(coming, window - 2 * around)]
        ahead = next(coming, None)


class _Seam(NamedTuple):
    """Where the next window takes over: a row that both windows know by its evidence, else an instant."""

    identity: Hashable
    at_ms: int


def _seam_at(rows: Sequence[Rebalance], end: int) -> _Seam | None:
    if end < len(rows):
        return _Seam(_identity(rows[end]), happened_at_ms(rows[end]) or 0)
    return _Seam(None, (happened_at_ms(rows[-1]) or 0) + 1) if rows else None


def _first_after(rows: Sequence[Rebalance], at_ms: int) -> int:
    later = (place for place, row in enumerate(rows) if row.evidence and (happened_at_ms(row) or 0) >= at_ms)
    return next(later, len(rows))


def _place(rows: Sequence[Rebalance], seam: _Seam | None) -> int:
    if seam is None:
        return 0
    known = (place for place, row in enumerate(rows) if _identity(row) == seam.identity)
    return next(known, _first_after(rows, seam.at_ms))


def _identity(row: Rebalance) -> Hashable:
    return row.generation_id, row.group_epoch, row.rewrite_seq, row.evidence[:1]


class _Numbers:
    """Numbers that the windows before have used: a group that was deleted begins again at 1, with ids of its own."""

    def __init__(self) -> None:
        self._runs: list[tuple[int, int]] = []
        """(lowest, highest) number of each stretch in which they only grew."""

    def unique(self, rows: Sequence[Rebalance], seen: Sequence[Rebalance]) -> Iterator[Rebalance]:
        """The rows, with ids no earlier one has. `seen`: all of this window, among which the ids are unique already."""
        hidden = list(self._runs)
        if hidden and seen:
            hidden[-1] = hidden[-1][0], min(hidden[-1][1], _number(seen[0]) - 1)
        renamed: dict[str, str] = {}
        for row in rows:
            number = _number(row)
            uses = sum(low <= number <= high for low, high in hidden)
            if uses:
                renamed[row.rebalance_id] = _renamed(row, uses)
            low, high = self._runs[-1] if self._runs else (number, number)
            if number >= high:
                self._runs[-1:] = [(low, number)]
            else:
                self._runs.append((number, number))
            yield _with_ids(row, renamed) if renamed else row


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
