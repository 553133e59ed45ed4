"""The versions of tables that readers see, all of one publication."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from rebalance_audit.warehouse.delta_tables import DeltaTables
from rebalance_audit.warehouse.storage import WarehouseError


class Publications(DeltaTables):
    """`published.json`: replaced as a whole, by one writer."""

    def is_gone(self, name: str) -> bool:
        """Whether the last publication knew rows of the table and the table is not there: it was removed, and is not
        just empty.

        Version 0 makes a table and holds no row. Old publications name it for a gold.whatif that nobody had made.
        """
        manifest = self.publication()
        known = {**manifest.get("consumed", {}), **manifest.get("versions", {})}
        return int(known.get(name, -1)) > 0 and not self.exists(name)

    def published(self) -> dict[str, int]:
        """The table versions readers see."""
        return {str(k): int(v) for k, v in self.publication().get("versions", {}).items()}

    def publication(self) -> dict[str, Any]:
        """The manifest: `versions` of gold tables, `consumed` versions of silver tables."""
        return self._manifest(self._files.read("published.json"))

    def _manifest(self, text: bytes | None) -> dict[str, Any]:
        try:
            return {} if text is None else dict(json.loads(text))
        except ValueError:
            raise WarehouseError(
                f"{self.location}/published.json is damaged; remove it, and `rebalance-audit run -w {self.location}` "
                "publishes again."
            ) from None

    def publish(self, versions: Mapping[str, int], consumed: Mapping[str, Any] | None = None) -> bool:
        """Let readers see these table versions, all at once. False if they see them already."""
        manifest = {"versions": dict(sorted(versions.items())), "consumed": dict(sorted((consumed or {}).items()))}
        stored = self._files.read_tagged("published.json")
        if stored is not None and self._manifest(stored.content) == manifest:
            return False
        self._confirm_lease()
        text = json.dumps(manifest, indent=1).encode()
        if self._files.write_if("published.json", text, None if stored is None else stored.tag) is None:
            raise WarehouseError(
                f"{self.location} was published to by another process at the same moment; run it again."
            )
        return True
