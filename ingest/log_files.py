"""Log files: events with their place in the uncompressed text, and the identity of a file that rotation keeps."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum

from ingest.errors import Problem, Problems
from ingest.segments import BROKEN_GZIP
from rebalance_audit.domain.log_lines import starts_event

ID_BYTES = 1024
MAX_EVENT_BYTES = 1 << 20
"""The rest of a longer event is left out and reported; stack traces are far below it."""
HEAD_SEARCH_LINES = 1000
"""A file that starts no event in so many lines is no log in a layout we know (a GC log, an access log)."""


class LastEvent(Enum):
    """What is done with the last event of a file, which the next line may continue."""

    GIVEN = "given"
    """The file is finished."""
    GIVEN_IF_WHOLE_LINES = "given_if_whole_lines"
    """The file may grow, but has been quiet."""
    HELD = "held"
    """The file is growing."""


@dataclass(frozen=True, slots=True)
class Identity:
    """The identity of a file, whatever its name: a hash of its first bytes of uncompressed text."""

    file_id: str
    head_bytes: int
    """How many bytes the hash covers: ID_BYTES, or fewer if the file was shorter when it was first read. The id
    stays when such a file grows."""

    @classmethod
    def of(cls, head: bytes, known: Iterable[Identity] = ()) -> Identity:
        """The known identity that these first bytes belong to, the longest match first, else a new one."""
        known = set(known)
        for head_bytes in sorted({identity.head_bytes for identity in known}, reverse=True):
            if 0 < head_bytes <= len(head) and (identity := cls(_hash(head[:head_bytes]), head_bytes)) in known:
                return identity
        return cls(_hash(head[:ID_BYTES]), min(len(head), ID_BYTES))


def _hash(head: bytes) -> str:
    return hashlib.sha256(head).hexdigest()[:16]


def read_head(file: io.BufferedReader) -> bytes:
    """The first ID_BYTES of a log file's text; fewer if it is shorter, or broken."""
    try:
        return file.read(ID_BYTES)
    except BROKEN_GZIP:
        return b""


class EventReader:
    """The events of one log file from `position` on; a head line and what continues it is one event.

    `position` is always the start of the first event not given out yet, so that reading can stop anywhere and go on
    there. Lines before the first head (the end of an event whose head is in an older file) are one event, too.
    """

    def __init__(self, file: io.BufferedReader, position: int = 0) -> None:
        self._file = file
        self.position = position
        self.last_event_at = position
        self.problems = Problems()
        self.is_unknown_layout = False
        self._is_broken = False
        try:
            file.seek(position)
        except BROKEN_GZIP as error:
            self._break_off(error)

    def events(self, last: LastEvent) -> Iterator[tuple[int, str]]:
        """(byte, text without the final line end). Undecodable bytes are U+FFFD."""
        at = self.position
        has_head = at > 0
        parts: list[str] = []
        size, line_count, is_line_start, is_cut = 0, 0, True, False
        while raw := self._read_line():
            line = raw.decode("utf-8", "replace")
            if is_line_start and starts_event(line):
                if parts:
                    yield self._give(at, parts, size)
                    at, parts, size, is_cut = at + size, [], 0, False
                has_head = True
            elif not has_head:
                line_count += 1
                if line_count > HEAD_SEARCH_LINES or size > MAX_EVENT_BYTES:
                    self._refuse_layout()
                    return
            if size < MAX_EVENT_BYTES:
                parts.append(line)
            elif has_head and not is_cut:
                is_cut = True
                sentence = f"a log event is longer than {MAX_EVENT_BYTES} bytes; what follows of it is left out"
                self.problems.add(Problem(code="unreadable", sentence=sentence, position=at))
            size += len(raw)
            is_line_start = raw.endswith(b"\n")
        if not parts or last is LastEvent.HELD:
            return
        if not has_head:
            self._refuse_layout()
        elif last is LastEvent.GIVEN or is_line_start:
            yield self._give(at, parts, size)

    def peek(self, size: int) -> bytes:
        """So many bytes from here without moving on; fewer at the end."""
        self.return_to_position()
        try:
            return self._file.read(size)
        except BROKEN_GZIP as error:
            self._break_off(error)
            return b""

    def skip(self, size: int) -> None:
        """Go on behind so many bytes, where an event begins."""
        self.position += size
        self.return_to_position()

    def return_to_position(self) -> None:
        """Go back to the first event not given out yet, also if more was looked at."""
        if not self._is_broken:
            self._file.seek(self.position)

    def _give(self, at: int, parts: list[str], size: int) -> tuple[int, str]:
        self.position, self.last_event_at = at + size, at
        return at, "".join(parts).rstrip("\r\n")

    def _read_line(self) -> bytes:
        if self._is_broken:
            return b""
        try:
            return self._file.readline(MAX_EVENT_BYTES)
        except BROKEN_GZIP as error:
            self._break_off(error)
            return b""

    def _break_off(self, error: Exception) -> None:
        self._is_broken = True
        sentence = f"the gzip file is broken ({error}); the rest of it is not read"
        self.problems.add(Problem(code="unreadable", sentence=sentence, position=self.position))

    def _refuse_layout(self) -> None:
        self.is_unknown_layout = True
        sentence = "no line begins like a log event in a layout known here; the file is skipped"
        self.problems.add(Problem(code="skipped", sentence=sentence, position=self.position))
