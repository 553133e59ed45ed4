"""Rows of gold that summarise others: the latest state of a group, leader moves, standing verdicts of checks.

Rebalances, movements and findings are published as `measure` and `detect` made them; nothing here changes them.
"""
