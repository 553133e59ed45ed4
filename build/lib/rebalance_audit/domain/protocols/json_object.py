"""JSON objects as Connect and Schema Registry write them, read with the errors of `wire`."""

from __future__ import annotations

import json
from typing import Any, NoReturn

from rebalance_audit.domain.wire import DecodeError, DecodeReason

_INT32 = range(-(2**31), 2**31)
"""All numbers in these objects are Java's `int`."""


class JsonObject:
    """An object and, for errors, where it stands. A field of another type than asked for is refused."""

    __slots__ = ("fields", "part", "path")

    def __init__(self, fields: dict[str, Any], part: str, path: str = "") -> None:
        self.fields, self.part, self.path = fields, part, path

    def _refuse(self, field: str) -> NoReturn:
        raise DecodeError(DecodeReason.BAD_VALUE, 0, self.path + field, self.part)

    def optional_text(self, field: str) -> str | None:
        value = self.fields.get(field)
        if value is None:
            return None
        if not isinstance(value, str):
            self._refuse(field)
        return without_lone_surrogates(value)

    def text(self, field: str) -> str:
        value = self.optional_text(field)
        if value is None:
            self._refuse(field)
        return value

    def optional_int(self, field: str) -> int | None:
        value = self.fields.get(field)
        if value is None:
            return None
        if not isinstance(value, int) or isinstance(value, bool) or value not in _INT32:
            self._refuse(field)
        return value

    def int_(self, field: str) -> int:
        value = self.optional_int(field)
        if value is None:
            self._refuse(field)
        return value

    def optional_bool(self, field: str) -> bool | None:
        value = self.fields.get(field)
        if value is None or isinstance(value, bool):
            return value
        self._refuse(field)

    def optional_object(self, field: str) -> JsonObject | None:
        value = self.fields.get(field)
        if value is None:
            return None
        if not isinstance(value, dict):
            self._refuse(field)
        return JsonObject(value, self.part, f"{self.path}{field}.")

    def object_(self, field: str) -> JsonObject:
        value = self.optional_object(field)
        if value is None:
            self._refuse(field)
        return value


def without_lone_surrogates(text: str) -> str:
    """JSON can name half a character, which no UTF-8 can hold: such a half becomes U+FFFD."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def parse_object(data: bytes, part: str = "value") -> JsonObject:
    """The one JSON object that these bytes are, as UTF-8."""
    value = parse(data, part)
    if not isinstance(value, dict):
        raise DecodeError(DecodeReason.BAD_VALUE, 0, "", part)
    return JsonObject(value, part)


def parse(data: bytes, part: str = "value") -> Any:
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as refused:
        raise DecodeError(DecodeReason.BAD_UTF8, refused.start, "", part) from None
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except json.JSONDecodeError as refused:
        at = len(text[: refused.pos].encode("utf-8"))
        raise DecodeError(DecodeReason.BAD_JSON, at, "", part) from None
    except (ValueError, RecursionError):  # NaN, a number of thousands of digits, thousands of nested arrays
        raise DecodeError(DecodeReason.BAD_JSON, 0, "", part) from None


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(name)
