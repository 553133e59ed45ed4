"""Assignors: which are eager, the least that has to move, Streams tasks in user data.

Nothing here knows a group's history.
"""
