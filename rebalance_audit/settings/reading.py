"""Reads a settings file; every fault at once, each with its line, the value that stands there, and what is allowed."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, get_args

import yaml
from pydantic import BaseModel, ValidationError

from rebalance_audit.domain.detect.limits import LimitsError, limits_for
from rebalance_audit.settings.model import PATTERNS, Contradictions, Placed, Secret, Settings

LARGEST_BYTES = 1 << 20
"""1 MiB: a settings file of 10,000 patterns is smaller."""
SHOWN_VALUE = 60

_Where = tuple[str | int, ...]


class SettingsError(Exception):
    """The settings cannot be used. `faults` has one sentence per fault: `FILE:LINE: place: what is wrong`."""

    def __init__(self, *faults: str) -> None:
        super().__init__("\n".join(faults))
        self.faults = faults


def read_settings(path: str | Path) -> Settings:
    """The validated settings. Raises SettingsError with all faults."""
    name = str(path)
    try:
        size = os.path.getsize(path)
        if size > LARGEST_BYTES:
            raise SettingsError(f"{name}: it has {size:,} bytes, the largest that is read has {LARGEST_BYTES:,}.")
        text = Path(path).read_text("utf-8")
    except OSError as error:
        raise SettingsError(f"{name}: it cannot be read ({error.strerror or error}); check --config.") from None
    except UnicodeDecodeError as error:
        raise SettingsError(f"{name}: it is not UTF-8 (byte {error.start + 1}); save it as UTF-8.") from None
    return parse_settings(text, name)


def parse_settings(text: str, name: str) -> Settings:
    """The settings in a text, read like `read_settings`; `name` is what faults call the file."""
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f":{mark.line + 1}" if mark is not None else ""
        raise SettingsError(f"{name}{line}: this is no YAML: {getattr(error, 'problem', None) or error}.") from None
    except RecursionError:
        raise SettingsError(f"{name}: it is nested too deeply; settings have at most four levels.") from None
    if node is None:
        return Settings()
    if not isinstance(node, yaml.MappingNode):
        raise SettingsError(f"{name}:1: the file must be a mapping of settings, such as `clusters:`.")
    lines: dict[_Where, int] = {}
    faults: list[tuple[int, str]] = []
    try:
        data = _plain(node, (), lines, faults)
    except RecursionError:
        raise SettingsError(f"{name}: an alias refers to a part that contains it; write the value out.") from None
    settings = None
    try:
        settings = Settings.model_validate(data)
    except ValidationError as error:
        for each in error.errors(include_url=False):
            if each["loc"]:
                faults.append((_line_of(each["loc"], lines), _sentence(each["loc"], each)))
        wrong = {each["loc"] for each in error.errors(include_url=False) if each["loc"]}
        faults += [(_line_of(place, lines), fault) for place, fault in _contradictions(data, wrong)]
    faults += [(_line_of(("limits", at), lines), fault) for at, fault in _limit_faults(data)]
    if faults or settings is None:
        sentences = ((line, fault if fault.endswith("?") else f"{fault}.") for line, fault in sorted(set(faults)))
        raise SettingsError(*(f"{name}:{line}: {fault}" for line, fault in sentences))
    return settings


def _contradictions(data: Mapping[str, Any], wrong: set[tuple[Any, ...]]) -> Iterator[Placed]:
    """Contradictions between entries that are right each by itself; `wrong` are the places of the others. Clusters and
    alert targets need only a name and an id here."""
    kept: dict[str, list[Any]] = {"clusters": [], "teams": [], "alerts": [], "limits": []}
    places: dict[str, list[int]] = {part: [] for part in kept}
    for part, entries in kept.items():
        found = data.get(part)
        for at, entry in enumerate(found if isinstance(found, list) else []):
            named = isinstance(entry, dict) and isinstance(entry.get("name"), str) and entry["name"]
            if part == "teams" and (part, at) not in {where[:2] for where in wrong}:
                entries.append(entry)
            elif part == "clusters" and named:
                cluster_id = entry.get("cluster_id")
                entries.append({"name": named, "cluster_id": cluster_id if isinstance(cluster_id, str) else None})
            elif part == "alerts" and named:
                entries.append({"name": named, "url": "http://any"})
            elif part == "limits":
                entries.append(entry if isinstance(entry, dict) else {})
            else:
                continue
            places[part].append(at)
    try:
        Settings.model_validate(kept)
    except ValidationError as error:
        for each in error.errors(include_url=False):
            if isinstance(contradictions := each.get("ctx", {}).get("error"), Contradictions):
                for (part, at), fault in contradictions.found:
                    yield (part, places[part][at]), fault


def _plain(node: yaml.Node, where: _Where, lines: dict[_Where, int], faults: list[tuple[int, str]]) -> Any:
    """The node as plain values, each place's line noted. A key given twice is a fault; YAML itself keeps the last."""
    lines[where] = node.start_mark.line + 1
    if isinstance(node, yaml.MappingNode):
        found: dict[str, Any] = {}
        for key_node, value_node in node.value:
            key = str(key_node.value)
            if key in found:
                faults.append((key_node.start_mark.line + 1, f"{_place((*where, key))}: this key is here twice"))
            found[key] = _plain(value_node, (*where, key), lines, faults)
            lines[(*where, key)] = key_node.start_mark.line + 1
        return found
    if isinstance(node, yaml.SequenceNode):
        return [_plain(each, (*where, at), lines, faults) for at, each in enumerate(node.value)]
    constructor = yaml.SafeLoader("")
    try:
        return constructor.construct_object(node)
    except (yaml.YAMLError, ValueError) as error:
        faults.append((node.start_mark.line + 1, f"{_place(where)}: {node.value!r} cannot be read ({error})"))
        return None


