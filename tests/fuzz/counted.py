"""Executions by target, for the line at the end of a run."""

COUNTED: dict[str, int] = {}
