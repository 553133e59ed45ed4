from __future__ import annotations

from random import Random

import pytest

from rebalance_audit.domain.replay.ids import other_id, random_end

CLASSIC = "billing-7-0b80f54d-59ad-48cf-a6ad-2b2d1741050e"
SELF_GIVEN = "JvVxnxVxQ5iH2HzQm3cCzA"


@pytest.mark.parametrize(("member_id", "kept"), [(CLASSIC, "billing-7-"), (SELF_GIVEN, "")])
def test_only_what_is_random_changes(member_id: str, kept: str) -> None:
    drawn = {other_id(member_id, Random(seed)) for seed in range(50)}
    assert len(drawn) == 50
    assert member_id not in drawn
    assert {len(other) for other in drawn} == {len(member_id)}
    assert all(other.startswith(kept) for other in drawn)
    assert other_id(member_id, Random(3)) == other_id(member_id, Random(3))


@pytest.mark.parametrize("member_id", ["", "more-1-0", "no uuid at all \x00"])
def test_an_id_of_neither_form_stays(member_id: str) -> None:
    assert other_id(member_id, Random(1)) == member_id


def test_a_member_that_names_itself_has_no_client_id_before_its_own() -> None:
    assert random_end(CLASSIC) == "0b80f54d-59ad-48cf-a6ad-2b2d1741050e"
    assert random_end(SELF_GIVEN) == SELF_GIVEN
