"""Marks by real HTTP at a running `serve`: kept at once, from who has the token, and odd ones refused in a sentence."""

from __future__ import annotations

import errno
import json
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from infra.lab.processes import free_ports
from rebalance_audit import cli, exporter
from rebalance_audit.commands import mark_hook
from rebalance_audit.commands.mark_hook import with_marks
from rebalance_audit.warehouse.warehouse import Warehouse
from tests.commands.saying import ROOT
from tests.commands.test_mark import filled, marks

__all__ = ["filled"]
TOKEN = "a token of our own"


@pytest.fixture
def address(filled: Warehouse, tmp_path: Path) -> Iterator[str]:
    (tmp_path / "token").write_text(TOKEN + "\n")
    (port,) = free_ports(1)
    command = ["serve", "-w", filled.location, "--marks", str(tmp_path / "token"), "--port", str(port), "-q"]
    serving = subprocess.Popen([sys.executable, "-m", "rebalance_audit.cli", *command], cwd=ROOT)
    found = f"http://127.0.0.1:{port}"
    try:
        give_up_at = time.monotonic() + 60
        while True:
            try:
                urllib.request.urlopen(f"{found}/metrics", timeout=5).close()
                break
            except OSError:
                assert time.monotonic() < give_up_at
                assert serving.poll() is None
                time.sleep(0.1)
        yield found
    finally:
        serving.send_signal(signal.SIGTERM)
        assert serving.wait(30) == 0


def posted(address: str, body: bytes, token: str | None = TOKEN) -> tuple[int, Any]:
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    request = urllib.request.Request(f"{address}/marks", data=body, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


def test_a_mark_is_in_the_tables_when_the_answer_comes(address: str, filled: Warehouse) -> None:
    body = {"text": "v2.3 of orders", "at": "2026-11-21T14:00", "group": "ord*"}
    expected = {"at_ms": 1_795_269_600_000, "clusters": ["one", "two"]}
    assert posted(address, json.dumps(body).encode()) == (201, expected)
    assert posted(address, json.dumps(body | {"at": 1_795_269_600_000}).encode()) == (201, expected)  # the same again
    assert marks(filled)[1:] == [(c, 1_795_269_600_000, "told", "v2.3 of orders", "ord*") for c in ("one", "two")]
    status, answer = posted(address, b'{"text": "now", "cluster_id": "two"}')
    assert (status, answer["clusters"]) == (201, ["two"])
    assert abs(answer["at_ms"] - time.time() * 1000) < 60_000
    assert urllib.request.urlopen(f"{address}/metrics", timeout=10).status == 200


def test_many_at_once_are_all_kept(address: str, filled: Warehouse) -> None:
    answers: list[int] = []

    def one(number: int) -> None:
        answers.append(posted(address, json.dumps({"text": f"v{number}", "cluster_id": "one"}).encode())[0])

    threads = [threading.Thread(target=one, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [201] * 6
    assert {row[3] for row in marks(filled) if row[2] == "told"} == {f"v{n}" for n in range(6)}


def test_who_has_no_token_marks_nothing(address: str, filled: Warehouse) -> None:
    for token in (None, "", "another", TOKEN + "x"):
        status, answer = posted(address, b'{"text": "v2"}', token)
        assert (status, answer["error"][:9]) == (401, "The token")
    assert len(marks(filled)) == 1


ODD = [
    (b"{", 400, "is no JSON object"),
    (b'"v2"', 400, "is no JSON object"),
    (b"\xff\xfe", 400, "is no JSON object"),
    (b"[" * 9_000, 400, "is no JSON object"),
    (b"{}", 400, "text has 0 characters"),
    (b'{"text": 5}', 400, "text is no text"),
    (b'{"text": "v2", "at": true}', 400, "at is no text"),
    (b'{"text": "v2", "at": "noon"}', 400, "is no time"),
    (b'{"text": "v2", "at": 1e400}', 400, "at is no text"),
    (b'{"text": "v2", "at": "9999-12-31"}', 400, "at 9999-12-31 lies more than a day ahead"),
    (b'{"text": "v2", "groups": "x"}', 400, "There is no field 'groups'"),
    (b'{"text": "v2", "group": " "}', 400, "group is empty"),
    (b'{"text": "\\ud800"}', 400, "no character"),
    (b'{"text": "v2", "cluster_id": "three"}', 400, "There is no cluster 'three'"),
    (b'{"text": "' + b"x" * 20_000 + b'"}', 413, "more than 16,384 bytes"),
]


def test_what_is_odd_is_refused_in_one_sentence(address: str, filled: Warehouse) -> None:
    for body, status, why in ODD:
        found, answer = posted(address, body)
        assert (found, why in answer["error"]) == (status, True), (body[:40], answer)
    assert len(marks(filled)) == 1


@pytest.fixture
def served(filled: Warehouse, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """The port of a server that closes silent connections soon."""
    monkeypatch.setattr(exporter.RequestHandler, "timeout", 0.3)
    serving = exporter.Exporter(filled)
    yield serving.listen("127.0.0.1", 0, around=lambda metrics: with_marks(metrics, filled.location, TOKEN))
    serving.close()


def raw(port: int, sent: bytes) -> bytes:
    """What comes back until the server closes the connection."""
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        connection.sendall(sent)
        return b"".join(iter(lambda: connection.recv(65_536), b""))


@pytest.mark.parametrize(("length", "status"), [("²".encode("latin-1"), 411), (b"-1", 411), (b"9" * 5_000, 413)])
def test_a_length_that_is_none_is_refused(served: int, length: bytes, status: int) -> None:
    head = f"POST /marks HTTP/1.0\r\nAuthorization: Bearer {TOKEN}\r\nContent-Length: ".encode()
    answer = raw(served, head + length + b"\r\n\r\n{}")
    assert answer.startswith(f"HTTP/1.0 {status} ".encode())


def test_whoever_sends_nothing_more_is_not_waited_for(served: int, capfd: pytest.CaptureFixture[str]) -> None:
    assert raw(served, b"POST /marks HT") == b""
    head = f"POST /marks HTTP/1.0\r\nAuthorization: Bearer {TOKEN}\r\nContent-Length: 90\r\n\r\n".encode()
    assert b" 408 " in raw(served, head + b'{"text": "v2')
    assert capfd.readouterr().err == ""


def test_a_store_that_is_away_is_said(served: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*args: object, **named: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(mark_hook, "noted", full)
    status, answer = posted(f"http://127.0.0.1:{served}", b'{"text": "v2"}')
    assert (status, "space" in answer["error"] or "full" in answer["error"]) == (503, True)


def test_without_the_option_there_is_no_such_address(filled: Warehouse) -> None:
    serving = exporter.Exporter(filled)
    port = serving.listen("127.0.0.1", 0)
    try:
        # Prometheus' own application answers every path with metrics.
        request = urllib.request.Request(f"http://127.0.0.1:{port}/marks", data=b'{"text": "v2"}')
        with pytest.raises(urllib.error.HTTPError):
            urllib.request.urlopen(request, timeout=10)
    finally:
        serving.close()
    assert len(marks(filled)) == 1


def test_an_empty_token_is_refused(filled: Warehouse, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "token").write_text("\n")
    assert cli.run(["serve", "-w", filled.location, "--marks", str(tmp_path / "token")]) == 1
    assert "is empty; put a token into it" in capfd.readouterr().err
