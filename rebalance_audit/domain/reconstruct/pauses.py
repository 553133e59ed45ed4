"""The evidence for when a partition stopped and when it resumed. measure.py turns it into numbers.

What marks what, and how well, was measured against clients on the same clock (observed.md, Timings measured).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rebalance_audit.domain.model import EvidenceTier, LogEvent, Mark
from rebalance_audit.domain.records import GroupMetadataValue, MemberMetadata

from .attempts import Attempt
from .clients import ClientLines
from .commits import Commits, Resource
from .departures import HEARTBEAT_MS, Departure

COMMIT_SLACK_MS = 50
"""librdkafka commits up to 11 ms after its revoked callback, Java up to some ms before it."""
LINE_SLACK_MS = 10
"""Between what a line tells and its time stamp."""
OWN_CALLBACK_MS = 100
"""Between a client's line and its callback on a loaded machine."""
LAST_SIGN_MS = 500
"""A session that expires so close to its timeout after a commit had that commit as its last sign of life."""
EXPIRY_SLACK_MS = 1_500
"""How late a broker under load may notice an expired session."""
ASSIGNED_CALLBACK_MS = 8
"""The assigned callback follows the group record by 7 ms in the median, 90 % within 40 ms."""
REVOKED_CALLBACK_MS = 10
"""A cooperative member revokes this soon after the assignment that tells it to."""
RECENT_COMMIT_MS = 5_500
"""auto.commit.interval.ms is 5 s by default: an older commit is no sign of a member that commits when it lets go."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """What lies between the record that gave a partition to its old owner and the one that gives it on."""

    owner: MemberMetadata
    resource: Resource
    held: frozenset[Resource]
    """All that the owner held and gives up together; commits of any of these speak for it."""
    given: Attempt
    attempts: Sequence[Attempt]
    """After `given`, up to and with the one that gives it on."""
    is_gone: bool
    """The owner left the group meanwhile."""
    gone: Attempt | None
    """The first record without it."""
    departure: Departure | None
    inferred: str | None
    """How it went by its silence, where no line tells."""
    revoked: Attempt | None
    """The attempt that took the partition away without giving it on."""
    fenced: LogEvent | None = None
    """A static member whose place another process took while it worked: the line that told it."""


def stop_line(stretch: Stretch, resource: Resource, clients: ClientLines) -> list[Mark]:
    """The old owner's own word on when it let go of the partition."""
    if clients.is_empty:
        return []
    given_at_ms = stretch.given.known_at_ms or 0
    until_ms = max((a.known_at_ms or 0) for a in stretch.attempts) + HEARTBEAT_MS
    line = clients.stop(stretch.owner.client_id, resource, given_at_ms, until_ms)
    return [] if line is None else own_stop_marks(line)


def own_stop_marks(line: LogEvent) -> list[Mark]:
    """A client writes its line on entry of the callback (KIP-848: when it begins to revoke, before the callback)."""
    assert line.at_ms is not None
    detail = "the client's own log"
    marks = [_mark("estimate", line.at_ms, EvidenceTier.LOGGED, detail, line.ref, rank=1)]
    marks.append(_mark("lower", line.at_ms - LINE_SLACK_MS, EvidenceTier.LOGGED, detail, line.ref))
    if line.fields.get("stage") != "begin":
        marks.append(_mark("upper", line.at_ms + OWN_CALLBACK_MS, EvidenceTier.LOGGED, detail, line.ref))
    return marks


