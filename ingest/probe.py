"""Whether evidence still comes: compares what the sources hold with what was landed.

A source that answers and has nothing new is idle, not stopped. A log that does not grow is taken for idle.
"""

from __future__ import annotations

import glob
import os

from ingest.broker import LiveCluster
from ingest.collect_settings import CollectSettings
from ingest.errors import IngestError, and_more
from ingest.landing import Landing, positions_name

TIMEOUT_S = 5.0


class SourceProbe:
    """Asks the brokers by a connection of its own, so that a collector that hangs is seen as well."""

    def __init__(self, settings: CollectSettings, landing: Landing) -> None:
        self._settings, self._landing = settings, landing
        self._cluster: LiveCluster | None = None
        self._cluster_id = settings.cluster_id
        self._landed: dict[str, int] = {}

    @property
    def cluster_id(self) -> str | None:
        """The cluster id that the brokers gave when they last answered; else that of the settings."""
        return self._cluster_id

    def faults(self) -> dict[str, str | None]:
        """Each source by a name for people, with one sentence about what is wrong; None: nothing is."""
        found: dict[str, str | None] = {}
        address = self._settings.client_config.get("bootstrap.servers")
        if address:
            try:
                found[f"the brokers at {address}"] = self._behind()
            except IngestError as error:
                self._cluster = None
                found[f"the brokers at {address}"] = str(error)
        for node, pattern in self._settings.logs:
            # A plain name means that file and what rotation makes of it.
            readable = any(os.access(file, os.R_OK) for file in glob.iglob(f"{pattern}*"))
            found[f"the logs of {node}"] = None if readable else f"There is no file at {pattern} that may be read."
        return found

    def _behind(self) -> str | None:
        """Records that are there and were landed neither now nor at the call before."""
        if self._cluster is None:
            self._cluster = LiveCluster(self._settings.client_config, timeout_s=TIMEOUT_S)
            self._cluster_id = self._cluster.cluster_id
        landed = self._landing.read_positions(positions_name("live", self._cluster.cluster_id)).get("partitions", {})
        before, self._landed = self._landed, landed
        if not landed:
            return "Nothing of it was landed yet."
        places = {place: (place.rpartition("-")[0], int(place.rpartition("-")[2])) for place in landed}
        ends = self._cluster.end_offsets(places.values())
        stuck = [p for p, at in places.items() if ends.get(at, 0) > landed[p] and before.get(p) == landed[p]]
        if not stuck:
            return None
        holds = "holds" if len(stuck) == 1 else "hold"
        return f"{stuck[0]}{and_more(len(stuck) - 1)} {holds} records that are not landed."
