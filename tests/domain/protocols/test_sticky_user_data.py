from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rebalance_audit.domain.protocols.sticky_user_data import StickyUserData, decode_cooperative_sticky, decode_sticky
from rebalance_audit.domain.wire import DecodeError, DecodeReason
from tests import encoders as enc


def test_sticky_remembers_its_assignment_and_since_2_3_the_generation() -> None:
    previous = (("orders", 0), ("orders", 2))
    assert decode_sticky(enc.sticky_user_data({"orders": [0, 2]}, 7)) == StickyUserData(
        previous_assignment=previous, generation=7
    )
    assert decode_sticky(enc.sticky_user_data({"orders": [0, 2]}, None)) == StickyUserData(
        previous_assignment=previous, generation=None
    )


def test_generation_minus_one_is_not_known() -> None:
    assert decode_sticky(enc.sticky_user_data({}, -1)).generation is None
    assert decode_cooperative_sticky(enc.int32(-1)).generation is None


def test_cooperative_sticky_remembers_the_generation_alone() -> None:
    assert decode_cooperative_sticky(enc.int32(3)) == StickyUserData(previous_assignment=(), generation=3)


def test_what_cannot_be_either_layout_is_refused() -> None:
    with pytest.raises(DecodeError):
        decode_sticky(enc.int32(5))
    with pytest.raises(DecodeError):
        decode_cooperative_sticky(b"\x00\x01")


OWNED = st.lists(
    st.tuples(st.text(max_size=5), st.lists(st.integers(0, 9), max_size=3, unique=True)),
    max_size=3,
    unique_by=lambda each: each[0],
)


@settings(max_examples=40)
@given(OWNED, st.integers(0, 2**31 - 1))
def test_every_proper_prefix_but_the_older_layout_is_refused_at_a_byte_of_it(
    owned: list[tuple[str, list[int]]], generation: int
) -> None:
    whole, older = enc.sticky_user_data(dict(owned), generation), enc.sticky_user_data(dict(owned), None)
    partitions = tuple((topic, partition) for topic, several in owned for partition in several)
    assert decode_sticky(whole) == StickyUserData(previous_assignment=partitions, generation=generation)
    for cut in range(len(whole)):
        if whole[:cut] == older:
            assert decode_sticky(older) == StickyUserData(previous_assignment=partitions, generation=None)
        elif cut < len(older):
            with pytest.raises(DecodeError) as refused:
                decode_sticky(whole[:cut])
            assert (refused.value.reason, refused.value.part) == (DecodeReason.SHORT_BUFFER, "user_data")
            assert 0 <= refused.value.at <= cut
    for cut in range(4):
        with pytest.raises(DecodeError) as refused:
            decode_cooperative_sticky(enc.int32(generation)[:cut])
        assert (refused.value.reason, refused.value.at) == (DecodeReason.SHORT_BUFFER, 0)
