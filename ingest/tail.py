"""Log files that grow and rotate: every event once, over renaming, copying with truncation, packing and restarts.

A file is followed by its identity (a hash of its first bytes), never by its name. What is remembered per identity is
one number, the byte from which on nothing was given out yet; so it does not matter under which name, in which copy or
in which process the rest is found.
"""

from __future__ import annotations

import dataclasses
import glob
import os
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ingest.errors import Problem
from ingest.log_files import ID_BYTES, EventReader, Identity, LastEvent, read_head
from ingest.readings import LogText, SourceReading
from ingest.segments import open_plain
from ingest.sifting import Interest, Sieve

QUIET_MS = 2_000
"""An event may be continued (stack traces come line by line) until its file has been quiet for so long."""
LIVE_QUIET_MS = 150
"""The same where every second counts: log4j writes an event and its stack trace in one piece, or in pieces of its 8 KB
buffer that follow each other at once. What comes later all the same becomes an event of its own."""
SETTLE_MS = 10_000
"""A file shorter than ID_BYTES is left alone for so long; then its id covers what is there."""
FINISHED_MS = 3_600_000
"""A file that did not change for so long before it went was finished, and its going is no loss."""
FORGET_MS = 7 * 86_400_000
PIECE_EVENTS = 20_000
PIECE_BYTES = 8 << 20


@dataclass(slots=True, kw_only=True)
class _FollowedLog:
    node: str
    identity: Identity
    path: Path
    """Where it was found last."""
    position: int = 0
    changed_at_ms: int
    seen_at_ms: int
    is_gone: bool = False
    is_refused: bool = False
    """Reported to have an unknown layout."""

    def to_json(self) -> dict[str, Any]:
        stated = dataclasses.asdict(self)
        return {**stated, "path": str(self.path), "identity": [self.identity.file_id, self.identity.head_bytes]}

    @classmethod
    def from_json(cls, stated: Mapping[str, Any]) -> _FollowedLog:
        return cls(**{**stated, "path": Path(stated["path"]), "identity": Identity(*stated["identity"])})


@dataclass(slots=True)
class _Look:
    """A path as it was at the last poll."""

    signature: tuple[int, int, int, int]
    first_at_ms: int
    changed_at_ms: int
    file_id: str | None = None
    is_behind: bool = True
    """There is more than was given out; look again although nothing changed."""


