"""The attempts of a group to reach a new number, merged from records and log lines, and what each row shows of one.

Outcome, times and triggers as lines state them. Who held what, and why without a line, is in the protocols' rooms.
"""
