"""All the app reads, as typed answers. The only reader: pages and charts never see a table."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from app import access
from app.access import Visitor
from app.answers.ranges import HOUR_MS
from app.queries.connect import ConnectQuestions
from app.queries.findings import FindingQuestions
from app.queries.groups import GroupQuestions
from app.queries.incidents import IncidentQuestions
from app.queries.places import PlaceQuestions
from app.queries.present import PresentQuestions
from app.queries.reassignments import ReassignmentQuestions
from app.queries.rebalances import RebalanceQuestions
from app.queries.responses import ResponseQuestions
from app.queries.tables import asked_tables
from app.queries.trust import TrustQuestions
from app.queries.whatif import WhatifQuestions
from rebalance_audit.domain.teams import Sight
from rebalance_audit.warehouse.warehouse import Warehouse, WarehouseError

__all__ = ["HOUR_MS", "Questions", "WarehouseError", "asked_tables", "opened", "opened_for_visitor"]


class Questions(
    ConnectQuestions,
    FindingQuestions,
    GroupQuestions,
    IncidentQuestions,
    PlaceQuestions,
    PresentQuestions,
    ReassignmentQuestions,
    RebalanceQuestions,
    ResponseQuestions,
    TrustQuestions,
    WhatifQuestions,
):
    """Typed questions to one warehouse. Safe to share between threads."""


@lru_cache(maxsize=64)
def opened(location: str, visitor: Visitor) -> Questions:
    """The reader of this warehouse for all visitors who may see and do the same, without their names. Raises
    WarehouseError, and tries again the next time."""
    found = access.rules()
    sight = None if visitor.teams is None or found is None else Sight(found.team_of, visitor.teams)
    return Questions(Warehouse.open(location), sight, may_answer=visitor.may_answer)


def opened_for_visitor(location: str) -> Questions:
    """The reader for the visitor of the page that is being drawn."""
    return opened(location, replace(access.visitor(), name=None))
