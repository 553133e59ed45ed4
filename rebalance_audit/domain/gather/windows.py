"""Reconstructs a group's history in windows, for groups that do not fit into memory: a storm of 200 generations a
second for an hour, for example.

Each window is folded with what lies around it, and says only what happened in it. What it needs from before is there as
in a compacted topic: the latest record of each key. A history that fits into one window is folded whole, and so is any
of a Connect group, whose tasks' intervals have no seams.

A window of an ordinary group ends once it has enough rounds in enough time, so that news of a group that lives for
years costs what it costs in its first weeks. Where much happens within minutes a window is as wide as memory allows.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from operator import attrgetter, itemgetter
from typing import NamedTuple

from rebalance_audit.domain.client_families import families_shown, shown
from rebalance_audit.domain.gather.clocks import NodeClock
from rebalance_audit.domain.gather.groups import group_evidence
from rebalance_audit.domain.model import (
    CommitMark,
    ConnectRecord,
    GroupEvidence,
    GroupRecord,
    LogEvent,
    LogKind,
    Movement,
    Rebalance,
    changed,
)
from rebalance_audit.domain.numbers import happened_at_ms
from rebalance_audit.domain.reconstruct import (
    EPOCH_RECORDS,
    Reconstruction,
    is_connect_group,
    rebalance_id,
    reconstruct,
)
from rebalance_audit.domain.reconstruct.classic.members import parse
from rebalance_audit.domain.reconstruct.evidence.stated import stated_families

WINDOW = 8_000
"""Pieces of evidence that are folded at once, at most: some 1,000 generations, and 40 MB with all that is made of
them."""
AROUND = 1_000
"""Pieces before and after that each window sees, too, at most: some 125 generations."""
ROUNDS, ROUNDS_MS = 16, 15 * 60_000
"""A window sees no more around it than so many rounds that take so long. A round has one or two signs: its record, and
the line that begins it. Clients wait five minutes for a member (`max.poll.interval.ms`), so the rounds that answer each
other are within that time."""
LATE_MS = 10 * 60_000
"""Logs and records reach us minutes apart. A checkpoint is made once the group's evidence goes on for so long, or for
AROUND pieces: one that is made at once would be of no use whenever a line comes after the record it belongs to."""
_ROUND_LINES = frozenset({LogKind.PREPARING, LogKind.EPOCH_BUMPED, LogKind.TARGET_COMPUTED})
_OWN_SHARE = 3
"""What a window sees for the first time has so many times the rounds, and the time, of what it sees around it."""
FOLD_VERSION = 22
"""The version of `Checkpoint` and of what windows find. If either changes, this number must change too: then older
checkpoints are not used."""

Piece = GroupRecord | ConnectRecord | LogEvent | CommitMark
Stated = tuple[tuple[str, tuple[str, ...] | None], ...]
Ownerless = tuple[tuple[str, int], ...]
Gather = Callable[[Sequence[Piece]], GroupEvidence]
"""The group's evidence made of these pieces, which come in any order."""


class Seam(NamedTuple):
    """The place where the next window takes over: a row that both windows have, known by its evidence, else an
    instant."""

    identity: Hashable
    at_ms: int


class Width(NamedTuple):
    """So many pieces; or fewer that have so many rounds and take so long."""

    pieces: int
    rounds: int
    ms: int


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
    """The latest record of each key before `read_from_ms`, without tombstones of members."""
    stated: Stated = ()
    """`GroupEvidence.stated` of lines before `read_from_ms`: of clients that the records from there on name."""
    ownerless: Ownerless = ()
    """`GroupEvidence.ownerless` at `read_from_ms`: of topics that members subscribe to."""


def gathering(
    cluster_id: str, group_id: str, clocks: Mapping[str, NodeClock], topic_names: Sequence[tuple[str, str]]
) -> Gather:
    """`gather` of one group, as `reconstruct_in_windows` takes it. Arguments as for `group_evidence`."""

    def gather(pieces: Sequence[Piece]) -> GroupEvidence:
        events = [piece for piece in pieces if not isinstance(piece, CommitMark)]
        marks = [piece for piece in pieces if isinstance(piece, CommitMark)]
        return group_evidence(cluster_id, group_id, events, marks, clocks, topic_names)

    return gather


