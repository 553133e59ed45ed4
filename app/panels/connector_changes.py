"""What one connector's change did to the others: a piece of the page Connect."""

import streamlit as st

from app import page, sentences, words
from app.answers.rows import Rebalance
from app.panels.connect_stories import WorkersInView
from app.words import Html, fill
from rebalance_audit.domain.causes import Cause
from rebalance_audit.domain.explain.connect_changes import Touched
from rebalance_audit.domain.explain.connect_changes import connector_changes as changes_of
from rebalance_audit.domain.kinds import Mode

MOST_CHANGES = 20


def connector_changes(of: WorkersInView) -> None:
    """The effect of one team's change on the others."""
    changes = [c for c in changes_of(of.rebalances) if of.is_shown(c.at_ms, c.at_ms)]
    if not changes:
        return
    page.heading("What one connector's change did to the others")
    page.say("{s}", s=sentences.connector_changes(changes))
    loud = [c for c in reversed(changes) if c.own or c.others]
    rows: list[list[str | Html]] = [
        [
            words.instant(c.at_ms, page.zone()),
            fill(
                "{whose}{why}{mixed}",
                whose=words.join([words.code(each, 30) for each in c.connectors], ", "),
                why=_why(of.rounds(c.rebalance_ids)),
                mixed=Html("<br>A worker came or went as well: not all of it is the change's doing.")
                if c.is_mixed
                else "",
            ),
            _hit(c.own),
            _hit(c.others),
            *_prices(of.rounds(c.rebalance_ids)),
        ]
        for c in loud[:MOST_CHANGES]
    ]
    if rows:
        page.table(
            [
                "when",
                "what changed",
                "its own work that stopped",
                "others' work that stopped",
                "cost",
                "had all stopped",
            ],
            rows,
        )
        with st.container(horizontal=True):
            for c in loud[:MOST_CHANGES]:
                label = words.number_of(c.generation_id, None).capitalize()
                page.link(label, "rebalance", cluster=of.cluster_id, rebalance=c.rebalance_ids[0])
    if len(loud) > MOST_CHANGES:
        page.note("{n} older ones are not listed.", n=f"{len(loud) - MOST_CHANGES:,}")


def _prices(rounds: list[Rebalance]) -> list[str | Html]:
    cost, eager = sentences.costs(rounds)
    if all(r.mode == Mode.EAGER for r in rounds):
        beside = "all did stop"
    else:
        beside = f"at least {words.seconds(eager, 'task')}" if eager else "not known"
    return [sentences.likely_cost(cost), beside]


def _why(rounds: list[Rebalance]) -> Html:
    of_config = [r.trigger_detail for r in rounds if r.trigger == Cause.CONNECT_CONFIG_CHANGED and r.trigger_detail]
    said = list(dict.fromkeys(words.visible(text) for text in of_config))
    return fill(": {said}", said="; ".join(said[:3])) if said else Html("")


def _hit(touched: tuple[Touched, ...]) -> Html:
    if not touched:
        return Html("none")
    return words.join(
        [
            fill(
                "{c}: {n}, up to {t}",
                c=words.code(each.connector, 30),
                n=words.things("connect", len(each.resources)),
                t=words.duration(each.longest_ms),
            )
            for each in touched
        ],
        "<br>",
    )
