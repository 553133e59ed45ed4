"""All the app reads, as typed answers. The only reader: pages and charts never see a table."""

from __future__ import annotations

from functools import lru_cache

from app.queries.connect import ConnectQuestions
from app.queries.findings import FindingQuestions
from app.queries.groups import GroupQuestions
from app.queries.incidents import IncidentQuestions
from app.queries.places import PlaceQuestions
from app.queries.present import PresentQuestions
from app.queries.reassignments import ReassignmentQuestions
from app.queries.rebalances import RebalanceQuestions
from app.queries.responses import ResponseQuestions
from app.queries.trust import TrustQuestions
from app.queries.whatif import WhatifQuestions
from rebalance_audit.warehouse.warehouse import WarehouseError

__all__ = ["HOUR_MS", "Reader", "WarehouseError", "opened"]

HOUR_MS = 3_600_000


class Questions(
    ConnectQuestions,
    FindingQuestions,
    GroupQuestions,
    PresentQuestions,  # asks for incidents, and stands before them
    IncidentQuestions,
    PlaceQuestions,
    ReassignmentQuestions,
    RebalanceQuestions,
    ResponseQuestions,
    TrustQuestions,
    WhatifQuestions,
):
    """Typed questions to one warehouse. Safe to share between threads."""


@lru_cache(maxsize=4)
def opened(location: str) -> Questions:
    """The one reader of this warehouse in this process. Raises WarehouseError, and tries anew the next time."""
    return Questions.open(location)
