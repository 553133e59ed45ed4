"""Rebalance Audit: every Kafka rebalance, why it happened, what moved, how long it stood still, and the evidence."""

__version__ = "0.1.0"
