"""The sentence each page begins with. Pure: answers in, `Html` out."""

from app.sentences.blame import whose_doing
from app.sentences.compare import compare
from app.sentences.connect import connect, connector_changes, cost_beside_eager, costs, likely_cost, of_it_by_design
from app.sentences.copies import for_chat, postmortem
from app.sentences.fleet import behind, ended_early, evidence_log, headline, trust
from app.sentences.group import doubts, group, mostly, standstill
from app.sentences.incidents import (
    Worst,
    age,
    as_of,
    cost_of,
    cost_words,
    going_on,
    since,
    stands,
    still,
    story,
    unit_in_words,
    unknown_since,
)
from app.sentences.reassignment import (
    MOST_IN_ONE_COMMAND,
    advice,
    coincidence,
    coincidences,
    progress,
    reassignment,
    reassignments,
)
from app.sentences.rebalance import known_as, rebalance, still_for, stood_still
from app.sentences.whatif import beside, explained, fit, outcome, replayed, saving
from rebalance_audit.domain.incidents.words import is_old

__all__ = [
    "MOST_IN_ONE_COMMAND",
    "Worst",
    "advice",
    "age",
    "as_of",
    "behind",
    "beside",
    "coincidence",
    "coincidences",
    "compare",
    "connect",
    "connector_changes",
    "cost_beside_eager",
    "cost_of",
    "cost_words",
    "costs",
    "doubts",
    "ended_early",
    "evidence_log",
    "explained",
    "fit",
    "for_chat",
    "going_on",
    "group",
    "headline",
    "is_old",
    "known_as",
    "likely_cost",
    "mostly",
    "of_it_by_design",
    "outcome",
    "postmortem",
    "progress",
    "reassignment",
    "reassignments",
    "rebalance",
    "replayed",
    "saving",
    "since",
    "stands",
    "standstill",
    "still",
    "still_for",
    "stood_still",
    "story",
    "trust",
    "unit_in_words",
    "unknown_since",
    "whose_doing",
]