def stop_bounds(stretch: Stretch, commits: Commits) -> list[Mark]:
    """When the old owner let go, by what the coordinator wrote down. The same for all it gave up together."""
    since = stretch.given.record.offset if stretch.given.record else -1
    last = stretch.attempts[-1]
    until = last.record.offset if last.record else 1 << 62
    marks: list[Mark] = []
    if stretch.given.known_at_ms is not None:
        marks.append(
            _mark(
                "lower",
                stretch.given.known_at_ms,
                EvidenceTier.RECORDED,
                "the owner was given it then",
                stretch.given.record.ref if stretch.given.record else None,
            )
        )
    commit = commits.last_between(stretch.held, since, until)
    if commit is not None:
        marks.append(
            _mark("lower", commit[0] - COMMIT_SLACK_MS, EvidenceTier.RECORDED, "the owner's last commit", commit[1])
        )
    if last.rewrite_seq:
        return marks + _returned_static(stretch, commit)
    if stretch.is_gone:
        return marks + _departed(stretch, commit)
    if stretch.revoked is not None:
        return marks + _taken_away(stretch, commits, until)
    return marks + _survived(stretch, commit)


def _survived(stretch: Stretch, commit: tuple[int, str] | None) -> list[Mark]:
    """The owner stayed and gave up everything before it re-joined: after it was told, before the join phase ended."""
    first = next((a for a in stretch.attempts if a.missing_to is None and not a.rewrite_seq), stretch.attempts[-1])
    marks: list[Mark] = []
    joined_at_ms, joined_ref = _joined(stretch.attempts)
    if joined_at_ms is not None:
        marks.append(
            _mark(
                "upper",
                joined_at_ms + LINE_SLACK_MS,
                EvidenceTier.RECORDED,
                "the join phase ended: it had re-joined",
                joined_ref,
            )
        )
    told_at_ms = first.preparing.at_ms if first.preparing else None
    started_it = first.preparing is not None and stretch.owner.member_id in str(
        first.preparing.fields.get("reason", "")
    )
    if told_at_ms is not None and first.preparing is not None:
        bound, slack = ("upper", LINE_SLACK_MS) if started_it else ("lower", -LINE_SLACK_MS)
        detail = "its own re-join began the rebalance" if started_it else "nobody was told before the rebalance began"
        marks.append(_mark(bound, told_at_ms + slack, EvidenceTier.LOGGED, detail, first.preparing.ref))
    if commit is not None and joined_at_ms is not None:
        is_recent = commit[0] >= joined_at_ms - RECENT_COMMIT_MS
        if told_at_ms is not None and not started_it:
            is_recent = commit[0] >= told_at_ms - COMMIT_SLACK_MS
        elif any(a.missing_to is not None for a in stretch.attempts):
            # It may have given up for a generation that never came to be, and had nothing to commit since.
            is_recent = True
        if is_recent:
            marks.append(
                _mark(
                    "estimate",
                    commit[0],
                    EvidenceTier.RECORDED,
                    "its last commit, made when it gave up",
                    commit[1],
                    rank=2,
                )
            )
    if joined_at_ms is not None:
        at_ms = joined_at_ms
        if told_at_ms is not None:
            # Each hears of it at its next heartbeat, and the join phase ends with the last: of n, one let go at its end
            # and the others, on average, in its middle.
            count = max(_survivor_count(stretch), 1)
            at_ms = told_at_ms + (joined_at_ms - told_at_ms) * (count + 1) // (2 * count)
        marks.append(
            _mark(
                "estimate",
                at_ms,
                EvidenceTier.INFERRED,
                "between the rebalance's start and the end of the join phase",
                joined_ref,
                rank=5,
            )
        )
    return marks


def _survivor_count(stretch: Stretch) -> int:
    """How many members were there before and after."""
    before, after = stretch.given.value, stretch.attempts[-1].value
    if not isinstance(before, GroupMetadataValue) or after is None:
        return 1
    return len({m.member_id for m in before.members} & {m.member_id for m in after.members})


