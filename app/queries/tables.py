"""The tables as rows. Answers are kept until a table that they rest on changes: by a publication (see
`Warehouse.publish`), or by what is just in."""

from __future__ import annotations

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
from app.queries.kept import Answer, KeptAnswers
from rebalance_audit.domain import numbers
from rebalance_audit.domain.teams import Sight
from rebalance_audit.warehouse.advice import advise
from rebalance_audit.warehouse.catalog import BOOKING_OF, EVERYWHERE, Catalog, Near
from rebalance_audit.warehouse.damage import damages
from rebalance_audit.warehouse.just_in import NOTHING, JustInRows, changed
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
        self._answers, self._built = KeptAnswers(_KEPT_ANSWERS), KeptAnswers(_KEPT_BUILT)
        self._publication: dict[str, int] | None = None
        """The version of each table at the last look; None before it, and nothing is kept until then."""
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
        newest = self._warehouse.published()  # after the note, from which rows go once they are published
        with self._lock:
            seen = self._publication
            if just_in == self.just_in and newest == seen:
                return
            news = changed(self.just_in, just_in)
            if just_in != self.just_in:
                self._catalog.lay_over(just_in)
                self.just_in = just_in
            # What rests on a table that could not be read is asked again, whatever was published.
            is_new, was_whole = newest != seen, not self._damaged
            kept = {t for t, version in newest.items() if seen is not None and seen.get(t) == version} - news
            self._forget(kept if was_whole or not is_new else ())
            if is_new:
                self._damaged = {}
            self._publication = newest

    def _forget(self, unchanged: Collection[str] = ()) -> None:
        self._answers.forget(unchanged)
        self._built.forget(unchanged)

    def _just_in_at(self, now_ms: int) -> JustInRows:
        return NOTHING

    def table(self, sql: str, params: Sequence[Any] = (), near: Near = EVERYWHERE) -> pa.Table:
        """`near`: see `Catalog.query`."""
        of = frozenset(self._catalog.asked_of(sql))
        if (asked := _asked.get()) is not None:
            asked |= of
        key = (sql, near[0], *(tuple(p) if isinstance(p, list) else p for p in (*params, *near[1])))

        def made() -> Answer:
            return Answer(self._ask(sql, params, near), of)

        found: pa.Table = self._remembered(self._answers, key, made)
        return found

    def built(self, key: tuple[Any, ...], build: Callable[[], T]) -> T:
        """A value worked out from answers, for those that take longer to work out than to query. Kept as answers
        are."""

        def made() -> Answer:
            with asked_tables() as of:
                value = build()
            return Answer(value, frozenset(of))

        found: T = self._remembered(self._built, key, made)
        return found

    def _remembered(self, kept: KeptAnswers, key: tuple[Any, ...], make: Callable[[], Answer]) -> Any:
        answer = make() if self._publication is None else kept.get(key, make)
        if (asked := _asked.get()) is not None:
            asked |= answer.of
        return answer.value

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
                self._forget()
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

    def advised(self, sql: str, params: Sequence[Any] = ()) -> list[dict[str, Any]]:
        """Rows of findings or incidents; their advice says what replays of the group and incidents of brokers say."""
        found = self.rows(sql, params)
        advise(found, self.rows)
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
