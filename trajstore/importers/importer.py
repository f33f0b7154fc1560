"""The importer base: records in, trajectories and labels out, problems collected."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import ClassVar

from trajstore.importers.items import ImportOptions, Item, Problem
from trajstore.importers.source import Record, Source

_TOLERANCE = 1e-6


class Importer(ABC):
    """Reads one format. A subclass says what it recognises and turns a record into items.

    An importer never opens a store and keeps no state between sources. It yields every
    trajectory, label and memory that it finds and a :class:`Problem` for what it cannot read; the
    caller decides whether a problem stops the import.
    """

    name: ClassVar[str]
    """The format's name: ``--format`` on the command line and a trajectory's ``source``."""
    title: ClassVar[str]
    """One line for ``trajstore formats``: what the format is."""
    reads: ClassVar[str]
    """One line: what is read of it, and where the outcome comes from."""
    array_is_one: ClassVar[bool] = False
    """Whether a JSON array is one record (a list of messages) and not a list of records."""

    @abstractmethod
    def detect(self, source: Source) -> float:
        """How sure this format is, from 0 (no) to 1 (a signature nothing else has), by content.

        It must be cheap (look at ``source.head``, ``source.shape``, ``source.sample``) and must not
        raise on any input. 0.9 is for a certain shape, about 0.5 for a general one (a list of chat
        messages) that a more specific importer may claim.
        """

    def claims(self, folder: Path, names: frozenset[str]) -> Iterable[tuple[str, ...]]:
        """Groups of files below ``folder`` that each make one source; none by default.

        Args:
            folder: the folder.
            names: names of the entries directly in it (files and folders).

        Returns:
            Groups of paths relative to ``folder``, each in a stable order. A group is read as one
            source of shape ``folder`` (``source.files``) and its files are not offered one by one.
        """
        del folder, names
        return ()

    def read(self, source: Source, options: ImportOptions) -> Iterator[Item]:
        """Everything the source holds, record by record.

        The default walks :meth:`Source.records` and hands each to :meth:`convert`; a record that
        cannot be converted becomes a :class:`Problem` and costs no other.
        """
        for record in source.records(array_is_one=self.array_is_one):
            if isinstance(record, Problem):
                yield record
                continue
            try:
                items = list(self.convert(source, record, options))
            except (
                KeyError,
                IndexError,
                TypeError,
                ValueError,
                AttributeError,
                OverflowError,
                RecursionError,
            ) as e:
                yield self.problem(source, f"no {self.name} record: {_explain(e)}", record)
                continue
            yield from items

    def convert(self, source: Source, record: Record, options: ImportOptions) -> Iterable[Item]:
        """Turn one record into items; raise KeyError, TypeError or ValueError where unfit."""
        raise NotImplementedError(f"{type(self).__name__} reads whole sources")

    @staticmethod
    def problem(source: Source, reason: str, record: Record | None = None) -> Problem:
        """A problem at the place of ``record``."""
        if record is None:
            return Problem(source=source.uri, reason=reason)
        where = None if record.line is not None else str(record.index)
        return Problem(source=source.uri, reason=reason, line=record.line, record=where)

    @staticmethod
    def ignored(source: Source, reason: str) -> Problem:
        """A note that the source is readable and on purpose not imported."""
        return Problem(source=source.uri, reason=reason, kind="ignored")


def _explain(error: BaseException) -> str:
    if isinstance(error, KeyError):
        return f"field {error} is missing"
    return str(error) or type(error).__name__


def success_of(
    reward: float | None, options: ImportOptions, *, at_least: float = 1.0
) -> bool | None:
    """Success by threshold with a tolerance of 1e-6; None where the reward is unknown or NaN.

    Args:
        reward: the evaluator's number.
        options: its ``success_threshold``, where given, wins over ``at_least``.
        at_least: the format's own threshold.
    """
    if reward is None or math.isnan(reward):
        return None
    threshold = options.success_threshold
    return reward >= (at_least if threshold is None else threshold) - _TOLERANCE


def uri(source: Source, record: Record) -> str:
    """``source_uri`` of a record: the file, and the line or record number behind a ``#``."""
    if source.shape in {"object", "folder"}:
        return source.uri
    place = f"L{record.line}" if record.line is not None else str(record.index)
    return f"{source.uri}#{place}"
