"""Splits one group's rebalances by cause: a round that follows from another one belongs to the cause of that one.

A killed worker, the generation that misses it, the delay and the round that hands its tasks on are one episode; so
are a member's stop and return, and the members of one deploy, one after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from rebalance_audit.domain.causes import FOLLOW_UPS, MEMBER_FAILED, Cause, cause_of
from rebalance_audit.domain.detect.failures import failures
from rebalance_audit.domain.detect.history import History, HistoryStep, Identity, identity
from rebalance_audit.domain.explain.connect_changes import SAME_CHANGE_MS
from rebalance_audit.domain.kinds import MemberChange, Outcome

CHANGE_GAP_MS = 300_000
"""5 min: a pod starts in seconds to minutes, and autoscalers decide again within five."""

_KINDS = {
    Cause.CONNECT_CONFIG_CHANGED: "configuration",
    Cause.SUBSCRIPTION_CHANGED: "subscription",
    Cause.TOPIC_METADATA_CHANGED: "subscription",
    Cause.COORDINATOR_FAILOVER: "coordinator",
    Cause.APPEND_FAILED: "coordinator",
    Cause.JOIN_PHASE_FAILED: "client",
    Cause.STREAMS_TOPOLOGY_CHANGED: "deploy",
    Cause.LEADER_REJOINED: "client",
    Cause.CLIENT_REQUESTED: "client",
    Cause.GROUP_CONVERTED: "protocol",
    Cause.ASSIGNOR_CHANGED: "protocol",
    Cause.STREAMS_PROBING: "protocol",
    Cause.SHARE_STATE_INITIALIZED: "protocol",
    Cause.COORDINATOR_UPGRADED: "protocol",
}
_PART_OF_A_DEPLOY = frozenset({
    Cause.LEADER_REJOINED, Cause.SUBSCRIPTION_CHANGED, Cause.ASSIGNOR_CHANGED, Cause.GROUP_CONVERTED,
    Cause.STREAMS_TOPOLOGY_CHANGED,
})  # fmt: skip
"""Causes that a new version of an application brings with it while its members are replaced."""
_CONVERSION_MS = 60_000
"""The round after a conversion that gives the member its share which made the group convert."""


@dataclass(slots=True)
class Episode:
    """Rebalances of one group with one cause. Grows while the history is read."""

    history: History
    kind: str
    """One of tables.INCIDENT_KINDS."""
    steps: list[HistoryStep] = field(default_factory=list)
    direction: str = ""
    """Scaling: `joined` or `left`."""
    gone: dict[Identity, int] = field(default_factory=dict)
    """Members that went and are not back, and when they went."""
    people: dict[Identity, int] = field(default_factory=dict)
    """The members it is about, in order, and when each one's first change was."""
    last_at_ms: int = 0
    """When its last round was handed out, or is last known of."""

    @property
    def group_id(self) -> str:
        return self.history.group_id

    @property
    def root(self) -> HistoryStep:
        return self.steps[0]

    @property
    def first_at_ms(self) -> int:
        return self.steps[0].first_at_ms

    @property
    def is_fault(self) -> bool:
        return self.kind in ("member_fault", "connect_worker")

    @property
    def is_waiting(self) -> bool:
        """Connect keeps work back for a worker that went, or did as the last of these rounds was handed out: another
        cause's round may have been the last one."""
        return _announces_delay(self.steps)

    @property
    def still_waits(self) -> bool:
        """It does so as the evidence ends."""
        return self.is_waiting and _announces_delay(self.history.attempts)

    @property
    def begins_its_group(self) -> bool:
        """Whether nobody was in the group before. Evidence that begins in the middle has newcomers alone too, so a new
        group's first number or an emptied group must show it."""
        r, place = self.root.rebalance, self.root.index
        if {m.change for m in r.members} != {MemberChange.JOINED}:
            return False
        if r.generation_id == 1 or (r.group_epoch is not None and r.group_epoch <= 2):
            return True
        return place > 0 and self.history.steps[place - 1].rebalance.outcome == Outcome.EMPTIED

    @property
    def lost_somebody(self) -> bool:
        return any(step.left for step in self.steps)

    def take(self, step: HistoryStep) -> None:
        self.steps.append(step)
        self.last_at_ms = max(self.last_at_ms, step.at_ms, step.rebalance.ended_at_ms or 0)
        for who in step.left:
            self.gone[who] = step.at_ms
        for who in step.joined:
            self.gone.pop(who, None)


def _announces_delay(steps: Sequence[HistoryStep]) -> bool:
    """Whether the last of these rounds that was handed out announces a delay of Connect's, or the rest of one."""
    settled = next((s for s in reversed(steps) if s.is_settled), None)
    return settled is not None and bool(settled.rebalance.connect_delay_ms)


def faults_in(history: History, step: HistoryStep) -> dict[Identity, str]:
    """Members that failed in this rebalance, and how."""
    found: dict[Identity, str] = {identity(history.member(m)): cause.trigger for m, cause in failures(history, step)}
    if not found and step.rebalance.trigger in MEMBER_FAILED:  # no cause names anybody: those the records show gone
        found = {identity(m): step.rebalance.trigger for m in step.rebalance.members if m.change == "left"}
    return found


