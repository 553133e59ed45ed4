"""Marks become numbers: the bounds and the estimate of every pause, and the sums of a rebalance.

Which evidence gives a mark is decided in `reconstruct` (its `evidence` and `marks` modules), not here.
"""
