"""Text from clients with every character to be seen: the same in the app, on a terminal, in reports and alerts."""

from __future__ import annotations

_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def visible(text: str) -> str:
    """A TAB as `\\t`; other characters that would not be seen, or that a terminal obeys, by their numbers.

    Not an escape for HTML or JSON: outputs do that themselves.
    """
    return text if text.isprintable() else "".join(c if c.isprintable() else _spelt_out(c) for c in text)


def _spelt_out(character: str) -> str:
    code = ord(character)
    if code < 0x100:
        return _SHORT.get(character, f"\\x{code:02x}")
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
