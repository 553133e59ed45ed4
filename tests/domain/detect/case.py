"""One case of a rule: a story, and what each rule says of it. A rule that is not named must be silent."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tests.domain.detect.group_story import GroupStory

HOUR = 3_600


@dataclass(frozen=True)
class Case:
    number: int
    says: str
    story: Callable[[], GroupStory]
    expected: dict[str, list[str]]
    """Rule -> `severity status` of each of its findings."""