def reconstruct_in_windows(
    pieces: Iterable[tuple[int, Piece]],
    gather: Gather,
    *,
    window: int = WINDOW,
    around: int = AROUND,
    rounds: int = ROUNDS,
    start: Checkpoint | None = None,
    note: Callable[[Checkpoint], None] = lambda checkpoint: None,
) -> Iterator[Reconstruction]:
    """Reconstruct one part at a time. `pieces` come in the order of their instants, each with its own; with `start`
    those from its `read_from_ms` on. `note` is given the state between two windows once the pieces go on long enough
    after it. `window`, `around` and `rounds` are described at WINDOW, AROUND and ROUNDS.

    Ten pieces, 0 to 9, with `window` 6 and `around` 2. Pieces of one instant are never parted:

        sees, with all of it folded    says what happened at   has of the pieces before
        0 1 2 3 4 5                    0 1 2 3
        2 3 4 5 6 7 8                  4 5 6                   the latest record of each key in 0 1
        5 6 7 8 9                      7 8 9                   the latest record of each key in 0 to 4
    """
    beside = Width(around, rounds, ROUNDS_MS)
    own = Width(1 + window - 2 * around, _OWN_SHARE * rounds, _OWN_SHARE * ROUNDS_MS)
    first = Width(window, own.rounds + 2 * rounds, own.ms + 2 * ROUNDS_MS)
    coming = iter(pieces)
    held: list[tuple[int, Piece]] = []
    latest: dict[Hashable, GroupRecord] = {}
    stated: Stated = ()
    ownerless: Ownerless = ()
    seam: Seam | None = None
    since_ms: int | None = None
    row_count = 0
    if start is None:
        numbers = _Numbers()
        ahead = _take(held, next(coming, None), coming, first)
        if ahead is not None and is_connect_group(gather([piece for _, piece in held])):
            held += [ahead, *coming]
            ahead = None
        if ahead is None:  # nearly always: no earlier window has rows that these must agree with
            yield reconstruct(gather([piece for _, piece in held]))
            return
    else:
        numbers = _Numbers(start.runs)
        latest = {_key(record): record for record in start.latest}
        stated, ownerless = start.stated, start.ownerless
        seam, since_ms, row_count = start.seam, start.shown_until_ms, start.row_count
        ahead = next(coming, None)
        while ahead is not None and ahead[0] < start.read_until_ms:
            held.append(ahead)
            ahead = next(coming, None)
        ahead = _take(held, ahead, coming, own)
    while True:
        evidence = gather([*latest.values(), *(piece for _, piece in held)])
        whole = reconstruct(changed(evidence, is_continued=bool(latest), stated=stated, ownerless=ownerless))
        place = _place(whole.rebalances, seam)
        rows = whole.rebalances[place:]
        until = None if ahead is None else _place_before(held, len(held), beside)
        until_ms = None if until is None else held[until][0]
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
        if ahead is None or until is None or until_ms is None:
            return
        seam, since_ms, row_count = _seam_at(rows, end) or seam, until_ms, row_count + end
        read_until_ms, read_from_ms = ahead[0], held[_place_before(held, until, beside)][0]
        kept = bisect_left(held, read_from_ms, key=itemgetter(0))
        _add_latest(latest, held[:kept])
        ownerless = _ownerless(ownerless, held[:kept])
        named = _clients_of([*latest.values(), *(piece for _, piece in held[kept:])])
        stated = _stated(stated, held[:kept], named)
        checkpoint = Checkpoint(
            read_from_ms,
            read_until_ms,
            until_ms,
            row_count,
            seam,
            numbers.runs,
            tuple(sorted(latest.values(), key=attrgetter("at_ms", "offset"))),
            stated,
            ownerless,
        )
        held = held[kept:]
        seen_before = len(held)
        ahead = _take(held, ahead, coming, own)
        if len(held) - seen_before >= around or held[-1][0] - read_until_ms >= LATE_MS:
            note(checkpoint)


