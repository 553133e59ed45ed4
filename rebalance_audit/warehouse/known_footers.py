"""What footers of files say of their row groups, as far as a run asked, as a note of the warehouse.

A table has a file for some hundred rows. To find those that may hold some groups, a process that begins would open
each of them, a millisecond or two for a file of 155 columns. A file never changes, and its name is never given again.
The note has the least and the greatest group of files; so `erase` removes it.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

NOTE: Final = "footers"
_FORM = 1
BEHIND = 256
"""So many files of the tables may lack in the note: it has some 400 bytes for each file there is, so it is not written
at every run."""
_MOST_FILES = 1 << 15

Facts = dict[str, Any]
"""By what was asked: what JSON can hold."""


class _FooterFacts:
    """Facts of files; those of files that were asked about first go first."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_file: OrderedDict[str, Facts] = OrderedDict()
        self._fresh: set[str] = set()
        """Files of which the note lacks something."""

    def of(self, file: str) -> Facts:
        return self._by_file.get(file, {})

    def add(self, file: str, asked: str, fact: Any) -> None:
        with self._lock:
            self._by_file.setdefault(file, {})[asked] = fact
            self._fresh.add(file)
            while len(self._by_file) > _MOST_FILES:
                gone, _ = self._by_file.popitem(last=False)
                self._fresh.discard(gone)

    def add_noted(self, facts: Mapping[str, Facts]) -> None:
        with self._lock:
            for file, of_file in facts.items():
                self._by_file[file] = of_file | self._by_file.get(file, {})

    def fresh_among(self, files: Callable[[], Iterable[str]]) -> int:
        """How many of these files the note lacks something of. Once there are many such files, those that are not among
        these are forgotten."""
        with self._lock:
            if len(self._fresh) > BEHIND:
                self._fresh.intersection_update(files())
            return len(self._fresh)

    def are_noted(self) -> None:
        with self._lock:
            self._fresh.clear()


_known = _FooterFacts()


def known(file: str, asked: str, make: Callable[[], Any]) -> Any:
    """The fact that `make` finds in the file's footer. Tuples may come as lists."""
    facts = _known.of(file)
    if asked not in facts:
        made = make()
        if not _is_json(made):
            return made
        _known.add(file, asked, made)
        return made
    return facts[asked]


def _is_json(fact: Any) -> bool:
    return all(map(_is_json, fact)) if isinstance(fact, tuple | list) else fact is None or isinstance(fact, str | int)


def take_in(location: str, note: Mapping[str, Any]) -> None:
    """Facts that were noted of files below `location`."""
    if note.get("form") == _FORM:
        _known.add_noted({f"{location}/{name}": facts for name, facts in note.get("files", {}).items()})


def to_note(location: str, files: Callable[[], list[str]]) -> dict[str, Any] | None:
    """A new note of these files, which are all that the tables have; None if the old one is good enough."""
    if _known.fresh_among(files) <= BEHIND:
        return None
    _known.are_noted()
    found = {file.removeprefix(f"{location}/"): facts for file in files() if (facts := _known.of(file))}
    return {"form": _FORM, "files": found}
