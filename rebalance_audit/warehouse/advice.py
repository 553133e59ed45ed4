"""Advice of findings and incidents, with what the replays in gold.whatif say of it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from rebalance_audit.domain.detect.client_advice import WEIGHS
from rebalance_audit.domain.explain.replayed import SettingsVerdict, verdict, weighed
from rebalance_audit.domain.replay.candidates import ADVISED_WITHOUT_ASKING

_REPLAYS = """
SELECT cluster_id, group_id, settings, saved_seconds, saved_lower_seconds, saved_upper_seconds FROM gold.whatif
WHERE list_contains(?::VARCHAR[], group_id) AND list_has_any(settings, ?::VARCHAR[])
ORDER BY cluster_id, group_id, place
"""


class Ask(Protocol):
    def __call__(self, sql: str, params: Sequence[Any], /) -> Iterable[dict[str, Any]]: ...


def weigh(rows: Iterable[dict[str, Any]], ask: Ask) -> None:
    """Change the advice of these rows of gold.finding or gold.incident where it is about a setting that was replayed
    for their one group. `ask` reads the published tables."""
    groups_of = [(row, _groups(row)) for row in rows if WEIGHS in (row.get("advice") or "")]
    concerned = [(row, groups[0]) for row, groups in groups_of if len(groups) == 1]
    if not concerned:
        return
    said: dict[tuple[str, str], list[SettingsVerdict]] = defaultdict(list)
    for r in ask(_REPLAYS, [sorted({group for _, group in concerned}), sorted(ADVISED_WITHOUT_ASKING)]):
        found = verdict(r["settings"], r["saved_seconds"], r["saved_lower_seconds"], r["saved_upper_seconds"])
        if found is not None:
            said[r["cluster_id"], r["group_id"]].append(found)
    for row, group in concerned:
        row["advice"] = weighed(row["advice"], said.get((row["cluster_id"], group), ()))


def _groups(row: Mapping[str, Any]) -> Sequence[str]:
    if "group_ids" in row:
        return row["group_ids"] or ()
    return [row["subject"]] if row["subject_type"] == "group" else []
