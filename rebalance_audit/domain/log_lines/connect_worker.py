"""Messages of Connect workers: those behind `[Worker clientId=…]`, and those of the worker's own tasks."""

from __future__ import annotations

from rebalance_audit.domain.log_lines.rules import Rules, rules
from rebalance_audit.domain.model import LogKind

_ASSIGNMENT = (
    "Assignment{error=<error:word>, leader='<leader>', leaderUrl='<leader_url>', offset=<config_offset:long>, "
    "connectorIds=[<connectors>], taskIds=[<tasks>]"
)
_REVOKED = ", revokedConnectorIds=[<revoked_connectors>], revokedTaskIds=[<revoked_tasks>]{, delay=<delay_ms:int>}?"
_TIMES = (
    "Joined group at generation <generation_id:int>{ with protocol version <protocol_version:int>}? "
    "and got assignment: "
)
_DELAY = "{ with rebalance delay: <rebalance_delay_ms:int>}?"


GROUP_RULES: Rules = rules(
    (
        (LogKind.WORKER_REBALANCE_STARTED, "Rebalance started"),
        (LogKind.WORKER_JOINED, _TIMES + _ASSIGNMENT + _REVOKED + "}" + _DELAY),
        (LogKind.WORKER_JOINED, _TIMES + _ASSIGNMENT + "}" + _DELAY),
        (LogKind.WORKER_JOINED, "Joined group and got assignment: " + _ASSIGNMENT + "}"),
        (LogKind.WORKER_WORK_STARTING, "Starting connectors and tasks using config offset <config_offset:long>"),
        (LogKind.WORKER_WORK_STARTED, "Finished starting connectors and tasks"),
        (
            LogKind.WORKER_WORK_STOPPED,
            "Finished stopping tasks in preparation for rebalance",
            {"stage": "tasks_stopped"},
        ),
        (
            LogKind.WORKER_WORK_STOPPED,
            "Finished flushing status backing store in preparation for rebalance",
            {"stage": "status_flushed"},
        ),
        (
            LogKind.WORKER_CONFIG_BEHIND,
            "Current config state offset <config_offset:long> is behind group assignment <assignment_offset:long>, "
            "reading to end of config log",
        ),
        (
            LogKind.WORKER_CONFIG_BEHIND,
            "Current config state offset <config_offset:long> does not match group assignment "
            "<assignment_offset:long>. Forcing rebalance.",
            {"forces_rebalance": True},
        ),
        (
            LogKind.WORKER_CONFIG_READ,
            "Finished reading to end of log and updated config snapshot, new config log offset: <config_offset:long>",
        ),
        (
            LogKind.WORKER_ASSIGNMENT_FAILED,
            "Join group completed, but assignment failed and we are the leader. Reading to end of config and retrying.",
            {"cause": "leader"},
        ),
        (
            LogKind.WORKER_ASSIGNMENT_FAILED,
            "Join group completed, but assignment failed and we {are }?lagging. Reading to end of config and retrying.",
            {"cause": "lagging"},
        ),
        (
            LogKind.WORKER_ASSIGNMENT_FAILED,
            "Join group completed, but assignment failed, but we were up to date, so just retrying.",
            {"cause": "up_to_date"},
        ),
        (
            LogKind.WORKER_ASSIGNMENT_FAILED,
            "Join group completed, but assignment failed but we were up to date, so just retrying.",
            {"cause": "up_to_date"},
        ),
        (
            LogKind.WORKER_ASSIGNMENT_FAILED,
            "Join group completed, but assignment failed. We were up to date, so just retrying.",
            {"cause": "up_to_date"},
        ),
        (
            LogKind.WORKER_ASSIGNMENT_FAILED,
            "Was selected to perform assignments, but do not have latest config found in sync request. "
            "Returning an empty configuration to trigger re-sync.",
            {"cause": "leader_without_config"},
        ),
        (
            LogKind.WORKER_COORDINATOR_LOST,
            "Broker coordinator was unreachable for <duration_ms:long>ms. Revoking previous assignment <assignment> "
            "to avoid running tasks while not being a member the group",
        ),
        (
            LogKind.WORKER_ASSIGNMENT_REVOKED,
            "Revoking current running assignment <assignment> because after <retries:int> retries the worker has not "
            "caught "
            "up with the latest Connect cluster updates",
        ),
        (LogKind.WORKER_CONFIG_CHANGED, "Connector <connector> config updated", {"change": "connector_updated"}),
        (LogKind.WORKER_CONFIG_CHANGED, "Connector <connector> config removed", {"change": "connector_removed"}),
        (LogKind.WORKER_CONFIG_CHANGED, "Connector <connector> target state change", {"change": "target_state"}),
        (LogKind.WORKER_CONFIG_CHANGED, "Tasks [<tasks>] configs updated", {"change": "tasks_updated"}),
        (
            LogKind.WORKER_TASKS_RECONFIGURED,
            "Handling task config update by stopping tasks [<tasks>], which will be restarted after rebalance if still "
            "assigned to this worker",
        ),
        (LogKind.WORKER_TASKS_RECONFIGURED, "Handling task config update by restarting tasks [<tasks>]"),
        (LogKind.WORKER_POLL_TIMEOUT, "worker poll timeout has expired. <detail>"),
        (LogKind.WORKER_TASK_STARTING, "Starting task <resource>"),
        (LogKind.WORKER_CONNECTOR_STARTING, "Starting connector <connector>"),
        (LogKind.WORKER_STOPPING, "Stopping connectors and tasks that are still assigned to this worker."),
    )
)
"""Behind `[Worker clientId=…, groupId=…] `."""

