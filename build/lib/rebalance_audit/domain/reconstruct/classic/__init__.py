"""Consumer groups of the classic protocol, eager and cooperative, static members and Streams included.

Start at `rebalances`; causes are found in `causes`, a partition's way from owner to owner in `hand_overs`. Connect's
groups are in `connect`, groups of KIP-848 and after in `epochs`.
"""
