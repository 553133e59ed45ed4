"""What goes on while somebody looks: rebalances that have not ended, and news of a group that its page lacks."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import streamlit as st

from app import words
from app.page.frame import LOOKS_AGAIN_S, fragment, reader
from app.page.saying import note
from app.words import Html, fill
from rebalance_audit.domain.explain.present import Running, details, headline

MOST_LINES = 5
JUST_IN = "just in"
"""Marks what `watch` found out and the tables do not hold yet."""


def present(cluster_ids: Sequence[str], group_id: str | None = None) -> None:
    """Looks again every second. The page of a group is made again when there is something new of it."""
    of_group = [] if group_id is None else reader().just_in_of(cluster_ids[0], group_id)
    _look_again(cluster_ids, group_id, repr(of_group))


@partial(fragment, run_every=LOOKS_AGAIN_S)
def _look_again(cluster_ids: Sequence[str], group_id: str | None, shown: str) -> None:
    found = reader()
    if group_id is not None and (news := found.just_in_of(cluster_ids[0], group_id)) and repr(news) != shown:
        st.rerun()
    notes = found.present(cluster_ids)
    running = [r for now in notes for r in now.running if group_id in (None, r.group_id)]
    count = len(running) if group_id is not None else sum(now.running_count for now in notes)
    with_cluster = len(cluster_ids) > 1
    lines = [_running(r, with_cluster) for r in running[:MOST_LINES]]
    if count > len(lines):
        lines.append(fill("<li>and {n} more</li>", n=f"{count - len(lines):,}"))
    if left_out := sum(now.just_in.left_out for now in notes):
        lines.append(fill("<li>news of {n} groups and incidents comes with the tables</li>", n=f"{left_out:,}"))
    if lines:
        st.html(
            fill('<div class="ra-now" role="status"><b>Now</b><ul>{lines}</ul></div>', lines=words.join(lines))
        )  # fmt: skip


def just_in(cluster_id: str, incident_or_rebalance_id: str) -> None:
    """Says so of the subject of a page that no publication holds as it is now. Looks again every second: the page is
    made again when there is something new of it."""
    shown = reader().just_in_row(cluster_id, incident_or_rebalance_id)
    if shown:
        note("Just in: the tables do not hold this yet, and evidence that is still to come may change it.")
    _look_for(cluster_id, incident_or_rebalance_id, repr(shown))


@partial(fragment, run_every=LOOKS_AGAIN_S)
def _look_for(cluster_id: str, incident_or_rebalance_id: str, shown: str) -> None:
    news = reader().just_in_row(cluster_id, incident_or_rebalance_id)
    if news and repr(news) != shown:
        st.rerun()


def _running(r: Running, with_cluster: bool) -> Html:
    cluster = fill(" \u00b7 {c}", c=words.code(r.cluster_id, 40)) if with_cluster else Html("")
    about = "; ".join(details(r))
    below = fill('<div class="ra-note">{about}</div>', about=words.visible(about)) if about else Html("")
    return fill("<li>{said}{cluster}{below}</li>", said=words.visible(headline(r)), cluster=cluster, below=below)
