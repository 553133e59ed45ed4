"""The place outside the warehouse that keeps every head."""

from __future__ import annotations

import os

from rebalance_audit.warehouse.signing import Head, head_of
from rebalance_audit.warehouse.storage import WarehouseError, files_at


class SecondPlace:
    """A second place that heads are written to, so that a warehouse that is set back as a whole is noticed."""

    def __init__(self, location: str) -> None:
        self._files = files_at(location)
        self.location = location

    def add(self, head: Head) -> None:
        """Raises WarehouseError."""
        try:
            if not self._files.is_local:
                self._files.write(f"heads/{head.size:020d}.json", head.line)
                return
            os.makedirs(self._files.root, exist_ok=True)
            with open(self._files.path("heads.jsonl"), "ab") as file:
                file.write(head.line)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise WarehouseError(
                f"The signed head cannot be written to {self.location} ({error.strerror or error}); the log in the "
                "warehouse has it. Check the place and your rights."
            ) from None

    def newest(self) -> Head | None:
        """The last that was written here; None if there is none yet."""
        if not self._files.is_local:
            names = self._files.names("heads")
            text = self._files.read(f"heads/{names[-1]}") if names else None
            return None if text is None else head_of(text, self.location)
        try:
            with open(self._files.path("heads.jsonl"), "rb") as file:
                file.seek(max(0, os.fstat(file.fileno()).st_size - 64 * 1024))
                lines = file.read().splitlines()
        except FileNotFoundError:
            return None
        return head_of(lines[-1], f"{self.location}/heads.jsonl") if lines else None

    def all(self) -> list[Head]:
        """All heads in the order in which they were written. Raises WarehouseError if there is none, or one is
        damaged."""
        if self._files.is_local:
            lines = (self._files.read("heads.jsonl") or b"").splitlines()
        else:
            lines = [self._files.read(f"heads/{name}") or b"" for name in self._files.names("heads")]
        if not lines:
            raise WarehouseError(
                f"{self.location} has no signed head: they are lost, or this is not their second place."
            )
        return [head_of(line, f"{self.location}, head {at}") for at, line in enumerate(lines, 1)]
