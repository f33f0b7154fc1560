"""Whole trajectories by id: which rows of which file they are, and those rows alone."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import accumulate

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from trajstore.schema import STEP_SCHEMA, TRAJECTORY_SCHEMA, Trajectory
from trajstore.store.flat import FLAT_COLUMNS, nest
from trajstore.store.footer import Footer, read_footer
from trajstore.store.pages import Columns, Range, Read, excerpts
from trajstore.store.rows import sorted_rows
from trajstore.store.snapshot import DataFile, Snapshot
from trajstore.store.values import Transcript, trajectory_values, transcript_values

_KNOWN_RUNS = 500_000
_SMALL_BYTES = 1 << 20
_LOCAL_THREADS, _REMOTE_THREADS = 2, 16
_ROWS_FOR_THREADS = 1_000
_STEPS = pa.schema([*STEP_SCHEMA, *FLAT_COLUMNS])
_READ = {
    record: [n for n in schema.names if n != "trajectory_id"]
    for record, schema in (("trajectory", TRAJECTORY_SCHEMA), ("step", _STEPS))
}
_TOLD = {
    "trajectory": ["goal"],
    "step": [
        *("step_index", "actor", "is_copied", "text", "reasoning", "tool_calls", "observations"),
        *("shape", "tool_name", "arguments", "arguments_raw", "observation", "is_error"),
    ],
}


@dataclass(frozen=True, slots=True)
class _Indexed:
    """Which rows of a file belong to which trajectory: runs of rows with one id and revision."""

    footer: Footer
    ids: pa.StringArray
    """Id of each run, in ascending order."""
    revisions: pa.Int64Array
    """Its revision."""
    starts: pa.Int64Array
    """Its first row."""
    ends: pa.Int64Array
    """The row behind its last one."""

    def runs(self, trajectory_id: str) -> Iterable[int]:
        """Places of the runs of a trajectory."""
        numbers = range(len(self.ids))
        at = bisect_left(numbers, trajectory_id, key=lambda n: self.ids[n].as_py())
        while at < len(self.ids) and self.ids[at].as_py() == trajectory_id:
            yield at
            at += 1


class Lookup:
    """Looks trajectories of one snapshot up; what it learned of a file it keeps, within bounds.

    The first lookup in a file reads its columns of ids and revisions. From then on the rows of a
    trajectory are known, and only the pages that hold them are read. Files are opened for a lookup
    and closed again. It may be used by several threads.
    """

    def __init__(self, snapshot: Snapshot, dead: pa.Array) -> None:
        """Look in the files of ``snapshot``, rows with a revision in ``dead`` left out."""
        self._snapshot = snapshot
        self._dead = dead
        self._lock = threading.Lock()
        self._indexed: OrderedDict[str, _Indexed] = OrderedDict()
        self._known_runs = 0
        location = snapshot.location
        self._local = None if location.local is None else location.filesystem()

    def trajectories(self, ids: Sequence[str]) -> pa.Table:
        """Rows of ``TRAJECTORY_SCHEMA``, ordered by id."""
        rows = _table(self._parts("trajectory", ids), TRAJECTORY_SCHEMA)
        return sorted_rows(rows, ["trajectory_id"])

    def steps(self, ids: Sequence[str]) -> pa.Table:
        """Rows of ``STEP_SCHEMA``, ordered by id and step."""
        rows = sorted_rows(
            _table(self._parts("step", ids), _STEPS), ["trajectory_id", "step_index"]
        )
        columns = {n: rows.column(n).combine_chunks() for n in rows.column_names}
        columns["tool_calls"], columns["observations"] = nest(columns)
        return pa.table([columns[n] for n in STEP_SCHEMA.names], schema=STEP_SCHEMA)

    def values(self, ids: Sequence[str]) -> list[Trajectory]:
        """Trajectories with their steps, in no order."""
        return trajectory_values(self._parts("trajectory", ids), self._parts("step", ids))

    def transcripts(self, ids: Sequence[str]) -> dict[str, Transcript]:
        """What runs tell, by id; no other column is read."""
        parts = (self._parts(record, ids, columns) for record, columns in _TOLD.items())
        return transcript_values(*parts)

    def _parts(
        self, record: str, ids: Sequence[str], columns: Sequence[str] | None = None
    ) -> list[tuple[int, Columns]]:
        """Rows as they lie on disk: how many, and their columns, where not all of it is null."""
        wanted, columns = sorted(set(ids)), columns or _READ[record]
        parts = []
        for file in sorted(self._snapshot.of_record(record), key=lambda f: (f.low or "", f.path)):
            inside = _inside(file, wanted)
            if inside:
                parts += self._of_file(file, inside, columns)
        return parts

    def _of_file(
        self, file: DataFile, ids: Sequence[str], columns: Sequence[str]
    ) -> list[tuple[int, Columns]]:
        with self._opened(file) as source:
            indexed = self._index(file, source)
            numbers = self._alive(indexed, [n for i in ids for n in indexed.runs(i)])
            if not numbers:
                return []
            ranges = [(indexed.starts[n].as_py(), indexed.ends[n].as_py()) for n in numbers]
            groups = excerpts(indexed.footer, source.read_at, columns, _joined(ranges))
            reads = [read for _, listed in groups for read in listed]
            rows = sum(count for count, _ in groups)
            found = iter(_done(reads, threads=self._threads(rows)))
        owners = _owners(indexed, numbers, ranges)
        parts, row = [], 0
        for count, listed in groups:
            part: Columns = {"trajectory_id": owners.slice(row, count)}
            for _ in listed:
                part |= next(found)
            parts.append((count, part))
            row += count
        return parts

    def _alive(self, indexed: _Indexed, numbers: list[int]) -> list[int]:
        """Runs whose revision is not dead, in the order of their rows."""
        numbers.sort(key=lambda n: indexed.starts[n].as_py())
        if not len(self._dead):
            return numbers
        revisions = indexed.revisions.take(pa.array(numbers, pa.int32()))
        dead = pc.is_in(revisions, value_set=self._dead).to_pylist()
        return [n for n, gone in zip(numbers, dead, strict=True) if not gone]

    def _opened(self, file: DataFile) -> pa.NativeFile:
        """A data file, open for reading; a small one of an object store comes whole, at once."""
        if self._local is not None:
            return self._local.open_input_file(file.path)
        source = self._snapshot.location.filesystem().open_input_file(file.path)
        if file.size_bytes > _SMALL_BYTES:
            return source
        with source:
            return pa.BufferReader(source.read())

    def _threads(self, rows: int) -> int:
        if self._local is None:
            return _REMOTE_THREADS
        return _LOCAL_THREADS if rows > _ROWS_FOR_THREADS else 1

    def _index(self, file: DataFile, source: pa.NativeFile) -> _Indexed:
        with self._lock:
            if file.path in self._indexed:
                self._indexed.move_to_end(file.path)
                return self._indexed[file.path]
        indexed = _indexed(source)
        with self._lock:
            if file.path not in self._indexed:
                self._indexed[file.path] = indexed
                self._known_runs += len(indexed.ids)
            while self._known_runs > _KNOWN_RUNS and len(self._indexed) > 1:
                _, dropped = self._indexed.popitem(last=False)
                self._known_runs -= len(dropped.ids)
        return indexed


def _indexed(source: pa.NativeFile) -> _Indexed:
    footer = read_footer(source.read_at, source.size())
    rows = pq.ParquetFile(source).read(["trajectory_id", "revision"])
    ids, revisions = (rows.column(n).combine_chunks() for n in ("trajectory_id", "revision"))
    new = pc.or_(_differs(ids), _differs(revisions))
    inner = pc.add(pc.indices_nonzero(new).cast(pa.int64()), 1)
    bounds = pa.concat_arrays([pa.array([0], pa.int64()), inner, pa.array([len(ids)], pa.int64())])
    starts, ends = bounds.slice(0, len(bounds) - 1), bounds.slice(1)
    ids, revisions = ids.take(starts), revisions.take(starts)
    if pc.any(pc.less(ids.slice(1), ids.slice(0, len(ids) - 1))).as_py():
        order = pc.sort_indices(ids)
        ids, revisions, starts, ends = (a.take(order) for a in (ids, revisions, starts, ends))
    return _Indexed(footer, ids, revisions, starts, ends)


def _differs(values: pa.Array) -> pa.BooleanArray:
    """For each value but the first, whether it differs from the one in front of it."""
    return pc.not_equal(values.slice(1), values.slice(0, max(0, len(values) - 1)))


def _inside(file: DataFile, ids: Sequence[str]) -> Sequence[str]:
    """Those of the ids, which ascend, that lie between the smallest and the largest of a file."""
    if file.low is None or file.high is None:
        return ids
    low = bisect_left(ids, file.low)
    return ids[low : bisect_left(ids, file.high + "\0", lo=low)]


def _joined(ranges: Iterable[Range]) -> list[Range]:
    joined: list[Range] = []
    for start, end in ranges:
        if joined and joined[-1][1] == start:
            joined[-1] = joined[-1][0], end
        else:
            joined.append((start, end))
    return joined


def _done(reads: Sequence[Read], *, threads: int) -> list[Columns]:
    if threads == 1:
        return [read() for read in reads]
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(_call, reads))


def _call(read: Callable[[], Columns]) -> Columns:
    return read()


def _owners(indexed: _Indexed, numbers: Sequence[int], ranges: Sequence[Range]) -> pa.Array:
    """The id of each row of some runs."""
    if len(numbers) == 1:
        return pa.repeat(indexed.ids[numbers[0]], ranges[0][1] - ranges[0][0])
    ends = pa.array(accumulate(end - start for start, end in ranges), pa.int32())
    values = pa.array(numbers, pa.int32())
    return indexed.ids.take(pc.run_end_decode(pa.RunEndEncodedArray.from_arrays(ends, values)))


def _table(parts: Iterable[tuple[int, Columns]], schema: pa.Schema) -> pa.Table:
    """The parts in one table; what was not read is null."""
    tables = [schema.empty_table()]
    for count, columns in parts:
        arrays = [
            columns[f.name].cast(f.type) if f.name in columns else pa.nulls(count, f.type)
            for f in schema
        ]
        tables.append(pa.table(arrays, schema=schema))
    return pa.concat_tables(tables)
