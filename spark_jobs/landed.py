"""Which landing files bronze has taken in. Decision 0055.

Every commit of bronze notes it as application transactions, together with the rows. A collector's files are numbered in
the order in which they were landed, so one transaction for the collector covers all of them up to a number. A file has
a transaction of its own if its name has no number, or if an earlier file of its collector waits.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Iterator
from functools import cached_property

from rebalance_audit.warehouse.warehouse import Warehouse
from spark_jobs.quarantine import batch_of, held

_NUMBERED = re.compile(r"(?P<reader>.+-\d{8}T\d{6}-[0-9a-f]{8})-(?P<number>\d{5,})")
"""`ingest.landing.new_read_id`, and a count of flushes. Tasks of `stream` land side by side, under other names."""
KEPT_HOURS = 0.25
"""For so long a landing file stays after it was taken in: with its power a machine may lose the newest commits."""
MANY_FILES = 500
"""From here on those that are older go, since each run lists all that there are."""


class LandedFiles:
    """The landing files of one noun (`record`, `log_line`, `source`) as a run finds them."""

    def __init__(self, warehouse: Warehouse, noun: str) -> None:
        self._warehouse, self._noun = warehouse, noun
        # A listing may miss a file that is written meanwhile and yet have the next one. It has every file that is older
        # than a file of an earlier listing.
        self._listed_before = warehouse.landed(noun)
        self.files = warehouse.landed(noun)
        self._up_to: dict[str, int | None] = {}

    @cached_property
    def new(self) -> list[str]:
        """Files to be taken in, sorted by name."""
        new = [file for file in self.files if not self.is_taken(file)]
        return [file for file in new if batch_of(file) not in self._waiting] if new else []

    @property
    def taken(self) -> list[str]:
        return [file for file in self.files if self.is_taken(file)]

    def is_taken(self, file: str) -> bool:
        for reader, number in _numbered([batch_of(file)]):
            if reader not in self._up_to:
                self._up_to[reader] = self._version(self._of(reader))
            up_to = self._up_to[reader]
            if up_to is not None and number <= up_to:
                return True
        return self._version(self._alone(file)) is not None

    def transaction(self, files: Collection[str], later: Iterable[str] = ()) -> dict[str, int]:
        """The application transactions of a commit that takes in these new files. `later`: new files of a commit that
        follows."""
        last: dict[str, int] = {}
        for reader, number in _numbered(map(batch_of, self._listed_before)):
            last[reader] = max(number, last.get(reader, -1))
        for reader, number in _numbered((*map(batch_of, later), *self._waiting)):
            last[reader] = min(number - 1, last.get(reader, -1))
        noted: dict[str, int] = {}
        for file in files:
            numbered = next(_numbered([batch_of(file)]), None)
            if numbered is not None and numbered[1] <= last.get(numbered[0], -1):
                reader = self._of(numbered[0])
                noted[reader] = max(numbered[1], noted.get(reader, -1))
            else:
                noted[self._alone(file)] = 1
        return noted

    def delete_old(self) -> None:
        """Delete files that were taken in a while ago, once there are many."""
        if len(self.files) > MANY_FILES:
            self._warehouse.forget_landed(self._noun, self.taken, KEPT_HOURS)

    @cached_property
    def _waiting(self) -> set[str]:
        """Batches that are not taken in now. The ledger's entry waits for every file of its landing."""
        table = f"bronze.{self._noun}"
        is_source = self._noun == "source"
        return {row["batch"] for row in held(self._warehouse) if is_source or row["table_name"] == table}

    def _version(self, application: str) -> int | None:
        return self._warehouse.transaction_versions(f"bronze.{self._noun}", [application])[application]

    def _of(self, reader: str) -> str:
        return f"landing:{self._noun}/{reader}"

    def _alone(self, file: str) -> str:
        return f"landing:{self._noun}/{os.path.basename(file)}"


def _numbered(batches: Iterable[str]) -> Iterator[tuple[str, int]]:
    """Reader and number of those that have one."""
    for batch in batches:
        if (match := _NUMBERED.fullmatch(batch)) is not None:
            yield match["reader"], int(match["number"])
