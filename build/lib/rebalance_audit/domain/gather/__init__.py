"""From single decoded events to all that is known about one group: clocks, belonging, commit marks, windows.

What a rebalance is, is decided in `reconstruct`; bytes are read in `decode`, `records` and `log_lines`.
"""
