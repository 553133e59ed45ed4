"""Faults between a broker and somebody's phone: a deterministic simulator, and real processes that are killed."""
