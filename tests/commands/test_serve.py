"""`serve` and `ui`: where they listen."""

from __future__ import annotations

import socket
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rebalance_audit.commands.serve import start_app
from tests.commands.saying import assert_one_sentence


@pytest.fixture
def taken_port() -> Iterator[int]:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        yield taken.getsockname()[1]


@pytest.mark.parametrize("verb", ["serve", "ui"])
def test_a_port_that_is_taken_is_said(call: Any, filled: Path, taken_port: int, verb: str) -> None:
    result = call(verb, "-w", filled, "--port", str(taken_port))
    assert_one_sentence(result)
    assert str(taken_port) in result.err
    assert "--port" in result.err


def test_the_app_answers_on_loopback_and_ends_with_us(filled: Path) -> None:
    app = start_app(str(filled), 0)
    try:
        assert app.address.startswith("http://127.0.0.1:")
        with urllib.request.urlopen(app.address, timeout=10) as answer:
            assert answer.status == 200
    finally:
        app.stop()
    with pytest.raises(OSError, match="refused"):
        urllib.request.urlopen(app.address, timeout=2)


@pytest.mark.parametrize("verb", ["serve", "ui"])
@pytest.mark.parametrize("host", ["no-such-host.invalid", "203.0.113.9"])
def test_a_host_that_is_not_ours_is_said(call: Any, filled: Path, verb: str, host: str) -> None:
    result = call(verb, "-w", filled, "--host", host, "-q")
    assert_one_sentence(result)
    assert "give an address of this machine with --host" in result.err
