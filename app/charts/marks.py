"""Marks across the lanes: rebalances, changes of a leader, moves of replicas."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from app import words
from app.answers.rows import AlertNote, ChainLink, MarkRow
from app.charts.time_line import MARKS, Target, empty

LEADER_MARK = len(words.FAMILIES)
"""After the families of causes; time_line.js has a sign for each number."""
MOVE_MARK = LEADER_MARK + 1
CHANGE_MARK = LEADER_MARK + 2
CHAIN_MARK = LEADER_MARK + 3
ALERT_MARK = LEADER_MARK + 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Marks:
    frame: pd.DataFrame
    texts: tuple[str, ...] = ()
    targets: tuple[Target, ...] = ()


def together(*kinds: Marks, first_text: int) -> Marks:
    """All of them, their texts counted from `first_text` on."""
    frames: list[pd.DataFrame] = []
    texts: list[str] = []
    targets: list[Target] = []
    for kind in kinds:
        shifted = kind.frame.assign(tip=kind.frame["tip"] + first_text + len(texts))
        shifted["target"] = shifted["target"].where(shifted["target"] < 0, shifted["target"] + len(targets))
        frames.append(shifted)
        texts += kind.texts
        targets += kind.targets
    filled = [f for f in frames if len(f)]
    return Marks(
        frame=pd.concat(filled, ignore_index=True) if filled else empty(MARKS),
        texts=tuple(texts),
        targets=tuple(targets),
    )


def rebalance_marks(rebalances: pd.DataFrame, with_group: bool = False) -> Marks:
    if rebalances.empty:
        return Marks(frame=empty(MARKS))
    columns = ("generation_id", "group_epoch", "rewrite_seq", "trigger")
    texts = [
        f"{words.number_of(_whole(g), _whole(e), int(s))}: {words.trigger(t)}"
        for g, e, s, t in zip(*(rebalances[c] for c in columns), strict=True)
    ]
    if with_group:
        texts = [f"{words.name(g, 40)}, {text}" for g, text in zip(rebalances["group_id"], texts, strict=True)]
    families = [words.FAMILIES.index(words.family(t)) for t in rebalances["trigger"]]
    return _marks(rebalances["at_ms"], families, texts, [("rebalance", str(i)) for i in rebalances["rebalance_id"]])


def election_marks(elections: pd.DataFrame) -> Marks:
    if elections.empty:
        return Marks(frame=empty(MARKS))
    texts = [
        f"leader of {words.name(name, 50)} {words.election(_whole(before), _whole(after), cause)}"
        for name, before, after, cause in zip(
            elections["name"], elections["previous_leader"], elections["elected"], elections["cause"], strict=True
        )
    ]
    return _marks(elections["at_ms"], [LEADER_MARK] * len(texts), texts, None)


def move_marks(reassignments: pd.DataFrame) -> Marks:
    """Where each began, and where it ended."""
    if reassignments.empty:
        return Marks(frame=empty(MARKS))
    at, texts, targets = [], [], []
    for r in reassignments.itertuples():
        name = f"{words.name(r.topic, 50)}-{r.partition}"
        for moment, what in ((r.started_at_ms, "move asked for"), (r.ended_at_ms, words.REASSIGNMENT_WORDS[r.outcome])):
            if not pd.isna(moment):
                at.append(float(moment))
                texts.append(f"{name}: {what}")
                targets.append(("reassignment", str(r.reassignment_id)))
    return _marks(pd.Series(at, dtype=float), [MOVE_MARK] * len(at), texts, targets)


def change_marks(marks: Sequence[MarkRow]) -> Marks:
    """Deploys and changes; a click shows what came since."""
    if not marks:
        return Marks(frame=empty(MARKS))
    texts = [f"{words.name(m.text, 120)}; click: what it cost since" for m in marks]
    at = pd.Series([float(m.at_ms) for m in marks])
    return _marks(at, [CHANGE_MARK] * len(texts), texts, [("since", m.mark_id) for m in marks])


def chain_marks(chain: Sequence[ChainLink]) -> Marks:
    if not chain:
        return Marks(frame=empty(MARKS))
    at = pd.Series([float(link.at_ms) for link in chain])
    return _marks(at, [CHAIN_MARK] * len(chain), [words.name(link.what, 200) for link in chain], None)


def alert_marks(notes: Sequence[AlertNote]) -> Marks:
    if not notes:
        return Marks(frame=empty(MARKS))
    at = pd.Series([float(note.at_ms) for note in notes])
    return _marks(at, [ALERT_MARK] * len(notes), [words.alert(n.what, n.target, n.is_sent) for n in notes], None)


def _marks(at: pd.Series, families: list[int], texts: list[str], targets: list[Target] | None) -> Marks:
    frame = pd.DataFrame(
        {
            "at": pd.to_numeric(at).astype(float).to_numpy(),
            "family": families,
            "tip": range(len(texts)),
            "target": range(len(texts)) if targets is not None else -1,
        }
    )
    return Marks(frame=frame.dropna(subset=["at"]), texts=tuple(texts), targets=tuple(targets or ()))


def _whole(value: Any) -> int | None:
    return None if value is None or pd.isna(value) else int(value)
