"""RebalanceGate: after a deploy, wait until a consumer group has settled; fail if the deploy cost too much.

    RebalanceGate(task_id="gate", group="orders", warehouse="/var/lib/rebalance-audit", most_seconds=120)

It asks the published tables through the `rebalance-audit` command (`REBALANCE_AUDIT_COMMAND`), so that Airflow needs
nothing of it. Something else has to bring evidence in: `watch`, or the DAG `rebalance_audit`.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import asdict
from datetime import timedelta
from typing import Any

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowException, AirflowFailException
from airflow.triggers.base import BaseTrigger, TriggerEvent

from dags import given
from dags.gate_judgement import REGRESSIONS, Judgement, Row, judge


class RebalanceGateTrigger(BaseTrigger):
    """Asks again and again until the group has settled, the deploy is refused, or the time is up."""

    def __init__(
        self, *, group: str, warehouse: str, since_ms: int, most_seconds: float | None, quiet_ms: int, every_s: float,
        until_s: float, cluster_id: str | None, regressions: Sequence[str],
    ) -> None:  # fmt: skip
        super().__init__()
        self.asked: dict[str, Any] = {
            "group": group, "warehouse": warehouse, "since_ms": since_ms, "most_seconds": most_seconds,
            "quiet_ms": quiet_ms, "every_s": every_s, "until_s": until_s, "cluster_id": cluster_id,
            "regressions": list(regressions),
        }  # fmt: skip

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return f"{type(self).__module__}.{type(self).__qualname__}", self.asked

    async def run(self) -> AsyncIterator[TriggerEvent]:
        asked = self.asked
        while True:
            try:
                judgement = await self._judgement()
            except CommandFailed as failed:
                yield TriggerEvent({"is_settled": False, "refusal": None, "error": str(failed)})
                return
            is_late = time.time() >= asked["until_s"]
            if judgement.is_settled or judgement.refusal or is_late:
                yield TriggerEvent({**asdict(judgement), "error": None})
                return
            await asyncio.sleep(asked["every_s"])

    async def _judgement(self) -> Judgement:
        asked = self.asked
        of_group = ["-g", asked["group"], "--from", str(asked["since_ms"])]
        rebalances, findings, coverage = [
            await self._rows(table, options)
            for table, options in (("rebalance", of_group), ("finding", of_group), ("coverage", []))
        ]
        return judge(
            asked["group"], asked["since_ms"], rebalances, findings, coverage, most_seconds=asked["most_seconds"],
            quiet_ms=asked["quiet_ms"], regressions=asked["regressions"],
        )  # fmt: skip

    async def _rows(self, table: str, options: Sequence[str]) -> list[Row]:
        cluster = ["--cluster-id", self.asked["cluster_id"]] if self.asked["cluster_id"] else []
        process = await asyncio.create_subprocess_exec(
            *given.command(), "export", table, "-w", self.asked["warehouse"], *options, *cluster, "-q", "-o", "jsonl",
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        out, said = await process.communicate()
        if process.returncode:
            raise CommandFailed(said.decode(errors="replace").strip() or f"the command ended with {process.returncode}")
        return [json.loads(line) for line in out.decode().splitlines()]


class CommandFailed(Exception):
    """The sentence of the command."""


class RebalanceGate(BaseOperator):
    """Passes when the group has settled; fails for good if the deploy cost too much or made the group worse.

    `since`: when the deploy began, as ISO text; the run's own start if not given. `most_seconds`: partition-seconds
    that it may cost (None: any). `quiet`: for so long nothing may happen before it passes. `wait`: without such a quiet
    time the task fails after this long.
    A deferred gate takes no worker's place; with `deferrable=False` it waits on its worker.
    """

    template_fields: Sequence[str] = ("group", "warehouse", "since", "cluster_id")

    def __init__(
        self, *, group: str, warehouse: str | None = None, since: str | None = None, most_seconds: float | None = None,
        quiet: timedelta = timedelta(minutes=2), wait: timedelta = timedelta(minutes=30),
        every: timedelta = timedelta(seconds=15), cluster_id: str | None = None,
        regressions: Sequence[str] = REGRESSIONS, deferrable: bool = True, **rest: Any,
    ) -> None:  # fmt: skip
        super().__init__(**rest)
        self.group, self.warehouse, self.since, self.cluster_id = group, warehouse, since, cluster_id
        self.most_seconds, self.quiet, self.wait, self.every = most_seconds, quiet, wait, every
        self.regressions, self.deferrable = list(regressions), deferrable

    def execute(self, context: Any) -> str:
        trigger = RebalanceGateTrigger(
            group=self.group, warehouse=given.warehouse_of(self.warehouse),
            since_ms=given.instant_ms("since", self.since, context),
            most_seconds=self.most_seconds, quiet_ms=round(self.quiet.total_seconds() * 1000),
            every_s=self.every.total_seconds(), until_s=time.time() + self.wait.total_seconds(),
            cluster_id=self.cluster_id, regressions=self.regressions,
        )  # fmt: skip
        if self.deferrable:
            self.defer(trigger=trigger, method_name="execute_complete")
        return self.execute_complete(context, asyncio.run(_first(trigger)))

    def execute_complete(self, context: Any, event: Mapping[str, Any]) -> str:
        if event["error"]:
            raise AirflowException(event["error"])
        if event["refusal"]:
            raise AirflowFailException(event["refusal"])
        if not event["is_settled"]:
            raise AirflowException(f"{event['sentence']} It has not settled within {self.wait}.")
        self.log.info("%s It has settled.", event["sentence"])
        return str(event["sentence"])


async def _first(trigger: RebalanceGateTrigger) -> dict[str, Any]:
    async for event in trigger.run():
        return dict(event.payload)
    raise AssertionError("a gate always ends with an event")
