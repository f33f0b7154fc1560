"""Tables of a TOML file: values checked against dataclasses, every error with its line."""

from __future__ import annotations

import re
import tomllib
import types
import typing
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import MISSING, Field, dataclass, fields
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeVar

from trajstore._toml_lines import KeyPath, lines_of
from trajstore.errors import TrajstoreError

_T = TypeVar("_T")
_AT_LINE = re.compile(r"line (\d+)")
_WORDS: Mapping[Any, str] = {
    str: "a text",
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    tuple: "a list",
    list: "a list",
    dict: "a table",
    Mapping: "a table",
}


@dataclass(frozen=True, slots=True)
class Source:
    """The file that tables were read from."""

    name: str
    """The file, as errors name it."""
    lines: Mapping[KeyPath, int]
    """Where each key stands."""
    what: str
    """What kind of file it is, in a word."""
    raises: type[TrajstoreError]
    """The kind of its errors."""

    def line(self, place: KeyPath) -> int:
        """The line of a key, or of the nearest table around it."""
        while place and place not in self.lines:
            place = place[:-1]
        return self.lines.get(place, 1)

    def error(self, place: KeyPath, message: str) -> TrajstoreError:
        """An error that begins with file and line."""
        line = self.line(place)
        return self.raises(f"{self.name}:{line}: {message}", path=self.name, line=line)


@dataclass(frozen=True, slots=True)
class Table:
    """One table of a file, and where it stands."""

    source: Source
    """The file."""
    values: Mapping[str, Any]
    """Its keys."""
    place: KeyPath = ()
    """Where it stands in the file."""

    def error(self, message: str, *keys: str | int) -> TrajstoreError:
        """An error about the table, or about a key of it."""
        return self.source.error((*self.place, *keys), message)

    @property
    def title(self) -> str:
        """The table as TOML heads it, such as ``[[dataset]]``; empty for the whole file."""
        names = [p for p in self.place if isinstance(p, str)]
        inner = ".".join(names)
        if not names:
            return f"the {self.source.what}"
        return f"[[{inner}]]" if isinstance(self.place[-1], int) else f"[{inner}]"

    def known(self, names: Iterable[str]) -> None:
        """Refuse keys that mean nothing here.

        Raises:
            TrajstoreError: there is one; the message names the nearest and all real ones.
        """
        listed = list(names)
        for key in self.values:
            if key not in listed:
                raise self.error(unknown(f"There is no '{key}' in {self.title}", key, listed), key)

    def table(self, key: str) -> Table:
        """The table under a key; an empty one where there is none.

        Raises:
            TrajstoreError: something else stands there.
        """
        value = self.values.get(key, {})
        if not isinstance(value, dict):
            raise self.error(f"'{key}' must be a table, not {shown(value)}.", key)
        return Table(self.source, value, (*self.place, key))

    def tables(self, key: str) -> Iterator[Table]:
        """The tables of a list under a key.

        Raises:
            TrajstoreError: something else stands there.
        """
        value = self.values.get(key, [])
        if not isinstance(value, list) or not all(isinstance(v, dict) for v in value):
            inner = ".".join([*(p for p in self.place if isinstance(p, str)), key])
            message = f"'{key}' must be a list of tables: write [[{inner}]], not {shown(value)}."
            raise self.error(message, key)
        for number, each in enumerate(value):
            yield Table(self.source, each, (*self.place, key, number))

    def value(self, key: str, hint: Any) -> Any:
        """The value under a key, in the type that a field is declared with.

        Raises:
            TrajstoreError: it does not fit.
        """
        value = fitted(self.values[key], hint)
        if not fits(value, hint):
            raise self.error(f"'{key}' must be {said(hint)}, not {shown(self.values[key])}.", key)
        return value

    def made(self, kind: type[_T], *, others: bool = False, **more: Any) -> _T:
        """A value of a dataclass whose fields are the keys.

        Args:
            kind: the dataclass; a method ``check`` is called if it has one.
            others: whether the table may hold keys that belong to something else.
            more: fields that are no keys.

        Raises:
            TrajstoreError: a key is unknown, missing or does not fit.
        """
        there = {f.name: f for f in keys_of(kind) if f.name not in more}
        if not others:
            self.known(there)
        missing = [n for n, f in there.items() if _required(f) and n not in self.values]
        if missing:
            raise self.error(f"{self.title} needs '{missing[0]}'.")
        hints = typing.get_type_hints(kind)
        given = {n: self.value(n, hints[n]) for n in there if n in self.values}
        try:
            made = kind(**given, **more)
            getattr(made, "check", lambda: None)()
        except TrajstoreError as error:
            named = [n for n in given if n in str(error)]
            raise self.error(str(error), *named[:1]) from error
        return made


