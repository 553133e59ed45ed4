"""What a lab cluster consists of. Pure: nothing is started here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from .configs import Settings


@dataclass(frozen=True, kw_only=True, slots=True)
class ClusterShape:
    """Brokers, controllers, workers and disks, and how they are set up."""

    brokers: int = 1
    controllers_apart: int = 0
    """Controllers that are no brokers; 0: the brokers are controllers, too."""
    zookeeper: bool | None = None
    """None: as versions before 3.3 need it."""
    connect_workers: int = 0
    connect_group: str = "connect-lab"
    disks: int = 1
    """Data directories of each broker."""
    disk_mb: int | None = None
    """Each broker has a disk of its own of that size (a tmpfs, which needs root)."""
    broker_properties: Settings = field(default_factory=dict)
    worker_properties: Settings = field(default_factory=dict)
    listeners: Mapping[str, str] = field(default_factory=dict)
    """Name and protocol of further listeners of a single broker, beside the plain one."""
    broker_flags: Sequence[str] = ()
    """Of the brokers' JVMs."""
    time_zone: str = "UTC"
    """Of the hosts of brokers and workers, by which they write their logs."""


ONE_BROKER = ClusterShape()
