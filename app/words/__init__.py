"""Numbers, times and foreign text as people's words. Pure: no reading, no streamlit, no clock.

What is not known is said ("not known: …"), never 0 and never blank. Text from clients leaves here visible (control
characters drawn), cut in the middle, and escaped for where it is going: `Html` for pages, `markdown` for link labels.
"""

from app.words.foreign import Html, assignor, code, cut, fill, join, markdown, name, natural, resources, visible
from app.words.kafka import (
    FAMILIES,
    FAMILY_SIGN,
    FAMILY_WORDS,
    MODE_WORDS,
    OUTCOME_WORDS,
    SEVERITY_WORDS,
    STATE_WORDS,
    TIER_SENTENCES,
    TIER_WORDS,
    because,
    family,
    number_of,
    resource,
    things,
    trigger,
)
from app.words.numbers import bounds, count, duration, pause, seconds, seconds_bounds
from app.words.replicas import ELECTION_WORDS, PHASE_WORDS, REASSIGNMENT_WORDS, brokers, election, ids, replicas, state
from app.words.times import ago, clock, instant, minute, utc_in, when, zone

__all__ = [
    "ELECTION_WORDS",
    "FAMILIES",
    "FAMILY_SIGN",
    "FAMILY_WORDS",
    "MODE_WORDS",
    "OUTCOME_WORDS",
    "PHASE_WORDS",
    "REASSIGNMENT_WORDS",
    "SEVERITY_WORDS",
    "STATE_WORDS",
    "TIER_SENTENCES",
    "TIER_WORDS",
    "Html",
    "ago",
    "assignor",
    "because",
    "bounds",
    "brokers",
    "clock",
    "code",
    "count",
    "cut",
    "duration",
    "election",
    "family",
    "fill",
    "ids",
    "instant",
    "join",
    "markdown",
    "minute",
    "name",
    "natural",
    "number_of",
    "pause",
    "replicas",
    "resource",
    "resources",
    "seconds",
    "seconds_bounds",
    "state",
    "things",
    "trigger",
    "utc_in",
    "visible",
    "when",
    "zone",
]
