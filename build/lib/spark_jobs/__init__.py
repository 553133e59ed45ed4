"""The stages at scale: Spark carries, `rebalance_audit.domain` means, `rebalance_audit.warehouse` commits."""
