"""When a member that went let go of what it held: in good order, put out while it worked on, or dead."""

from __future__ import annotations

from rebalance_audit.domain.model import Mark

from .departures import HEARTBEAT_MS
from .pauses import (
    COMMIT_SLACK_MS,
    EXPIRY_SLACK_MS,
    LAST_SIGN_MS,
    LINE_SLACK_MS,
    RECENT_COMMIT_MS,
    inferred,
    joined,
    logged,
    recorded,
)
from .stretch import Stretch


def departed_marks(stretch: Stretch, commit: tuple[int, str] | None) -> list[Mark]:
    """The owner went: in good order, put out while it worked on, or dead."""
    departure = stretch.departure
    trigger = departure.trigger if departure is not None else stretch.inferred
    gone = stretch.gone or stretch.attempts[-1]
    joined_at_ms, joined_ref = joined([gone])
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
                return [inferred("estimate", alive_at_ms, detail, ref, rank=5)]
        if joined_at_ms is not None and trigger != "member_poll_timeout":
            marks.append(
                recorded("upper", joined_at_ms + LINE_SLACK_MS, "it was not in the group any more", joined_ref)
            )
            if commit is not None:
                marks.append(
                    recorded(
                        "estimate", commit[0], "its last commit", commit[1], rank=2 if trigger == "member_left" else 4
                    )
                )
            else:
                marks.append(inferred("estimate", joined_at_ms, "it was not in the group any more", joined_ref, rank=5))
        return marks
    at_ms, ref = departure.at_ms, departure.ref
    match trigger:
        case "member_session_expired":
            session_ms = stretch.owner.session_timeout
            marks.append(
                logged(
                    "lower",
                    at_ms - session_ms - EXPIRY_SLACK_MS,
                    f"it sent a heartbeat {session_ms} ms before its session expired",
                    ref,
                )
            )
            marks.append(logged("upper", at_ms + LINE_SLACK_MS, "its session expired", ref))
            died_ms = at_ms - session_ms + HEARTBEAT_MS // 2
            if commit is not None:
                died_ms = max(died_ms, commit[0])
            if commit is not None and stretch.closes_silently and abs(at_ms - session_ms - commit[0]) < LAST_SIGN_MS:
                detail = "its last commit, and no heartbeat after it: closed without leaving"
                marks.append(recorded("estimate", commit[0], detail, commit[1], rank=2))
            marks.append(
                logged(
                    "estimate",
                    died_ms,
                    f"expiry - session timeout ({session_ms} ms) + half a heartbeat ({HEARTBEAT_MS} ms, assumed)",
                    ref,
                    rank=4,
                )
            )
        case "member_poll_timeout":
            # The heartbeat thread leaves; the worker notices at its next poll and goes on until then.
            marks.append(logged("lower", at_ms - COMMIT_SLACK_MS, "its LeaveGroup, sent while it still worked", ref))
            if departure.rejoined_at_ms is not None:
                marks.append(
                    logged(
                        "upper",
                        departure.rejoined_at_ms + LINE_SLACK_MS,
                        "the same client asked to join again",
                        departure.rejoined_ref,
                    )
                )
                marks.append(
                    logged(
                        "estimate",
                        departure.rejoined_at_ms,
                        "its own re-join follows its lost callback by some ms",
                        departure.rejoined_ref,
                        rank=4,
                    )
                )
            else:
                marks.append(
                    inferred(
                        "estimate",
                        at_ms + 2_000,
                        "the lost callback comes 2 s after the LeaveGroup in the median",
                        ref,
                        rank=5,
                    )
                )
        case "member_dropped_at_rebalance_timeout":
            marks.append(logged("upper", at_ms + LINE_SLACK_MS, "it was dropped at the end of the join phase", ref))
            estimate_ms, estimate_ref = commit if commit is not None else (at_ms, ref)
            marks.append(logged("estimate", estimate_ms, "its last sign of life", estimate_ref, rank=4))
        case _:
            marks.append(logged("upper", at_ms + LINE_SLACK_MS, "it left the group", ref))
            is_recent = commit is not None and commit[0] >= at_ms - RECENT_COMMIT_MS
            if commit is not None and is_recent:
                marks.append(
                    recorded("estimate", commit[0], "its last commit, made when it gave up", commit[1], rank=2)
                )
            marks.append(logged("estimate", at_ms, "it left the group", ref, rank=4))
    return marks
