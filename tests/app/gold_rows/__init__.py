"""A small believable warehouse, written by hand: what the pages are tested and looked at with.

Everything is relative to T0 and written as stories; the numbers the tests expect are the numbers written here.
`python -m tests.app.gold_rows FOLDER` writes it.
"""

from __future__ import annotations

from tests.app.gold_rows.connect_cluster import connect
from tests.app.gold_rows.deploys import checkout, payments
from tests.app.gold_rows.eager_group import orders
from tests.app.gold_rows.evidence import coverage
from tests.app.gold_rows.groups import group_row, many_groups
from tests.app.gold_rows.names import CLUSTER, FILE_ID, HOSTILE_GROUP, HOSTILE_MARKDOWN, T0
from tests.app.gold_rows.warehouse import publish, write

__all__ = [
    "CLUSTER", "FILE_ID", "HOSTILE_GROUP", "HOSTILE_MARKDOWN", "T0", "checkout", "connect", "coverage", "group_row",
    "many_groups", "orders", "payments", "publish", "write",
]  # fmt: skip