def _returned_static(stretch: Stretch, commit: tuple[int, str] | None) -> list[Mark]:
    """A static member came back under a new member id: it had stopped some time before its record was rewritten.

    Or another process took its group.instance.id while it worked: then it goes on until its next heartbeat.
    """
    rewrite = stretch.attempts[-1]
    assert rewrite.record is not None
    if stretch.fenced is not None and stretch.fenced.at_ms is not None:
        at_ms, ref = stretch.fenced.at_ms, stretch.fenced.ref
        detail = "another process had taken its group.instance.id; it learned it then"
        return [
            _mark("lower", at_ms - LINE_SLACK_MS, EvidenceTier.LOGGED, detail, ref),
            _mark("estimate", at_ms, EvidenceTier.LOGGED, detail, ref, rank=3),
        ]
    if rewrite.replaced is not None:
        until_ms, detail = rewrite.record.at_ms, "it had stopped before it came back"
    else:
        until_ms = rewrite.record.at_ms + HEARTBEAT_MS
        detail = "it came back, or another process took its place: no log tells whether it was fenced"
    marks = [_mark("upper", until_ms + LINE_SLACK_MS, EvidenceTier.RECORDED, detail, rewrite.record.ref)]
    if commit is not None:
        marks.append(
            _mark(
                "estimate", commit[0], EvidenceTier.RECORDED, "its last commit before it came back", commit[1], rank=2
            )
        )
    else:
        marks.append(_mark("estimate", rewrite.record.at_ms, EvidenceTier.INFERRED, detail, rewrite.record.ref, rank=5))
    return marks


def _taken_away(stretch: Stretch, commits: Commits, until: int) -> list[Mark]:
    """Cooperative: told by the assignment of the round before, let go at once, then re-joined."""
    assert stretch.revoked is not None
    marks: list[Mark] = []
    revoked_at_ms = stretch.revoked.known_at_ms
    since = stretch.revoked.record.offset if stretch.revoked.record else -1
    ref = stretch.revoked.record.ref if stretch.revoked.record else None
    if revoked_at_ms is not None:
        marks.append(
            _mark(
                "lower", revoked_at_ms - LINE_SLACK_MS, EvidenceTier.RECORDED, "the assignment that took it away", ref
            )
        )
        marks.append(
            _mark(
                "estimate",
                revoked_at_ms + REVOKED_CALLBACK_MS,
                EvidenceTier.RECORDED,
                "soon after the assignment that took it away",
                ref,
                rank=3,
            )
        )
    commit = commits.last_between([stretch.resource], since, until)
    if commit is not None:
        marks.append(
            _mark(
                "estimate",
                commit[0],
                EvidenceTier.RECORDED,
                "its last commit of the partition, made when it gave it up",
                commit[1],
                rank=2,
            )
        )
    after = [a for a in stretch.attempts if a.number > stretch.revoked.number]
    joined_at_ms, joined_ref = _joined(after)
    if joined_at_ms is not None:
        marks.append(
            _mark(
                "upper",
                joined_at_ms + LINE_SLACK_MS,
                EvidenceTier.RECORDED,
                "it had re-joined after giving it up",
                joined_ref,
            )
        )
    return marks


