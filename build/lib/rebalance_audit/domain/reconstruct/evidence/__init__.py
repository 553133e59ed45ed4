"""Evidence that every protocol's room uses: commits, clients' own lines, departures, marks of a stop or a resume.

What only one protocol has is in that protocol's room: `classic`, `connect`, `epochs`.
"""
