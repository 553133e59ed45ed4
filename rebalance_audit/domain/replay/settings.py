"""The settings of a group and its clients that a replay can change."""

from __future__ import annotations

from dataclasses import dataclass

EAGER_ASSIGNORS = ("range", "roundrobin", "sticky")
ASSIGNORS = (*EAGER_ASSIGNORS, "cooperative-sticky")
SERVER_ASSIGNORS = ("uniform", "range")
CONNECT_PROTOCOLS = ("eager", "compatible", "sessioned")
"""connect.protocol; in `assignor` of a Connect group. A group record calls the eager one `default`."""
ADVISED_WITHOUT_ASKING = frozenset(
    {
        "group.instance.id=auto",
        "partition.assignment.strategy=cooperative-sticky",
        "group.protocol=consumer",
        "connect.protocol=sessioned",
    }
)
"""What general advice names, alone or with others: worth an answer where it saves nothing, too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSettings:
    """None: as each member had it."""

    group_protocol: str = "classic"
    assignor: str = "range"
    is_static: bool | None = None
    """group.instance.id: None as it was, True for every member, False for none."""
    static_slots: frozenset[str] = frozenset()
    """Only these get one, where `is_static` is None."""
    leaves_on_close: bool = True
    session_timeout_ms: int | None = None
    heartbeat_ms: int = 3_000
    max_poll_interval_ms: int | None = None
    max_poll_records: int | None = None
    initial_delay_ms: int = 0
    connect_delay_ms: int = 300_000
    """scheduled.rebalance.max.delay.ms of the workers."""
    consumer_session_timeout_ms: int = 45_000
    """group.consumer.session.timeout.ms of the brokers (KIP-848)."""
    consumer_heartbeat_ms: int = 5_000
    """group.consumer.heartbeat.interval.ms of the brokers (KIP-848)."""

    member_count: int | None = None
    """At the busiest instant; None: as many as there were."""
    deploy_batch: int | None = None
    """Members that a deploy restarts at once; 0 is all of them. None: one after another, as it was."""
    deploy_gap_ms: int | None = None
    """From the last start of a batch to the next close."""
    deploy_restart_ms: int | None = None
    """From a member's close to its start."""

    @property
    def heartbeat_interval_ms(self) -> int:
        """The interval of the protocol that is chosen."""
        return self.heartbeat_ms if self.group_protocol == "classic" else self.consumer_heartbeat_ms

    @property
    def changes_deploys(self) -> bool:
        return any(v is not None for v in (self.deploy_batch, self.deploy_gap_ms, self.deploy_restart_ms))

    @property
    def is_cooperative(self) -> bool:
        return self.assignor in ("cooperative-sticky", "compatible", "sessioned")
