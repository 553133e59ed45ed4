"""Kafka's assignors as functions: who gets what, given who is there, what each wants and what each had.

The same assignments as the classes of Kafka 4.3.0 give (tests/differential/assignors.py). Racks are left out: a group
whose members set `client.rack` is outside the model.
"""

from __future__ import annotations

from .connect_eager import assign_connect_eagerly
from .connect_incremental import ConnectRound, IncrementalAssignor, Work
from .consumers import Assigned, NotAssigned, Partition, Subscriber, assign_ranges, assign_round_robin
from .server import ServerMember, assign_server_ranges, assign_uniformly
from .sticky import assign_cooperatively, assign_stickily

__all__ = [
    "Assigned",
    "ConnectRound",
    "IncrementalAssignor",
    "NotAssigned",
    "Partition",
    "ServerMember",
    "Subscriber",
    "Work",
    "assign_connect_eagerly",
    "assign_cooperatively",
    "assign_ranges",
    "assign_round_robin",
    "assign_server_ranges",
    "assign_stickily",
    "assign_uniformly",
]
