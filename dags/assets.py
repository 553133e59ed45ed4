"""What our DAGs leave for others: assets to schedule on, and the pool of everything that writes a warehouse.

from dags.assets import PUBLISHED

with DAG(dag_id="yours", schedule=[PUBLISHED]): ...
"""

from __future__ import annotations

import os
from typing import Any

from airflow.sdk import Asset

POOL = os.environ.get("REBALANCE_AUDIT_POOL", "rebalance_audit")
"""With one slot (`airflow pools set rebalance_audit 1 'one writer per warehouse'`): a warehouse has one writer."""

PUBLISHED = Asset(name="rebalance_audit_published", uri="rebalance-audit://published")
"""The gold tables of one publication, checked. The event's `extra` says of which warehouse."""
REPORT = Asset(name="rebalance_audit_report", uri="rebalance-audit://report")
"""A day's report."""
ADVICE = Asset(name="rebalance_audit_whatif", uri="rebalance-audit://whatif")
"""gold.whatif: the changes of settings worth most."""


def say_which_warehouse(context: Any, result: Any) -> None:
    """Note the warehouse in the asset's event; for `post_execute` of a task with the outlet PUBLISHED."""
    warehouse = context["params"].get("warehouse") or os.environ.get("REBALANCE_AUDIT_WAREHOUSE")
    context["outlet_events"][PUBLISHED].extra = {"warehouse": warehouse}
