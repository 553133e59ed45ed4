"""Lines of a log that are kept, and the count of those that are let go.

Kept is what may be evidence, and a few events before and after each, which the page of evidence shows around it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from ingest.log_files import EventReader, LastEvent
from rebalance_audit.domain.log_lines import starts_event
from rebalance_audit.domain.model import SourceLine

AROUND = 12
"""Events before and after: twice what the page of evidence shows."""
BLOCK_BYTES = 64 << 10
"""Looked at as a whole. Only a block with an event of interest is split into lines, which takes some two ms."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Interest:
    """The log events that may be evidence, by the bytes they hold."""

    event: Callable[[SourceLine], bool]
    sign: str
    """An expression of RE2, as are the next two. A block without a match, in which each line that matches `member`
    also matches `dismissed`, holds no event of interest: some passes over all bytes, not one per line and sign."""
    member: str
    dismissed: str

    def block(self, block: bytes) -> bool:
        """Whether these whole lines may hold an event of interest."""
        text = pa.array([block], pa.binary())
        if pc.match_substring_regex(text, self.sign)[0].as_py():
            return True
        if not pc.match_substring_regex(text, self.member)[0].as_py():
            return False
        lines = pc.split_pattern(text, b"\n").values
        members = lines.filter(pc.match_substring_regex(lines, self.member))
        return bool(pc.any(pc.invert(pc.match_substring_regex(members, self.dismissed))).as_py())


class Sieve:
    """The events of one file, piece after piece. What was before the first event it sees is not known to it."""

    def __init__(self, interest: Interest, node: str, file_name: str, file_id: str) -> None:
        self._interest, self._file = interest, (node, file_name, file_id)
        self._before: deque[tuple[int, str]] = deque(maxlen=AROUND)
        self._after = 0
        self._let_go = 0

    def take_let_go(self) -> int:
        """Lines that were let go since the last call."""
        count, self._let_go = self._let_go, 0
        return count

    def events(self, reader: EventReader, last: LastEvent, *, is_plain: bool) -> Iterator[tuple[int, str]]:
        """Like `EventReader.events`, without the lines that are not kept. `is_plain`: the file can be read from any
        byte."""
        while is_plain and reader.position > 0:
            block = reader.peek(BLOCK_BYTES)
            cut = _last_event(block)  # it may be continued behind the block
            if cut <= 0:
                break
            if self._after or self._interest.block(block[:cut]):
                end = reader.position + cut
                yield from self._sifted(reader, LastEvent.HELD, end)
                if reader.position < end:
                    break
            else:
                self._let_go_all(reader.position, block[:cut])
                reader.skip(cut)
        yield from self._sifted(reader, last, None)

    def _sifted(self, reader: EventReader, last: LastEvent, end: int | None) -> Iterator[tuple[int, str]]:
        if end is not None and reader.position >= end:
            return
        reader.return_to_position()
        for byte, text in reader.events(last):
            node, file_name, file_id = self._file
            line = SourceLine(cluster_id="", node=node, file_name=file_name, file_id=file_id, byte=byte, text=text)
            if self._interest.event(line):
                yield from self._before
                self._before.clear()
                yield byte, text
                self._after = AROUND
            elif self._after:
                self._after -= 1
                yield byte, text
            else:
                self._hold(byte, text)
            if end is not None and reader.position >= end:
                return

    def _hold(self, byte: int, text: str) -> None:
        """Keep it until it is too far before any event of interest."""
        if len(self._before) == AROUND:
            self._let_go += _lines_of(self._before[0][1])
        self._before.append((byte, text))

    def _let_go_all(self, byte: int, block: bytes) -> None:
        """The whole events of a block, but for the last ones, which are held."""
        last = _events_at_the_end(byte, block, AROUND)
        self._let_go += block.count(b"\n") - sum(_lines_of(text) for _, text in last)
        for event in last:
            self._hold(*event)


def _lines_of(text: str) -> int:
    return text.count("\n") + 1


def _last_event(block: bytes) -> int:
    """Where the last event of the block begins; -1 if none begins in it but at its start."""
    end = block.rfind(b"\n")
    while end > 0:
        begin = block.rfind(b"\n", 0, end) + 1
        if begin and starts_event(block[begin : end + 1].decode("utf-8", "replace")):
            return begin
        end = begin - 1
    return -1


def _events_at_the_end(byte: int, block: bytes, count: int) -> list[tuple[int, str]]:
    """The last events of a block that ends where an event ends."""
    found: list[tuple[int, str]] = []
    end = len(block)
    at = end
    while at > 0 and len(found) < count:
        at = block.rfind(b"\n", 0, at - 1) + 1
        line = block[at:end].split(b"\n", 1)[0].decode("utf-8", "replace")
        if starts_event(line) or at == 0:
            found.append((byte + at, block[at:end].decode("utf-8", "replace").rstrip("\r\n")))
            end = at
    return found[::-1]
