"""Files of Inspect logs: the header and the samples one by one, from .json and .eval."""

from __future__ import annotations

import json
import re
import struct
import zipfile
import zlib
from collections.abc import Iterator
from types import TracebackType
from typing import Any, Self

import pyarrow as pa

from trajstore.importers.items import Problem
from trajstore.importers.source import Record, Source, TextWindow

_ZSTANDARD = 93
"""ZIP's number of zstd; Python's own reader knows it from 3.14 on only."""

_ENCRYPTED = 0x1
_LOCAL_MARK = b"PK\x03\x04"
_LOCAL_HEADER = struct.Struct("<4s22xHH")
_SAMPLE = re.compile(r"samples/.+_epoch_\d+\.json", re.DOTALL)
_SHELL = re.compile(r"samples/.+_epoch_\d+/sample\.json", re.DOTALL)
_HEADERS = ("header.json", "_journal/start.json")


class EvalArchive:
    """The members of an ``.eval`` file, whether stored, deflated or compressed by zstd.

    The directory is read by :mod:`zipfile`, the zstd frames by pyarrow. Use it in a ``with``.
    """

    def __init__(self, source: Source) -> None:
        """Open the archive.

        Raises:
            ValueError: the file is cut off or no ZIP at all.
        """
        self._path = source.path
        try:
            self._zip = zipfile.ZipFile(source.path)
        except (
            zipfile.BadZipFile,
            NotImplementedError,
            OverflowError,
            ValueError,
            struct.error,
        ) as error:
            message = (
                f"the .eval file has no readable directory ({error}); its eval was cut off: "
                "'inspect log recover' may write what was saved of it"
            )
            raise ValueError(message) from error

    def __enter__(self) -> Self:
        """Give the archive itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close the file."""
        self._zip.close()

    @property
    def names(self) -> list[str]:
        """Names of the members in order, each once; where a name repeats the last one counts."""
        return list(dict.fromkeys(self._zip.namelist()))

    def json(self, name: str) -> Any:
        """One member as JSON; NaN and the infinities are allowed.

        Raises:
            ValueError: the member is damaged, encrypted, no JSON, or compressed in a way that
                nobody here can read.
        """
        try:
            return json.loads(self._bytes(self._zip.getinfo(name)))
        except (
            zipfile.BadZipFile,
            zlib.error,
            EOFError,
            KeyError,
            OSError,
            RuntimeError,
            ValueError,
            struct.error,
        ) as error:
            message = f"member {name} cannot be read: {error}"
            raise ValueError(message) from error

    def _bytes(self, info: zipfile.ZipInfo) -> bytes:
        if info.compress_type != _ZSTANDARD or info.flag_bits & _ENCRYPTED:
            return self._zip.read(info)
        with self._path.open("rb") as file:
            file.seek(info.header_offset)
            mark, name_size, extra_size = _LOCAL_HEADER.unpack(file.read(_LOCAL_HEADER.size))
            if mark != _LOCAL_MARK:
                message = "it does not begin where the directory says"
                raise ValueError(message)
            file.seek(name_size + extra_size, 1)
            raw = file.read(info.compress_size)
        with pa.CompressedInputStream(pa.BufferReader(raw), "zstd") as stream:
            data: bytes = stream.read()
        if zlib.crc32(data) != info.CRC:
            message = "its checksum is wrong"
            raise ValueError(message)
        return data

    def header(self) -> dict[str, Any]:
        """The log without samples; of an eval that did not end, what its start had written.

        Raises:
            ValueError: there is none, or it cannot be read.
        """
        name = next((n for n in _HEADERS if n in self._zip.NameToInfo), None)
        header: Any = None if name is None else self.json(name)
        if not is_header(header):
            message = "the ZIP holds neither header.json nor _journal/start.json of an Inspect log"
            raise ValueError(message)
        return {"status": "started", **header}

    def samples(self) -> Iterator[tuple[str, Any]]:
        """Name and content of each sample, one at a time; an unreadable one as a ValueError."""
        for name in self.names:
            shell = _SHELL.fullmatch(name)
            if not shell and not _SAMPLE.fullmatch(name):
                continue
            try:
                yield name, self._chunked(name) if shell else self.json(name)
            except ValueError as error:
                yield name, error

    def _chunked(self, name: str) -> dict[str, Any]:
        """A sample that is kept as a shell and sequences of chunks."""
        folder = name.removesuffix("sample.json")
        pool = self._sequence(f"{folder}messages/")
        texts = self._sequence(f"{folder}attachments/")
        sample: dict[str, Any] = {
            **self.json(name),
            "events": self._sequence(f"{folder}events/"),
            "attachments": {str(i): text for i, text in enumerate(texts)},
            "events_data": {"messages": pool, "calls": self._sequence(f"{folder}calls/")},
        }
        refs = sample.pop("message_refs", None) or ()
        sample["messages"] = [message for start, end in refs for message in pool[start:end]]
        if f"{folder}metadata.json" in self._zip.NameToInfo:
            sample["metadata"] = self.json(f"{folder}metadata.json")
        return sample

    def _sequence(self, folder: str) -> list[Any]:
        starts = [
            int(name.removeprefix(folder).removesuffix(".json"))
            for name in self.names
            if name.startswith(folder) and re.fullmatch(r"\d+\.json", name.removeprefix(folder))
        ]
        return [item for start in sorted(starts) for item in self.json(f"{folder}{start}.json")]


