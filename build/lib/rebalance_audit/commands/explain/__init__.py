"""`explain` and its three subjects: a group, a plan, a reassignment, from files or a cluster, without Spark."""
