"""The assignors of consumers that make their members give everything up before they re-join."""

EAGER_ASSIGNORS = frozenset({"range", "roundrobin", "sticky", "RoundRobinAssigner"})
"""A member that offers one of these works eagerly, whatever is elected (KIP-429). The last is kafkajs's."""
