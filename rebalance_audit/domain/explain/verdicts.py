"""What replays say of settings that are advised, in words: where they are stored nothing is replayed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from shlex import quote
from typing import overload

from rebalance_audit.domain.detect.client_advice import WEIGH_DEPLOY, WEIGH_STATIC, WEIGH_STICKY, WEIGHS
from rebalance_audit.domain.detect.wording import listed
from rebalance_audit.domain.replay.meanings import leans, range_in_doubt
from rebalance_audit.domain.replay.settings import ADVISED_WITHOUT_ASKING

ADVISED: Mapping[str, tuple[str, ...]] = {
    WEIGH_STATIC: ("group.instance.id=auto",),
    WEIGH_STICKY: (
        "partition.assignment.strategy=cooperative-sticky",
        "group.protocol=consumer",
        "connect.protocol=sessioned",
    ),
    WEIGH_DEPLOY: (
        "group.instance.id=auto",
        "partition.assignment.strategy=cooperative-sticky",
        "group.protocol=consumer",
    ),
}
"""The settings that advice with these words is about; each may be tried together with others."""
LONGEST_IN_COMMAND = 80
"""A longer group id is not written out in a command; a choice."""


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
        in_doubt = f"likely {range_in_doubt(self.lower, self.upper, f'{unit}-seconds')}"
        if not leans(self.saved, self.lower, self.upper):
            return f"{with_} as long, within the spread of its replays ({in_doubt})"
        less = "less" if self.saved > 0 else "more"
        return f"{with_} {abs(self.saved):,.1f} {unit}-seconds {less}, but that is not sure ({in_doubt})"


def verdict(
    settings: Sequence[str], saved: float | None, lower: float | None, upper: float | None
) -> SettingsVerdict | None:
    """None where the replay says nothing, or the settings are not advised."""
    if saved is None or lower is None or upper is None or not ADVISED_WITHOUT_ASKING & set(settings):
        return None
    return SettingsVerdict(tuple(settings), saved, lower, upper)


def verdict_on(advice: str, verdicts: Iterable[SettingsVerdict]) -> SettingsVerdict | None:
    """What replays say of the setting that this advice is about: of several sets of settings the one that saves most;
    None where nothing is said."""
    about = {setting for words, settings in ADVISED.items() if words in advice for setting in settings}
    return max((v for v in verdicts if about & set(v.settings)), key=lambda v: v.saved, default=None)


def unreplayed(group_id: str, *, predicts_nothing: bool) -> str:
    """What advice says where no stored replay of the group answers it. `predicts_nothing`: there is one without a
    prediction. A name that a shell or a reader could take for something else is not put into the command."""
    is_plain = quote(group_id) == group_id and len(group_id) <= LONGEST_IN_COMMAND and not group_id.startswith("-")
    command = f"`rebalance-audit whatif {group_id if is_plain else 'GROUP'}`"
    if predicts_nothing:
        return f"a replay of this group predicts nothing, {command} says why"
    return f"to weigh it for this group, run {command}"


@overload
def weighed(advice: str, verdicts: Iterable[SettingsVerdict], otherwise: str = WEIGHS) -> str: ...
@overload
def weighed(advice: None, verdicts: Iterable[SettingsVerdict], otherwise: str = WEIGHS) -> None: ...
def weighed(advice: str | None, verdicts: Iterable[SettingsVerdict], otherwise: str = WEIGHS) -> str | None:
    """The advice with what the replay says in place of the words that it can be asked; None stays None. `otherwise`:
    what stands there where no replay says anything."""
    if advice is None:
        return None
    found = verdict_on(advice, verdicts)
    return advice.replace(WEIGHS, otherwise if found is None else found.text, 1)
