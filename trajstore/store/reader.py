"""Read one snapshot: SQL over its views, trajectories by id, scans in batches."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from typing import Literal, Protocol

import duckdb
import pyarrow as pa

from trajstore.errors import QueryError, SnapshotError
from trajstore.schema import Trajectory
from trajstore.store import views
from trajstore.store.connection import internal_connection, quoted
from trajstore.store.guard import check_query
from trajstore.store.interrupting import interruptible
from trajstore.store.layout import Location
from trajstore.store.lookup import Lookup
from trajstore.store.snapshot import Snapshot
from trajstore.store.values import Transcript

Outcome = Literal["effective", "source"]
"""Whose word on success and reward a read gives."""

_IDS_A_READ = 256
_ROWS_A_BATCH = 100_000
_QUERIES_REMEMBERED = 256


class Condition(Protocol):
    """Anything that can say itself as an SQL condition over ``trajectories``."""

    def to_sql(self) -> str:
        """The condition, without WHERE."""


class Reader:
    """Everything that can be read of one snapshot; safe to use from several threads."""

    def __init__(
        self,
        snapshot: Snapshot,
        *,
        side: dict[str, pa.Table],
        evaluators: Sequence[str] = (),
        hidden: pa.Array | None = None,
        memory_limit: str | None = None,
    ) -> None:
        """Set up the views; no data file is opened before the first query.

        Args:
            snapshot: the files.
            side: rows of the tables of memory, by name.
            evaluators: evaluator names, the best first; the unnamed rank behind them, all alike.
            hidden: revisions deleted since this snapshot; they are hidden in it too.
            memory_limit: DuckDB's, such as ``"4GB"``.
        """
        self.snapshot = snapshot
        self.side = side
        """Rows of the tables of memory, by name."""
        self._evaluators = list(evaluators)
        dead = snapshot.dead
        if hidden is not None and len(hidden):
            dead = pa.concat_arrays([dead, hidden])
        self._dead = dead
        self._memory_limit = memory_limit
        self._checked: set[str] = set()
        self._lock = threading.Lock()
        self._connection: duckdb.DuckDBPyConnection | None = None

    @property
    def location(self) -> Location:
        """The Delta table."""
        return self.snapshot.location

    def cursor(self) -> duckdb.DuckDBPyConnection:
        """A locked-down DuckDB cursor on the views: no file, network, extension or setting beside.

        Cursors of one snapshot share its caches; each may be used by one thread.
        """
        with self._lock:
            if self._connection is None:
                with _reported(self.snapshot):
                    self._connection = self._connect()
            return self._connection.cursor()

    def _connect(self) -> duckdb.DuckDBPyConnection:
        connection = internal_connection(self.location, memory_limit=self._memory_limit)
        paths = {r: self._paths(r) for r in ("trajectory", "step", "label")}
        dead = len(self._dead) > 0
        connection.register("_dead_rows", pa.table({"revision": self._dead}))
        connection.execute("CREATE TABLE _dead AS SELECT * FROM _dead_rows")
        places = list(enumerate(self._evaluators))
        connection.execute("CREATE TABLE _evaluators (evaluator VARCHAR, place INTEGER)")
        if places:
            connection.executemany(
                "INSERT INTO _evaluators VALUES (?, ?)", [[name, at] for at, name in places]
            )
        statements = {
            "_steps": views.stored_steps(self.snapshot, dead=dead),
            "steps": views.STEPS,
            "flat_steps": views.FLAT_STEPS,
            "labels": views.records(views.LABELS, paths["label"], dead=dead),
            "_outcomes": views.OUTCOMES,
            "trajectories": views.trajectories(
                paths["trajectory"], dead=dead, labels=bool(paths["label"])
            ),
            "tool_calls": views.TOOL_CALLS,
            "messages": views.MESSAGES,
            "tasks": views.TASKS,
        }
        for name, query in statements.items():
            connection.execute(f"CREATE VIEW {name} AS {query}")
        for name, rows in self.side.items():
            table = f"_{name}" if name in views.COUNTED else name
            connection.register(f"_{name}_rows", rows)
            connection.execute(f"CREATE TABLE {table} AS SELECT * FROM _{name}_rows")
            connection.unregister(f"_{name}_rows")
        for name, query in views.COUNTED.items():
            connection.execute(f"CREATE VIEW {name} AS {query}")
        connection.unregister("_dead_rows")
        _lock_down(connection, [p for listed in paths.values() for p in listed])
        return connection

    def _paths(self, record: str) -> list[str]:
        return self.snapshot.paths(self.snapshot.of_record(record))

    def sql(self, query: str) -> duckdb.DuckDBPyRelation:
        """Run one SELECT over the views; a DuckDB relation (``.pl()``, ``.arrow()``, ``.df()``).

        Raises:
            QueryError: it is not a SELECT over the views, or DuckDB refuses it.
        """
        cursor = self.cursor()
        self._check(cursor, query)
        with _reported(self.snapshot):
            return cursor.sql(query)

    def _check(self, cursor: duckdb.DuckDBPyConnection, query: str) -> None:
        """Check a query, and remember some that passed: a dashboard asks the same again."""
        if query not in self._checked:
            check_query(cursor, query)
            if len(self._checked) < _QUERIES_REMEMBERED:
                self._checked.add(query)

    def query(self, query: str, *, timeout_s: float | None = None) -> pa.RecordBatchReader:
        """Run one SELECT over the views and stream its rows.

        Args:
            query: the SELECT.
            timeout_s: seconds until the query is stopped; None for no limit.

        Raises:
            QueryError: not allowed, failed, or out of time.
        """
        cursor = self.cursor()
        self._check(cursor, query)
        timer = threading.Timer(timeout_s, cursor.interrupt) if timeout_s else None
        if timer is not None:
            timer.daemon = True
            timer.start()
        try:
            with _reported(self.snapshot, timeout_s):
                rows = interruptible(
                    cursor, lambda: cursor.sql(query).to_arrow_reader(_ROWS_A_BATCH)
                )
        except BaseException:
            if timer is not None:
                timer.cancel()
            raise
        stream = self._stream(cursor, rows, timer, timeout_s)
        return pa.RecordBatchReader.from_batches(rows.schema, stream)

    def _stream(
        self,
        cursor: duckdb.DuckDBPyConnection,
        rows: pa.RecordBatchReader,
        timer: threading.Timer | None,
        timeout_s: float | None,
    ) -> Iterator[pa.RecordBatch]:
        try:
            with _reported(self.snapshot, timeout_s):
                while (batch := interruptible(cursor, lambda: next(rows, None))) is not None:
                    yield batch
        except (pa.ArrowException, OSError) as error:
            message = f"The query failed: {error}"
            if "interrupt" in message.lower():
                message = f"The query took longer than {timeout_s} s and was stopped."
            raise QueryError(message) from error
        finally:
            if timer is not None:
                timer.cancel()

    def get(self, trajectory_id: str, *, outcome: Outcome = "effective") -> Trajectory | None:
        """One trajectory with its steps, or None; see :meth:`get_many`."""
        found = self.get_many([trajectory_id], outcome=outcome)
        return found[0] if found else None

    def find(self, beginning: str) -> Trajectory:
        """The one trajectory whose id is, or begins with, the given text.

        Raises:
            QueryError: there is none, or there are several.
        """
        found = self.get(beginning)
        if found is not None:
            return found
        where = f"WHERE starts_with(trajectory_id, {quoted(beginning)})"
        query = f"SELECT trajectory_id FROM trajectories {where} ORDER BY 1 LIMIT 4"
        rows = self.query(query).read_all()
        ids = rows.column(0).to_pylist()
        if len(ids) != 1 or not beginning:
            several = f"several, such as {', '.join(ids)}" if ids else "none"
            raise QueryError(
                f"The id {beginning!r} should name one trajectory; it names {several}."
            )
        return self.get_many(ids)[0]

    def get_many(self, ids: Sequence[str], *, outcome: Outcome = "effective") -> list[Trajectory]:
        """Trajectories with their steps, in the order of ``ids``; an unknown id is left out.

        Args:
            ids: trajectory ids.
            outcome: ``effective`` gives success and reward as the view ``trajectories`` does, with
                labels counted; ``source`` as the run's own source gave them.
        """
        with _reported(self.snapshot):
            found = {t.trajectory_id: t for t in self._lookup.values(ids)}
        if outcome == "effective" and found and self.snapshot.of_record("label"):
            self._judge(found)
        return [found[i] for i in ids if i in found]

    def _judge(self, runs: dict[str, Trajectory]) -> None:
        """Put the effective outcomes in the place of the source's own."""
        listed = ", ".join(quoted(i) for i in runs)
        rows = self.query(
            "SELECT trajectory_id, success, reward FROM trajectories "
            f"WHERE outcome_evaluator IS NOT NULL AND trajectory_id IN ({listed})"
        ).read_all()
        for row in rows.to_pylist():
            key = row.pop("trajectory_id")
            runs[key] = replace(runs[key], **row)

    def transcripts(self, ids: Sequence[str]) -> dict[str, Transcript]:
        """What trajectories tell, by id, for whoever shows them; an unknown id is left out.

        Only what a reader sees is read, which is faster than :meth:`get_many`.
        """
        with _reported(self.snapshot):
            return self._lookup.transcripts(ids)

    def tables(self, ids: Sequence[str]) -> tuple[pa.Table, pa.Table]:
        """The rows of trajectories and of their steps, ordered by id and step, for those ids."""
        with _reported(self.snapshot):
            return self._lookup.trajectories(ids), self._lookup.steps(ids)

    @cached_property
    def _lookup(self) -> Lookup:
        return Lookup(self.snapshot, self._dead)

    def blobs(self) -> list[str]:
        """SHA-256 of every blob that a step of this snapshot names."""
        with _reported(self.snapshot):
            rows = self.cursor().sql(views.BLOBS).to_arrow_table()
        names: list[str] = rows.column(0).to_pylist()
        return names

    def revisions(self) -> pa.Table:
        """``trajectory_id`` and ``revision`` of every trajectory, ordered by id.

        A revision is a random number that one version of a run has; a longer version has another.
        """
        columns = pa.schema([("trajectory_id", pa.string()), ("revision", pa.int64())])
        rows = views.records(columns, self._paths("trajectory"), dead=len(self._dead) > 0)
        with _reported(self.snapshot):
            return self.cursor().sql(f"{rows} ORDER BY trajectory_id").to_arrow_table()

    def ids(self, where: str | Condition | None = None) -> Iterator[list[str]]:
        """Ids of trajectories that fit a condition, in ascending order, in lists of up to 256."""
        condition = where if isinstance(where, str) or where is None else where.to_sql()
        query = "SELECT trajectory_id FROM trajectories"
        if condition:
            query += f" WHERE ({condition})"
        for batch in self.query(f"{query} ORDER BY trajectory_id"):
            listed = batch.column(0).to_pylist()
            for start in range(0, len(listed), _IDS_A_READ):
                yield listed[start : start + _IDS_A_READ]

    def scan(self, where: str | Condition | None = None) -> Iterator[Trajectory]:
        """Trajectories with their steps, ordered by id, a few hundred in memory at a time.

        Args:
            where: an SQL condition over ``trajectories``, or an object with ``to_sql()``.
        """
        for ids in self.ids(where):
            yield from self.get_many(ids)


def _lock_down(connection: duckdb.DuckDBPyConnection, paths: list[str]) -> None:
    listed = ", ".join(quoted(p) for p in paths)
    connection.execute(f"SET allowed_paths=[{listed}]")
    connection.execute("SET enable_external_access=false")
    connection.execute("SET lock_configuration=true")


@contextmanager
def _reported(snapshot: Snapshot, timeout_s: float | None = None) -> Iterator[None]:
    """Turn DuckDB's errors into ours."""
    try:
        yield
    except duckdb.InterruptException as error:
        message = f"The query took longer than {timeout_s} s and was stopped."
        raise QueryError(message) from error
    except (duckdb.Error, pa.ArrowException, OSError) as error:
        if isinstance(error, duckdb.Error) and not _is_about_a_file(error):
            message = f"The query failed: {error}"
            raise QueryError(message) from error
        message = (
            f"A file of snapshot {snapshot.version} cannot be read: {error}. If it is an old one, "
            "`vacuum` removed its files (pin snapshots that you need); else run `trajstore verify`."
        )
        raise SnapshotError(message, path=snapshot.location.uri) from error


def _is_about_a_file(error: duckdb.Error) -> bool:
    return isinstance(error, duckdb.IOException) or "parquet file" in str(error).lower()
