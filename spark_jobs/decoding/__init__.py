"""The tasks of the stage decode: records, log lines and offset commits into rows, and counts of what became of each."""
