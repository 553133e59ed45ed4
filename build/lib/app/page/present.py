"""What goes on while somebody looks: rebalances that have not ended, and incidents that the tables do not hold yet."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from app import clock, words
from app.page.frame import LOOKS_AGAIN_S, reader
from app.words import Html, fill
from rebalance_audit.domain.explain.present import Running, details, headline
from rebalance_audit.live.present import JustIn
from rebalance_audit.warehouse.warehouse import WarehouseError

MOST_LINES = 5


@st.fragment(run_every=LOOKS_AGAIN_S)
def present(cluster_ids: Sequence[str], group_id: str | None = None) -> None:
    """Looks again every second."""
    try:
        found = reader().present(cluster_ids, clock.now_ms())
    except WarehouseError:
        return  # the page itself says so
    running = [r for now in found for r in now.running if group_id in (None, r.group_id)]
    just_in = [i for now in found for i in now.just_in] if group_id is None else []
    count = len(running) if group_id is not None else sum(now.running_count for now in found)
    if not running and not just_in:
        return
    with_cluster = len(cluster_ids) > 1
    lines = [_running(r, with_cluster) for r in running[:MOST_LINES]]
    if count > len(lines):
        lines.append(fill("<li>and {n} more</li>", n=f"{count - len(lines):,}"))
    lines += [_just_in(i) for i in just_in[:MOST_LINES]]
    st.html(
        fill(
            '<div class="ra-now" role="status"><b>Now</b><ul>{lines}</ul></div>',
            lines=words.join(lines),
        )
    )


def _running(r: Running, with_cluster: bool) -> Html:
    cluster = fill(" \u00b7 {c}", c=words.code(r.cluster_id, 40)) if with_cluster else Html("")
    about = "; ".join(details(r))
    below = fill('<div class="ra-note">{about}</div>', about=words.visible(about)) if about else Html("")
    return fill("<li>{said}{cluster}{below}</li>", said=words.visible(headline(r)), cluster=cluster, below=below)


def _just_in(i: JustIn) -> Html:
    state = "over" if i.status != "open" else i.severity
    return fill("<li>{state}: {title}</li>", state=state, title=words.cut(words.visible(i.title), 200))
