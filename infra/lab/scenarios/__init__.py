"""What the lab does to real clusters, and by hand the rebalances that must be found.

One module per subject; `scenario` holds the form and the list of all.
"""
