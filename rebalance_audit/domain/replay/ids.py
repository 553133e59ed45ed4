"""Member ids: their order decides what several assignors give to whom, and their ends are random.

The classic coordinator makes one of the client id or the instance id and a UUID; under KIP-848 a member names itself by
a random id alone, 22 characters in Java and librdkafka (Uuid of Kafka's clients).
"""

from __future__ import annotations

import re
from base64 import urlsafe_b64encode
from random import Random

_UUID_END = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$")
_UUID_BYTES = 16
_SELF_GIVEN = 22


def other_id(member_id: str, rng: Random) -> str:
    """The id that the same member might have had as well; one that is of neither form stays."""
    drawn = rng.getrandbits(8 * _UUID_BYTES)
    if len(member_id) == _SELF_GIVEN:
        return urlsafe_b64encode(drawn.to_bytes(_UUID_BYTES, "big")).decode()[:_SELF_GIVEN]
    found = _UUID_END.search(member_id)
    if found is None:
        return member_id
    digits = f"{drawn:032x}"
    return f"{member_id[: found.start()]}{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def random_end(member_id: str) -> str:
    """What is left of a classic member's id where members name themselves."""
    found = _UUID_END.search(member_id)
    return member_id if found is None else found[0]
