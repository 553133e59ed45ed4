"""A group's history as it was, beside the same as it would have been under other settings: for two time lines."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from rebalance_audit.domain.model import Rebalance

from .connect import CONNECTOR_ITSELF
from .fleet import LATEST_REBALANCES
from .outcome import Replayed
from .situation import situation_of
from .standstill import Stood
from .whatif import Fit, Option, fit_of, option_and_run


@dataclass(frozen=True, slots=True, kw_only=True)
class Beside:
    fit: Fit
    option: Option
    was: tuple[Stood, ...]
    """The standstills as measured."""
    would: tuple[Stood, ...]
    """The standstills of the run whose cost is the median. Empty where the option or the fit is refused."""
    would_rebalances: tuple[Replayed, ...]


def beside(rows: Sequence[Rebalance], until_ms: int, settings: Sequence[str], run_count: int) -> Beside:
    """The same rows, runs and seeds as a fleet's advice, so that the option's numbers are those of gold.whatif.

    `rows`, `until_ms` and `run_count` as for `fleet.advice_of`.

    Raises TooLittle and RequestError where there is no answer.
    """
    earlier, latest = rows[:-LATEST_REBALANCES], rows[-LATEST_REBALANCES:]
    situation = situation_of(latest, until_ms, earlier[-1] if earlier else None, run_count=run_count)
    fit = fit_of(situation)
    option, run = option_and_run(situation, settings)
    is_said = run is not None and fit.refused is None
    return Beside(
        fit=fit,
        option=option,
        was=situation.measured.stood,
        would=tuple(Stood(_name(r), a, b, why) for r, a, b, why in run.stood if b > a) if is_said and run else (),
        would_rebalances=run.rebalances if is_said and run else (),
    )


def _name(resource: Hashable) -> str:
    """The resource's name in gold.movement."""
    name, number = resource if isinstance(resource, tuple) else (resource, CONNECTOR_ITSELF)
    return str(name) if number == CONNECTOR_ITSELF else f"{name}-{number}"
