"""Scripts for replays, and a timing in which everything but the heartbeats takes no time."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from random import Random
from typing import Any

from rebalance_audit.domain.replay.life import End, Life, Moment, Script
from rebalance_audit.domain.replay.outcome import ReplayRun
from rebalance_audit.domain.replay.replay import replay
from rebalance_audit.domain.replay.settings import GroupSettings
from rebalance_audit.domain.replay.timing import EagerPace, ServerPace, Timing

AT_ONCE = Timing(
    react_ms=(0,), revoke_ms=(0,), sync_ms=(0,), deliver_ms=(0,), drift_ms=(0,), leave_ms=(0,), expire_ms=(0,),
    beats_differ_ms=0, rejoin_ms=(0,), return_beat_ms=(inf,), newcomer_sync_ms=(0,), server_drift_ms=(0,),
    server_pace=ServerPace(react_ms=(0,), revoke_ms=(0,), deliver_ms=(0,)),
    eager=EagerPace(write_ms=(0,), poll_ms=0, commit_ms=(0,), stopped_ms=(0,)),
)  # fmt: skip


def a_life(name: str, started_ms: int | None, ended_ms: int | None = None, end: End | None = None, **more: Any) -> Life:
    return Life(
        slot=name, member_id=f"{name}-{started_ms}", client_id=name, topics=("t",), session_timeout_ms=10_000,
        rebalance_timeout_ms=300_000, started=None if started_ms is None else Moment.known(started_ms),
        ended=None if ended_ms is None else Moment.known(ended_ms), end=end, libraries=("java",), **more,
    )  # fmt: skip


def a_script(*lives: Life, until_ms: int = 60_000, partitions: int = 4, assignor: str = "range") -> Script:
    return Script(
        group_id="g", group_type="classic", protocol_type="consumer", assignor=assignor,
        is_cooperative=assignor == "cooperative-sticky", from_ms=-1, until_ms=until_ms, lives=lives,
        partitions={"t": partitions},
    )  # fmt: skip


def replayed(script: Script, timing: Timing = AT_ONCE, **settings: Any) -> ReplayRun:
    return replay(script, GroupSettings(**settings), timing, Random(1))


def triggers(run: ReplayRun) -> Sequence[str]:
    return [rebalance.trigger for rebalance in run.rebalances]


RESTART = a_script(a_life("a", 0), a_life("b", 10_000, 20_500, End.CLOSED), a_life("b", 25_500))
"""b joins, is closed, and is back five seconds later. Heartbeats of a fall on 3 s after each join phase."""
KILL = a_script(a_life("a", 0), a_life("b", 10_000, 20_500, End.CRASHED))
