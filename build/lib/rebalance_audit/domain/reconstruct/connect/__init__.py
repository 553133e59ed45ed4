"""Connect clusters: rounds, who ran which connector and task, when each stopped and ran again, and why.

Start at `rebalances`; `tasks` writes the time line of gold.connect_task. It imports nothing from `classic` or `epochs`.
"""