TASK_RULES: Rules = rules(
    (
        (LogKind.WORKER_ADDRESS, "Advertised URI: <url:word>"),
        (LogKind.WORKER_TASK_STARTING, "Creating task <resource>"),
        (LogKind.WORKER_TASK_STARTED, "WorkerSinkTask{id=<resource>} Sink task finished initialization and start"),
        (LogKind.WORKER_TASK_STARTED, "WorkerSourceTask{id=<resource>} Source task finished initialization and start"),
        (
            LogKind.WORKER_TASK_STARTED,
            "ExactlyOnceWorkerSourceTask{id=<resource>} Source task finished initialization and start",
        ),
        *(
            (
                LogKind.WORKER_TASK_FAILED,
                f"{kind}{{id=<resource>}} Task threw an uncaught and unrecoverable exception. Task is being killed and "
                "will not recover until manually restarted",
            )
            for kind in ("WorkerSinkTask", "WorkerSourceTask", "ExactlyOnceWorkerSourceTask")
        ),
        (LogKind.WORKER_TASK_STOPPING, "Stopping task <resource>"),
        (LogKind.WORKER_TASK_STOPPED, "Graceful stop of task <resource> succeeded.", {"is_graceful": True}),
        (LogKind.WORKER_TASK_STOPPED, "Graceful stop of task <resource> failed.", {"is_graceful": False}),
        (LogKind.WORKER_CONNECTOR_STARTING, "Creating connector <connector> of type <connector_class:word>"),
        (LogKind.WORKER_CONNECTOR_STARTED, "Finished creating connector <connector>"),
        (LogKind.WORKER_CONNECTOR_STOPPING, "Stopping connector <connector>"),
        (LogKind.WORKER_CONNECTOR_STOPPED, "Completed shutdown for WorkerConnector{id=<connector>}"),
        (LogKind.WORKER_CONNECTOR_STOPPED, "Graceful stop of connector <connector> succeeded."),
        (LogKind.WORKER_TARGET_STATE, "Setting connector <connector> state to <state:word>"),
    )
)
"""Without a prefix: loggers org.apache.kafka.connect.runtime.Worker, WorkerSinkTask, WorkerConnector, …"""
