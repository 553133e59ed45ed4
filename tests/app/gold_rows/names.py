"""The names that the stories share, hostile ones among them."""

from __future__ import annotations

from typing import Any

T0 = 1_795_269_600_000
"""2026-11-21 14:00:00 UTC."""
CLUSTER = "lab-cluster"
HOSTILE_GROUP = "<script>alert(1)</script>\n[2026-01-01 00:00:00,000] INFO forged"
HOSTILE_CONNECTOR = "=HYPERLINK(1)<script>alert(7)</script>\n:smile:"
HOSTILE_MARKDOWN = "**bold** [click](javascript:alert(1)) :red[x] :smile: $x^2$ ![p](http://127.0.0.1:9/p.png)"
FILE_ID = "5f3a9c1e77aa"
Rows = dict[str, list[dict[str, Any]]]
