"""One input: a file or a folder that makes one source, read by content and never by extension."""

from __future__ import annotations

import codecs
import gzip
import io
import itertools
import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO, Literal, cast

import pyarrow as pa

from trajstore.importers.items import Problem

Shape = Literal["object", "array", "lines", "text", "zip", "parquet", "arrow", "binary", "folder"]
"""What the bytes of a source are, seen from their content."""

_CHUNK = 1 << 20
_HEAD = 1 << 16
_DECODER = json.JSONDecoder()
_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class Record:
    """One JSON value of a source and its place."""

    value: Any
    """The parsed value."""
    index: int
    """Number of the record in the source, from 0."""
    line: int | None = None
    """Line number from 1, where the source has a record a line."""


class Source:
    """A file (or a folder of files that belong together) that an importer may read."""

    def __init__(self, path: Path, *, uri: str | None = None, files: tuple[Path, ...] = ()) -> None:
        """Name the source; nothing is read yet.

        Args:
            path: the file, or the folder when ``files`` are given.
            uri: how to call it in reports and ``source_uri``; the path as given where None.
            files: the files of a folder source, in a stable order.
        """
        self.path = path
        self.uri = uri if uri is not None else path.as_posix()
        self.files = files

    @property
    def name(self) -> str:
        """File name with its extension."""
        return self.path.name

    def open(self) -> BinaryIO:
        """The bytes, with gzip or zstd taken off."""
        with self.path.open("rb") as raw:
            magic = raw.read(4)
        if magic[:2] == b"\x1f\x8b":
            return cast("BinaryIO", gzip.open(self.path))
        if magic == b"\x28\xb5\x2f\xfd":
            stream = pa.CompressedInputStream(pa.OSFile(str(self.path)), "zstd")
            return cast("BinaryIO", io.BufferedReader(stream))
        return self.path.open("rb")

    @cached_property
    def head(self) -> bytes:
        """The first 64 KiB (decompressed), without a byte-order mark; empty for a folder."""
        if self.files:
            return b""
        with self.open() as stream:
            return stream.read(_HEAD).removeprefix(_BOM)

    @cached_property
    def text_head(self) -> str:
        """The head as text; bytes that are no UTF-8 are replaced."""
        return self.head.decode("utf-8", "replace")

    @cached_property
    def shape(self) -> Shape:
        """What the source is by its content."""
        if self.files:
            return "folder"
        head = self.head
        if head[:4] == b"PK\x03\x04":
            return "zip"
        if head[:4] == b"PAR1":
            return "parquet"
        if head[:6] == b"ARROW1" or head[:4] == b"\xff\xff\xff\xff":
            return "arrow"
        if b"\x00" in head:
            return "binary"
        start = head.lstrip()[:1]
        if start == b"[":
            return "array"
        if start == b"{" or self._some_line_is_json():
            return "lines" if self._has_lines() else "object"
        return "text"

    def _first_lines(self, most: int = 20) -> list[bytes]:
        lines: list[bytes] = []
        with self.open() as stream:
            for line in stream:
                if line.strip(b" \t\r\n\xef\xbb\xbf"):
                    lines.append(line.removeprefix(_BOM))
                if len(lines) == most:
                    break
        return lines

    def _some_line_is_json(self) -> bool:
        return any(line.startswith(b"{") and _parses(line) for line in self._first_lines())

    def _has_lines(self) -> bool:
        lines = self._first_lines()
        objects = [line for line in lines if line.startswith(b"{")]
        if not objects or not lines:
            return False
        if len(lines) == 1:
            return self.path.name.rsplit(".", 1)[-1] in {"jsonl", "ndjson"} and _parses(lines[0])
        return any(_parses(line) for line in objects)

    @cached_property
    def sample(self) -> list[Any]:
        """Up to 5 lines or elements, or the one object; [] where there is no JSON."""
        try:
            if self.shape == "object":
                return [self.document()]
            records = self.elements() if self.shape == "array" else self.lines()
            values: list[Any] = []
            for record in records if self.shape in {"array", "lines"} else ():
                if isinstance(record, Record):
                    values.append(record.value)
                if len(values) == 5:
                    break
        except (ValueError, RecursionError):
            return []
        return values

    @property
    def first(self) -> Any:
        """The first JSON value of :attr:`sample`, or None."""
        return self.sample[0] if self.sample else None

    def document(self) -> Any:
        """The whole file as one JSON value.

        Raises:
            ValueError: it is no JSON; the message says line and column.
        """
        with self.open() as stream:
            return json.loads(stream.read().removeprefix(_BOM))

    def lines(self) -> Iterator[Record | Problem]:
        """JSON values line by line; glued ones come one by one, a bad line as a Problem."""
        index = 0
        with self.open() as stream:
            for number, line in enumerate(stream, 1):
                try:
                    values = _values(line.removeprefix(_BOM))
                except (ValueError, RecursionError) as error:
                    yield Problem(source=self.uri, line=number, reason=f"not JSON: {error}")
                    continue
                del line  # it may be large, and what is made of it larger
                while values:
                    yield Record(values.pop(0), index, number)
                    index += 1

    def elements(self) -> Iterator[Record | Problem]:
        """Elements of a JSON array, one at a time in memory and never the whole array.

        Those before a fault come; the fault is a Problem that names the first element not read.
        """
        with self.open() as stream:
            values = _elements(TextWindow(stream))
            for index in itertools.count():
                try:
                    record = Record(next(values), index)
                except StopIteration:
                    return
                except (ValueError, RecursionError) as error:
                    reason = f"not JSON from element {index} on: {error}"
                    yield Problem(source=self.uri, record=str(index), reason=reason)
                    return
                yield record

    def records(self, *, array_is_one: bool = False) -> Iterator[Record | Problem]:
        """The records of the file: lines, elements of an array, or the one object.

        Args:
            array_is_one: a JSON array is one record (a list of messages or events).
        """
        if self.shape == "lines":
            yield from self.lines()
        elif self.shape == "array" and not array_is_one:
            yield from self.elements()
        else:
            try:
                yield Record(self.document(), 0)
            except (ValueError, RecursionError) as error:
                yield Problem(source=self.uri, reason=f"not JSON: {error}")

    def sibling(self, name: str) -> Path | None:
        """The file ``name`` beside this one, or None."""
        path = self.path.with_name(name)
        return path if path.is_file() else None