def _line_of(where: tuple[Any, ...], lines: Mapping[_Where, int]) -> int:
    """The line of the nearest place that the file has: what is missing has none of its own."""
    for length in range(len(where), -1, -1):
        if (line := lines.get(tuple(where[:length]))) is not None:
            return line
    return 1


_WANTED = {
    "string_type": "text", "list_type": "a list, such as [a, b]", "dict_type": "a mapping, such as {name: value}",
    "model_type": "a mapping, such as {name: value}", "bool_type": "true or false", "int_type": "a whole number",
    "string_too_short": "some text",
}  # fmt: skip
"""What is allowed, by pydantic's name of the fault."""


def _sentence(where: tuple[Any, ...], error: Any) -> str:
    place = _place(tuple(part for part in where if part not in ("Secret", "str")))
    match error["type"]:
        case "extra_forbidden":
            return f"{place}: there is no such setting{_instead(where)}"
        case "missing":
            return f"{place}: it is missing"
        case "value_error":
            return f"{place}: {error['ctx']['error']}" if place else str(error["ctx"]["error"])
        case "string_pattern_mismatch":
            return f"{place}: it must be {PATTERNS[error['ctx']['pattern']]}, not {_shown(error['input'])}"
        case "literal_error":
            return f"{place}: it must be {error['ctx']['expected']}, not {_shown(error['input'])}"
        case kind if kind in _WANTED:
            quotes = "; put it in quotes" if kind == "string_type" and isinstance(error["input"], int | float) else ""
            return f"{place}: it must be {_WANTED[kind]}, not {_shown(error['input'])}{quotes}"
        case _:
            return f"{place}: {error['msg'][:1].lower()}{error['msg'][1:]}, not {_shown(error['input'])}"


def _instead(where: tuple[Any, ...]) -> str:
    """What may stand in the place of an unknown key: the nearest name, else all."""
    here: Any = Settings
    for part in where[:-1]:
        if isinstance(part, int) or part in ("Secret", "str"):
            continue
        field = here.model_fields.get(part)
        models = list(_models_in(field.annotation)) if field is not None else []
        if len(models) != 1:
            return ""
        here = models[0]
    names = list(here.model_fields)
    near = difflib.get_close_matches(str(where[-1]), names, 1, 0.7)
    return f"; did you mean {near[0]}?" if near else f"; there are {', '.join(names)}"


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for inner in get_args(annotation):
        yield from _models_in(inner)


def _place(where: tuple[Any, ...]) -> str:
    text = ""
    for part in where:
        text += f"[{part + 1}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text


def _shown(value: Any) -> str:
    text = re.sub(r"://[^/@]+@", "://…@", repr(value))
    return text if len(text) <= SHOWN_VALUE else text[: SHOWN_VALUE - 1] + "…"


def _limit_faults(data: Mapping[str, Any]) -> Iterator[tuple[int, str]]:
    """(place in the list, fault) of every entry of `limits`, as the rules themselves judge it."""
    entries = data.get("limits")
    for at, entry in enumerate(entries if isinstance(entries, list) else []):
        if isinstance(entry, dict):
            try:
                limits_for([entry], "", "")
            except LimitsError as error:
                yield at, str(error).replace("limits entry 1: ", f"limits[{at + 1}]: ")


def revealed(secret: str | Secret) -> str:
    """The value itself. Raises SettingsError that names the variable or file, never the value."""
    if isinstance(secret, str):
        return secret
    if secret.env is not None:
        value = os.environ.get(secret.env)
        if not value:
            raise SettingsError(f"The environment variable {secret.env}, named in the settings, is not set.")
        return value
    assert secret.file is not None
    try:
        return Path(secret.file).read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or error
        raise SettingsError(f"{secret.file}, named in the settings, cannot be read ({why}).") from None
