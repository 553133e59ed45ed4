"""Messages of Connect workers, 2.3 to 4.4."""

from __future__ import annotations

from typing import Any

import pytest

from rebalance_audit.domain.model import LogKind
from tests.domain.log_lines.lines import HEAD, HERDER_LOGGER, WORKER, event_of, parsed

LEADER = "connect-localhost:21763-e7b74631-876f-4e52-834f-3868df7cf20d"
ASSIGNED = {"error": 0, "leader": LEADER, "leader_url": "http://localhost:21763/", "config_offset": 7}
ASSIGNMENT = f"Assignment{{error=0, leader='{LEADER}', leaderUrl='http://localhost:21763/', offset=7, "

GROUP: list[tuple[str, str, LogKind, dict[str, Any]]] = [
    ("all", "Rebalance started", LogKind.WORKER_REBALANCE_STARTED, {}),
    (
        "2.4-4.4",
        f"Joined group at generation 5 with protocol version 2 and got assignment: {ASSIGNMENT}connectorIds=[alpha], "
        "taskIds=[alpha-2, my conn-10], revokedConnectorIds=[], revokedTaskIds=[beta-0], delay=20000} with rebalance "
        "delay: 20000",
        LogKind.WORKER_JOINED,
        {
            "generation_id": 5,
            "protocol_version": 2,
            **ASSIGNED,
            "connectors": ("alpha",),
            "tasks": ("alpha-2", "my conn-10"),
            "revoked_connectors": (),
            "revoked_tasks": ("beta-0",),
            "delay_ms": 20000,
            "rebalance_delay_ms": 20000,
        },
    ),
    (
        "eager",
        f"Joined group at generation 5 with protocol version 0 and got assignment: {ASSIGNMENT}connectorIds=[], "
        "taskIds=[alpha-2]} with rebalance delay: 0",
        LogKind.WORKER_JOINED,
        {
            "generation_id": 5,
            "protocol_version": 0,
            **ASSIGNED,
            "connectors": (),
            "tasks": ("alpha-2",),
            "rebalance_delay_ms": 0,
        },
    ),
    (
        "2.3",
        f"Joined group at generation 5 and got assignment: {ASSIGNMENT}connectorIds=[], taskIds=[]}}",
        LogKind.WORKER_JOINED,
        {"generation_id": 5, **ASSIGNED, "connectors": (), "tasks": ()},
    ),
    (
        "all",
        "Starting connectors and tasks using config offset 7",
        LogKind.WORKER_WORK_STARTING,
        {"config_offset": 7},
    ),
    ("all", "Finished starting connectors and tasks", LogKind.WORKER_WORK_STARTED, {}),
    (
        "all",
        "Finished stopping tasks in preparation for rebalance",
        LogKind.WORKER_WORK_STOPPED,
        {"stage": "tasks_stopped"},
    ),
    (
        "all",
        "Finished flushing status backing store in preparation for rebalance",
        LogKind.WORKER_WORK_STOPPED,
        {"stage": "status_flushed"},
    ),
    (
        "all",
        "Current config state offset 3 is behind group assignment 7, reading to end of config log",
        LogKind.WORKER_CONFIG_BEHIND,
        {"config_offset": 3, "assignment_offset": 7},
    ),
    (
        "all",
        "Current config state offset 9 does not match group assignment 7. Forcing rebalance.",
        LogKind.WORKER_CONFIG_BEHIND,
        {"config_offset": 9, "assignment_offset": 7, "forces_rebalance": True},
    ),
    (
        "all",
        "Finished reading to end of log and updated config snapshot, new config log offset: 7",
        LogKind.WORKER_CONFIG_READ,
        {"config_offset": 7},
    ),
    (
        "all",
        "Join group completed, but assignment failed and we are the leader. Reading to end of config and retrying.",
        LogKind.WORKER_ASSIGNMENT_FAILED,
        {"cause": "leader"},
    ),
    (
        "2.x",
        "Join group completed, but assignment failed and we lagging. Reading to end of config and retrying.",
        LogKind.WORKER_ASSIGNMENT_FAILED,
        {"cause": "lagging"},
    ),
    (
        "3.x",
        "Join group completed, but assignment failed and we are lagging. Reading to end of config and retrying.",
        LogKind.WORKER_ASSIGNMENT_FAILED,
        {"cause": "lagging"},
    ),
    (
        "all",
        "Join group completed, but assignment failed. We were up to date, so just retrying.",
        LogKind.WORKER_ASSIGNMENT_FAILED,
        {"cause": "up_to_date"},
    ),
    (
        "all",
        "Was selected to perform assignments, but do not have latest config found in sync request. Returning an empty "
        "configuration to trigger re-sync.",
        LogKind.WORKER_ASSIGNMENT_FAILED,
        {"cause": "leader_without_config"},
    ),
    (
        "all",
        "Broker coordinator was unreachable for 60000ms. Revoking previous assignment Assignment{error=0} to avoid "
        "running "
        "tasks while not being a member the group",
        LogKind.WORKER_COORDINATOR_LOST,
        {"duration_ms": 60000, "assignment": "Assignment{error=0}"},
    ),
    (
        "all",
        "Connector alpha config updated",
        LogKind.WORKER_CONFIG_CHANGED,
        {"connector": "alpha", "change": "connector_updated"},
    ),
    (
        "all",
        "Connector my config removed conn config removed",
        LogKind.WORKER_CONFIG_CHANGED,
        {"connector": "my config removed conn", "change": "connector_removed"},
    ),
    (
        "all",
        "Connector alpha target state change",
        LogKind.WORKER_CONFIG_CHANGED,
        {"connector": "alpha", "change": "target_state"},
    ),
    (
        "all",
        "Tasks [alpha-0, alpha-1] configs updated",
        LogKind.WORKER_CONFIG_CHANGED,
        {"tasks": ("alpha-0", "alpha-1"), "change": "tasks_updated"},
    ),
    (
        "3.x",
        "Handling task config update by stopping tasks [alpha-0], which will be restarted after rebalance if still "
        "assigned "
        "to this worker",
        LogKind.WORKER_TASKS_RECONFIGURED,
        {"tasks": ("alpha-0",)},
    ),
    (
        "2.x",
        "Handling task config update by restarting tasks [alpha-0]",
        LogKind.WORKER_TASKS_RECONFIGURED,
        {"tasks": ("alpha-0",)},
    ),
    (
        "all",
        "worker poll timeout has expired. This means the time between subsequent calls",
        LogKind.WORKER_POLL_TIMEOUT,
        {"detail": "This means the time between subsequent calls"},
    ),
    ("all", "Starting task my-conn-3", LogKind.WORKER_TASK_STARTING, {"connector": "my-conn", "task": 3}),
    ("all", "Starting connector my-conn-3", LogKind.WORKER_CONNECTOR_STARTING, {"connector": "my-conn-3"}),
]

