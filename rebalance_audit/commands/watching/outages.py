"""Trouble that ends by itself: a store that is away, a full disk, another writer."""

from __future__ import annotations

import re
import threading

from rebalance_audit.commands.output import note

RETRY_S = 10.0
"""Between two tries."""


class Outages:
    """Reports what holds up the threads: once for all of them, and not again while it lasts."""

    def __init__(self) -> None:
        self._by_thread: dict[str, str] = {}
        self._lock = threading.Lock()

    def say(self, thread: str, sentence: str, *, quiet: bool) -> None:
        sentence = re.sub(r"\b\d+ms\b", "a while", sentence)  # otherwise the text differs each time
        with self._lock:
            is_known = sentence in self._by_thread.values()
            self._by_thread[thread] = sentence
        if not is_known:
            note(sentence, quiet=quiet)

    def end(self, thread: str) -> None:
        with self._lock:
            self._by_thread.pop(thread, None)


def passing_sentence(error: Exception) -> str | None:
    """One sentence if somebody else writes, the store is away or the disk is full. Each of these passes."""
    from rebalance_audit.warehouse.storage import passing_fault
    from rebalance_audit.warehouse.warehouse import WarehouseError

    return str(error) if isinstance(error, WarehouseError) else passing_fault(error)