def _take(
    held: list[tuple[int, Piece]], ahead: tuple[int, Piece] | None, coming: Iterator[tuple[int, Piece]], own: Width
) -> tuple[int, Piece] | None:
    """Put so much more into `held`, and other pieces until a window may end there. The piece after them.

    It may end where the next piece is of a later instant, and before a record that all commits in the window precede:
    marks go on growing until there is one. Where none comes (logs alone, a group that never gets one) it ends anyway.
    """
    begin, rounds = len(held), 0
    most = 2 * own.pieces + begin
    over_ms = max((piece.last_at_ms for _, piece in held if isinstance(piece, CommitMark)), default=None)
    while ahead is not None:
        instant, piece = ahead
        count = len(held) - begin
        is_enough = count >= own.pieces or (rounds >= own.rounds and held[-1][0] - held[begin][0] >= own.ms)
        if is_enough and instant != held[-1][0]:
            closes = over_ms is None or (isinstance(piece, GroupRecord) and instant > over_ms)
            if closes or len(held) >= most:
                break
        if isinstance(piece, CommitMark):
            over_ms = max(piece.last_at_ms, over_ms or 0)
        held.append(ahead)
        rounds += begins_round(piece)
        ahead = next(coming, None)
    return ahead


def _place_before(held: Sequence[tuple[int, Piece]], end: int, beside: Width) -> int:
    """Where the stretch begins that ends before the piece at `end`."""
    rounds = 0
    for place in range(end - 1, 0, -1):
        instant, piece = held[place]
        rounds += begins_round(piece)
        is_long = rounds >= beside.rounds and held[end - 1][0] - instant >= beside.ms
        if is_long or end - place >= beside.pieces:
            return place
    return 0


def begins_round(piece: Piece) -> bool:
    """Whether the piece is a sign of a new round. A round has one or two."""
    if isinstance(piece, GroupRecord):
        return _is_of_group(piece)
    return isinstance(piece, LogEvent) and piece.kind in _ROUND_LINES


def _add_latest(latest: dict[Hashable, GroupRecord], pieces: Iterable[tuple[int, Piece]]) -> None:
    """Of a group whose members come and go the tombstones would only grow in number: without them a key is as unknown
    as before its first record. That of the group itself stays, since it shows that there was one."""
    for _, piece in pieces:
        if isinstance(piece, GroupRecord):
            known = latest.get(_key(piece))
            if known is None or (known.at_ms, known.offset) <= (piece.at_ms, piece.offset):
                latest[_key(piece)] = piece
    for key, record in list(latest.items()):
        if record.record.value is None and not _is_of_group(record):
            del latest[key]


def _ownerless(before: Ownerless, pieces: Iterable[tuple[int, Piece]]) -> Ownerless:
    """What has no owner after these pieces, and had one. A group that is deleted, or created anew, begins without."""
    had, held = set(before), set[tuple[str, int]]()
    topics: set[str] | None = None
    records = [p for _, p in pieces if isinstance(p, GroupRecord) and p.record.name == "GroupMetadata"]
    for record in sorted(records, key=attrgetter("offset")):
        value = record.record.value
        if value is None or (value.generation <= 1 and not value.members):
            had, held = set(), set()
            continue
        members = list(map(parse, value.members))
        held = set().union(*(member.assigned or () for member in members))
        topics = set().union(*(member.topics or () for member in members)) if members else topics
        had |= held
    return tuple(sorted(each for each in had - held if topics is None or each[0] in topics))


def _stated(before: Stated, pieces: Iterable[tuple[int, Piece]], named: Collection[str]) -> Stated:
    """What lines up to the end of these pieces state of the named clients."""
    lines = (piece for _, piece in pieces if isinstance(piece, LogEvent))
    found = stated_families(lines, {client_id: families_shown(libraries) for client_id, libraries in before})
    return tuple((client_id, shown(families)) for client_id, families in sorted(found.items()) if client_id in named)


def _clients_of(pieces: Iterable[Piece]) -> set[str]:
    """The client ids of members of a classic group."""
    values = (p.record.value for p in pieces if isinstance(p, GroupRecord) and p.record.name == "GroupMetadata")
    return {member.client_id for value in values if value is not None for member in value.members}


def _is_of_group(record: GroupRecord) -> bool:
    return record.record.name == "GroupMetadata" or record.record.name in EPOCH_RECORDS


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
