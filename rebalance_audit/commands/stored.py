"""One group as a warehouse's published tables hold it: for verbs that put its history into words or replay it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rebalance_audit.commands.options import CommandError, UsageError
from rebalance_audit.commands.rows import known_table, published, refuse_unknown_cluster, selection
from rebalance_audit.domain.visible import visible

if TYPE_CHECKING:
    from rebalance_audit.domain.model import CommitMark, Rebalance


def group_rows(opened: Any, name: str, group: str, cluster_id: str | None) -> list[dict[str, Any]]:
    """Rows of a table about one group, in the order of its key."""
    sql, params = selection(known_table(name), group=group, cluster_id=cluster_id)
    found: list[dict[str, Any]] = opened.query(sql, params).to_pylist()
    return found


def refuse_unknown(opened: Any, group: str, cluster_id: str | None = None) -> None:
    """Raises UsageError with similar names: an empty answer about a misspelt group would look like good news.
    `cluster_id`: where the group must be; None for any cluster."""
    there = "FROM gold.group WHERE (?::VARCHAR IS NULL OR cluster_id = ?)"
    if opened.query(f"SELECT 1 {there} AND group_id = ? LIMIT 1", [cluster_id, cluster_id, group]).num_rows:
        return
    from difflib import get_close_matches

    found = opened.query(f"SELECT DISTINCT group_id {there} ORDER BY 1", [cluster_id, cluster_id])
    names = found.column(0).to_pylist()
    near = [visible(name) for name in get_close_matches(group, names, 3)]
    hint = f"did you mean {' or '.join(near)}?" if near else "`export group` lists them all."
    raise UsageError(f"There is no group {group!r} {_where(opened, cluster_id)}; {hint}")


def _where(opened: Any, cluster_id: str | None) -> str:
    return f"at {opened.location}" if cluster_id is None else f"in cluster {cluster_id} of {opened.location}"


def stored_rebalances(opened: Any, group: str, cluster_id: str | None) -> list[Rebalance]:
    """Rebalances with their members, movements and standstills, in the order they happened.

    CommandError where there is none, UsageError where no group or several have this name.
    """
    from rebalance_audit.domain.model import Member, MemberStandstill, Movement, from_row

    published(opened)
    stored = group_rows(opened, "gold.rebalance", group, cluster_id)
    clusters = sorted({row["cluster_id"] for row in stored})
    if not stored:
        refuse_unknown_cluster(opened, cluster_id)
        refuse_unknown(opened, group, cluster_id)
        raise CommandError(
            f"Group {group!r} has no rebalance {_where(opened, cluster_id)}; check the name, or `run` it again."
        )
    if len(clusters) > 1:
        raise UsageError(f"Group {group!r} is in clusters {', '.join(clusters)}; say which with --cluster-id.")
    children: dict[str, dict[str, list[Any]]] = {}
    for name, table, kind in (
        ("members", "gold.rebalance_member", Member),
        ("movements", "gold.movement", Movement),
        ("standstills", "gold.standstill", MemberStandstill),
    ):
        for row in group_rows(opened, table, group, clusters[0]):
            children.setdefault(row["rebalance_id"], {}).setdefault(name, []).append(from_row(kind, row))
    return _in_order([_whole(row, children.get(row["rebalance_id"], {})) for row in stored])


def stored_evidence(opened: Any, cluster_id: str) -> dict[str, Any]:
    """From when to when the evidence of a cluster goes (`from_ms`, `to_ms`; None where that is not known), and from how
    many logs (`log_count`)."""
    sql = """
        SELECT min(from_at_ms) AS from_ms, max(to_at_ms) AS to_ms,
               count(*) FILTER (kind = 'log' AND NOT is_gap) AS log_count
        FROM gold.coverage WHERE cluster_id = ?
    """
    (row,) = opened.query(sql, [cluster_id]).to_pylist()
    return dict(row)


def evidence_ends(opened: Any) -> dict[str, int]:
    """By cluster up to when its evidence goes, where that is known."""
    sql = "SELECT cluster_id, max(to_at_ms) AS ms FROM gold.coverage GROUP BY 1 HAVING ms IS NOT NULL"
    return {row["cluster_id"]: row["ms"] for row in opened.query(sql, []).to_pylist()}


def stored_commits(opened: Any, rebalances: Sequence[Rebalance]) -> list[CommitMark]:
    """The commits of one group. None if no member was too slow for its poll interval, since they are only needed to
    know what its polls held."""
    from rebalance_audit.domain.causes import Cause
    from rebalance_audit.domain.model import CommitMark, from_row

    if not any(t.trigger == Cause.MEMBER_POLL_TIMEOUT for row in rebalances for t in row.triggers):
        return []
    first = rebalances[0]
    return [from_row(CommitMark, r) for r in group_rows(opened, "silver.commit_mark", first.group_id, first.cluster_id)]


def _whole(row: dict[str, Any], children: Mapping[str, Sequence[Any]]) -> Rebalance:
    from rebalance_audit.domain.model import Rebalance, from_row

    whole: Rebalance = from_row(Rebalance, row)
    return replace(
        whole,
        members=tuple(children.get("members", ())),
        movements=tuple(children.get("movements", ())),
        standstills=tuple(children.get("standstills", ())),
    )


def _in_order(rows: Sequence[Rebalance]) -> list[Rebalance]:
    """Sorted by time. A run of missing numbers has no time: it stands before the next higher number. Numbers alone
    would not do: they start again when a group is deleted and created again."""
    from rebalance_audit.domain.numbers import happened_at_ms

    timed = [(at_ms, _number(r), r) for r in rows if (at_ms := happened_at_ms(r)) is not None]
    found = [r for *_, r in sorted(timed, key=lambda each: each[:2])]
    for row in sorted((r for r in rows if happened_at_ms(r) is None), key=_number):
        place = next((n for n, other in enumerate(found) if _number(other) > _number(row)), len(found))
        found.insert(place, row)
    return found


def _number(rebalance: Rebalance) -> tuple[int, int]:
    number = rebalance.generation_id if rebalance.generation_id is not None else rebalance.group_epoch
    return (-1 if number is None else number), rebalance.rewrite_seq
