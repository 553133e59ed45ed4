"""Groups with epochs: the consumer protocol of KIP-848, share groups, streams groups.

Start at `rebalances` (from records) and `lines` (from log lines alone). It imports nothing from `connect` or `classic`.
"""
