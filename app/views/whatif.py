"""Which settings would have helped?"""

from shlex import quote

import pandas as pd
import streamlit as st

from app import page, sentences, words
from app.queries.whatif import Change
from app.words import Html, fill
from rebalance_audit.domain.client_families import Families, families_shown
from rebalance_audit.domain.replay.libraries import LACKING, properties
from rebalance_audit.domain.replay.meanings import beyond_pauses, leans, range_in_doubt

MOST = 1_000


def saves(c: Change) -> bool:
    """Whether the saving is larger than the spread of its own replays."""
    return (c.saved_lower_seconds or 0.0) > 0


def verdict(c: Change) -> str:
    if c.saved_seconds is None or c.saved_lower_seconds is None or c.saved_upper_seconds is None:
        return "nothing predicted"
    if saves(c):
        return f"saves {c.saved_seconds:,.1f} s (likely {c.saved_lower_seconds:,.1f} to {c.saved_upper_seconds:,.1f})"
    if c.saved_upper_seconds < 0:
        return (
            f"costs {-c.saved_seconds:,.1f} s more (likely {-c.saved_upper_seconds:,.1f} to "
            f"{-c.saved_lower_seconds:,.1f})"
        )
    ends = (c.saved_lower_seconds, c.saved_upper_seconds)
    if not leans(c.saved_seconds, *ends):
        return f"no difference that stands out ({range_in_doubt(*ends, 's')})"
    what = f"save {c.saved_seconds:,.1f} s" if c.saved_seconds > 0 else f"cost {-c.saved_seconds:,.1f} s more"
    return f"may {what}, not sure ({range_in_doubt(*ends)})"


def fit(c: Change) -> str:
    return (
        "not replayed"
        if c.fit_causes is None
        else f"{c.fit_causes:.0%} of {words.count(c.rebalances_replayed, 'rebalance')}"
    )


def shown(changes: list[Change]) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "group": [words.name(c.group_id, 60) for c in changes],
            "what it does": [verdict(c) for c in changes],
            "change": [words.name("  ".join(c.settings), 120) if c.settings else "none" for c in changes],
            "stood still": [
                "not known" if c.measured_seconds is None else f"{c.measured_seconds:,.1f} s" for c in changes
            ],
            "causes found again": [fit(c) for c in changes],
            "cluster": [words.name(c.cluster_id, 40) for c in changes],
        }
    )


def of_group(changes: list[Change]) -> None:
    first = changes[0]
    page.title(words.name(first.group_id, 60), under="Which settings would have helped?")
    page.link("The group", "group", cluster=first.cluster_id, group=first.group_id)
    tz = page.zone()
    if first.fit_causes is None:
        page.note("This group could not be replayed.")
    elif first.from_ms is not None and first.until_ms is not None:
        page.note(
            "{n} of this group, {a} to {b}, were replayed. With the settings that it had, {fit} came out again.",
            n=words.count(first.rebalances_replayed, "rebalance"),
            a=words.instant(first.from_ms, tz),
            b=words.instant(first.until_ms, tz),
            fit=f"{first.fit_causes:.0%} of their causes",
        )
    is_connect = page.reader().is_connect(first.cluster_id, first.group_id)
    unit = "task" if is_connect else "partition"
    if first.fit_causes is not None:
        page.note(
            "Each change was replayed by itself, and the one that saves the most comes first: take one at a time, and "
            "none that costs more. One {unit} on which nobody works for one second is one {unit}-second of standing "
            "still. A likely range holds nine in ten replays.",
            unit=unit,
        )
    if (beyond := beyond_pauses(first.beyond_pauses_seconds)) is not None:
        page.note("{beyond}", beyond=beyond)
    for c in sorted(changes, key=lambda change: not saves(change)):
        asked = dict(s.partition("=")[::2] for s in c.settings)
        page.panel(
            fill(
                '<p class="ra-first">{verdict}</p>{meanings}<p class="ra-note">{why}</p>',
                verdict=verdict(c) if c.saved_seconds is None else sentences.outcome(c, unit),
                meanings=words.join([fill("<p>{m}</p>", m=m) for m in sentences.explained(c)]),
                why=words.visible(c.why if c.saved_seconds is None else sentences.replayed(c)),
            )
        )
        if saves(c):
            to_paste(asked, families_shown(c.client_libraries), is_connect)
    if first.saved_seconds is not None:
        group, place, cluster = map(quote, (first.group_id, reader.location, first.cluster_id))
        command = f"rebalance-audit whatif {group} -w {place} --cluster-id {cluster} --set NAME=VALUE"
        page.note("Other settings: {command}", command=words.code(command, 300))


