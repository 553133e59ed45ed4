"""A script played once, by the protocol that the settings choose."""

from __future__ import annotations

from random import Random

from .classic import ClassicGroup
from .connect import ConnectGroup
from .life import Script
from .outcome import ReplayRun
from .server import ServerGroup
from .settings import GroupSettings
from .timing import Timing


def replay(script: Script, settings: GroupSettings, timing: Timing, rng: Random) -> ReplayRun:
    if script.protocol_type == "connect":
        return ConnectGroup(script, settings, timing, rng).run()
    group = ServerGroup if settings.group_protocol == "consumer" else ClassicGroup
    return group(script, settings, timing, rng).run()
