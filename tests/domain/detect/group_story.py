"""A group's life in sentences, as the measured rebalances a rule gets.

a_group("orders").joins("c1", "c2", at_s=0).vanishes("c2", at_s=60, pause_ms=12_310).seen_until(600)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from rebalance_audit.domain.causes import cause_of
from rebalance_audit.domain.kinds import EvidenceTier, MemberChange, MovementKind, Outcome, RebalanceKind, ResourceType
from rebalance_audit.domain.model import ConnectTask, Member, MemberStandstill, Movement, Rebalance, Trigger

T0_MS = 1_763_700_000_000
CLUSTER = "cluster-a"


class GroupStory:
    def __init__(self, group_id: str, *, protocol_type: str = "consumer", resources: int = 6, **facts: Any) -> None:
        self.group_id = group_id
        self.protocol_type = protocol_type
        self.resource_count = resources
        self.facts: dict[str, Any] = {"mode": "eager", "assignor": "range", "group_type": "classic", **facts}
        self.rebalances: list[Rebalance] = []
        self.tasks: list[ConnectTask] = []
        self.seen_until_ms: int | None = None
        self._number = 0
        self._incarnation: dict[str, int] = {}
        self._held: dict[str, tuple[str, ...]] = {}
        self._member_facts: dict[str, dict[str, Any]] = {}

    # who is who

    def member(self, client: str, **facts: Any) -> GroupStory:
        """What is special about one member, e.g. group_instance_id, session_timeout_ms, subscribed_topics."""
        self._member_facts.setdefault(client, {}).update(facts)
        return self

    def becomes(self, **facts: Any) -> GroupStory:
        """From now on: mode, assignor, group_type."""
        self.facts.update(facts)
        return self

    # what happens

    def joins(
        self, *clients: str, at_s: float, trigger: str | None = None, same_process: bool = False, **more: Any
    ) -> GroupStory:
        """`same_process`: under the member id that it had before, as a KIP-848 member does."""
        for client in clients:
            self._incarnation[client] = self._incarnation.get(client, 0) + (not same_process)
        trigger = trigger or ("connect_worker_joined" if self.protocol_type == "connect" else "member_joined")
        return self._round(at_s, trigger, joined=clients, **more)

    def leaves(self, client: str, *, at_s: float, trigger: str | None = None, **more: Any) -> GroupStory:
        trigger = trigger or ("connect_worker_left" if self.protocol_type == "connect" else "member_left")
        return self._round(at_s, trigger, left=(client,), **more)

    def vanishes(self, client: str, *, at_s: float, **more: Any) -> GroupStory:
        return self._round(at_s, "member_session_expired", left=(client,), **more)

    def exceeds_poll_interval(self, client: str, *, at_s: float, comes_back: bool = True, **more: Any) -> GroupStory:
        """Put out, and (as consumers do) back with a new member id in the same generation."""
        return self._round(at_s, "member_poll_timeout", left=(client,), joined=(client,) if comes_back else (), **more)

    def is_dropped(self, client: str, *, at_s: float, **more: Any) -> GroupStory:
        return self._round(at_s, "member_dropped_at_rebalance_timeout", left=(client,), **more)

    def meets_again(self, *, at_s: float, because: str, **more: Any) -> GroupStory:
        """A rebalance in which nobody came or went."""
        return self._round(at_s, because, **more)

    def saying(self, reason: str) -> GroupStory:
        """Whoever caused the last rebalance gave this reason."""
        last = self.rebalances[-1]
        self.rebalances[-1] = replace(last, triggers=tuple(replace(t, detail=reason) for t in last.triggers))
        return self

    def stands_still(self, client: str, *, from_s: float, until_s: float, comes_back: bool) -> GroupStory:
        """Since the last rebalance, on two partitions."""
        from_ms, until_ms = round(from_s * 1000), round(until_s * 1000)
        last, end = self.rebalances[-1], until_ms if comes_back else None
        member = next(m for m in last.members if m.client_id == client)
        still = MemberStandstill(
            member_id=member.member_id, client_id=client, resources=("t-0", "t-1"), from_lower_ms=from_ms,
            from_ms=from_ms, from_upper_ms=from_ms, to_lower_ms=end, to_ms=end, to_upper_ms=end,
            pause_lower_ms=until_ms - from_ms, pause_estimate_ms=until_ms - from_ms, pause_upper_ms=end,
            resource_seconds_lower=0.0, resource_seconds_estimate=0.0, resource_seconds_upper=None,
            usual_commit_ms=5_000, tier=EvidenceTier.INFERRED, detail="no commit since", evidence=("record:o-0@1",),
        )  # fmt: skip
        self.rebalances[-1] = replace(last, standstills=(still,))
        return self

    def comes_back_under_its_instance_id(self, client: str, *, at_s: float) -> GroupStory:
        """The rewrite of the same generation."""
        return self._round(at_s, "static_member_replaced", replaced=(client,), kind="static_rewrite")

    def deploys(self, *clients: str, from_s: float, each_s: float, vanishing: bool = False) -> GroupStory:
        """Member by member: it leaves, and comes back a little later."""
        at_s = from_s
        for client in clients:
            self.vanishes(client, at_s=at_s) if vanishing else self.leaves(client, at_s=at_s)
            self.joins(client, at_s=at_s + each_s / 2)
            at_s += each_s
        return self

    def skips(self, count: int, *, in_one_row: bool = False) -> GroupStory:
        """Numbers of which no evidence is left."""
        for _ in range(1 if in_one_row else count):
            self._number += 1
            self.rebalances.append(
                Rebalance(
                    cluster_id=CLUSTER,
                    rebalance_id=f"{self.group_id}:{self._number}",
                    group_id=self.group_id,
                    generation_id=self._number,
                    protocol_type=self.protocol_type,
                    outcome=Outcome.MISSING,
                    is_complete_evidence=False,
                )
            )
        if in_one_row:
            self._number += count - 1
        return self

    def is_abandoned(self, *, at_s: float, because: str = "member_joined", **more: Any) -> GroupStory:
        """Stabilised, never delivered."""
        return self._round(at_s, because, outcome="superseded", assigned_at_ms=None, silent=True, **more)

    def starts_and_does_not_end(self, *, at_s: float, because: str = "member_joined", **more: Any) -> GroupStory:
        at_ms = T0_MS + round(at_s * 1000)
        return self._round(
            at_s, because, outcome="open", joined_at_ms=None, assigned_at_ms=None, ended_at_ms=None,
            started_at_ms=at_ms, **more,
        )  # fmt: skip

    def becomes_empty(self, *, at_s: float) -> GroupStory:
        clients = tuple(self._held)
        return self._round(at_s, "group_emptied", left=clients, outcome="emptied")

    def task(
        self, connector: str, task: int | None, state: str, worker: str, from_s: float, to_s: float | None, **more: Any
    ) -> GroupStory:
        name = connector if task is None else f"{connector}-{task}"
        self.tasks.append(
            ConnectTask(
                cluster_id=CLUSTER,
                group_id=self.group_id,
                resource_type=ResourceType.CONNECTOR if task is None else ResourceType.TASK,
                connector=connector,
                task=task,
                worker_id=worker,
                state=state,
                from_ms=T0_MS + round(from_s * 1000),
                to_ms=None if to_s is None else T0_MS + round(to_s * 1000),
                evidence=(f"record:connect-status-0@{name}-{from_s:g}",),
                **more,
            )
        )
        return self

    def seen_until(self, at_s: float) -> GroupStory:
        self.seen_until_ms = T0_MS + round(at_s * 1000)
        return self

    def again(self, turns: Iterable[int], what: Callable[[GroupStory, int], GroupStory]) -> GroupStory:
        for turn in turns:
            what(self, turn)
        return self

    # how it is written down

    def _round(
        self,
        at_s: float,
        trigger: str,
        *,
        joined: Sequence[str] = (),
        left: Sequence[str] = (),
        replaced: Sequence[str] = (),
        kind: str = "rebalance",
        pause_ms: int = 50,
        gone_pause_ms: int | None = None,
        moves: bool = True,
        silent: bool = False,
        assigned: dict[str, Sequence[str]] | None = None,
        also: Sequence[str] = (),
        **changes: Any,
    ) -> GroupStory:
        at_ms = T0_MS + round(at_s * 1000)
        if kind == "rebalance":
            self._number += 1
        before = dict(self._held)
        ids_before = {c: self._member_id(c, went=c in left and c in joined) for c in before}
        if trigger == "member_poll_timeout":
            for client in joined:
                ids_before[client] = self._member_id(client)
                self._incarnation[client] = self._incarnation.get(client, 1) + 1
        for client in replaced:
            ids_before[client] = self._member_id(client)
            self._incarnation[client] = self._incarnation.get(client, 1) + 1
        after = self._dealt([c for c in before if c not in left or c in joined], joined) if not silent else before
        if assigned is not None:
            after = {c: tuple(assigned.get(c, ())) for c in after}
        gone = [c for c in left if c in before and c not in joined]
        members = [] if silent else self._members(before, after, joined, replaced, gone)
        movements = (
            self._movements(before, after, ids_before, gone, pause_ms, gone_pause_ms) if moves and not silent else []
        )
        self._held = after
        ref = f"record:__consumer_offsets-7@{len(self.rebalances) + 100}"
        causes = [
            self._cause(trigger, joined, left, ids_before),
            *(self._cause(t, joined, left, ids_before) for t in also),
        ]
        facts: dict[str, Any] = {
            "member_count": len(after),
            "joined_at_ms": at_ms,
            "assigned_at_ms": at_ms,
            "ended_at_ms": at_ms,
            "resource_count": sum(len(r) for r in after.values()),
            "pause_estimate_ms": max((m.pause_estimate_ms or 0 for m in movements), default=None),
            "resource_seconds_estimate": sum((m.pause_estimate_ms or 0) for m in movements) / 1000,
            **self.facts,
            "group_epoch" if self.facts["group_type"] != "classic" else "generation_id": self._number,
            **changes,
        }
        rebalance = Rebalance(
            cluster_id=CLUSTER,
            rebalance_id=f"{self.group_id}:{self._number}"
            + (f":{len(self.rebalances)}" if kind != "rebalance" else ""),
            group_id=self.group_id,
            protocol_type=self.protocol_type,
            kind=RebalanceKind(kind),
            trigger=cause_of(trigger),
            trigger_tier=EvidenceTier.LOGGED,
            triggers=tuple(causes),
            evidence=(ref,),
            members=tuple(members),
            movements=tuple(movements),
            **facts,
        )
        self.rebalances.append(rebalance)
        return self

    def _member_id(self, client: str, *, went: bool = False) -> str:
        return f"{client}-00000000-0000-4000-8000-{self._incarnation.get(client, 1):012d}"

    def _cause(self, trigger: str, joined: Sequence[str], left: Sequence[str], ids_before: dict[str, str]) -> Trigger:
        if trigger in ("member_joined", "connect_worker_joined"):
            members = tuple(self._member_id(c) for c in joined)
        else:
            members = tuple(ids_before.get(c, self._member_id(c)) for c in left)
        return Trigger(
            trigger=cause_of(trigger),
            tier=EvidenceTier.LOGGED,
            members=members,
            detail="",
            evidence=(f"log:broker-1/server.log#abc@{len(self.rebalances) * 100}",),
        )

    def _dealt(self, stayed: Sequence[str], joined: Sequence[str]) -> dict[str, tuple[str, ...]]:
        present = sorted({*stayed, *joined})
        names = [f"{self.group_id}-topic-{i}" for i in range(self.resource_count)]
        return {c: tuple(names[i :: len(present)]) for i, c in enumerate(present)}

    def _fact(self, client: str) -> dict[str, Any]:
        facts: dict[str, Any] = {"client_id": client, "client_host": "/10.0.0.9"}
        if self.protocol_type == "connect":
            facts["worker_url"] = f"http://{client}:8083/"
        return {
            **facts,
            "session_timeout_ms": 10_000,
            "rebalance_timeout_ms": 60_000,
            **self._member_facts.get(client, {}),
        }

    def _members(
        self,
        before: dict[str, tuple[str, ...]],
        after: dict[str, tuple[str, ...]],
        joined: Sequence[str],
        replaced: Sequence[str],
        gone: Sequence[str],
    ) -> list[Member]:
        members = []
        for client, held in after.items():
            change = "joined" if client in joined else "replaced" if client in replaced else "stayed"
            members.append(
                Member(
                    member_id=self._member_id(client),
                    change=MemberChange(change),
                    owned_before=before.get(client, ()),
                    assigned=held,
                    **self._fact(client),
                )
            )
        for client in gone:
            members.append(
                Member(
                    member_id=self._member_id(client),
                    change=MemberChange.LEFT,
                    owned_before=before[client],
                    assigned=(),
                    **self._fact(client),
                )
            )
        return members

    def _movements(
        self,
        before: dict[str, tuple[str, ...]],
        after: dict[str, tuple[str, ...]],
        ids_before: dict[str, str],
        gone: Sequence[str],
        pause_ms: int,
        gone_pause_ms: int | None,
    ) -> list[Movement]:
        owner_before = {r: c for c, held in before.items() for r in held}
        movements = []
        for client, held in after.items():
            for resource in held:
                old = owner_before.get(resource)
                is_same = old == client and ids_before[client] == self._member_id(client)
                kind = "assigned" if old is None else "returned" if is_same else "moved"
                if is_same and self.facts["mode"] != "eager":
                    continue
                pause = pause_ms if old not in gone or gone_pause_ms is None else gone_pause_ms
                movements.append(
                    Movement(
                        resource_type=ResourceType.PARTITION,
                        resource=resource,
                        kind=MovementKind(kind),
                        from_member_id=None if old is None else ids_before[old],
                        to_member_id=self._member_id(client),
                        from_client_id=old,
                        to_client_id=client,
                        pause_lower_ms=None if old is None else max(pause - 20, 0),
                        pause_estimate_ms=None if old is None else pause,
                        pause_upper_ms=None if old is None else pause + 40,
                    )
                )
        return movements

    def last(self, **changes: Any) -> GroupStory:
        """Change facts of the latest rebalance."""
        self.rebalances[-1] = replace(self.rebalances[-1], **changes)
        return self


def a_group(group_id: str = "orders", **facts: Any) -> GroupStory:
    return GroupStory(group_id, **facts)


def a_connect_cluster(group_id: str = "connect-a", **facts: Any) -> GroupStory:
    return GroupStory(group_id, protocol_type="connect", mode="incremental", **{"assignor": "sessioned", **facts})
