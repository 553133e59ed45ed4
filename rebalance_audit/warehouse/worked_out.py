"""Which release worked out what the tables say, as a note of the warehouse (decision 0095)."""

from __future__ import annotations

from rebalance_audit import __version__
from rebalance_audit.domain.gather.windows import FOLD_VERSION
from rebalance_audit.warehouse.warehouse import Warehouse

NOTE = "worked_out_by"
_THIS_RELEASE = {"release": __version__, "fold": FOLD_VERSION}


def note_this_release(warehouse: Warehouse) -> None:
    """For the writer that worked out everything, or found nothing worked out yet."""
    warehouse.remember(NOTE, _THIS_RELEASE)


def by_another_release(warehouse: Warehouse) -> str | None:
    """One sentence where rows may say what another release found in the same evidence; None where all are ours."""
    if warehouse.version("silver.measured_rebalance") is None or warehouse.recall(NOTE) == _THIS_RELEASE:
        return None
    return (
        "Some of what the tables say was worked out by another release: "
        f"`rebalance-audit run --again -w {warehouse.location}` works out all of it by this one."
    )
