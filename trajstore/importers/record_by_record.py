"""Reading a file record by record where a record's meaning depends on those before it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from trajstore.importers.importer import Importer
from trajstore.importers.items import Item, Problem
from trajstore.importers.source import Record, Source

UNFIT = (
    KeyError,
    IndexError,
    TypeError,
    ValueError,
    AttributeError,
    OverflowError,
    RecursionError,
)
"""What a record of the wrong form raises; it costs that record and no other."""


def converted(
    importer: Importer, source: Source, convert: Callable[[Record], Iterable[Item]]
) -> Iterator[Item]:
    """The items of each record, and a problem for each record that does not fit.

    Like :meth:`Importer.read`, for a conversion that remembers earlier records of the same file
    (numbers of attempts, the group a row belongs to): an importer itself keeps no state.

    Args:
        importer: whose name stands in the problems.
        source: whose records are read.
        convert: called for each record in order.
    """
    for record in source.records():
        if isinstance(record, Problem):
            yield record
            continue
        try:
            items = list(convert(record))
        except UNFIT as error:
            said = f"field {error} is missing" if isinstance(error, KeyError) else str(error)
            reason = f"no {importer.name} record: {said or type(error).__name__}"
            yield importer.problem(source, reason, record)
            continue
        yield from items
