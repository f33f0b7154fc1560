"""The little of Thrift's compact protocol that a Parquet footer is written in.

See https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md. A struct is
a dict of field number to value here, and text is bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

I32, I64, BINARY, LIST, STRUCT = 5, 6, 8, 9, 12
"""Types that are written."""

_TRUE, _FALSE, _BYTE, _I16, _DOUBLE, _SET, _MAP, _UUID = 1, 2, 3, 4, 7, 10, 11, 13
_FIXED = {_BYTE: 1, _DOUBLE: 8, _UUID: 16}


class Begun(NamedTuple):
    """A struct that is not written to its end."""

    last: int
    """Number of its last field."""
    raw: bytes
    """What is written."""


_NOTHING = Begun(0, b"")


class Cursor:
    """Reads values one after the other; ``at`` is the place of the next one."""

    def __init__(self, raw: bytes) -> None:
        """Begin at the start of ``raw``."""
        self.raw = raw
        self.at = 0

    def number(self) -> int:
        """An unsigned number of variable length."""
        result, shift = 0, 0
        while True:
            byte = self.raw[self.at]
            self.at += 1
            result |= (byte & 0x7F) << shift
            if byte < 0x80:
                return result
            shift += 7

    def signed(self) -> int:
        """A signed number, in zigzag."""
        value = self.number()
        return (value >> 1) ^ -(value & 1)

    def count(self) -> tuple[int, int]:
        """Head of a list: number of items, and their type."""
        head = self.raw[self.at]
        self.at += 1
        size = head >> 4
        return (self.number() if size == 15 else size), head & 0x0F

    def fields(self) -> Iterator[tuple[int, int]]:
        """Number and type of each field of a struct; whoever asks reads the value in between."""
        field = 0
        while head := self.raw[self.at]:
            self.at += 1
            field = field + (head >> 4) if head >> 4 else self.signed()
            yield field, head & 0x0F
        self.at += 1

    def value(self, kind: int) -> Any:
        """The value of a field of that type: int, bool, bytes, list or dict.

        Raises:
            ValueError: there is no such type.
        """
        if kind in {_I16, I32, I64}:
            return self.signed()
        if kind == BINARY:
            return self._bytes(self.number())
        if kind == STRUCT:
            return {field: self.value(k) for field, k in self.fields()}
        if kind in {LIST, _SET}:
            count, item = self.count()
            return [self._item(item) for _ in range(count)]
        if kind in {_TRUE, _FALSE}:
            return kind == _TRUE
        if kind in _FIXED:
            return self._bytes(_FIXED[kind])
        if kind == _MAP:
            count = self.number()
            kinds = self._bytes(1)[0] if count else 0
            return [(self._item(kinds >> 4), self._item(kinds & 0x0F)) for _ in range(count)]
        raise ValueError(f"byte {self.at}: there is no type {kind}")

    def _item(self, kind: int) -> Any:
        """An item of a list; unlike in a field, a truth value takes a byte."""
        return self._bytes(1) == b"\x01" if kind in {_TRUE, _FALSE} else self.value(kind)

    def _bytes(self, size: int) -> bytes:
        self.at += size
        return self.raw[self.at - size : self.at]


def number(value: int) -> bytes:
    """An unsigned number of variable length."""
    if value <= 0x7F:
        return bytes((value,))
    out = []
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def signed(value: int) -> bytes:
    """A signed number, in zigzag."""
    return number(value << 1 if value >= 0 else (-value << 1) - 1)


def text(value: bytes) -> bytes:
    """Bytes, with their length in front."""
    return number(len(value)) + value


def listed(kind: int, items: Iterable[bytes]) -> bytes:
    """A list of written values of one type."""
    written = list(items)
    size = len(written)
    head = bytes([size << 4 | kind]) if size < 15 else bytes([0xF0 | kind]) + number(size)
    return head + b"".join(written)


def struct(fields: Iterable[tuple[int, int, bytes]], begun: Begun = _NOTHING) -> bytes:
    """A struct of (number, type, written value), numbers ascending and less than 16 apart.

    Args:
        fields: the fields.
        begun: fields in front of them, from :func:`begin`.
    """
    return begin(fields, begun).raw + b"\0"


def begin(fields: Iterable[tuple[int, int, bytes]], begun: Begun = _NOTHING) -> Begun:
    """The first fields of a struct, to which more will come."""
    last, raw = begun
    parts = [raw]
    for field, kind, value in fields:
        parts += (bytes(((field - last) << 4 | kind,)), value)
        last = field
    return Begun(last, b"".join(parts))
