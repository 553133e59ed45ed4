"""The proof of the rules: numbered cases with the answer of every rule.

Add cases freely. Who changes the expectation of an existing case gives the reason in the change.
"""

from __future__ import annotations

from tests.domain.detect.connect_cases import CONNECT_CASES
from tests.domain.detect.consumer_cases import CONSUMER_CASES

CASES = sorted([*CONSUMER_CASES, *CONNECT_CASES], key=lambda case: case.number)
