"""The stages at scale: Spark moves the rows, `rebalance_audit.domain` works out what they mean, and
`rebalance_audit.warehouse` commits them."""
