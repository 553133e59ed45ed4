"""The assignors of consumers that make their members give everything up before they re-join."""

EAGER_ASSIGNORS = frozenset({"range", "roundrobin", "sticky"})
"""A member that offers one of these works eagerly, whatever is elected (KIP-429)."""
