"""What each table holds, for readers who do not know its name."""

from __future__ import annotations

HOLDS = {
    "gold.incident": "incidents: what happened, whose doing it was, what it cost",
    "gold.finding": "what the rules found",
    "gold.rebalance": "rebalances, their causes and their downtime",
    "gold.rebalance_member": "which member held what",
    "gold.movement": "what moved in each rebalance, and how long it stood still",
    "gold.standstill": "members that hung",
    "gold.group": "the groups and their state",
    "gold.connect_task": "when each task and connector ran",
    "gold.reassignment": "reassignments",
    "gold.reassignment_step": "the steps of each reassignment",
    "gold.leader_election": "changes of leaders",
    "gold.leader_move": "changes of leaders",
    "gold.mark": "deploys and changes",
    "gold.coverage": "which evidence was seen, and which was not",
    "gold.check": "checks of the tables",
    "gold.whatif": "what other settings would have saved",
    "gold.response": "acknowledgements and silences",
    "silver.group_event": "what each record and log line says",
    "silver.contradiction": "evidence that contradicts the rest",
    "silver.undecoded": "records and lines that were not understood",
    "silver.decode_count": "how much evidence was understood",
}
"""By table; the others are read by no page, or hold the evidence itself."""
