"""An example to copy: a deploy with its mark, and a gate after it that fails if the deploy cost too much."""

from __future__ import annotations

from datetime import datetime, timedelta

from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import DAG, Param

from dags.rebalance_gate import RebalanceGate
from dags.rebalance_mark import RebalanceMark

with DAG(
    dag_id="rebalance_audit_example_deploy",
    description="Example: deploy, then wait until the consumer group has settled",
    doc_md=(
        "The gate passes when nothing has happened in the group for two minutes, and fails if the deploy cost more "
        "than `most_seconds` partition-seconds or a regression (RB002) appeared. `rebalance-audit watch` has to bring "
        "evidence in meanwhile. The mark stands on every time line, beside what the deploy did."
    ),
    schedule=None,
    start_date=datetime(2026, 1, 1),
    catchup=False,
    max_active_runs=1,
    tags=["kafka", "audit", "example"],
    default_args={"owner": "rebalance-audit", "retries": 1, "retry_delay": timedelta(minutes=1)},
    params={
        "warehouse": Param("", type="string", description="Folder or object-store URL of the warehouse."),
        "group": Param("orders", type="string", description="The consumer group that is deployed."),
        "since": Param("", type="string", description="When the deploy began, as ISO text; this run's start if empty."),
    },
):
    deploy = BashOperator(task_id="deploy", bash_command="echo 'your deploy goes here'")
    gate = RebalanceGate(
        task_id="gate",
        group="{{ params.group }}",
        warehouse="{{ params.warehouse }}",
        since="{{ params.since }}",
        most_seconds=120,
    )
    RebalanceMark(  # beside them: a mark that cannot be set holds up no deploy
        task_id="mark",
        text="deploy of {{ params.group }}",
        group="{{ params.group }}",
        warehouse="{{ params.warehouse }}",
        at="{{ params.since }}",
    )
    deploy >> gate
