"""RebalanceMark: note a deploy, so that every time line shows it beside what it did.

    RebalanceMark(task_id="mark", text="v2.3 of orders", group="orders*", warehouse="/var/lib/rebalance-audit")

It calls the `rebalance-audit` command (`REBALANCE_AUDIT_COMMAND`), so that Airflow needs nothing of it.
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from typing import Any

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from dags import given

USAGE = 2
"""The command's exit status for what another try cannot mend."""


class RebalanceMark(BaseOperator):
    """Marks `text` in every cluster, or in `cluster_id`, for groups that `group` names as a shell pattern.

    `at`: when it was done, as ISO text with its zone; the run's own start if not given, also when the task is tried
    again. It waits half a minute for another writer of the warehouse, then fails; `retries` tries again.
    """

    template_fields: Sequence[str] = ("text", "group", "warehouse", "at", "cluster_id")

    def __init__(
        self, *, text: str, group: str = "*", warehouse: str | None = None, at: str | None = None,
        cluster_id: str | None = None, **rest: Any,
    ) -> None:  # fmt: skip
        super().__init__(**rest)
        self.text, self.group, self.warehouse, self.at, self.cluster_id = text, group, warehouse, at, cluster_id

    def execute(self, context: Any) -> None:
        called_with = [
            *given.command(),
            "mark", f"--warehouse={given.warehouse_of(self.warehouse)}",
            f"--text={self.text}", f"--group={self.group}", f"--at={given.instant_ms('at', self.at, context)}",
        ]  # fmt: skip
        if self.cluster_id:
            called_with.append(f"--cluster-id={self.cluster_id}")
        called = subprocess.run(called_with, capture_output=True, text=True, check=False)
        said = called.stderr.strip()
        if called.returncode:
            failure = AirflowFailException if called.returncode == USAGE else AirflowException
            raise failure(said or f"the command ended with {called.returncode}")
        self.log.info("%s", said)
