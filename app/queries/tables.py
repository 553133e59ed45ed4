"""The tables as rows, remembered per publication: a new one (see `Warehouse.publish`) forgets all answers, and so does
a row that is just in."""

from __future__ import annotations

import itertools
import logging
import os
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import fields
from typing import Any, Self, TypeVar

import duckdb
import pandas as pd
import pyarrow as pa
from deltalake.exceptions import DeltaError

from app.answers.rows import FindingRow, Span
from rebalance_audit.domain import numbers
from rebalance_audit.domain.teams import Sight
from rebalance_audit.warehouse.catalog import BOOKING_OF, EVERYWHERE, Catalog, Near
from rebalance_audit.warehouse.damage import damages
from rebalance_audit.warehouse.just_in import NOTHING, JustInRows
from rebalance_audit.warehouse.storage import TableGoneError, store_fault
from rebalance_audit.warehouse.warehouse import Warehouse, WarehouseError

T = TypeVar("T")
_log = logging.getLogger(__name__)
_KEPT_ANSWERS = 512
_KEPT_BUILT = 16

AT = numbers.HAPPENED_AT
COUNTED = numbers.IS_COUNTED
HANDS_OUT_TASKS = numbers.HANDS_OUT_TASKS

_OURS = (duckdb.ProgrammingError, duckdb.DataError, duckdb.InternalError, duckdb.NotSupportedError)
"""Over tables that are whole, these say that the question is wrong, and not what it was asked of."""

_asked: ContextVar[set[str] | None] = ContextVar("asked", default=None)


@contextmanager
def asked_tables() -> Iterator[set[str]]:
    """Collects the tables that this thread's answers rest on, new ones and remembered ones."""
    around, found = _asked.get(), set[str]()
    token = _asked.set(found)
    try:
        yield found
    finally:
        _asked.reset(token)
        if around is not None:
            around |= found


def booked_in(span: Span) -> str:
    """Joins to the rebalances `r` of a span what they are booked on, as `numbers.booked`: an incident lasts from before
    its first to after its last."""
    return (
        f"LEFT JOIN (SELECT booking, cause FROM flat.booking WHERE first_at_ms <= {span.to_ms:d} "
        f"AND last_at_ms >= {span.from_ms:d}) b ON b.booking = {BOOKING_OF.format('r')}"
    )


