"""For tests that throw anything at a decoder: what it may do is read or refuse, never break."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rebalance_audit.domain.wire import DecodeError


def refusal(decode: Callable[..., Any], *args: Any) -> DecodeError | None:
    """How these were refused; None if they were read. Any other exception fails the test."""
    try:
        decode(*args)
    except DecodeError as refused:
        return refused
    return None


def assert_read_or_refused(decode: Callable[[bytes], Any], data: bytes) -> None:
    """And if refused, at a byte of it."""
    refused = refusal(decode, data)
    assert refused is None or 0 <= refused.at <= len(data)