BARE: list[tuple[str, str, LogKind, dict[str, Any]]] = [
    ("Creating task alpha-0-0", "Worker:640", LogKind.WORKER_TASK_STARTING, {"connector": "alpha-0", "task": 0}),
    (
        "WorkerSourceTask{id=alpha-0} Source task finished initialization and start",
        "AbstractWorkerSourceTask:281",
        LogKind.WORKER_TASK_STARTED,
        {"connector": "alpha", "task": 0},
    ),
    (
        "WorkerSinkTask{id=my conn-12} Sink task finished initialization and start",
        "WorkerSinkTask:333",
        LogKind.WORKER_TASK_STARTED,
        {"connector": "my conn", "task": 12},
    ),
    (
        "WorkerSourceTask{id=broken-1} Task threw an uncaught and unrecoverable exception. Task is being killed and "
        "will not recover until manually restarted",
        "WorkerTask:251",
        LogKind.WORKER_TASK_FAILED,
        {"connector": "broken", "task": 1},
    ),
    (
        "Advertised URI: http://localhost:26908/",
        "rest.RestServer:371",
        LogKind.WORKER_ADDRESS,
        {"url": "http://localhost:26908/"},
    ),
    ("Stopping task alpha-0", "Worker:1", LogKind.WORKER_TASK_STOPPING, {"connector": "alpha", "task": 0}),
    (
        "Graceful stop of task alpha-0 failed.",
        "Worker:1",
        LogKind.WORKER_TASK_STOPPED,
        {"connector": "alpha", "task": 0, "is_graceful": False},
    ),
    (
        "Creating connector alpha of type a.b.C",
        "Worker:1",
        LogKind.WORKER_CONNECTOR_STARTING,
        {"connector": "alpha", "connector_class": "a.b.C"},
    ),
    ("Finished creating connector alpha", "Worker:1", LogKind.WORKER_CONNECTOR_STARTED, {"connector": "alpha"}),
    ("Stopping connector alpha", "Worker:1", LogKind.WORKER_CONNECTOR_STOPPING, {"connector": "alpha"}),
    (
        "Completed shutdown for WorkerConnector{id=alpha}",
        "WorkerConnector:1",
        LogKind.WORKER_CONNECTOR_STOPPED,
        {"connector": "alpha"},
    ),
    (
        "Setting connector alpha state to PAUSED",
        "Worker:953",
        LogKind.WORKER_TARGET_STATE,
        {"connector": "alpha", "state": "PAUSED"},
    ),
]


@pytest.mark.parametrize(("releases", "message", "kind", "fields"), GROUP)
def test_the_workers_message_is_understood(releases: str, message: str, kind: LogKind, fields: dict[str, Any]) -> None:
    event = event_of(HEAD + WORKER + message + HERDER_LOGGER + "\n")
    assert (event.kind, event.group_id) == (kind, "connect-lab")
    assert dict(event.fields) == {**fields, "client_id": "connect-localhost:21763"}


@pytest.mark.parametrize("context", ["", "[alpha|worker] ", "[my conn|task-12] "])
@pytest.mark.parametrize(("message", "logger", "kind", "fields"), BARE)
def test_the_tasks_message_is_understood_in_any_context(
    message: str, logger: str, kind: LogKind, fields: dict[str, Any], context: str
) -> None:
    event = event_of(f"{HEAD}{context}{message} (org.apache.kafka.connect.runtime.{logger})\n")
    assert (event.kind, event.group_id, dict(event.fields)) == (kind, None, fields)


@pytest.mark.parametrize(
    "line",
    [
        HEAD + "Creating task for cleanup-1 (kafka.log.LogManager)\n",
        HEAD + WORKER + "Herder started" + HERDER_LOGGER,
        HEAD + WORKER + "Session key updated" + HERDER_LOGGER,
        HEAD + "Kafka Connect starting (org.apache.kafka.connect.runtime.Connect:50)\n",
    ],
)
def test_other_messages_show_nothing(line: str) -> None:
    assert parsed(line) is None
