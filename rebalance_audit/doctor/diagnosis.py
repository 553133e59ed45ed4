"""What an examination finds: one line with a state and, where something is wrong, a remedy."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Health(StrEnum):
    OK = "ok"
    OPTIONAL = "optional"
    """Missing, and only needed for what the detail names."""
    FAULT = "fault"


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    subject: str
    state: Health
    detail: str
    remedy: str = ""


def ok(subject: str, detail: str) -> Diagnosis:
    return Diagnosis(subject=subject, state=Health.OK, detail=detail)


def fault(subject: str, detail: str, remedy: str = "") -> Diagnosis:
    """A fault; without a remedy where the detail names it already."""
    return Diagnosis(subject=subject, state=Health.FAULT, detail=detail, remedy=remedy)


def optional(subject: str, detail: str, remedy: str) -> Diagnosis:
    return Diagnosis(subject=subject, state=Health.OPTIONAL, detail=detail, remedy=remedy)
