"""Frozen, slotted dataclasses that are quick to make and to copy: the fold makes dozens for every rebalance.

A frozen dataclass calls object.__setattr__ for each of its fields, which takes four fifths of the time to make one.
Here an object begins as an instance of a twin class, which has the same slots and is not frozen. Plain assignments fill
it, and then its class is changed to the frozen one. Only the time differs from dataclasses.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import MISSING, fields, replace
from functools import cache
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


def quick(kind: type[T]) -> type[T]:
    """The same frozen, slotted dataclass with an `__init__` of its own, which makes an object of many fields in a third
    of the time. Its fields must be keyword-only, all of them or none."""
    made: Any = kind
    parameters, body, known = _filling(made)
    body = ["_become(self, '__class__', _twin)", *body]
    made.__init__ = _written("__init__", ["self", *parameters], body, known)
    return kind


def maker(kind: Callable[P, T]) -> Callable[P, T]:
    """A function that makes such objects in half of the time of their class, which passes its keywords on in a dict.
    For classes of which a rebalance has many objects."""
    parameters, body, known = _filling(kind)
    made: Callable[P, T] = _written("made", parameters, ["self = _new(_twin)", *body, "return self"], known)
    return made


def positional_maker(kind: Callable[..., T], names: Sequence[str]) -> Callable[..., T]:
    """A function that makes objects of a dataclass from the values of these fields, in this order. The other fields are
    keywords with their defaults."""
    parameters, body, known = _filling(kind)
    others = [p for p in parameters if p != "*" and p.partition("=")[0] not in names]
    parameters = [*names, *(["*", *others] if others else [])]
    made: Callable[..., T] = _written("made", parameters, ["self = _new(_twin)", *body, "return self"], known)
    return made


def by_fields(thing: Any) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """What `__reduce__` returns of a frozen dataclass that tasks of Spark are given: pickle would fill a compiled one
    field by field, which it refuses (decision 0105)."""
    return _of_fields, (type(thing), {each.name: getattr(thing, each.name) for each in fields(thing)})


def _of_fields(kind: Callable[..., T], values: dict[str, Any]) -> T:
    return kind(**values)


def _filling(kind: Any) -> tuple[list[str], list[str], dict[str, Any]]:
    """The parameters, the lines that fill a `self` of the twin class and change its class, and the names these lines
    use."""
    parameters = ["*"] if fields(kind)[0].kw_only else []
    body: list[str] = []
    known: dict[str, Any] = {
        "_become": object.__setattr__,
        "_new": object.__new__,
        "_twin": _twin(kind),
        "_kind": kind,
        "_MISSING": MISSING,
    }
    for each in fields(kind):
        name, value = each.name, each.name
        if each.default_factory is not MISSING:
            known[f"_make_{name}"], known[f"_default_{name}"] = each.default_factory, MISSING
            value = f"_make_{name}() if {name} is _MISSING else {name}"
        elif each.default is not MISSING:
            known[f"_default_{name}"] = each.default
        parameters.append(f"{name}=_default_{name}" if f"_default_{name}" in known else name)
        body.append(f"self.{name} = {value}")
    return parameters, [*body, "self.__class__ = _kind"], known


def changed(thing: T, **values: Any) -> T:
    """dataclasses.replace for slotted dataclasses, in a tenth of its time. A compiled object keeps its class (0097), so
    that one is made by dataclasses.replace."""
    kind: Any = type(thing)
    copier = _copier(kind)
    if copier is None:
        return replace(thing, **values)  # type: ignore[type-var]
    copy = copier(thing)
    for name, value in values.items():
        setattr(copy, name, value)
    copy.__class__ = kind
    return copy  # type: ignore[no-any-return]


@cache
def _copier(kind: Any) -> Callable[[Any], Any] | None:
    """Makes copies that still belong to the twin; None of a compiled class, which has no slots."""
    if not hasattr(kind, "__slots__"):
        return None
    body = ["copy = _new(_twin)", *(f"copy.{name} = thing.{name}" for name in kind.__slots__), "return copy"]
    return _written("copier", ["thing"], body, {"_new": object.__new__, "_twin": _twin(kind)})


@cache
def _twin(kind: Any) -> type:
    return type(kind.__name__, (), {"__slots__": kind.__slots__})


def _written(name: str, parameters: list[str], body: list[str], known: dict[str, Any]) -> Callable[..., Any]:
    """A function made from source text, as dataclasses make theirs. Names in `known` begin with an underscore, fields
    do not."""
    exec("\n    ".join([f"def {name}({', '.join(parameters)}):", *body]), known)
    written: Callable[..., Any] = known[name]
    return written