class Tables:
    """One warehouse, asked in SQL. Safe to share between threads."""

    def __init__(self, warehouse: Warehouse, sight: Sight | None = None, *, may_answer: bool = True) -> None:
        """`sight`: the groups whose rows are seen, whatever is asked; all without one."""
        self._warehouse, self.sight, self.may_answer = warehouse, sight, may_answer
        self._catalog = Catalog(warehouse, sight)
        self._lock = threading.Lock()
        self._answers: dict[tuple[Any, ...], pa.Table] = {}
        self._built: dict[tuple[Any, ...], Any] = {}
        self._publication: tuple[tuple[Any, ...], int] | None = None
        """What answers are kept of: a publication, and what is just in beside it."""
        self._looks = itertools.count()
        self.just_in = NOTHING
        """What lies over the tables of the publication."""
        self._damaged: dict[str, str] = {}

    @classmethod
    def open(cls, location: str | os.PathLike[str]) -> Self:
        """Raises WarehouseError: missing, no warehouse, or written by a newer version."""
        return cls(Warehouse.open(location))

    @property
    def location(self) -> str:
        return self._warehouse.location

    def newest(self) -> tuple[Any, ...]:
        """What is there now; another value says that there is something new to see."""
        return self._published()

    def _published(self) -> tuple[Any, ...]:
        return tuple(sorted(self._warehouse.published().items()))

    def refresh(self, now_ms: int | None = None) -> None:
        """See the newest publication from here on, and what is just in at this moment; without one, nothing is."""
        just_in = NOTHING if now_ms is None else self._just_in_at(now_ms)
        newest = self._published()  # after the note, from which rows go once they are published
        with self._lock:
            seen = None if self._publication is None else self._publication[0]
            if just_in != self.just_in:
                self._catalog.lay_over(just_in)
                self.just_in = just_in
            elif newest == seen:
                return
            self._answers.clear()
            self._built.clear()
            if newest != seen:
                self._damaged = {}
            self._publication = (newest, next(self._looks))

    def _just_in_at(self, now_ms: int) -> JustInRows:
        return NOTHING

    def table(self, sql: str, params: Sequence[Any] = (), near: Near = EVERYWHERE) -> pa.Table:
        """`near`: see `Catalog.query`."""
        if (asked := _asked.get()) is not None:
            asked |= self._catalog.asked_of(sql)
        key = (sql, near[0], *(tuple(p) if isinstance(p, list) else p for p in (*params, *near[1])))
        return self._remembered(self._answers, _KEPT_ANSWERS, key, lambda: self._ask(sql, params, near))

    def built(self, key: tuple[Any, ...], build: Callable[[], T]) -> T:
        """A value worked out from answers, for those that take longer to work out than to query. Kept as answers
        are."""

        def noted() -> tuple[T, frozenset[str]]:
            with asked_tables() as of:
                made = build()
            return made, frozenset(of)

        made, of = self._remembered(self._built, _KEPT_BUILT, key, noted)
        if (asked := _asked.get()) is not None:
            asked |= of
        return made

    def _remembered(self, kept: dict[tuple[Any, ...], T], most: int, key: tuple[Any, ...], make: Callable[[], T]) -> T:
        """Made outside the lock; kept only if nothing was published meanwhile."""
        with self._lock:
            made_of, known = self._publication, kept.get(key)
        if known is not None:
            return known
        made = make()
        with self._lock:
            if made_of is not None and made_of == self._publication:
                while len(kept) >= most:
                    kept.pop(next(iter(kept)))
                kept[key] = made
        return made

    def damaged(self, among: Collection[str] | None = None) -> dict[str, str]:
        """What could not be read of this publication, and what to do, a sentence by table, as far as anybody asked;
        only of these tables, if they are given."""
        with self._lock:
            return {name: why for name, why in self._damaged.items() if among is None or name in among}

    def unread(self, *names: str) -> str | None:
        """The first of these tables that could not be read, as far as anybody asked: what rests on it is not known."""
        with self._lock:
            return next((name for name in names if name in self._damaged), None)

    def found_damage(self) -> bool:
        """Checks every table after a page failed, and returns whether one is damaged that was not known to be. From
        then on that table counts as empty."""
        found = damages(self._warehouse)
        with self._lock:
            new = found.keys() - self._damaged.keys()
            self._damaged |= found
            if new:
                self._answers.clear()
                self._built.clear()
        return bool(new)

    def _ask(self, sql: str, params: Sequence[Any], near: Near) -> pa.Table:
        """A table that cannot be read counts as empty, and `damaged` says so: the rest of the page is worth showing.
        A query that is wrong itself raises DuckDB's error."""
        with self._lock:
            without = set(self._damaged)
        try:
            return self._catalog.query(sql, params, without, near)
        except (duckdb.Error, DeltaError, pa.ArrowException, OSError, TableGoneError) as error:
            if (sentence := store_fault(error)) is not None:
                raise WarehouseError(sentence) from error
            found = damages(self._warehouse, self._catalog.asked_of(sql) - without)
            if not found and isinstance(error, _OURS):
                raise
            if not found:
                _log.exception("a query failed over tables that seem whole")
                raise WarehouseError(
                    f"Tables of the warehouse at {self.location} cannot be read ({type(error).__name__}); "
                    f"`rebalance-audit doctor -w {self.location}` looks at each, and the server's log has the details."
                ) from error
            with self._lock:
                self._damaged |= found
            return self._ask(sql, params, near)

    def rows(self, sql: str, params: Sequence[Any] = (), near: Near = EVERYWHERE) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.table(sql, params, near).to_pylist()
        return found

    def frame(self, sql: str, params: Sequence[Any] = (), near: Near = EVERYWHERE) -> pd.DataFrame:
        return self.table(sql, params, near).to_pandas()


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def finding_of(row: dict[str, Any]) -> FindingRow:
    return made(FindingRow, row)


def made(kind: type[T], row: Mapping[str, Any]) -> T:
    """A row as a dataclass; columns it does not have are left out, null lists become empty where it asks for one."""
    known = {f.name: f for f in fields(kind)}  # type: ignore[arg-type]
    made = {k: _frozen(v) for k, v in row.items() if k in known}
    for k, v in made.items():
        if v is None and known[k].default == ():
            made[k] = ()
    return kind(**made)
