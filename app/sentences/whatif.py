"""Sentences about a replay under other settings."""

from __future__ import annotations

from app import words
from app.queries.whatif import Change
from app.words import Html, fill
from rebalance_audit.domain.detect.wording import seconds_of
from rebalance_audit.domain.replay.meanings import leans, meanings_of, prices_of, range_in_doubt
from rebalance_audit.domain.replay.whatif import Fit, Option


def outcome(change: Change, unit: str) -> Html:
    """What a change of settings would have saved or cost; of one for which something is predicted."""
    saved, lower, upper = change.saved_seconds or 0.0, change.saved_lower_seconds or 0.0, change.saved_upper_seconds
    if lower > 0:
        return saving(change, unit)
    settings = _settings(change)
    if upper is not None and upper < 0:
        return fill(
            "{settings} would have cost {more} {unit} more (likely {a} to {b}): no help to this group.",
            settings=settings,
            more=f"{-saved:,.1f}",
            unit=seconds_of(unit),
            a=f"{-upper:,.1f}",
            b=f"{-lower:,.1f}",
        )
    if not leans(saved, lower, upper or 0.0):
        return fill(
            "{settings} would have made no difference beyond the spread of its replays: likely {range}.",
            settings=settings,
            range=range_in_doubt(lower, upper or 0.0, seconds_of(unit)),
        )
    return fill(
        "{settings} may have {helped}, but that is not sure: {change} in the middle of its replays, likely {range}.",
        settings=settings,
        helped="helped" if saved > 0 else "harmed",
        change=f"{abs(saved):,.1f} {seconds_of(unit)} {'less' if saved > 0 else 'more'}",
        range=range_in_doubt(lower, upper or 0.0),
    )


def saving(change: Change, unit: str) -> Html:
    """What a change of settings would have saved; of one that saves something."""
    saved, lower, upper, left = (
        f"{seconds or 0.0:,.1f}"
        for seconds in (
            change.saved_seconds, change.saved_lower_seconds, change.saved_upper_seconds, change.cost_seconds,
        )
    )  # fmt: skip
    return fill(
        "{settings} would have saved {saved} {unit} (likely {lower} to {upper}) of standing still, and left "
        "{left} {unit}.",
        settings=_settings(change),
        saved=saved,
        unit=seconds_of(unit),
        lower=lower,
        upper=upper,
        left=left,
    )


def _settings(change: Change) -> Html:
    return words.join([words.code(s, 120) for s in change.settings], " and ")


def explained(change: Change) -> list[Html]:
    """What its settings are to be and were, what they do, and what they can cost; the name of a setting stands where
    there are several."""
    asked = dict(setting.partition("=")[::2] for setting in change.settings)
    was = dict(setting.partition("=")[::2] for setting in change.in_force or ())
    is_harm = change.saved_upper_seconds is not None and change.saved_upper_seconds < 0
    lead = "What was tried" if is_harm else "What to set"
    to_set = [
        fill("<b>{lead}:</b> {now}, {was}.", lead=lead, now=_asked(name, value), was=_was(was.get(name)))
        for name, value in asked.items()
        if change.in_force is not None
    ]
    found = [("What it does:", m) for m in meanings_of(asked)] + [("Its price:", p) for p in prices_of(asked, was)]
    return [
        *to_set,
        *(
            fill("<b>{lead}</b> {text}.", lead=lead, text=text if len(asked) > 1 else text.partition(": ")[2])
            for lead, text in found
        ),
    ]


def _asked(name: str, value: str) -> Html:
    """As it is set. Some values are no value of the setting, but stand for several."""
    said = {
        "group.instance.id=auto": "{name}, a name of its own for each process, the same after each restart",
        "group.instance.id=none": "no {name}",
        "deploy.order=all-at-once": "restart all members at once",
        "deploy.order=one-by-one": "restart one member at a time",
    }.get(f"{name}={value}")
    if said is None and name == "deploy.order":
        return fill("restart {n} members at a time", n=value)
    return words.code(f"{name}={value}", 120) if said is None else fill(said, name=words.code(name, 120))


def _was(value: str | None) -> Html:
    if value is None:
        return Html("what it was does not show in the history")
    return fill("it was {was}", was=words.code(value, 120))


def replayed(change: Change) -> str:
    """What else came out; its first part is the saving."""
    return change.why.partition("; ")[2]


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
        "<b>As it would have been</b> under {settings}: {cost}, in {n}. One replay of several is drawn; in it "
        "starts come up to a second earlier or later.",
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
        f"{found.measured_seconds:,.1f} s were measured. The numbers are of the whole replayed history; what a change "
        "saves and leaves is counted from its replays, not from what was measured."
    )
