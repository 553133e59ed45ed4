"""`doctor`: show what a machine, warehouse, folder or cluster lacks, each with its remedy.

It leaves nothing behind: the file that it tries to write in a warehouse goes again.
"""

from __future__ import annotations

from rebalance_audit.doctor.clusters import cluster, settings, source
from rebalance_audit.doctor.diagnosis import Diagnosis, Health
from rebalance_audit.doctor.places import files, warehouse
from rebalance_audit.doctor.runtime import machine

__all__ = ["Diagnosis", "Health", "cluster", "files", "machine", "settings", "source", "warehouse"]