def known_ms(step: HistoryStep) -> int:
    """When it was first known what happened in it: what is found later must not give a trouble another id. The line
    that begins a rebalance tells of who failed; one that fails while the others join is known as they have joined."""
    r = step.rebalance
    return step.first_at_ms if r.trigger in MEMBER_FAILED and r.trigger_tier == "logged" else step.at_ms


def is_own_rewrite(step: HistoryStep) -> bool:
    """Whether connectors wrote other configurations for their tasks though nobody changed the connectors' own."""
    r = step.rebalance
    return r.trigger == Cause.CONNECT_CONFIG_CHANGED and bool(r.changed_connectors) and r.commanded_connectors == ()


def _shares_a_connector(step: HistoryStep, other: HistoryStep) -> bool:
    return not set(step.rebalance.changed_connectors or ()).isdisjoint(other.rebalance.changed_connectors or ())


def episodes(history: History, failed_brokers: Mapping[str, int | None] | None = None) -> list[Episode]:
    """Rebalances that belong together, in the order in which they begin. Every rebalance is in exactly one.
    `failed_brokers`: by rebalance id the broker that expired members in it, which did not fail themselves."""
    cutter = _Cutter(history, failed_brokers or {})
    for step in history.steps:
        cutter.take(step)
    return cutter.found


Wanted = Callable[[Episode], bool]


