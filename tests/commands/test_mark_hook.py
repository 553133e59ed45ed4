"""Marks by real HTTP at a running `serve`: kept at once, from who has the token, and odd ones refused in a sentence."""

from __future__ import annotations

import json
import signal
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
from rebalance_audit import cli
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


def test_without_the_option_there_is_no_such_address(filled: Warehouse) -> None:
    from rebalance_audit.exporter import Exporter

    exporter = Exporter(filled)
    port = exporter.listen("127.0.0.1", 0)
    try:
        # Prometheus' own application answers every path with metrics.
        request = urllib.request.Request(f"http://127.0.0.1:{port}/marks", data=b'{"text": "v2"}')
        with pytest.raises(urllib.error.HTTPError):
            urllib.request.urlopen(request, timeout=10)
    finally:
        exporter.close()
    assert len(marks(filled)) == 1


def test_an_empty_token_is_refused(filled: Warehouse, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "token").write_text("\n")
    assert cli.run(["serve", "-w", filled.location, "--marks", str(tmp_path / "token")]) == 1
    assert "is empty; put a token into it" in capfd.readouterr().err
