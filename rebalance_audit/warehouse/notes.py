"""The form of a note: JSON with its checksum, so that one which is damaged reads as one that is lost.

    {"crc32": "<8 hex digits>", "note": <content>}

The checksum is of the note's name and the bytes of the content. A value that was altered and is still of the right type
would otherwise change what a stage finds.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from typing import Any

_HEAD = '{{"crc32": "{:08x}", "note": '
_HEAD_BYTES = len(_HEAD.format(0))


def sealed(name: str, content: Mapping[str, Any]) -> bytes:
    """The bytes of a note. The same content gives the same bytes, whatever the order of its keys."""
    text = json.dumps(content, sort_keys=True).encode()
    return _head(name, text) + text + b"}"


def content_of(name: str, note: bytes) -> dict[str, Any]:
    """The content that `sealed` got under this name; empty if one byte of the note differs."""
    text = note[_HEAD_BYTES:-1]
    if note != _head(name, text) + text + b"}":
        return {}
    content: dict[str, Any] = json.loads(text)
    return content


def _head(name: str, text: bytes) -> bytes:
    return _HEAD.format(zlib.crc32(text, zlib.crc32(name.encode()))).encode()
