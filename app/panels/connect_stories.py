"""What a Connect cluster went through, story by story: a piece of the page Connect."""

from collections.abc import Sequence
from dataclasses import dataclass

import streamlit as st

from app import page, sentences, words
from app.answers.rows import IncidentRow, Rebalance, Span
from app.queries import Questions
from app.words import Html, fill
from rebalance_audit.domain.explain.connect_stories import ConnectStory, connect_stories
from rebalance_audit.domain.kinds import STOOD_STILL, Severity

MOST_STORIES = 6
MOST_ROUNDS = 8
SEVERITIES: list[str] = list(Severity)


@dataclass(frozen=True, slots=True)
class WorkersInView:
    """The workers of one Connect cluster in the chosen time."""

    reader: Questions
    cluster_id: str
    group_id: str
    span: Span
    rebalances: Sequence[Rebalance]
    """Those around that time, each whole."""

    def rounds(self, rebalance_ids: Sequence[str]) -> list[Rebalance]:
        by_id = {r.rebalance_id: r for r in self.rebalances}
        return [by_id[i] for i in rebalance_ids]

    def is_shown(self, from_ms: int | None, to_ms: int | None) -> bool:
        return (from_ms is None or from_ms <= self.span.to_ms) and (to_ms is None or to_ms >= self.span.from_ms)


def stories(of: WorkersInView) -> set[str]:
    """The newest, in the order they happened, the rest counted; what connectors' changes did has a place of its own.
    Returns the findings that these stories are about."""
    stories = [
        s for s in connect_stories(of.rebalances) if s.kind != "connector_changed" and of.is_shown(s.from_ms, s.to_ms)
    ]
    found = _once([s for s in stories if not _is_quiet(of, s)])
    quiet = len(stories) - len(found)
    if not stories:
        return set()
    page.heading("What happened, in plain words")
    page.note(
        "Workers share connectors and their tasks. When something changes they agree again who runs what: a "
        "rebalance. Each is numbered, as a generation."
    )
    shown = [(story, _incident_of(of, story)) for story in found[-MOST_STORIES:]]
    for story, incident in shown:
        _show(of, story, incident)
    if len(found) > MOST_STORIES:
        page.note(
            "{n} earlier ones in that time; choose a shorter one to read them.", n=f"{len(found) - MOST_STORIES:,}"
        )
    if quiet:
        also = "Besides, a" if found else "A"
        times = "" if quiet == 1 else f" {quiet:,} times"
        page.note("{also} worker joined{times}, and nothing that ran had to stop.", also=also, times=times)
    return {f for _, incident in shown if incident is not None for f in incident.finding_ids}


def _show(of: WorkersInView, story: ConnectStory, incident: IncidentRow | None) -> None:
    rounds = of.rounds(story.rebalance_ids)
    is_trouble = incident is not None and incident.status == "open" and not incident.expected
    advice = incident.advice if incident is not None and is_trouble else None
    st.html(
        fill(
            '<div class="ra-incident ra-{tone}"><p class="ra-note">{at}{until}</p><p><b>{title}.</b> {text} {cost}</p>'
            "{advice}</div>",
            tone=incident.severity if incident is not None and is_trouble else "info",
            at=words.instant(story.from_ms, page.zone()),
            until=f", for {words.duration(story.to_ms - story.from_ms)}" if story.to_ms is not None else ", goes on",
            title=story.title,
            text=story.text,
            cost=sentences.cost_beside_eager(rounds),
            advice=fill("<p>What to do: {a}</p>", a=words.with_code(advice)) if advice else Html(""),
        )
    )
    end_ms = story.to_ms if story.to_ms is not None else of.span.to_ms
    room = max(2_000, (end_ms - story.from_ms) // 5)
    with st.container(horizontal=True):
        closer = {"from": story.from_ms - room, "to": end_ms + room}
        if incident is not None:
            page.link("Its incident", "incident", cluster=of.cluster_id, incident=incident.incident_id)
        page.link("Look closer", "connect", cluster=of.cluster_id, group=of.group_id, by="workers", **closer)
        for r in rounds[:MOST_ROUNDS]:
            number = words.number_of(r.generation_id, r.group_epoch, r.rewrite_seq)
            page.link(number.capitalize(), "rebalance", cluster=of.cluster_id, rebalance=r.rebalance_id)


def _is_quiet(of: WorkersInView, story: ConnectStory) -> bool:
    """A worker came, and nothing had to stop for it."""
    return story.kind == "worker_joined" and not any(
        m.kind in STOOD_STILL for r in of.rounds(story.rebalance_ids) for m in r.movements
    )


def _once(stories: list[ConnectStory]) -> list[ConnectStory]:
    """By time; a story all of whose rounds a longer one has is a part of that one."""
    longest_first = sorted(stories, key=lambda s: -len(s.rebalance_ids))
    kept: list[ConnectStory] = []
    for story in longest_first:
        if not any(set(story.rebalance_ids) <= set(other.rebalance_ids) for other in kept):
            kept.append(story)
    return sorted(kept, key=lambda s: s.from_ms)


def _incident_of(of: WorkersInView, story: ConnectStory) -> IncidentRow | None:
    """The gravest that one of its rounds belongs to."""
    found = [of.reader.incident_of_rebalance(of.cluster_id, i) for i in story.rebalance_ids[:MOST_ROUNDS]]
    return min(
        (i for i in found if i is not None),
        key=lambda i: (i.expected, -SEVERITIES.index(i.severity), i.incident_id),
        default=None,
    )
