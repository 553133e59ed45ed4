"""What footers of files say of their row groups, as far as a run asked, as two notes of the warehouse.

A table has a file for some hundred rows. To find those that may hold some groups, a process that begins would open
each of them, a millisecond or two for a file of 155 columns. A file never changes, and its name is never given again.
One note has what is known of all files. It is written now and then; what it lacks is in the other one, which is written
at every run. They have the least and the greatest group of files; so `erase` removes them. Which groups are in a row
group (`known_values`) is in them as well.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

NOTE: Final = "footers"
NEWS: Final = "footers-news"
NOTES: Final = (NOTE, NEWS)
_FORM = 1
BEHIND = 256
"""So many files of the tables may lack in the note of all: it has some 400 bytes for each file there is, so it is not
written at every run."""
_MOST_FILES = 1 << 15

Facts = dict[str, Any]
"""By what was asked: what JSON can hold."""


class _FooterFacts:
    """Facts of files; those of files that were asked about first go first."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_file: OrderedDict[str, Facts] = OrderedDict()
        self._fresh: dict[str, bool] = {}
        """Files of which the note of all files lacks something, and whether the note of news does so, too."""

    def of(self, file: str) -> Facts:
        return self._by_file.get(file, {})

    def add(self, file: str, asked: str, fact: Any) -> None:
        with self._lock:
            self._by_file.setdefault(file, {})[asked] = fact
            self._fresh[file] = True
            while len(self._by_file) > _MOST_FILES:
                gone, _ = self._by_file.popitem(last=False)
                self._fresh.pop(gone, None)

    def rename(self, file: str, other: str) -> None:
        with self._lock:
            if (facts := self._by_file.pop(file, None)) is not None:
                self._by_file[other] = facts
                self._fresh.pop(file, None)
                self._fresh[other] = True

    def let_go(self, file: str) -> None:
        with self._lock:
            self._by_file.pop(file, None)
            self._fresh.pop(file, None)

    def add_noted(self, facts: Mapping[str, Facts], *, as_news: bool) -> None:
        with self._lock:
            for file, of_file in facts.items():
                self._by_file[file] = of_file | self._by_file.get(file, {})
                if as_news:
                    self._fresh.setdefault(file, False)

    def fresh(self, stored_among: Callable[[Sequence[str]], Iterable[str]]) -> Mapping[str, bool]:
        """Files of which the note of all lacks something. Files that are not stored any more are forgotten."""
        with self._lock:
            self._fresh = {file: self._fresh[file] for file in stored_among(list(self._fresh))}
            return dict(self._fresh)

    def are_noted(self, *, as_news: bool) -> None:
        with self._lock:
            self._fresh = dict.fromkeys(self._fresh, False) if as_news else {}


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


def fact(file: str, asked: str) -> Any:
    """What was added, or noted; None if it is not known."""
    return _known.of(file).get(asked)


def add(file: str, asked: str, what: Any) -> None:
    _known.add(file, asked, what)


def rename(file: str, other: str) -> None:
    """The file has another name now."""
    _known.rename(file, other)


def let_go(file: str) -> None:
    """Nobody is expected to ask for the file again."""
    _known.let_go(file)


def _is_json(fact: Any) -> bool:
    return all(map(_is_json, fact)) if isinstance(fact, tuple | list) else fact is None or isinstance(fact, str | int)


def take_in(location: str, note: Mapping[str, Any], *, as_news: bool) -> None:
    """Facts that were noted of files below `location`."""
    if note.get("form") == _FORM:
        facts = {f"{location}/{name}": of_file for name, of_file in note.get("files", {}).items()}
        _known.add_noted(facts, as_news=as_news)


def to_note(
    location: str, files: Callable[[], Iterable[str]], stored_among: Callable[[Sequence[str]], Iterable[str]]
) -> tuple[str, dict[str, Any]] | None:
    """A note to be written, with its name; None if those that are there are good enough. `files`: all that the tables
    have; `stored_among`: those of some that they have."""
    fresh = _known.fresh(stored_among)
    is_news = len(fresh) <= BEHIND
    if is_news and not any(fresh.values()):
        return None
    _known.are_noted(as_news=is_news)
    listed = fresh if is_news else files()
    found = {file.removeprefix(f"{location}/"): facts for file in listed if (facts := _known.of(file))}
    return NEWS if is_news else NOTE, {"form": _FORM, "files": found}
