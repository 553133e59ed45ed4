"""What the operators are given: a warehouse, an instant, and the command that works on it."""

from __future__ import annotations

import os
import shlex
from datetime import datetime
from typing import Any

from airflow.sdk.exceptions import AirflowFailException


def command() -> list[str]:
    """`rebalance-audit`, or what REBALANCE_AUDIT_COMMAND names in its place."""
    return shlex.split(os.environ.get("REBALANCE_AUDIT_COMMAND", "rebalance-audit"))


def warehouse_of(warehouse: str | None) -> str:
    found = warehouse or os.environ.get("REBALANCE_AUDIT_WAREHOUSE")
    if not found:
        raise AirflowFailException("No warehouse: give `warehouse`, or REBALANCE_AUDIT_WAREHOUSE on the worker.")
    return found


def instant_ms(name: str, text: str | None, context: Any) -> int:
    """ISO text with a zone as epoch ms; the start of the DAG's run where there is none. `name`: the parameter's."""
    instant: datetime = datetime.fromisoformat(text) if text else context["dag_run"].start_date
    if instant.tzinfo is None:
        raise AirflowFailException(f"{name}={text!r} has no zone; write it as 2026-11-22T14:00:00+00:00.")
    return round(instant.timestamp() * 1000)
