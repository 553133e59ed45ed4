"""Log lines as events: the head (`read_head`), the message (`parse_line`, `parse_lines`), the cause (`classify_*`).

Reassignments and leaders have events of their own: `parse_controller_line`.
Fields of each kind stand in `model.LogKind` and `ControllerKind`, message forms in docs/log_lines.md.
"""

from rebalance_audit.domain.log_lines.controller import parse_controller_line
from rebalance_audit.domain.log_lines.controller_events import ControllerEvent, ControllerKind
from rebalance_audit.domain.log_lines.heads import LogHead, read_head, starts_event
from rebalance_audit.domain.log_lines.parse import Torn, outside_torn_lines, parse_line, parse_lines
from rebalance_audit.domain.log_lines.reasons import (
    ClassifiedReason,
    classify_fence,
    classify_leave,
    classify_reason,
    split_reason,
)

__all__ = [
    "ClassifiedReason",
    "ControllerEvent",
    "ControllerKind",
    "LogHead",
    "Torn",
    "classify_fence",
    "classify_leave",
    "classify_reason",
    "outside_torn_lines",
    "parse_controller_line",
    "parse_line",
    "parse_lines",
    "read_head",
    "split_reason",
    "starts_event",
]
