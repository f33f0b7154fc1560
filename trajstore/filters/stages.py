"""The registry of stages: make one by its name, as a recipe, a TOML file or a flag gives it.

Every module of this package that has a constant ``STAGES`` (name -> class) is found by itself; a
new family of stages is one new file.
"""

from __future__ import annotations

import importlib
import pkgutil
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import MISSING, Field, fields
from difflib import get_close_matches
from functools import cache
from typing import Any

from trajstore.errors import SelectionError
from trajstore.filters.selection import Stage

Factory = Callable[..., Stage]
"""Makes a stage from named parameters; a dataclass whose fields are the parameters."""


class _Registry(Mapping[str, Factory]):
    """Name -> factory, filled at the first look so that importing the package stays light."""

    def __getitem__(self, name: str) -> Factory:
        return _found()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(_found())

    def __len__(self) -> int:
        return len(_found())


STAGES: Mapping[str, Factory] = _Registry()
"""Every stage by name, in order of the names."""


@cache
def _found() -> dict[str, Factory]:
    package = __name__.rpartition(".")[0]
    found: dict[str, Factory] = {}
    for module in sorted(_modules(package)):
        full = f"{package}.{module}"
        if full == __name__:
            continue
        stages: Mapping[str, Factory] = getattr(importlib.import_module(full), "STAGES", {})
        for name, factory in stages.items():
            if name in found:
                raise SelectionError(f"Two modules of {package} name a stage '{name}'.")
            found[name] = factory
    return dict(sorted(found.items()))


def _modules(package: str) -> Iterator[str]:
    paths = importlib.import_module(package).__path__
    return (m.name for m in pkgutil.iter_modules(paths) if not m.ispkg)


def stage(name: str, /, **parameters: Any) -> Stage:
    """Make a stage.

    >>> stage("steps", most=50).parameters()
    {'least': None, 'most': 50}

    Args:
        name: a key of :data:`STAGES`.
        parameters: its parameters, as JSON or TOML give them; lists stand for tuples.

    Raises:
        SelectionError: an unknown name or parameter, a missing one, or a value that does not fit;
            the message names the real ones.
    """
    factory = STAGES.get(name)
    if factory is None:
        near = get_close_matches(name, STAGES, n=1)
        hint = f" Did you mean '{near[0]}'?" if near else ""
        raise SelectionError(f"There is no stage '{name}'.{hint} Stages: {', '.join(STAGES)}")
    known = {f.name: f for f in _fields(factory)}
    for unknown in parameters.keys() - known.keys():
        raise SelectionError(f"The stage '{name}' has no parameter '{unknown}'. {usage(name)}")
    missing = [n for n, f in known.items() if _required(f) and n not in parameters]
    if missing:
        raise SelectionError(f"The stage '{name}' needs {', '.join(missing)}. {usage(name)}")
    hints = typing.get_type_hints(factory)
    fitted = {n: _fitted(name, n, v, hints[n]) for n, v in parameters.items()}
    made: Stage = factory(**fitted)
    return made


def stages_from(recipe: Iterable[Mapping[str, Any]]) -> list[Stage]:
    """Make the stages of a recipe, a list of objects ``{"stage": name, **parameters}``.

    Raises:
        SelectionError: as :func:`stage`, or an entry has no ``stage``; the message says which.
    """
    made = []
    for place, entry in enumerate(recipe, 1):
        if not isinstance(entry.get("stage"), str):
            message = f"Entry {place} of the recipe has no 'stage' with the name of one: {entry}"
            raise SelectionError(message)
        rest = {k: v for k, v in entry.items() if k != "stage"}
        made.append(stage(entry["stage"], **rest))
    return made


def usage(name: str) -> str:
    """The parameters of a stage with type and default, in one sentence.

    >>> usage("success")
    "Parameters of 'success': failures (bool, default False)."
    """
    factory = STAGES[name]
    hints = typing.get_type_hints(factory)
    listed = [_described(f, hints[f.name]) for f in _fields(factory)]
    return f"Parameters of '{name}': {', '.join(listed)}." if listed else f"'{name}' takes none."


def _fields(factory: Any) -> list[Field[Any]]:
    return [f for f in fields(factory) if f.init]


def _described(field: Field[Any], hint: Any) -> str:
    words = hint.__name__ if isinstance(hint, type) and not typing.get_args(hint) else str(hint)
    words = words.replace("typing.", "").replace("NoneType", "None")
    if _required(field):
        return f"{field.name} ({words})"
    default = field.default if field.default is not MISSING else "..."
    return f"{field.name} ({words}, default {default!r})"


def _required(field: Field[Any]) -> bool:
    return field.default is MISSING and field.default_factory is MISSING


def _fitted(stage_name: str, parameter: str, value: Any, hint: Any) -> Any:
    """The value in the type that a field is declared with."""
    if isinstance(value, list) and _accepts(hint, tuple):
        value = tuple(value)
    if isinstance(value, int) and not isinstance(value, bool) and not _accepts(hint, int):
        value = float(value) if _accepts(hint, float) else value
    if not _fits(value, hint):
        message = f"The stage '{stage_name}' cannot take {parameter}={value!r}. {usage(stage_name)}"
        raise SelectionError(message)
    return value


def _accepts(hint: Any, type_: type) -> bool:
    if isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union:
        return any(_accepts(h, type_) for h in typing.get_args(hint))
    return (typing.get_origin(hint) or hint) is type_


def _fits(value: Any, hint: Any) -> bool:
    if hint is Any:
        return True
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if isinstance(hint, types.UnionType) or origin is typing.Union:
        return any(_fits(value, h) for h in args)
    if origin is typing.Literal:
        return value in args
    if hint is type(None) or hint is None:
        return value is None
    if isinstance(value, bool):
        return hint is bool
    if origin is tuple and isinstance(value, tuple) and args[1:] == (...,):
        return all(_fits(v, args[0]) for v in value)
    checked = origin or hint
    return isinstance(value, checked) if isinstance(checked, type) else True
