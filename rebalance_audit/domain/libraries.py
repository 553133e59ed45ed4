"""What a group's whole history shows of its members' client libraries, for those who judge it.

A row names the libraries that its own rebalance and those before it show, so that it never changes again. A reason that
a member gives when it leaves shows its library late: then the rows of its life name several, and the last one names it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rebalance_audit.domain.client_families import Families, families_shown, narrowed, shown
from rebalance_audit.domain.model import Member, Rebalance, changed


def with_libraries(rebalances: Sequence[Rebalance]) -> Sequence[Rebalance]:
    """The same rebalances of one group. Where one of them shows the library of a client id, the members of that client
    id are of it in all of them, as far as their own bytes allow it. Where two show different ones, they stay as they
    are."""
    found: dict[str | None, set[tuple[str, ...] | None]] = {}
    for rebalance in rebalances:
        for member in rebalance.members:
            found.setdefault(member.client_id, set()).add(member.client_libraries)
    named: dict[str | None, Families] = {}
    for client_id, of_rows in found.items():
        single = {libraries for libraries in of_rows if libraries is not None and len(libraries) == 1}
        if len(single) == 1 and len(of_rows) > 1:
            named[client_id] = families_shown(*single)
    return [_named(rebalance, named) for rebalance in rebalances] if named else rebalances


def _named(rebalance: Rebalance, named: Mapping[str | None, Families]) -> Rebalance:
    members = tuple(_of_library(member, named.get(member.client_id)) for member in rebalance.members)
    is_same = all(one is other for one, other in zip(members, rebalance.members, strict=True))
    return rebalance if is_same else changed(rebalance, members=members)


def _of_library(member: Member, named: Families | None) -> Member:
    if named is None:
        return member
    libraries = shown(narrowed(families_shown(member.client_libraries), named))
    return member if libraries == member.client_libraries else changed(member, client_libraries=libraries)