def _parses(line: bytes) -> bool:
    try:
        return len(_values(line.strip())) > 0
    except (ValueError, RecursionError):
        return False


def _elements(text: TextWindow) -> Iterator[Any]:
    """Values of the array that a text is; raises ValueError where it is not one to its end."""
    text.skip(" \t\r\n\ufeff")
    text.take("[")
    text.skip(", \t\r\n")
    while not text.at_end() and text.peek() != "]":
        yield text.value()
        text.skip(", \t\r\n")
    if text.at_end():
        message = "the file ends before the ']' of the array; the rest was cut off"
        raise ValueError(message)
    text.take("]")
    text.end("array")


def _values(raw: bytes) -> list[Any]:
    """All JSON values glued on one line; raises the first error where anything is left over."""
    if raw.isspace():
        return []
    try:
        return [json.loads(raw)]
    except ValueError:
        text = raw.decode("utf-8", "strict").strip()
        values: list[Any] = []
        at = 0
        while at < len(text):
            try:
                value, at = _DECODER.raw_decode(text, at)
            except ValueError:
                json.loads(text)
                raise
            values.append(value)
            while at < len(text) and text[at].isspace():
                at += 1
        return values


class TextWindow:
    """A moving piece of text over a byte stream; grows only for a value larger than itself.

    What stands before a byte that is no UTF-8 is read; from there on ValueError is raised.
    """

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._decoder = codecs.getincrementaldecoder("utf-8")("strict")
        self._text = ""
        self._at = 0
        self._read = 0
        self._done = False
        self._fault: ValueError | None = None

    def _more(self, size: int = _CHUNK) -> bool:
        if self._done:
            return False
        raw = self._stream.read(size)
        self._read += len(raw)
        self._done = not raw
        try:
            text = self._decoder.decode(raw, final=self._done)
        except UnicodeDecodeError as error:
            self._done = True
            text = error.object[: error.start].decode("utf-8")
            place = self._read - len(error.object) + error.start
            wrong = error.object[error.start]
            self._fault = ValueError(f"byte {place} of the file (0x{wrong:02x}) is not UTF-8")
        self._text = self._text[self._at :] + text
        self._at = 0
        return bool(text) or not self._done

    def at_end(self) -> bool:
        """Whether nothing is left.

        Raises:
            ValueError: the next byte is no UTF-8.
        """
        while self._at >= len(self._text):
            if not self._more():
                if self._fault is not None:
                    raise self._fault
                return True
        return False

    def peek(self) -> str:
        """The next character, without taking it."""
        return self._text[self._at]

    def skip(self, characters: str) -> None:
        """Take characters as long as they are among the given ones."""
        while not self.at_end() and self._text[self._at] in characters:
            self._at += 1

    def take(self, character: str) -> None:
        """Take that one character, if it is next."""
        if not self.at_end() and self._text[self._at] == character:
            self._at += 1

    def end(self, what: str) -> None:
        """Make sure that only white space is left.

        Raises:
            ValueError: there is more behind ``what``.
        """
        self.skip(" \t\r\n")
        if not self.at_end():
            message = f"there is more text behind the end of the {what}"
            raise ValueError(message)

    def value(self) -> Any:
        """Take one JSON value.

        Raises:
            ValueError: there is none here, or it holds a byte that is no UTF-8.
        """
        while True:
            try:
                value, end = _DECODER.raw_decode(self._text, self._at)
            except ValueError:
                if not self._more(max(_CHUNK, len(self._text))):
                    if self._fault is not None:
                        raise self._fault from None
                    raise
                continue
            if end == len(self._text) and self._more():
                continue
            self._at = end
            return value
