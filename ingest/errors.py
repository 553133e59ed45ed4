"""Errors an operator must act on, split by what to do; and parts of evidence that could not be read."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass


class IngestError(Exception):
    """One clear sentence: the fault, the place and the remedy."""


class Retryable(IngestError):
    """The same call may succeed later: a broker is away, a file is being replaced."""


def and_more(others: int) -> str:
    """After the first of several things: ` (and 3 more)`; nothing where there are no others."""
    return f" (and {others:,} more)" if others > 0 else ""


@contextlib.contextmanager
def retryable() -> Iterator[None]:
    """A store that is away or a disk that is full may be well again later; what was not landed is read again then."""
    from rebalance_audit.warehouse.storage import passing_fault

    try:
        yield
    except Exception as error:
        sentence = passing_fault(error)
        if sentence is None:
            raise
        raise Retryable(sentence) from error


class Misconfigured(IngestError):
    """Trying again cannot help: settings, names or rights must change. All faults at once."""

    def __init__(self, *faults: str) -> None:
        super().__init__(*faults)
        self.faults = faults

    def __str__(self) -> str:
        return " ".join(self.faults)


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Something that was there and was not read. It becomes a row of bronze.source, never an exception."""

    code: str
    """unreadable, skipped, rotated (away before it was read), lost (deleted before it was read), above_majority."""
    sentence: str
    position: int | None = None
    """Byte in a file's uncompressed content, or offset in a topic-partition."""


class Problems:
    """Problems of one source: the first ones in full, then their number, so that a ruined file does not fill
    bronze.source."""

    def __init__(self, limit: int = 20) -> None:
        self._limit = limit
        self._kept: list[Problem] = []
        self._more = 0

    def add(self, problem: Problem) -> None:
        if len(self._kept) < self._limit:
            self._kept.append(problem)
        else:
            self._more += 1

    def __iter__(self) -> Iterator[Problem]:
        yield from self._kept
        if self._more:
            last = self._kept[-1]
            yield Problem(code=last.code, sentence=f"{self._more} more problems followed.", position=last.position)

    def __len__(self) -> int:
        return len(self._kept) + bool(self._more)
