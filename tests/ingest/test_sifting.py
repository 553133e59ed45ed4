"""What may be evidence is kept with what stands around it; the rest is counted, wherever the file is cut."""

from __future__ import annotations

import gzip
import random
from pathlib import Path

import pytest

from ingest.sifting import AROUND, BLOCK_BYTES, Interest
from ingest.tail import QUIET_MS, LogTail
from rebalance_audit.domain.line_interest import MEMBER, MEMBER_OF_CONNECTION, SIGN, says_something
from rebalance_audit.domain.log_lines import parse_controller_line, parse_line
from rebalance_audit.domain.model import SourceLine
from tests.captures import CAPTURES, name_of

INTEREST = Interest(event=says_something, sign=SIGN, member=MEMBER, dismissed=MEMBER_OF_CONNECTION)
HEAD = "[2026-11-21 16:17:34,126] INFO "
OF_GROUP = HEAD + "[GroupCoordinator id=1] Stabilized group g generation 7 with 2 members. (kafka.coordinator.group.X)"
CONNECTION = (
    HEAD
    + "[Consumer clientId=c1, groupId=g] Connection to node 1 (localhost/127.0.0.1:9092) could not be established. "
    "Node may not be available. (org.apache.kafka.clients.NetworkClient)"
)


def noise(n: int) -> str:
    return f"{HEAD}request {n} took {n % 7} ms {'.' * (n % 90)} (kafka.request.logger)"


def texts_of(path: Path, cuts: list[bytes], *, interest: Interest | None = INTEREST) -> tuple[list[str], int]:
    """What is kept of a file that grows by these pieces, and how many lines were let go."""
    tail, now_ms, kept, let_go = LogTail([("n", str(path))], interest=interest), 1_000_000, [], 0
    with path.open("ab") as file:
        for cut in [*cuts, b""]:
            file.write(cut)
            file.flush()
            for wait_ms in (10, QUIET_MS):
                now_ms += wait_ms
                for reading, lines in tail.poll(now_ms):
                    assert not list(reading.problems)
                    kept += [line.text for line in lines]
                    let_go += reading.let_go_count
    return kept, let_go


def around(lines: list[str], interesting: set[str]) -> list[str]:
    """By the definition: AROUND before and after each."""
    places = [n for n, line in enumerate(lines) if line in interesting]
    wanted = {n for place in places for n in range(place - AROUND, place + AROUND + 1)}
    return [line for n, line in enumerate(lines) if n in wanted]


def in_pieces(lines: list[str], count: int, seed: int) -> list[bytes]:
    whole = "".join(line + "\n" for line in lines).encode()
    cuts = sorted(random.Random(seed).sample(range(2_000, len(whole)), count - 1)) if count > 1 else []
    return [whole[a:b] for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True)]


@pytest.mark.parametrize("pieces", [1, 2, 9])
@pytest.mark.parametrize("seed", range(4))
def test_each_event_of_interest_keeps_its_neighbours_wherever_the_file_is_cut(
    tmp_path: Path, pieces: int, seed: int
) -> None:
    choice = random.Random(seed)
    lines = [noise(n) for n in range(6_000)]
    assert len("\n".join(lines)) > 4 * BLOCK_BYTES
    marked = set()
    for n in choice.sample(range(6_000), 5):
        lines[n] = OF_GROUP.replace("generation 7", f"generation {n}")
        marked.add(lines[n])
    kept, let_go = texts_of(tmp_path / "server.log", in_pieces(lines, pieces, seed))
    assert kept == around(lines, marked)
    # What may still become the surroundings of the next event is not let go yet.
    assert len(lines) - len(kept) - AROUND <= let_go <= len(lines) - len(kept)


def test_a_stack_trace_belongs_to_its_event(tmp_path: Path) -> None:
    trace = noise(1) + "\njava.lang.X: no\n\tat a.b.C(D.java:1)"
    lines = [*(noise(n) for n in range(3_000)), trace, OF_GROUP]
    kept, _ = texts_of(tmp_path / "server.log", in_pieces(lines, 3, 1))
    assert kept[-2:] == [trace, OF_GROUP]


def test_a_client_without_a_broker_fills_no_disk(tmp_path: Path) -> None:
    lines = [CONNECTION] * 5_000
    kept, let_go = texts_of(tmp_path / "client.log", in_pieces(lines, 2, 1))
    assert kept == []
    assert let_go >= 5_000 - AROUND


def test_without_interest_everything_is_kept(tmp_path: Path) -> None:
    lines = [noise(n) for n in range(200)]
    assert texts_of(tmp_path / "server.log", in_pieces(lines, 2, 1), interest=None) == (lines, 0)


def test_a_packed_file_is_sifted_too(tmp_path: Path) -> None:
    lines = [noise(n) for n in range(3_000)]
    lines[1_500] = OF_GROUP
    packed = tmp_path / "server.log.1.gz"
    kept, _ = texts_of(packed, [gzip.compress("".join(line + "\n" for line in lines).encode())])
    assert kept == around(lines, {OF_GROUP})


@pytest.mark.parametrize("capture", [c for c in CAPTURES if (c / "logs").is_dir()], ids=name_of)
def test_no_line_that_says_something_is_let_go(capture: Path) -> None:
    """What the parsers read, of groups or of partitions, is of interest: alone, and in a block among others."""
    for path in sorted((capture / "logs").rglob("*.gz")):
        for n, text in enumerate(gzip.decompress(path.read_bytes()).decode("utf-8", "replace").split("\n[")):
            whole = text if n == 0 else "[" + text
            line = SourceLine(cluster_id="c", node="n", file_name="f", file_id="i", byte=n, text=whole)
            if parse_line(line) is not None or parse_controller_line(line) is not None:
                assert says_something(line), whole
            if says_something(line) and (n < 100 or n % 50 == 0):  # each asks RE2 again
                assert INTEREST.block(whole.encode() + b"\n"), whole


def test_a_clients_name_cannot_hide_its_line() -> None:
    name = "x] Node 1 disconnected"
    text = OF_GROUP.replace("group g ", f"group {name} ")
    line = SourceLine(cluster_id="c", node="n", file_name="f", file_id="i", byte=0, text=text)
    assert says_something(line)
    lost = HEAD + f"[Consumer clientId={name}, groupId=g] Revoke previously assigned partitions t-0 (o.a.k.X)"
    line = SourceLine(cluster_id="c", node="n", file_name="f", file_id="i", byte=0, text=lost)
    assert says_something(line)
    assert INTEREST.block(lost.encode() + b"\n")
