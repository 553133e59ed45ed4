"""What the judge shows to readers: which groups have news that is not published yet, and when the note of the present
is written."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from rebalance_audit.domain.incidents import Incident
from rebalance_audit.domain.model import Rebalance
from rebalance_audit.live.memory import ClusterMemory
from rebalance_audit.live.present import Present, present
from rebalance_audit.live.unpublished import LATE_MS, Unpublished
from spark_jobs.flat_rows import TeamOfGroup

SHOW_S = (0.5, 3.0)
"""How often the note is written while it changes, and while something goes on and it does not."""
COMMITTED_AFTER_S = (1.0, 2.0, 4.0)
"""After news of a group it is folded again so much later, if it committed meanwhile: commits bound its pauses."""


class Showing:
    """Of one cluster, in one thread."""

    def __init__(
        self,
        memory: ClusterMemory,
        show: Callable[[Present], None],
        team: TeamOfGroup,
        clock: Callable[[], float],
        epoch_ms: Callable[[], int],
    ) -> None:
        self.memory, self._show, self._clock, self._epoch_ms = memory, show, clock, epoch_ms
        self._unpublished = Unpublished(memory.cluster_id, team)
        self._news: dict[str, list[tuple[float, int]]] = {}
        """By group, each moment at which news came, and the instant where that news begins; kept until the tables hold
        the news and the commits after it."""
        self._again_at: dict[str, list[float]] = {}
        """By group, when it is folded again if it committed."""
        self._shown_at = float("-inf")
        self._is_shown = self._is_outdated = False
        """Whether the note says anything, and whether there is something else to say by now."""

    def news(self, group_id: str, seen_until_ms: int, at: float) -> None:
        """Note news of a group. `seen_until_ms`: how far its evidence reached before."""
        self._news.setdefault(group_id, []).append((at, seen_until_ms - LATE_MS))
        self._again_at[group_id] = [at + after_s for after_s in COMMITTED_AFTER_S]

    def committed(self) -> dict[str, float]:
        """By group, when to fold it again; only groups that committed."""
        return {group_id: self._again_at[group_id][0] for group_id in self.memory.committed & self._again_at.keys()}

    def folded(self, group_id: str, before: Sequence[Rebalance], at: float) -> None:
        """`before`: its rebalances until it was folded at this moment of the clock."""
        group, news = self.memory.groups[group_id], self._news.get(group_id)
        if news is not None and group.rebalances != before:
            from_ms, seen_until_ms = news[0][1], self.memory.seen_until_ms
            self._unpublished.put_group(group_id, group, from_ms=from_ms, seen_until_ms=seen_until_ms, at=at)
        if group_id in self._again_at:
            self._again_at[group_id] = [due for due in self._again_at[group_id] if due > at]
            if not self._again_at[group_id]:
                del self._again_at[group_id]

    def judged(self, before: Mapping[str, Incident], now: Collection[Incident], at: float) -> None:
        """The incidents of the groups that were folded, before and after."""
        self._unpublished.put_incidents(before, now, at)
        self._is_outdated = True

    def published(self, until: float) -> None:
        """Say that the tables hold what was landed before this moment of the clock, except commits that no group waits
        for."""
        self._unpublished.published(until)
        for group_id, news in list(self._news.items()):
            if news[-1][0] < until and group_id not in self._again_at:
                self.forget(group_id)
            else:  # of a group that has news all the time, what came since, and what commits may still change
                since = until - COMMITTED_AFTER_S[-1]
                self._news[group_id] = [moment for moment in news if moment[0] >= since] or news[-1:]
        self._is_outdated = True

    def forget(self, group_id: str) -> None:
        self._news.pop(group_id, None)
        self._again_at.pop(group_id, None)

    def erase(self, group_id: str) -> None:
        """Nothing of this group is shown any more, from now on."""
        self.forget(group_id)
        self._unpublished.erase(group_id)
        self._is_outdated = True
        self._shown_at = float("-inf")

    def due(self) -> float | None:
        """When to write the note."""
        if not (self._is_outdated or self._is_shown):
            return None
        return self._shown_at + SHOW_S[0 if self._is_outdated else 1]

    def show(self) -> None:
        due, now = self.due(), self._clock()
        if due is None or now < due:
            return
        self._shown_at, self._is_outdated = now, False
        running, rows = self.memory.going_on(), self._unpublished.rows()
        if running or rows or self._is_shown:
            self._is_shown = bool(running or rows)
            self._show(present(self.memory.cluster_id, running, rows, self._epoch_ms()))
