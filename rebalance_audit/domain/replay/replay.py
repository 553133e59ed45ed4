"""A script played once, by the protocol that the settings choose."""

from __future__ import annotations

from math import inf
from random import Random

from .classic import ClassicGroup
from .connect import EAGER, ConnectGroup
from .connect_eager import EagerConnectGroup
from .life import Script
from .outcome import ReplayRun
from .server import ServerGroup
from .settings import GroupSettings
from .timing import Timing


def replay(
    script: Script,
    settings: GroupSettings,
    timing: Timing,
    rng: Random,
    *,
    counts_outages: bool = False,
    keeps_stood: bool = True,
    most_ms: float = inf,
) -> ReplayRun:
    """`counts_outages`: a group that was away altogether for a short while stood still, too. `keeps_stood`: the run
    names each part of its cost. `most_ms`: TooDear as soon as a run is seen to cost more.

    Raises NotAssigned where the group's leader would find no assignment.
    """
    if script.protocol_type == "connect":
        # The history of an eager cluster has every round that a change of its configuration led to.
        becomes_eager = script.assignor != EAGER and not settings.is_cooperative
        workers = EagerConnectGroup if becomes_eager else ConnectGroup
        return workers(script, settings, timing, rng, counts_outages, keeps_stood).run(most_ms)
    group = ServerGroup if settings.group_protocol == "consumer" else ClassicGroup
    return group(script, settings, timing, rng, counts_outages, keeps_stood).run(most_ms)
