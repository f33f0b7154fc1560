"""Select trajectories of a store: stages over the summary rows of one snapshot."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from trajstore.filters import (
    SUMMARY_COLUMNS,
    SUMMARY_SCHEMA,
    Frame,
    Selection,
    Stage,
    run_stages,
)
from trajstore.schema import Trajectory
from trajstore.store import Reader, Store

_RUNS_A_READ = 64


class StoreSteps:
    """What stages may ask of one snapshot of a store."""

    def __init__(self, reader: Reader) -> None:
        """Ask ``reader``."""
        self._reader = reader

    def sql(self, query: str) -> pa.Table:
        """Rows of one SELECT over the store's views.

        Raises:
            QueryError: it is no SELECT over the views, or it failed.
        """
        return self._reader.query(query).read_all()

    def trajectories(self, ids: Sequence[str]) -> Iterator[Trajectory]:
        """Whole runs in the order of ``ids``, 64 in memory at a time."""
        for start in range(0, len(ids), _RUNS_A_READ):
            yield from self._reader.get_many(ids[start : start + _RUNS_A_READ])


def select(
    source: Store | Reader, stages: Sequence[Stage], *, at: int | str | None = None
) -> Selection:
    """Select trajectories.

    Only the summary columns are read, about 400 bytes a trajectory; stages that look at steps ask
    for what they need.

    Args:
        source: a store, or a reader of one snapshot.
        stages: what to keep, in order; see :func:`trajstore.filters.stage`. No stage keeps all.
        at: snapshot number or pin of the store; the newest where None.

    Raises:
        SelectionError: a stage cannot do what it was asked to.
        QueryError: a condition does not parse.
    """
    if isinstance(source, Store):
        reader = source.at(at) if at is not None else source.reader()
    else:
        reader = source
    frame = summary_frame(reader)
    return run_stages(frame, stages, snapshot=reader.snapshot.version)


def summary_frame(reader: Reader) -> Frame:
    """The summary rows of a snapshot, with its steps behind them."""
    query = f"SELECT {', '.join(SUMMARY_COLUMNS)} FROM trajectories"
    return Frame(reader.query(query).read_all().cast(SUMMARY_SCHEMA), StoreSteps(reader))
