"""What was compared, for the end of a run."""

LINES: list[str] = []
