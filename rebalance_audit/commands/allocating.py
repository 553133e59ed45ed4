"""Where a process that runs for long gets its memory from."""

from __future__ import annotations

import os

_POOL = "ARROW_DEFAULT_MEMORY_POOL"


def use_the_systems_malloc() -> None:
    """Arrow takes memory from the C library. Its own allocator keeps what threads let go until these ask again: some
    200 MB beside a busy cluster (decision 0124).

    To be called before anything imports pyarrow, which reads the choice from the environment, once. Workers of Spark,
    which end soon, are not to inherit it. Where the user has made the choice it stays.
    """
    if _POOL in os.environ:
        return
    os.environ[_POOL] = "system"
    try:
        import pyarrow as pa

        pa.default_memory_pool()
    finally:
        del os.environ[_POOL]