class LogTail:
    """Follows the files of some glob patterns, each with the node they are from.

    A plain name means that file and what rotation makes of it, which is the name with something behind it.
    """

    def __init__(
        self,
        patterns: Sequence[tuple[str, str]],
        positions: Mapping[str, Any] | None = None,
        *,
        quiet_ms: int = QUIET_MS,
        interest: Interest | None = None,
    ) -> None:
        """`quiet_ms`: an event may be continued until its file has been quiet for so long. `interest`: the events to
        keep, with some around each; without it all are."""
        self._quiet_ms = quiet_ms
        self._interest = interest
        self._sieves: dict[tuple[str, str], Sieve] = {}
        self._patterns = tuple(
            (node, pattern if glob.has_magic(pattern) else glob.escape(pattern) + "*") for node, pattern in patterns
        )
        self._files = {
            (file.node, file.identity.file_id): file
            for file in map(_FollowedLog.from_json, (positions or {}).get("files", ()))
        }
        self._looks: dict[tuple[str, Path], _Look] = {}
        self._unreadable: set[tuple[str, Path]] = set()
        """Reported; once is enough while it lasts."""

    def positions(self) -> dict[str, Any]:
        """Where the next process goes on after everything given out so far."""
        return {"files": [file.to_json() for _, file in sorted(self._files.items())]}

    @property
    def is_behind(self) -> bool:
        """Whether something that was seen is held back, so that `poll` may give more although no file changes. A file
        that cannot be read is no reason: it would be tried at each moment."""
        return any(look.is_behind and place not in self._unreadable for place, look in self._looks.items())

    def glance(self) -> Hashable:
        """A value that differs when a file came, went, grew or shrank; far cheaper than `poll`."""
        folders = {os.path.dirname(pattern) or "." for _, pattern in self._patterns}
        if any(glob.has_magic(folder) for folder in folders):
            folders = {os.path.dirname(path) or "." for _, pattern in self._patterns for path in glob.glob(pattern)}
        found = []
        for folder in sorted(folders):
            try:
                with os.scandir(folder) as entries:
                    for entry in entries:
                        stat = entry.stat()
                        found.append((entry.path, stat.st_ino, stat.st_size, stat.st_mtime_ns))
            except OSError:  # it went meanwhile; `poll` says what cannot be read
                found.append((folder, 0, 0, 0))
        return tuple(sorted(found))

    def poll(self, now_ms: int) -> Iterator[tuple[SourceReading, list[LogText]]]:
        """Read what is new, in pieces of bounded size. Yields (reading, log events)."""
        there: set[tuple[str, str]] = set()
        yield from self._closed_folders()
        for node, path in self._candidates():
            yield from self._look(node, path, now_ms, there)
        for key in sorted(self._files.keys() - there):
            file = self._files[key]
            if file.is_gone:
                if now_ms - file.seen_at_ms > FORGET_MS:
                    del self._files[key]
                    self._sieves.pop(key, None)
                continue
            for path in _siblings(file.path):
                yield from self._look(file.node, path, now_ms, there, only=file.identity)
                if key in there:
                    break
            else:
                file.is_gone = True
                if file.seen_at_ms - file.changed_at_ms < FINISHED_MS:
                    yield _gone(file), []

    def _closed_folders(self) -> Iterator[tuple[SourceReading, list[LogText]]]:
        """Where a search for files finds none, since it may not look."""
        for node, folder in sorted({(node, Path(pattern).parent) for node, pattern in self._patterns}):
            if glob.has_magic(str(folder)):
                continue
            try:
                os.scandir(folder).close()
                self._unreadable.discard((node, folder))
            except FileNotFoundError:  # it may come
                continue
            except OSError as error:
                sentence = f"The folder {folder} of {node} cannot be read: {error.strerror or error}."
                yield from self._cannot(node, folder, "", sentence)

    def _cannot(self, node: str, path: Path, name: str, sentence: str) -> Iterator[tuple[SourceReading, list[LogText]]]:
        if (node, path) in self._unreadable:
            return
        self._unreadable.add((node, path))
        reading = SourceReading(source=f"log:{node}/{name}", kind="log")
        reading.problems.add(Problem(code="unreadable", sentence=sentence))
        yield reading, []

    def _candidates(self) -> list[tuple[str, Path]]:
        found = {(node, Path(path)) for node, pattern in self._patterns for path in glob.glob(pattern)}
        found |= {(file.node, file.path) for file in self._files.values() if not file.is_gone}
        return sorted(found)

    def _look(
        self, node: str, path: Path, now_ms: int, there: set[tuple[str, str]], only: Identity | None = None
    ) -> Iterator[tuple[SourceReading, list[LogText]]]:
        try:
            stat = path.stat()
            if not path.is_file():
                return
            signature = (stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns)
            look = self._looks.get((node, path))
            if look is None or look.signature[:2] != signature[:2] or stat.st_size < look.signature[2]:
                look = self._looks[node, path] = _Look(signature, now_ms, now_ms)
            elif look.signature == signature and not look.is_behind:
                if look.file_id is not None:
                    self._see(node, look.file_id, path, now_ms, there)
                return
            elif look.signature != signature or now_ms < look.changed_at_ms:  # the clock may be set back
                look.signature, look.changed_at_ms = signature, now_ms
            yield from self._read(node, path, look, now_ms, there, only)
            self._unreadable.discard((node, path))
        except FileNotFoundError:
            self._looks.pop((node, path), None)  # rotated while we looked: found under its next name
        except OSError as error:
            there |= {
                key for key, file in self._files.items() if (file.node, file.path) == (node, path)
            }  # for all we know
            sentence = f"{path.name} of {node} cannot be read: {error.strerror or error}."
            yield from self._cannot(node, path, path.name, sentence)

    def _see(self, node: str, file_id: str, path: Path, now_ms: int, there: set[tuple[str, str]]) -> _FollowedLog:
        file = self._files[node, file_id]
        file.path, file.seen_at_ms, file.is_gone = path, now_ms, False
        there.add((node, file_id))
        return file

    def _read(
        self, node: str, path: Path, look: _Look, now_ms: int, there: set[tuple[str, str]], only: Identity | None
    ) -> Iterator[tuple[SourceReading, list[LogText]]]:
        is_quiet = now_ms - look.changed_at_ms >= self._quiet_ms
        with open_plain(path) as plain:
            head = read_head(plain)
            identity = self._identify(node, head, is_settled=now_ms - look.first_at_ms >= SETTLE_MS)
            if identity is None:  # time alone gives one to whole lines, and to nothing else
                look.is_behind = b"\n" in head
                return
            if only is not None and identity != only:
                if look.file_id is None:  # of another file, which nobody asked for
                    del self._looks[node, path]
                return
            if (node, identity.file_id) not in self._files:
                self._files[node, identity.file_id] = _FollowedLog(
                    node=node, identity=identity, path=path, changed_at_ms=now_ms, seen_at_ms=now_ms
                )
            look.file_id = identity.file_id
            file = self._see(node, identity.file_id, path, now_ms, there)
            reader = EventReader(plain, file.position)
            is_packed = path.suffix == ".gz"
            last = LastEvent.GIVEN if is_packed else LastEvent.GIVEN_IF_WHOLE_LINES if is_quiet else LastEvent.HELD
            yield from self._pieces(file, reader, last, now_ms, is_quiet)
        # A file still being packed ends in the middle. What is left of a quiet one is a line without its end.
        is_held_back = len(reader.problems) > 0 if is_packed else file.position < look.signature[2]
        look.is_behind = is_held_back and not is_quiet

    def _sieve(self, file: _FollowedLog) -> Sieve | None:
        if self._interest is None:
            return None
        key = file.node, file.identity.file_id
        if key not in self._sieves:
            self._sieves[key] = Sieve(self._interest, file.node, file.path.name, file.identity.file_id)
        return self._sieves[key]

    def _identify(self, node: str, head: bytes, *, is_settled: bool) -> Identity | None:
        """The identity of the file; None while it is too short to have one."""
        known = [file.identity for (of_node, _), file in self._files.items() if of_node == node]
        identity = Identity.of(head, known)
        if len(head) >= ID_BYTES or identity in known:
            return identity
        whole_lines = head[: head.rfind(b"\n") + 1]
        return Identity.of(whole_lines, known) if is_settled and whole_lines else None

    def _pieces(
        self, file: _FollowedLog, reader: EventReader, last: LastEvent, now_ms: int, is_quiet: bool
    ) -> Iterator[tuple[SourceReading, list[LogText]]]:
        name, file_id = file.path.name, file.identity.file_id
        start, size = file.position, 0
        lines: list[LogText] = []

        def piece() -> tuple[SourceReading, list[LogText]]:
            file.position = reader.position
            file.changed_at_ms = now_ms
            reading = SourceReading(source=f"log:{file.node}/{name}#{file_id}", kind="log")
            reading.from_position, reading.to_position, reading.item_count = start, reader.position, len(lines)
            reading.let_go_count = 0 if sieve is None else sieve.take_let_go()
            return reading, lines

        sieve = self._sieve(file)
        is_packed = file.path.suffix == ".gz"
        found = reader.events(last) if sieve is None else sieve.events(reader, last, is_plain=not is_packed)
        for byte, text in found:
            lines.append(LogText(node=file.node, file_name=name, file_id=file_id, byte=byte, text=text))
            size += len(text)
            if len(lines) >= PIECE_EVENTS or size >= PIECE_BYTES:
                yield piece()
                start, size, lines = file.position, 0, []
        is_reported = reader.is_unknown_layout and file.is_refused
        problems = [] if is_reported or not is_quiet else list(reader.problems)
        file.is_refused = bool(reader.is_unknown_layout and problems) or (file.is_refused and not lines)
        if lines or problems or reader.position > start:
            reading, lines = piece()
            for problem in problems:
                sentence = f"{file.node}/{name}: {problem.sentence}."
                reading.problems.add(Problem(code=problem.code, sentence=sentence, position=problem.position))
            yield reading, lines


def _siblings(path: Path) -> list[Path]:
    """Files beside it whose names begin alike: where rotation puts what it moves away, packed or not."""
    stem = path.name.split(".")[0]
    try:
        names = sorted(name for name in os.listdir(path.parent) if name.startswith(stem))
    except OSError:
        return []
    return [path.parent / name for name in names]


def _gone(file: _FollowedLog) -> SourceReading:
    name = file.path.name
    reading = SourceReading(source=f"log:{file.node}/{name}#{file.identity.file_id}", kind="log")
    sentence = (
        f"{file.node}/{name} was read up to byte {file.position} and is gone (rotated away, truncated or deleted); "
        f"what was written after that is not seen."
    )
    reading.problems.add(Problem(code="rotated", sentence=sentence, position=file.position))
    return reading