def to_paste(asked: dict[str, str], families: Families, is_connect: bool) -> None:
    page.note("To paste into the configuration of what the first line names, which reads it when it starts:")
    for client, lines in properties(asked, (), families, is_connect=is_connect).items():
        if client == LACKING:
            for line in lines:
                name, _, libraries = line.partition(": ")
                page.note("Not for members that use {libraries}: they have no {name}.", libraries=libraries, name=name)
            continue
        st.code("\n".join([f"# {client}", *lines]), language=None, wrap_lines=True)


def fleet(changes: list[Change]) -> None:
    page.title("Client settings", under="Which changes would have saved the most?")
    found = [c for c in changes if saves(c)]
    total = sum((c.saved_seconds or 0.0) + (c.cost_seconds or 0.0) for c in changes)
    replayed = [c for c in changes if c.fit_causes is not None]
    left_out = len(changes) - len(replayed)
    st.html(
        fill(
            '<p class="ra-say">{n} would have saved {s} of {total} s of standing still in the replayed '
            "history of {all}.{others}</p>",
            n=words.count(len(found), "change"),
            s=f"{sum(c.saved_seconds or 0.0 for c in found):,.1f}",
            total=f"{total:,.1f}",
            all=words.count(len(replayed), "group"),
            others=f" {words.count(left_out, 'group')} could not be replayed; why stands on the page of each."
            if left_out
            else "",
        )
    )
    page.note(
        "Click a row for what to set, where, what it does and its price. The history of each group was replayed under "
        "other settings, and the best change of each is listed. One partition or task on which nobody works for a "
        "second is one second. These are not the costs of other pages: waits for a first assignment count here, too, "
        "and so do times in which no member ran (ten minutes of each at most) where a change would alter them. That "
        "is no saving if the group was stopped on purpose. How replays did against real clusters is in "
        "docs/whatif.md."
    )
    page.downloads(lambda: pd.DataFrame(changes), "changes")
    listed = sorted(changes, key=lambda c: not saves(c))[:MOST]
    page.long_table(
        shown(listed),
        "changes",
        {
            "what it does": page.ColumnLook(width=350),
            "change": page.ColumnLook(width=335),
            "stood still": page.ColumnLook(width=95, help="As measured"),
            "causes found again": page.ColumnLook(width=180),
        },
        lambda n: ("whatif", {"cluster": listed[n].cluster_id, "group": listed[n].group_id}),
        is_taken=False,
    )


cluster_id, group_id = page.param("cluster"), page.param("group")
reader = page.reader()
changes = reader.changes(cluster_id, group_id)
if changes and group_id is not None:
    of_group(changes)
elif changes:
    fleet(changes)
elif cluster_id is not None or group_id is not None:
    page.title("Client settings", under="Which changes would have saved the most?")
    page.panel(
        fill(
            "<p>Nothing of {what} has been replayed under other settings.</p>",
            what=fill("group {g}", g=words.code(group_id, 60))
            if group_id is not None
            else fill("cluster {c}", c=words.code(cluster_id, 60)),
        ),
        fill(
            "<p>The groups that stood still the longest are replayed. "
            "<code>rebalance-audit whatif GROUP -w {w}</code> replays one at once, and says why if it cannot.</p>",
            w=reader.location,
        ),
    )
    page.link("The groups that were replayed", "whatif")
else:
    page.title("Client settings", under="Which changes would have saved the most?")
    page.panel(
        Html("<p>No group has been replayed under other settings yet.</p>"),
        fill(
            "<p><code>rebalance-audit whatif -w {w}</code> replays the groups that stood still the longest, and "
            "Airflow's <code>rebalance_audit_whatif</code> does so every night.</p>",
            w=reader.location,
        ),
    )