def _departed(stretch: Stretch, commit: tuple[int, str] | None) -> list[Mark]:
    """The owner went: in good order, put out while it worked on, or dead."""
    departure = stretch.departure
    trigger = departure.trigger if departure is not None else stretch.inferred
    gone = stretch.gone or stretch.attempts[-1]
    joined_at_ms, joined_ref = _joined([gone])
    if joined_at_ms is None and gone.record is not None:
        joined_at_ms, joined_ref = gone.record.at_ms, gone.record.ref
    marks: list[Mark] = []
    if departure is None or departure.at_ms is None:
        alive_at_ms = commit[0] if commit is not None else stretch.given.known_at_ms
        if joined_at_ms is not None and alive_at_ms is not None and trigger != "member_left":
            if joined_at_ms - alive_at_ms >= stretch.owner.rebalance_timeout:
                # Put out for not polling, it works on; nothing tells how long.
                ref = commit[1] if commit is not None else joined_ref
                detail = "its last sign of life; it may have been put out and worked on"
                return [_mark("estimate", alive_at_ms, EvidenceTier.INFERRED, detail, ref, rank=5)]
        if joined_at_ms is not None and trigger != "member_poll_timeout":
            marks.append(
                _mark(
                    "upper",
                    joined_at_ms + LINE_SLACK_MS,
                    EvidenceTier.RECORDED,
                    "it was not in the group any more",
                    joined_ref,
                )
            )
            if commit is not None:
                marks.append(
                    _mark(
                        "estimate",
                        commit[0],
                        EvidenceTier.RECORDED,
                        "its last commit",
                        commit[1],
                        rank=2 if trigger == "member_left" else 4,
                    )
                )
            else:
                marks.append(
                    _mark(
                        "estimate",
                        joined_at_ms,
                        EvidenceTier.INFERRED,
                        "it was not in the group any more",
                        joined_ref,
                        rank=5,
                    )
                )
        return marks
    at_ms, ref = departure.at_ms, departure.ref
    match trigger:
        case "member_session_expired":
            session_ms = stretch.owner.session_timeout
            marks.append(
                _mark(
                    "lower",
                    at_ms - session_ms - EXPIRY_SLACK_MS,
                    EvidenceTier.LOGGED,
                    f"it sent a heartbeat {session_ms} ms before its session expired",
                    ref,
                )
            )
            marks.append(_mark("upper", at_ms + LINE_SLACK_MS, EvidenceTier.LOGGED, "its session expired", ref))
            died_ms = at_ms - session_ms + HEARTBEAT_MS // 2
            if commit is not None:
                died_ms = max(died_ms, commit[0])
            if commit is not None and _closes_silently(stretch) and abs(at_ms - session_ms - commit[0]) < LAST_SIGN_MS:
                detail = "its last commit, and no heartbeat after it: closed without leaving"
                marks.append(_mark("estimate", commit[0], EvidenceTier.RECORDED, detail, commit[1], rank=2))
            marks.append(
                _mark(
                    "estimate",
                    died_ms,
                    EvidenceTier.LOGGED,
                    f"expiry - session timeout ({session_ms} ms) + half a heartbeat ({HEARTBEAT_MS} ms, assumed)",
                    ref,
                    rank=4,
                )
            )
        case "member_poll_timeout":
            # The heartbeat thread leaves; the worker notices at its next poll and goes on until then.
            marks.append(
                _mark(
                    "lower",
                    at_ms - COMMIT_SLACK_MS,
                    EvidenceTier.LOGGED,
                    "its LeaveGroup, sent while it still worked",
                    ref,
                )
            )
            if departure.rejoined_at_ms is not None:
                marks.append(
                    _mark(
                        "upper",
                        departure.rejoined_at_ms + LINE_SLACK_MS,
                        EvidenceTier.LOGGED,
                        "the same client asked to join again",
                        departure.rejoined_ref,
                    )
                )
                marks.append(
                    _mark(
                        "estimate",
                        departure.rejoined_at_ms,
                        EvidenceTier.LOGGED,
                        "its own re-join follows its lost callback by some ms",
                        departure.rejoined_ref,
                        rank=4,
                    )
                )
            else:
                marks.append(
                    _mark(
                        "estimate",
                        at_ms + 2_000,
                        EvidenceTier.INFERRED,
                        "the lost callback comes 2 s after the LeaveGroup in the median",
                        ref,
                        rank=5,
                    )
                )
        case "member_dropped_at_rebalance_timeout":
            marks.append(
                _mark(
                    "upper",
                    at_ms + LINE_SLACK_MS,
                    EvidenceTier.LOGGED,
                    "it was dropped at the end of the join phase",
                    ref,
                )
            )
            estimate_ms, estimate_ref = commit if commit is not None else (at_ms, ref)
            marks.append(
                _mark("estimate", estimate_ms, EvidenceTier.LOGGED, "its last sign of life", estimate_ref, rank=4)
            )
        case _:
            marks.append(_mark("upper", at_ms + LINE_SLACK_MS, EvidenceTier.LOGGED, "it left the group", ref))
            is_recent = commit is not None and commit[0] >= at_ms - RECENT_COMMIT_MS
            if commit is not None and is_recent:
                marks.append(
                    _mark(
                        "estimate",
                        commit[0],
                        EvidenceTier.RECORDED,
                        "its last commit, made when it gave up",
                        commit[1],
                        rank=2,
                    )
                )
            marks.append(_mark("estimate", at_ms, EvidenceTier.LOGGED, "it left the group", ref, rank=4))
    return marks


