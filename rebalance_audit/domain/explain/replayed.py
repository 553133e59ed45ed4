"""What a replay of the group says of a setting that is advised: it may remove rebalances and cost more all the same."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import overload

from rebalance_audit.domain.detect.client_advice import WEIGH_STATIC, WEIGH_STICKY, WEIGHS
from rebalance_audit.domain.detect.wording import listed
from rebalance_audit.domain.model import Rebalance
from rebalance_audit.domain.replay.candidates import ADVISED_WITHOUT_ASKING, candidates
from rebalance_audit.domain.replay.fleet import LATEST_REBALANCES
from rebalance_audit.domain.replay.requests import RequestError
from rebalance_audit.domain.replay.situation import TooLittle, situation_of
from rebalance_audit.domain.replay.whatif import fit_of, option_of

ADVISED: Mapping[str, tuple[str, ...]] = {
    WEIGH_STATIC: ("group.instance.id=auto",),
    WEIGH_STICKY: (
        "partition.assignment.strategy=cooperative-sticky",
        "group.protocol=consumer",
        "connect.protocol=sessioned",
    ),
}
"""The settings that advice with these words is about; each may be tried together with others."""


@dataclass(frozen=True, slots=True)
class SettingsVerdict:
    """What these settings would have saved the group, in partition-seconds or task-seconds."""

    settings: tuple[str, ...]
    saved: float
    lower: float
    upper: float

    @property
    def is_harm(self) -> bool:
        return self.upper < 0

    @property
    def text(self) -> str:
        unit = "task" if self.settings[0].startswith("connect.") else "partition"
        with_ = f"replayed with {listed(self.settings, most=len(self.settings))}, this group would have stood still for"
        if self.is_harm:
            return f"{with_} {-self.saved:,.1f} {unit}-seconds (likely {-self.upper:,.1f} to {-self.lower:,.1f}) more"
        if self.lower > 0:
            return f"{with_} {self.saved:,.1f} {unit}-seconds (likely {self.lower:,.1f} to {self.upper:,.1f}) less"
        return f"{with_} {max(0.0, -self.lower):,.1f} {unit}-seconds more to {self.upper:,.1f} {unit}-seconds less"


def verdict(
    settings: Sequence[str], saved: float | None, lower: float | None, upper: float | None
) -> SettingsVerdict | None:
    """None where the replay says nothing, or the settings are not advised."""
    if saved is None or lower is None or upper is None or not ADVISED_WITHOUT_ASKING & set(settings):
        return None
    return SettingsVerdict(tuple(settings), saved, lower, upper)


def replay_advised(rows: Sequence[Rebalance], until_ms: int | None) -> tuple[SettingsVerdict, ...]:
    """The latest rebalances of one group replayed with what is advised; none where nothing is predicted. `rows`:
    measured, in the order they happened."""
    earlier, latest = rows[:-LATEST_REBALANCES], rows[-LATEST_REBALANCES:]
    until_ms = until_ms if until_ms is not None else max((r.ended_at_ms or 0 for r in rows), default=0)
    try:
        situation = situation_of(latest, until_ms, earlier[-1] if earlier else None)
        asked = [pairs for pairs in candidates(situation) if ADVISED_WITHOUT_ASKING & set(pairs)]
        if not asked or fit_of(situation).refused is not None:
            return ()
        options = [option_of(situation, pairs) for pairs in asked]
    except (TooLittle, RequestError):
        return ()
    found = (verdict(o.pairs, o.saved_seconds, o.saved_lower_seconds, o.saved_upper_seconds) for o in options)
    return tuple(v for v in found if v is not None)


def verdict_on(advice: str, verdicts: Iterable[SettingsVerdict]) -> SettingsVerdict | None:
    """What replays say of the setting that this advice is about: of several sets of settings the one that saves most;
    None where nothing is said."""
    about = {setting for words, settings in ADVISED.items() if words in advice for setting in settings}
    return max((v for v in verdicts if about & set(v.settings)), key=lambda v: v.saved, default=None)


@overload
def weighed(advice: str, verdicts: Iterable[SettingsVerdict]) -> str: ...
@overload
def weighed(advice: None, verdicts: Iterable[SettingsVerdict]) -> None: ...
def weighed(advice: str | None, verdicts: Iterable[SettingsVerdict]) -> str | None:
    """The advice with what the replay says in place of the words that it can be asked; None stays None."""
    found = None if advice is None else verdict_on(advice, verdicts)
    return advice if advice is None or found is None else advice.replace(WEIGHS, found.text, 1)
