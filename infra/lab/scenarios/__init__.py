"""What the lab does to real clusters, and by hand the rebalances that must be found.

One module per subject; each registers its scenarios when it is imported, which importing this package does. `scenario`
holds their form and the list of all.
"""

from infra.lab.scenarios import (
    applications,
    at_once,
    broker,
    changes,
    classic,
    connect,
    deploys,
    fleets,
    kip848,
    libraries,
    limits,
    losses,
    member,
    midst,
    mishaps,
    modern,
    operations,
    reassignment,
    side_by_side,
    standstill,
    together,
    topics,
    upkeep,
    wild,
)

__all__ = [
    "applications",
    "at_once",
    "broker",
    "changes",
    "classic",
    "connect",
    "deploys",
    "fleets",
    "kip848",
    "libraries",
    "limits",
    "losses",
    "member",
    "midst",
    "mishaps",
    "modern",
    "operations",
    "reassignment",
    "side_by_side",
    "standstill",
    "together",
    "topics",
    "upkeep",
    "wild",
]
