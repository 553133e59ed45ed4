"""Sentences about a replay under other settings."""

from __future__ import annotations

from app import words
from app.words import Html, fill
from rebalance_audit.domain.replay.whatif import Fit, Option


def beside(fit: Fit, option: Option, unit: str, rebalance_count: int) -> tuple[Html, Html]:
    """What stands above each of the two time lines; the numbers are of the whole replayed history."""
    settings = words.join([words.code(f"{k}={v}", 120) for k, v in option.settings.items()], " and ")
    was = fill(
        "<b>As it was</b>: {cost} in {n}.",
        cost=words.seconds(fit.measured_seconds, unit),
        n=words.count(rebalance_count, "rebalance"),
    )
    ends = (option.cost_lower_seconds, option.cost_seconds, option.cost_upper_seconds)
    would = fill(
        "<b>As it would have been</b> under {settings}: {cost}, in {n}; one of the replays is drawn.",
        settings=settings,
        cost=words.seconds_likely(*ends, unit),
        n=words.count(option.rebalances, "rebalance"),
    )
    return was, would


def fit(found: Fit) -> str:
    """How far the replay can be trusted."""
    return (
        f"How sure: replayed under the settings in force, {found.rebalances:.0%} of the rebalances and "
        f"{found.causes:.0%} of their causes came out again, and cost {found.cost_seconds:,.1f} s where "
        f"{found.measured_seconds:,.1f} s were measured. The numbers are of the whole replayed history."
    )
