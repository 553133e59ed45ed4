"""Alerts within a second of their evidence: what `watch` knows about the groups to which something happens right now.

landed evidence ─ memory (one group's evidence, folded by the same functions as in the stages) ─ judge ─ alerts

The tables follow (spark_jobs) and say the same: an incident has one id, and one file of what was sent.
"""
