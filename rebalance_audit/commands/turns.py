"""A verb's turn as the one writer of a warehouse that others write as well."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from rebalance_audit.commands.output import note

if TYPE_CHECKING:
    from rebalance_audit.warehouse.warehouse import Warehouse

PATIENCE_S = 60.0
"""Chosen: `watch` writes for seconds at a time and often; a run over a long history takes longer than anybody waits."""
ASK_AGAIN_S = 0.2


@contextlib.contextmanager
def turn(opened: Warehouse, what: str, *, quiet: bool) -> Iterator[None]:
    """Be the one writer, as soon as another one's turn is over. BeingWrittenError if that takes more than a minute."""
    from rebalance_audit.warehouse.storage import BeingWrittenError

    give_up_at = time.monotonic() + PATIENCE_S
    said = False
    with contextlib.ExitStack() as held:
        while True:
            try:
                held.enter_context(opened.lease(what))
                break
            except BeingWrittenError as error:
                if time.monotonic() > give_up_at:
                    raise
                if not said:
                    note(f"{error} Waiting for up to {PATIENCE_S:.0f} s.", quiet=quiet)
                    said = True
            time.sleep(ASK_AGAIN_S)
        yield
