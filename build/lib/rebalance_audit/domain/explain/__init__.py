"""Results as people read them in a terminal: a group, a rebalance, a reassignment, the stories of Connect.

Pure text from rows. The app has words of its own in `app/words` and `app/sentences`; rules are in `detect`.
"""