def read_toml(path: Path, what: str, raises: type[TrajstoreError]) -> Table:
    """The whole of a TOML file.

    Args:
        path: the file.
        what: what kind of file it is, in a word, for errors.
        raises: the kind of its errors.

    Raises:
        TrajstoreError: of that kind: it cannot be read or is no TOML; the message says where.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        found = _AT_LINE.search(str(error))
        line = int(found[1]) if found else 1 + text.count("\n")
        message = f"{path}:{line}: This is no TOML: {error}."
        raise raises(message, path=path, line=line) from error
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise raises(f"The {what} {path} cannot be read: {reason}.", path=path) from error
    return Table(Source(str(path), lines_of(text), what, raises), values)


def unknown(what: str, name: str, known: Iterable[str]) -> str:
    """What to say of an unknown name: the nearest of the real ones, and all of them.

    >>> unknown("There is no colour 'gren'", "gren", ["red", "green"])
    "There is no colour 'gren'. Did you mean 'green'? There are: red, green."
    """
    listed = list(known)
    near = get_close_matches(name, listed, n=1)
    hint = f" Did you mean '{near[0]}'?" if near else ""
    return f"{what}.{hint} There are: {', '.join(listed)}."


def keys_of(kind: Any) -> list[Field[Any]]:
    """The fields of a dataclass that its constructor takes."""
    return [f for f in fields(kind) if f.init]


def _required(field: Field[Any]) -> bool:
    return field.default is MISSING and field.default_factory is MISSING


def shown(value: Any) -> str:
    """A value in an error, cut short.

    >>> shown({"a": True})
    "{'a': True}"
    """
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:59]}…"


def said(hint: Any) -> str:
    """A type in words.

    >>> said(tuple[str, ...] | None)
    'a list'
    >>> said(typing.Literal["a", "b"])
    "'a' or 'b'"
    """
    if isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union:
        parts = [said(h) for h in typing.get_args(hint) if h is not type(None)]
        return " or ".join(dict.fromkeys(parts))
    if typing.get_origin(hint) is typing.Literal:
        return " or ".join(repr(v) for v in typing.get_args(hint))
    return _WORDS.get(typing.get_origin(hint) or hint, str(hint))


def fitted(value: Any, hint: Any) -> Any:
    """Lists as tuples and whole numbers as floats, where a field is declared so."""
    if isinstance(value, list) and _takes(hint, tuple):
        return tuple(value)
    if isinstance(value, int) and not isinstance(value, bool) and not _takes(hint, int):
        return float(value) if _takes(hint, float) else value
    return value


def _parts(hint: Any) -> tuple[Any, ...]:
    union = isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union
    return typing.get_args(hint) if union else (hint,)


def _takes(hint: Any, kind: type) -> bool:
    return any((typing.get_origin(h) or h) is kind for h in _parts(hint))


def fits(value: Any, hint: Any) -> bool:
    """Whether a value is of a declared type."""
    return any(_fits_one(value, h) for h in _parts(hint))


def _fits_one(value: Any, hint: Any) -> bool:
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any:
        return True
    if origin is typing.Literal:
        return value in args
    if isinstance(value, bool):
        return hint is bool
    if origin is tuple and args[1:] == (...,):
        return isinstance(value, tuple) and all(fits(v, args[0]) for v in value)
    if isinstance(value, dict) and args[1:]:
        return isinstance(value, origin) and all(
            fits(k, args[0]) and fits(fitted(v, args[1]), args[1]) for k, v in value.items()
        )
    return isinstance(value, origin or hint)
