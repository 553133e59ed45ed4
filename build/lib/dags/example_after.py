"""An example to copy: another team's DAG, which runs when new rebalances are published."""

from __future__ import annotations

from datetime import datetime, timedelta

from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import DAG

from dags.assets import PUBLISHED

with DAG(
    dag_id="rebalance_audit_example_after",
    description="Example: something of yours, whenever new rebalances are published",
    doc_md="Its schedule is the asset `rebalance_audit_published`; the event says of which warehouse.",
    schedule=[PUBLISHED],
    start_date=datetime(2026, 1, 1),
    catchup=False,
    max_active_runs=1,
    tags=["kafka", "audit", "example"],
    default_args={"owner": "rebalance-audit", "retries": 1, "retry_delay": timedelta(minutes=1)},
):
    BashOperator(
        task_id="incidents",
        bash_command='exec ${REBALANCE_AUDIT_COMMAND:-rebalance-audit} export incident -w "$WAREHOUSE" -q',
        env={
            "WAREHOUSE": "{{ (triggering_asset_events.values() | first | last).extra.warehouse }}",
        },
        append_env=True,
    )
