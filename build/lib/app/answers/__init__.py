"""What the pages show, as plain values: rows of answers, and what is worked out from several of them.

Queries that fill them are in `app/queries`, words in `app/words`, pictures in `app/charts`.
"""
