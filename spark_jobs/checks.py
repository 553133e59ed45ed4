"""The checks of `domain.tables` that the rows of every table must pass, and the record of their verdicts.

Two programs run the same checks: `compiled_checks`, on what a stage is about to commit (of large batches in tasks, see
`alike`); and the suites of Great Expectations in `quality`, in Airflow and on demand. Decisions 0013 and 0057.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rebalance_audit.domain import tables
from rebalance_audit.domain.publish.verdicts import last_verdicts
from rebalance_audit.warehouse.arrow_tables import rows_to_table
from rebalance_audit.warehouse.warehouse import Warehouse

EXAMPLES = 5
KEY_CHECK = "key is unique"
UNIQUE_COLUMN = "_is_unique"

Verdict = Mapping[str, Any]
"""A row of gold.check."""


class QualityError(Exception):
    """A fatal law does not hold. The message names the law, the table and the rows."""


@dataclass(frozen=True, slots=True)
class Check:
    """One expectation about one column of the checked projection."""

    name: str
    column: str
    is_fatal: bool
    values: tuple[Any, ...] | None = None
    """The allowed values; null is allowed as well. None: the check is that the value is not null."""
    is_law: bool = False


def checks_of(table: tables.Table) -> list[Check]:
    required = [Check(f"{c.name} is there", c.name, True) for c in table.columns if c.required]
    closed = [Check(f"{c.name} is a known value", c.name, True, c.values) for c in table.columns if c.values]
    laws = [Check(law.name, law_column(at), law.is_fatal, (True,), is_law=True) for at, law in enumerate(table.laws)]
    return [*required, *closed, Check(KEY_CHECK, UNIQUE_COLUMN, True, (True,)), *laws]


def law_column(at: int) -> str:
    """The projection's column with the truth of the table's law at this place."""
    return f"_law_{at}"


def verdict_of(
    table: str, check: Check, batch_id: str, checked_count: int, failed: int, examples: Sequence[str]
) -> Verdict:
    return {
        "batch_id": batch_id,
        "table_name": table,
        "check_name": check.name,
        "is_fatal": check.is_fatal,
        "success": not failed,
        "checked_count": checked_count,
        "unexpected_count": failed,
        "examples": list(examples),
    }


def example(key: Mapping[str, Any]) -> str:
    return ", ".join(f"{column}={value}" for column, value in key.items())


def refuse_broken(name: str, verdicts: Sequence[Verdict]) -> None:
    """Raise QualityError if a fatal check of this table failed."""
    broken = [v for v in verdicts if v["is_fatal"] and not v["success"]]
    if broken:
        raise QualityError(
            f"{name} breaks its law{'s' if len(broken) > 1 else ''}: "
            + "; ".join(
                f"{v['check_name']!r} for {v['unexpected_count']} of {v['checked_count']} rows, e.g. {v['examples'][0]}"
                for v in broken
            )
            + ". Nothing was published; the verdicts are in gold.check."
        )


class Books:
    """The verdicts of one run. gold.check keeps the latest verdict of each check by stages, and the latest by hand."""

    def __init__(self, warehouse: Warehouse) -> None:
        self._warehouse = warehouse
        self._verdicts: list[Verdict] = []

    def note(self, verdicts: Sequence[Verdict]) -> None:
        self._verdicts += verdicts

    def write(self) -> None:
        """Write all verdicts in one commit for the whole run, since a commit of every second must not cost twenty."""
        if self._verdicts:
            known = self._warehouse.read("gold.check").to_pylist()
            standing = last_verdicts([*known, *self._verdicts])
            self._warehouse.replace("gold.check", rows_to_table("gold.check", standing), None)
            self._verdicts = []
