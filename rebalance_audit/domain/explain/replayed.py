"""What a replay of the group says of a setting that is advised: it may remove rebalances and cost more all the same."""

from __future__ import annotations

from collections.abc import Sequence

from rebalance_audit.domain.explain.verdicts import SettingsVerdict, verdict
from rebalance_audit.domain.model import Rebalance
from rebalance_audit.domain.replay.candidates import candidates
from rebalance_audit.domain.replay.fleet import LATEST_REBALANCES
from rebalance_audit.domain.replay.requests import RequestError
from rebalance_audit.domain.replay.settings import ADVISED_WITHOUT_ASKING
from rebalance_audit.domain.replay.situation import TooLittle, situation_of
from rebalance_audit.domain.replay.whatif import fit_of, option_of


def replay_advised(rows: Sequence[Rebalance], until_ms: int | None) -> tuple[SettingsVerdict, ...]:
    """The latest rebalances of one group replayed with what is advised; none where nothing is predicted. `rows`:
    measured, in the order they happened."""
    earlier, latest = rows[:-LATEST_REBALANCES], rows[-LATEST_REBALANCES:]
    until_ms = until_ms if until_ms is not None else max((r.ended_at_ms or 0 for r in rows), default=0)
    try:
        situation = situation_of(latest, until_ms, earlier[-1] if earlier else None)
        asked = [pairs for pairs in candidates(situation) if ADVISED_WITHOUT_ASKING & set(pairs)]
        if not asked or fit_of(situation).refused is not None:
            return ()
        options = [option_of(situation, pairs) for pairs in asked]
    except (TooLittle, RequestError):
        return ()
    found = (verdict(o.pairs, o.saved_seconds, o.saved_lower_seconds, o.saved_upper_seconds) for o in options)
    return tuple(v for v in found if v is not None)
