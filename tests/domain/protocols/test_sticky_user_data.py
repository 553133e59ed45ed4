from __future__ import annotations

import pytest

from rebalance_audit.domain.protocols.sticky_user_data import (
    StickyUserData,
    decode_cooperative_sticky,
    decode_sticky,
)
from rebalance_audit.domain.wire import DecodeError
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
