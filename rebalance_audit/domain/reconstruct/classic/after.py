"""The state of a classic group after a rebalance: its members' rows, who holds what, and the counts."""

from __future__ import annotations

from collections.abc import Mapping

from rebalance_audit.domain.client_families import shown
from rebalance_audit.domain.frozen import maker
from rebalance_audit.domain.kinds import MemberChange
from rebalance_audit.domain.model import Member, Rebalance, changed
from rebalance_audit.domain.reconstruct.evidence.commits import Resource

from .before import Before, Holding
from .conversions import Downgrade, session_timeout_ms
from .members import Parsed, names

_make_member, _make_holding = maker(Member), maker(Holding)


def member_row(
    before: Before, p: Parsed, rebalance: Rebalance, change: MemberChange, held: frozenset[Resource] | None
) -> Member:
    assigned, member = p.assigned, p.member
    is_gone = change == MemberChange.LEFT
    assignor = before.assignor if is_gone else rebalance.assignor
    families = before.course.families_by(before.index, assignor, member)
    return _make_member(
        member_id=p.member.member_id,
        group_instance_id=p.member.group_instance_id,
        client_id=p.member.client_id,
        client_host=p.member.client_host,
        change=change,
        is_leader=not is_gone and p.member.member_id == rebalance.leader_member_id,
        session_timeout_ms=session_timeout_ms(p.member),
        rebalance_timeout_ms=p.member.rebalance_timeout if p.member.rebalance_timeout >= 0 else None,
        subscribed_topics=tuple(sorted(p.topics)) if p.topics is not None else None,
        owned_before=None if held is None else names(held),
        assigned=None if assigned is None else names(assigned),
        revoked=None if held is None or assigned is None else names(held - assigned),
        added=None if held is None or assigned is None else names(assigned - held),
        client_libraries=shown(families),
        undecoded=p.refused,
        evidence=rebalance.evidence[:1],
    )


def closed(
    before: Before,
    rebalance: Rebalance,
    parsed: Mapping[str, Parsed],
    holdings: dict[Resource, Holding],
    converted: Downgrade | None,
    missed: frozenset[Resource] = frozenset(),
) -> tuple[Rebalance, Before]:
    """The rebalance with the counts of what it hands out, and the state it leaves. `holdings`: the earlier ones; this
    updates them. `missed`: what of it its members never took."""
    held_now = {m: (p.assigned or frozenset()) - missed for m, p in parsed.items()}
    for member_id, p in parsed.items():
        holdings.update(dict.fromkeys(held_now[member_id], _make_holding(p.member, before.index)))
    held = set().union(*(p.assigned or () for p in parsed.values()))
    without_owner = (holdings.keys() | before.ownerless) - held
    if without_owner:
        subscribed = set().union(*(p.topics or () for p in parsed.values()))
        without_owner = {r for r in without_owner if r[0] in subscribed}
    after = changed(
        before,
        members={m: p.member for m, p in parsed.items()},
        held=held_now,
        holdings=holdings,
        converted=converted,
        delivered_index=before.index,
        # From the first full record on, what is not assigned is known to be nobody's.
        is_history_known=before.is_history_known or bool(parsed),
    )
    return changed(rebalance, resource_count=len(held), unassigned_count=len(without_owner)), after
