"""The log of evidence: what came into bronze and what was published, as leaves of a Merkle tree with signed heads.

    <location>/audit/leaves/<n>.jsonl   256 leaves from the n-th on; a line is the leaf's hash, a blank, the leaf
    <location>/audit/head.json          the newest head, and what is needed to add leaves
    <location>/audit/acts.json          verbs that began to take rows away and are in no leaf yet
    <second place>/heads.jsonl          every head; on an object store one object for each: heads/<size>.json

Leaves are JSON in one form (`signing.canonical`), each with its time:

    begin        the log's name and the schema version
    evidence     one table of bronze: files that came and went, and the digest of the rows of each landing file
    publication  the hash of published.json, the tables' versions, and files of gold that came and went
    responses    the same of gold.response, which people add to at any time

All have the hashes of the commits in the tables' Delta logs that say so.

Whoever holds the warehouse's lease adds leaves when it is given back, so that a run costs
what it changed. Decision 0021.
"""

from __future__ import annotations

from rebalance_audit.warehouse.evidence_log.adding import add_news
from rebalance_audit.warehouse.evidence_log.leaves import COMMIT_ID, SAME_ROWS, actions_in
from rebalance_audit.warehouse.evidence_log.log_files import Act, read_acts, read_head, write_acts
from rebalance_audit.warehouse.evidence_log.second_place import SecondPlace

__all__ = [
    "COMMIT_ID",
    "SAME_ROWS",
    "Act",
    "SecondPlace",
    "actions_in",
    "add_news",
    "read_acts",
    "read_head",
    "write_acts",
]
