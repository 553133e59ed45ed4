"""Whether a log line may say something about groups, tasks, partitions or clocks; the rest of a log is other people's.

Cheap and generous: a line of a coordinator or controller is kept also where no form is known for it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from rebalance_audit.domain.log_lines import parse_line
from rebalance_audit.domain.model import SourceLine
from rebalance_audit.domain.reassign.lines import LINE_SIGNS

SIGNS = (
    "[GroupCoordinator ",
    "[GroupMetadataManager ",
    "coordinator.group.",
    "Group leader [",
    " is fenced by ",
    "WorkerConnector{",
    " Task threw ",
    "Advertised URI: ",
    *LINE_SIGNS,
)
"""One of them is enough."""
MEMBER_SIGNS = ("[Consumer ", "[Worker clientId=")
"""A client's or worker's own line: what it says stands behind the bracket."""
WORKER_SIGNS = (" task ", " connector ")
"""Words that many lines have: only those of a known form count."""
OF_CONNECTIONS = (
    "Connection to node ",
    "Node ",
    "Bootstrap broker ",
    "Cancelled in-flight ",
    "Disconnecting from node ",
    "Error while fetching metadata ",
    "Error sending fetch request ",
    "Rebootstrapping ",
    "Client requested connection close from node ",
    "Initiating connection to node ",
)
"""How a client logs its connections: 10,000 lines a second when a broker is gone (NetworkClient.java,
FetchSessionHandler.java), and nothing about its group."""


def _any_of(texts: Iterable[str]) -> str:
    return "(?:" + "|".join(re.escape(text) for text in texts) + ")"


SIGN = _any_of((*SIGNS, *WORKER_SIGNS))
MEMBER = _any_of(MEMBER_SIGNS)
MEMBER_OF_CONNECTION = MEMBER + r"[^\n\]]*\] " + _any_of(OF_CONNECTIONS) + r"[^\n\]]*$"
"""The same three as RE2 expressions. A block of lines holds none that `says_something` if it has no SIGN, and no line
with a MEMBER but those with a MEMBER_OF_CONNECTION."""


def says_something(line: SourceLine) -> bool:
    """Whether the line is evidence, as far as one line shows."""
    text = line.text
    if any(sign in text for sign in SIGNS):
        return True
    if any(sign in text for sign in MEMBER_SIGNS):
        return not (_is_of_connection(text) and parse_line(line) is None)
    return any(sign in text for sign in WORKER_SIGNS) and parse_line(line) is not None


def _is_of_connection(text: str) -> bool:
    """Whether the words behind the first line's last bracket are about a connection."""
    head = text.partition("\n")[0]
    return head.startswith(OF_CONNECTIONS, head.rfind("] ") + 2)
