"""Every limit of every rule, each with its reason, and the way a settings file changes them per cluster and group."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from fnmatch import fnmatchcase
from typing import Any

from rebalance_audit.domain.frozen import by_fields

PATTERNS = ("cluster", "group", "connector")


class LimitsError(ValueError):
    """The settings name a limit that does not exist, or give one an impossible value. The message lists all faults."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    quiet_ms: int = 600_000
    """A fault not seen again for 10 min is over. Members that fail again sooner belong to the same incident."""

    storm_short_window_ms: int = 600_000
    """10 min: long enough for two rounds of a 5 min poll interval to show, short enough to wake somebody in time."""
    storm_short_count: int = 5
    """More than 5 in the short window. A healthy group has none; one round per 2 min leaves no time to catch up."""
    storm_long_window_ms: int = 3_600_000
    """1 h, for storms too slow for the short window, as a member put out every 5 min by its poll interval makes."""
    storm_long_count: int = 10
    """More than 10 in an hour: one per 6 min, the period of the default poll interval plus its rejoining."""
    storm_quiet_ms: int = 1_200_000
    """20 min without a counted rebalance end a storm: bursts closer than this are one incident, not many alerts."""
    storm_critical_per_minute: int = 12
    """One per 5 s and more: members spend their time joining. Real loops were 5 ms, 8 ms, 9 s and 15 s apart."""

    deploy_window_ms: int = 1_800_000
    """30 min: in it, a member's leaving and returning is taken for one deploy."""
    deploy_turns: int = 2
    """How often one member may leave, and join, in that window without it counting: start or roll-back, and deploy."""
    deploy_config_changes: int = 20
    """Connect configuration rounds in that window that do not count: ten connectors, each costs up to two."""
    follow_up_chain: int = 3
    """Follow-ups in a row that do not count. A change needs one; more than three show a change that never converges."""
    probing_min_interval_ms: int = 50_000
    """Streams refuses a probing interval under 1 min. What comes faster is not probing; 10 s for late starts."""

    pause_baseline_count: int = 10
    """Past rebalances with a measured pause before one can be far above them: with fewer, the spread is a guess."""
    pause_baseline_span: int = 50
    """Only so many of the latest are compared with, so that the baseline follows a group that changes slowly; and after
    so many in a row far above it, that is how this group is."""
    pause_deviations: float = 6.0
    """How many median absolute deviations (scaled to sigma) above the median. Heavy tails are usual: p90 was 4 × the
    median."""
    pause_ratio: float = 5.0
    """And at least 5 × the median, for groups so regular that the deviation is nearly nothing."""
    pause_min_rise_ms: int = 2_000
    """And at least 2 s above it: shorter ones are hidden by fetch buffers, and by a busy machine."""

    flapping_window_ms: int = 7_200_000
    """2 h: a member that is restarted every half hour shows four times in it."""
    flapping_returns: int = 3
    """Returns of one member in that window; more than the other members' median by at least two, or it is a deploy."""
    instance_fight_window_ms: int = 600_000
    """10 min, with the next: one restart replaces a static member once."""
    instance_fight_rewrites: int = 3
    """Replacements of one group.instance.id: two processes that share it put each other out again and again."""

    uneven_ratio: float = 1.5
    """Largest share over the fair share (rounded up: a remainder is fair). Below it no consumer is far behind."""
    settled_ms: int = 60_000
    """How long a state (no owner, uneven, different subscriptions) must hold: a follow-up round ends it in seconds."""

    rebalance_timeout_default_ms: int = 300_000
    """max.poll.interval.ms by default, where no record has it."""
    worker_rebalance_timeout_default_ms: int = 60_000
    """Connect's rebalance.timeout.ms by default."""
    stuck_slack_ms: int = 10_000
    """Beyond its own timeout: the broker's timer, the last heartbeat, and the writing of the record."""

    handler_exits: int = 3
    """Within the short window. A handler may return once, when its application stops; three times are a habit."""

    vanished_min_count: int = 5
    """Generations nobody was assigned, within the short window, before it is a pattern; joiners make one or two."""

    config_rewrite_window_ms: int = 300_000
    """5 min: the loop of MirrorMaker 2 turns every 5 s; a deploy of one connector is over in seconds."""
    config_rewrites: int = 12
    """Configurations of one connector in that window, or in an even beat: a timer's, nobody's hand. A deploy makes two
    (its own, its tasks'); somebody who tries settings by hand made six in a minute."""
    config_rewrite_beat_ms: int = 900_000
    """15 min between two of such a beat: MirrorMaker 2 looks for topics every 10 min by default
    (refresh.topics.interval.seconds)."""
    config_rewrite_off_beat: float = 0.25
    """How far off that beat one may come: rounds take some seconds, and the fastest timers tick every half minute."""
    delay_slack_ms: int = 15_000
    """After Connect's announced delay: workers re-join at its end and the round takes its time (2 to 12 s seen)."""
    revoking_rounds: int = 3
    """Connect rounds in a row that take work away. One is a hand-over; backed-off repeats begin with the third."""
    zombie_overlap_ms: int = 2_000
    """Two RUNNING at once for longer. Status records of a hand-over come up to 0.5 s late and out of order."""
    zombie_min_ms: int = 5_000
    """RUNNING at a dead worker for longer than this: short ones are a status record on its way."""
    zombie_warning_ms: int = 600_000
    """… and beyond 10 min nobody will correct it: the default delay is 5 min."""
    worker_spread: int = 1
    """Tasks, or connectors, of the fullest worker less those of the emptiest. One is what a remainder makes."""

    of_connectors: tuple[tuple[str, tuple[tuple[str, Any], ...]], ...] = ()
    """(pattern, limits) of single connectors, in order; no limit itself."""

    def of(self, connector: str) -> Limits:
        """The limits of one connector of the group."""
        result = self
        for pattern, changes in self.of_connectors:
            if fnmatchcase(connector, pattern):
                result = replace(result, **dict(changes))
        return result


