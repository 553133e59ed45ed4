"""What assignors hand out: eager ones, the least that has to move, Streams tasks in user data.

Nothing here knows a group's history.
"""