def is_header(value: Any) -> bool:
    """Whether a value has the fields that every Inspect log begins with."""
    spec = value.get("eval") if isinstance(value, dict) else None
    return isinstance(spec, dict) and "task" in spec and "model" in spec


def eval_records(source: Source) -> Iterator[Record | Problem]:
    """``{"header", "sample"}`` for each sample of an ``.eval`` file; memory holds one at a time."""
    try:
        with EvalArchive(source) as archive:
            header = archive.header()
            for index, (name, sample) in enumerate(archive.samples()):
                if isinstance(sample, ValueError):
                    yield Problem(source=source.uri, record=name, reason=str(sample))
                else:
                    yield Record({"header": header, "sample": sample}, index)
    except ValueError as error:
        yield Problem(source=source.uri, reason=str(error))


def json_records(source: Source) -> Iterator[Record | Problem]:
    """``{"header", "sample"}`` for each sample of a ``.json`` log.

    The header stands before the samples there, so the samples are read one by one. Should another
    program have put it behind them, the file is read at once.
    """
    try:
        yield from _streamed(source)
    except (ValueError, RecursionError) as error:
        yield Problem(source=source.uri, reason=f"not JSON: {error}")


def _streamed(source: Source) -> Iterator[Record]:
    header: dict[str, Any] = {}
    with source.open() as stream:
        text = TextWindow(stream)
        text.skip("\ufeff{ \t\r\n")
        while True:
            text.skip(", \t\r\n")
            if text.at_end():
                message = "the file ends in the middle of the log"
                raise ValueError(message)
            if text.peek() == "}":
                text.take("}")
                text.end("log")
                break
            key = text.value()
            text.skip(": \t\r\n")
            if key != "samples" or text.at_end() or text.peek() != "[":
                header[str(key)] = text.value()
            elif is_header(header):
                yield from _elements(text, header)
            else:
                yield from _at_once(source)
                return
    if not is_header(header):
        message = "an Inspect log needs 'eval' with 'task' and 'model'"
        raise ValueError(message)


def _elements(text: TextWindow, header: dict[str, Any]) -> Iterator[Record]:
    text.skip("[ \t\r\n")
    index = 0
    while not text.at_end() and text.peek() != "]":
        yield Record({"header": header, "sample": text.value()}, index)
        index += 1
        text.skip(", \t\r\n")
    text.skip("]")


def _at_once(source: Source) -> Iterator[Record]:
    log = source.document()
    header = {k: v for k, v in log.items() if k != "samples"}
    for index, sample in enumerate(log["samples"]):
        yield Record({"header": header, "sample": sample}, index)