class _Cutter:
    def __init__(self, history: History, failed_brokers: Mapping[str, int | None]) -> None:
        self.history = history
        self._failed_brokers = failed_brokers
        self.found: list[Episode] = []
        self._last: Episode | None = None
        self._since: dict[Identity, int] = {}
        """Since when members are there that were seen to join."""
        self._brief: set[Identity] = set()
        """Members that went soon after joining: they left no place to take."""
        self._is_delayed = False
        """Connect's delay runs, by the last round that was handed out."""

    def take(self, step: HistoryStep) -> None:
        faults = faults_in(self.history, step)
        episode = self._episode_of(step, faults)
        people = faults or dict.fromkeys((*step.left, *step.joined), "")
        is_about = not episode.is_fault or bool(faults) or not episode.people
        if step.rebalance.trigger in FOLLOW_UPS:
            is_about = False
        for who in people if is_about else ():
            episode.people.setdefault(who, step.at_ms)
        episode.take(step)
        for who in step.joined:
            self._since[who] = step.at_ms
        for who in set(step.left) - set(step.joined):
            since_ms = self._since.pop(who, None)
            if since_ms is not None and step.at_ms - since_ms <= CHANGE_GAP_MS:
                self._brief.add(who)
            else:
                self._brief.discard(who)
        if step.is_settled:
            self._is_delayed = bool(step.rebalance.connect_delay_ms)
        self._last = episode

    def _waiting(self) -> Episode | None:
        """What Connect's delay is for. Other changes while it runs announce the rest of it, too."""
        waiting = [e for e in self._recent() if e.is_waiting] if self._is_delayed else []
        return next((e for e in waiting if e.lost_somebody), waiting[0] if waiting else None)

    def _episode_of(self, step: HistoryStep, faults: dict[Identity, str]) -> Episode:
        r = step.rebalance
        waiting = self._waiting()
        if r.trigger in FOLLOW_UPS and not faults and self._last is not None:
            return (waiting if r.trigger == Cause.CONNECT_DELAY_EXPIRED else None) or self._last
        if r.outcome == "missing" and self._last is not None:
            return self._last
        if r.rebalance_id in self._failed_brokers:
            return self._expired_by(self._failed_brokers[r.rebalance_id], step)
        if faults or r.trigger in MEMBER_FAILED:
            kind = "connect_worker" if r.protocol_type == "connect" else "member_fault"
            failing = self._active(step, self.history.limits.quiet_ms, lambda e: e.is_fault)
            return failing or (waiting if waiting and waiting.is_fault else None) or self._new(kind)
        if r.trigger in _PART_OF_A_DEPLOY:
            deploy = self._active(step, CHANGE_GAP_MS, lambda e: e.kind == "deploy")
            if deploy is not None:
                return deploy
        if r.kind == "static_rewrite":
            return self._active(step, CHANGE_GAP_MS, lambda e: e.kind == "deploy") or self._new("deploy")
        if r.trigger == Cause.CONNECT_CONFIG_CHANGED:
            return self._config_change(step)
        if self._follows_a_conversion(step) and self._last is not None:
            return self._last
        if r.trigger in _KINDS:
            kind = _KINDS[cause_of(r.trigger)]
            same = None if r.trigger == Cause.GROUP_CONVERTED else self._same(step, kind)
            return same or self._new(kind)
        if step.joined or step.left:
            return self._membership(step, waiting)
        if r.outcome == "open" and self._last is not None and not self._is_far(step, self._last, CHANGE_GAP_MS):
            return self._last
        return self._same(step, "unknown") or self._new("unknown")

    def _expired_by(self, broker: int | None, step: HistoryStep) -> Episode:
        of = self._failed_brokers
        same = self._active(step, CHANGE_GAP_MS, lambda e: of.get(e.root.rebalance.rebalance_id, -1) == broker)
        return same or self._new("coordinator")

    def _membership(self, step: HistoryStep, waiting: Episode | None) -> Episode:
        """Members came or went, and none of them failed."""
        if waiting is not None:
            if waiting.gone.keys() & set(step.joined) and not waiting.is_fault:
                waiting.kind = "deploy"
            return waiting
        back = next((e for e in self._recent() if self._returns(step, e)), None)
        if back is not None:
            if not back.is_fault and back.kind not in ("removal", "coordinator"):
                back.kind = "deploy"
            return back
        if step.rebalance.trigger == Cause.MEMBER_REMOVED_BY_ADMIN:
            return self._active(step, CHANGE_GAP_MS, lambda e: e.kind == "removal") or self._new("removal")
        deploy = self._active(step, CHANGE_GAP_MS, lambda e: e.kind == "deploy")
        if deploy is not None:
            return deploy
        replaced = self._replacing(step)
        if replaced is not None:
            replaced.kind = "deploy"
            return replaced
        if set(step.left) - set(step.joined) and set(step.joined) - self._since.keys() - set(step.left):
            return self._new("deploy")  # in one round newcomers took the places of members that went
        direction = "left" if step.left and not step.joined else "joined"
        same = self._active(
            step, CHANGE_GAP_MS, lambda e: e.kind == "scaling" and e.direction == direction and self._goes_on(e)
        )
        return same or self._new("deploy" if step.left and step.joined else "scaling", direction)

    def _returns(self, step: HistoryStep, episode: Episode) -> bool:
        limits = self.history.limits  # a member that comes back after the fault is over is a change of its own
        window_ms = limits.quiet_ms if episode.is_fault else limits.deploy_window_ms
        return any(who in episode.gone and step.at_ms - episode.gone[who] <= window_ms for who in step.joined)

    def _replacing(self, step: HistoryStep) -> Episode | None:
        """The change in which others, with names of their own, take the places of members that were there before it."""
        if step.joined:  # the old went first
            return self._active(
                step,
                CHANGE_GAP_MS,
                lambda e: e.kind == "scaling" and bool(e.gone.keys() - self._brief),
            )
        return self._active(  # the new came first
            step,
            CHANGE_GAP_MS,
            lambda e: (
                e.kind == "scaling"
                and e.direction == "joined"
                and self._goes_on(e)
                and all(self._was_settled(w, e.first_at_ms) for w in step.left)
            ),
        )

    def _was_settled(self, who: Identity, at_ms: int) -> bool:
        return at_ms - self._since.get(who, at_ms - CHANGE_GAP_MS - 1) > CHANGE_GAP_MS

    def _goes_on(self, episode: Episode) -> bool:
        """Whether nothing of another cause came between; a fault in the middle of a shutdown does not split it."""
        return all(e is episode or e.is_fault or e.last_at_ms <= episode.last_at_ms for e in self._recent())

    def _config_change(self, step: HistoryStep) -> Episode:
        """A new connector costs two generations, one for itself and one for its tasks: both are one change."""
        change = self._active(step, CHANGE_GAP_MS, lambda e: e.kind == "configuration")
        if change is None:
            return self._new("configuration")
        if is_own_rewrite(step) and is_own_rewrite(change.root) and _shares_a_connector(step, change.root):
            return change
        changed_ms = max(s.at_ms for s in change.steps if s.rebalance.trigger == Cause.CONNECT_CONFIG_CHANGED)
        return change if step.first_at_ms - changed_ms <= SAME_CHANGE_MS else self._new("configuration")

    def _follows_a_conversion(self, step: HistoryStep) -> bool:
        last = self._last
        return (
            last is not None
            and last.steps[-1].rebalance.trigger == Cause.GROUP_CONVERTED
            and step.first_at_ms - last.steps[-1].at_ms <= _CONVERSION_MS
        )

    def _same(self, step: HistoryStep, kind: str) -> Episode | None:
        trigger = step.rebalance.trigger
        return self._active(
            step, CHANGE_GAP_MS, lambda e: e.kind == kind and e.root.rebalance.trigger == trigger and self._goes_on(e)
        )

    def _active(self, step: HistoryStep, gap_ms: int, is_wanted: Wanted) -> Episode | None:
        return next((e for e in self._recent() if is_wanted(e) and not self._is_far(step, e, gap_ms)), None)

    def _is_far(self, step: HistoryStep, episode: Episode, gap_ms: int) -> bool:
        return step.first_at_ms - episode.last_at_ms > gap_ms

    def _recent(self) -> Iterator[Episode]:
        """The latest first; a handful is all that can still be going on."""
        return reversed(self.found[-8:])

    def _new(self, kind: str, direction: str = "") -> Episode:
        episode = Episode(self.history, kind, direction=direction)
        self.found.append(episode)
        return episode
