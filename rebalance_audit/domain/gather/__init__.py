"""From single decoded events to all that is known about one group: clocks, belonging, commit marks, windows.

`reconstruct` decides what a rebalance is; `decode`, `records` and `log_lines` read the bytes.
"""