def _closes_silently(stretch: Stretch) -> bool:
    """Static members and Streams do not leave when they are closed."""
    value = stretch.gone.value if stretch.gone is not None else None
    given = stretch.given.value if isinstance(stretch.given.value, GroupMetadataValue) else value
    return stretch.owner.group_instance_id is not None or (given is not None and given.protocol == "stream")


def resume_bounds(
    owner: MemberMetadata,
    assigned: frozenset[Resource],
    attempt: Attempt,
    following: Attempt | None,
    commits: Commits,
) -> tuple[Mark, ...]:
    """When the new owner's assigned callback returned, by what the coordinator wrote down."""
    record = attempt.record
    if record is None:
        return ()
    until = following.record.offset if following is not None and following.record is not None else 1 << 62
    marks = [
        _mark("lower", record.at_ms, EvidenceTier.RECORDED, "the assignment was delivered", record.ref),
        _mark(
            "estimate",
            record.at_ms + ASSIGNED_CALLBACK_MS,
            EvidenceTier.RECORDED,
            "the assigned callback follows the group record by 7 ms in the median",
            record.ref,
            rank=3,
        ),
    ]
    commit = commits.first_between(assigned, record.offset, until)
    if commit is not None:
        marks.append(
            _mark("upper", commit[0] + LINE_SLACK_MS, EvidenceTier.RECORDED, "the new owner's first commit", commit[1])
        )
    elif (
        following is not None
        and following.value is not None
        and any(m.member_id == owner.member_id for m in following.value.members)
    ):
        joined_at_ms, joined_ref = _joined([following])
        if joined_at_ms is not None and not following.rewrite_seq:
            marks.append(
                _mark(
                    "upper",
                    joined_at_ms + LINE_SLACK_MS,
                    EvidenceTier.RECORDED,
                    "the new owner joined the next rebalance",
                    joined_ref,
                )
            )
    return tuple(marks)


def resume_line(
    owner: MemberMetadata, resource: Resource, attempt: Attempt, following: Attempt | None, clients: ClientLines
) -> list[Mark]:
    """The new owner's own word on when it was given the partition."""
    if clients.is_empty or attempt.record is None:
        return []
    until_ms = following.known_at_ms if following is not None and following.known_at_ms is not None else 1 << 62
    line = clients.start(owner.client_id, resource, attempt.record.at_ms, until_ms)
    return [] if line is None else own_start_marks(line)


def own_start_marks(line: LogEvent) -> list[Mark]:
    """A client writes its line on entry of the callback; how long that takes is the user's affair."""
    assert line.at_ms is not None
    detail = "the client's own log"
    return [
        _mark("estimate", line.at_ms, EvidenceTier.LOGGED, detail, line.ref, rank=1),
        _mark("lower", line.at_ms - LINE_SLACK_MS, EvidenceTier.LOGGED, detail, line.ref),
    ]


def _joined(attempts: Sequence[Attempt]) -> tuple[int | None, str | None]:
    """End of the first join phase that is known, and where it stands."""
    for attempt in attempts:
        value = attempt.value
        if (
            value is not None
            and not attempt.rewrite_seq
            and value.current_state_timestamp is not None
            and attempt.record is not None
        ):
            return value.current_state_timestamp, attempt.record.ref
        if attempt.stabilized is not None and attempt.stabilized.at_ms is not None:
            return attempt.stabilized.at_ms, attempt.stabilized.ref
    return None, None


def _mark(bound: str, at_ms: int, tier: EvidenceTier, detail: str, ref: str | None, *, rank: int = 0) -> Mark:
    return Mark(bound=bound, at_ms=at_ms, tier=tier, rank=rank, detail=detail, ref=ref)