OF_CONNECTORS = frozenset(
    {
        "config_rewrite_window_ms",
        "config_rewrites",
        "config_rewrite_beat_ms",
        "config_rewrite_off_beat",
        "zombie_overlap_ms",
        "zombie_min_ms",
        "zombie_warning_ms",
    }
)
"""Limits of what a rule says of a single connector or its tasks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReassignmentLimits:
    stall_ms: int = 90_000
    """Without a new replica in sync for 90 s. Copies of the lab took 1 to 20 s; a large partition may raise it."""
    stall_critical_ms: int = 3_600_000
    """1 h: by then nobody is waiting for it on purpose."""
    throttle_grace_ms: int = 300_000
    """5 min after the last move: `--verify` removes throttles, and people run it when they think of it."""
    under_min_isr_ms: int = 1_000
    """Producers with acks=all fail from the first moment; a second hides the change of a leader."""
    under_replicated_ms: int = 30_000
    """30 s: replica.lag.time.max.ms; shorter ones are restarts."""
    imbalance_ratio: float = 0.1
    """leader.imbalance.per.broker.percentage, Kafka's own limit for its automatic election."""
    imbalance_min_count: int = 1


DEFAULT = Limits()
DEFAULT_REASSIGNMENT = ReassignmentLimits()


def limits_for(overrides: Iterable[Mapping[str, Any]], cluster_id: str, group_id: str) -> Limits:
    """The limits of one group: DEFAULT with these overrides, of which later ones win.

    Each is a mapping with optional shell patterns `cluster`, `group` and `connector`, and any limit by its name; beside
    `connector`, one of OF_CONNECTORS.
    Raises LimitsError, with all faults at once, also for overrides that do not match this group.
    """
    known = {f.name: type(getattr(DEFAULT, f.name)) for f in fields(DEFAULT) if f.name != "of_connectors"}
    faults: list[str] = []
    result = DEFAULT
    for place, override in enumerate(overrides, start=1):
        changes: dict[str, Any] = {}
        for name, value in override.items():
            if name in PATTERNS:
                if not isinstance(value, str):
                    faults.append(f"limits entry {place}: {name} must be a pattern, not {value!r}")
            elif name not in known:
                faults.append(f"limits entry {place}: there is no limit {name!r}")
            elif "connector" in override and name not in OF_CONNECTORS:
                listed = ", ".join(sorted(OF_CONNECTORS))
                faults.append(f"limits entry {place}: {name} is no limit of single connectors, only {listed} are")
            elif isinstance(value, bool) or not isinstance(value, int if known[name] is int else (int, float)):
                faults.append(f"limits entry {place}: {name} must be a number, not {value!r}")
            elif value < 0:
                faults.append(f"limits entry {place}: {name} must not be negative, it is {value!r}")
            else:
                changes[name] = value
        if faults:
            continue
        if fnmatchcase(cluster_id, override.get("cluster", "*")) and fnmatchcase(group_id, override.get("group", "*")):
            if "connector" not in override:
                result = replace(result, **changes)
            # A later entry for all connectors wins over an earlier one for some.
            of_connectors = tuple((name, value) for name, value in changes.items() if name in OF_CONNECTORS)
            if of_connectors and ("connector" in override or result.of_connectors):
                added = (override.get("connector", "*"), of_connectors)
                result = replace(result, of_connectors=(*result.of_connectors, added))
    if faults:
        raise LimitsError("; ".join(faults))
    return result


@dataclass(frozen=True, slots=True)
class LimitsOf:
    """(cluster id, group id) → the limits of that group."""

    overrides: tuple[Mapping[str, Any], ...] = ()
    """As `limits_for` takes them."""

    def __call__(self, cluster_id: str, group_id: str) -> Limits:
        return limits_for(self.overrides, cluster_id, group_id) if self.overrides else DEFAULT

    def __reduce__(self) -> tuple[Any, ...]:
        return by_fields(self)


DEFAULT_OF = LimitsOf()
"""The same for all."""
