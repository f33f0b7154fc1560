"""One LanceDB table of an index: its columns, its full-text and vector indexes, its versions."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from trajstore._optional import require
from trajstore.errors import RetrievalError
from trajstore.retrieval.fingerprint import Fingerprint
from trajstore.retrieval.index_files import Place, lance_options

if TYPE_CHECKING:
    from trajstore.retrieval.arrays import Ints

EXACT_ROWS = 1_000_000
"""Up to so many distinct texts every vector is held and compared (``benchmarks/retrieval.py``)."""

_SCALAR_ROWS = 10_000  # from there on a look for 2,000 keys takes less than half the time
_UNINDEXED_ROWS = 5_000
_UNINDEXED_SHARE = 0.1
_KEEP_VERSIONS = timedelta(hours=1)
_IDS_A_DELETE = 2_000
_CELL_ROWS = 2_500


def table_schema(fingerprint: Fingerprint) -> pa.Schema:
    """Columns of a table; there is no ``vector`` where the embedder makes none."""
    columns = [
        pa.field("item_id", pa.string(), nullable=False),
        pa.field("trajectory_id", pa.string()),
        pa.field("step_index", pa.int32()),
        pa.field("revision", pa.int64(), nullable=False),
        pa.field("task_id", pa.string()),
        pa.field("environment", pa.string()),
        pa.field("state_key", pa.string()),
        pa.field("tools", pa.list_(pa.string())),
        pa.field("text_key", pa.int64(), nullable=False),
        pa.field("text", pa.string(), nullable=False),
        pa.field("words", pa.string(), nullable=False),
    ]
    if fingerprint.dimension:
        columns.append(pa.field("vector", pa.list_(pa.float32(), fingerprint.dimension)))
    return pa.schema(columns)


class IndexTable:
    """One LanceDB table, at its newest version or at a given one."""

    def __init__(self, table: Any) -> None:
        """Wrap an open table."""
        self._table = table
        self._lock = threading.Lock()

    @classmethod
    def open(cls, index: Place, name: str, version: int | None = None) -> IndexTable:
        """Open a table.

        Raises:
            Exception: as LanceDB does, where it is missing or damaged.
        """
        table = connection(index).open_table(name)
        if version is not None:
            table.checkout(version)
        return cls(table)

    @classmethod
    def create(cls, index: Place, name: str, fingerprint: Fingerprint) -> IndexTable:
        """Make a table without rows."""
        return cls(connection(index).create_table(name, schema=table_schema(fingerprint)))

    @property
    def version(self) -> int:
        """The version that is open."""
        return int(self._table.version)

    def names(self) -> list[str]:
        """Names of the columns."""
        return list(self._table.schema.names)

    def count(self) -> int:
        """Number of rows."""
        return int(self._table.count_rows())

    # --- writing

    def add(self, rows: pa.Table) -> None:
        """Add rows in one commit."""
        self._table.add(rows.cast(self._table.schema))

    def remove(self, revisions: pa.Array) -> None:
        """Remove every row of some revisions."""
        for start in range(0, len(revisions), _IDS_A_DELETE):
            self._table.delete(_one_of("revision", revisions[start : start + _IDS_A_DELETE]))

    def upkeep(self) -> None:
        """Make the indexes that the rows call for, and take in rows that are in none.

        A full-text index on no rows would stay empty for ever, so there is none then. Rows that no
        index holds yet are still found, by a scan; so few of them do no harm.
        """
        if not self.count():
            return
        index = require("lancedb.index", extra="retrieval", purpose="The index")
        there = {i.columns[0]: i.name for i in self._table.list_indices()}
        if "words" not in there:
            self._table.create_index("words", config=_full_text(index))
        if self.count() > _SCALAR_ROWS:
            for column in (c for c in ("revision", "text_key") if c not in there):
                self._table.create_index(column, config=index.BTree())
        vectors = "vector" in self._table.schema.names and self.count() > EXACT_ROWS
        if vectors and "vector" not in there:
            cells = max(1, self.count() // _CELL_ROWS)
            config = index.IvfSq(distance_type="cosine", num_partitions=cells)
            self._table.create_index("vector", config=config)
        if any(self._behind(name) for name in there.values()):
            self._table.optimize(cleanup_older_than=_KEEP_VERSIONS)

    def _behind(self, name: str) -> bool:
        stats = self._table.index_stats(name)
        if stats is None:
            return True
        new = int(stats.num_unindexed_rows)
        return new > min(_UNINDEXED_ROWS, _UNINDEXED_SHARE * max(1, self.count()))

    # --- reading

    def columns(self, names: Sequence[str], where: str | None = None) -> pa.Table:
        """Some columns of all rows, with ``_rowid``."""
        query = self._table.search().select(list(names)).with_row_id(True)
        if where is not None:
            query = query.where(where)
        with self._lock:
            return query.limit(max(1, self.count())).to_arrow()

    def batches(self, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Some columns of all rows with ``_rowid``, a few thousand rows at a time."""
        query = self._table.search().select(list(names)).with_row_id(True)
        with self._lock:
            yield from query.limit(max(1, self.count())).to_batches(8192)

    def known(self, keys: pa.Array) -> pa.Table:
        """``text_key`` and ``vector`` of the texts among ``keys`` that are there, each once."""
        found = [self.columns(["text_key", "vector"], "FALSE")]
        for start in range(0, len(keys), _IDS_A_DELETE):
            where = _one_of("text_key", keys[start : start + _IDS_A_DELETE])
            found.append(self.columns(["text_key", "vector"], where))
        rows = pa.concat_tables(found)
        numbered = pa.table({"k": rows.column("text_key"), "n": pa.arange(0, rows.num_rows)})
        first = numbered.group_by("k").aggregate([("n", "min")]).column("n_min")
        return rows.take(first)

    def take(self, row_ids: Sequence[int], names: Sequence[str]) -> pa.Table:
        """Some columns of rows, with ``_rowid``, in the order of LanceDB."""
        with self._lock:
            query = self._table.take_row_ids(list(row_ids)).select(list(names)).with_row_id()
            return query.to_arrow()

    def by_words(self, words: Sequence[str], limit: int, where: str | None = None) -> pa.Table:
        """``_rowid`` and ``_score`` (BM25) of rows that hold one of the words, the best first."""
        query = require("lancedb.query", extra="retrieval", purpose="The index")
        match = query.MatchQuery(" ".join(words), "words")
        asked = self._table.search(match, query_type="fts").select(["revision", "_score"])
        if where is not None:
            asked = asked.where(where, prefilter=True)
        with self._lock:
            found: pa.Table = asked.with_row_id(True).limit(limit).to_arrow()
        return found.select(["_rowid", "_score"])

    def by_vector(self, vector: Any, limit: int, probes: int, where: str | None) -> pa.Table:
        """``_rowid`` of about the nearest rows, through the vector index."""
        asked = self._table.search(vector, vector_column_name="vector").distance_type("cosine")
        asked = asked.nprobes(probes).select(["revision"])
        if where is not None:
            asked = asked.where(where, prefilter=True)
        with self._lock:
            found: pa.Table = asked.with_row_id(True).limit(limit).to_arrow()
        return found.select(["_rowid"])


def _full_text(index: Any) -> Any:
    """Words are cut by :mod:`.words`, so spaces part them; accents and English endings are dropped.

    Stop words stay: in "to be or not to be", and in other languages, they are words.
    """
    return index.FTS(
        base_tokenizer="whitespace",
        stem=True,
        remove_stop_words=False,
        ascii_folding=True,
        lower_case=True,
        with_position=False,
    )


def one_of_revisions(revisions: Ints) -> str:
    """A condition for LanceDB: the revision is one of those."""
    return _one_of("revision", pa.array(revisions))


def _one_of(column: str, values: pa.Array) -> str:
    listed = pc.cast(values, pa.string())
    joined = pc.binary_join(
        pa.ListArray.from_arrays(pa.array([0, len(listed)], pa.int32()), listed), ","
    )
    return f"{column} IN ({joined[0]})" if len(values) else "FALSE"


def new_table_name(level: str) -> str:
    """A name that no table has yet."""
    return f"{level}-{uuid.uuid4().hex[:12]}"


def connection(index: Place) -> Any:
    """LanceDB on the index folder or URI.

    Raises:
        RetrievalError: LanceDB cannot work on that object store.
    """
    lancedb = require("lancedb", extra="retrieval", purpose="The index")
    try:
        return lancedb.connect(index.uri, storage_options=lance_options(index.storage_options))
    except (ValueError, RuntimeError, OSError) as error:
        message = f"LanceDB cannot keep an index at {index.uri}: {error}"
        raise RetrievalError(message, path=index.uri) from error


def drop_others(index: Place, level: str, keep: Sequence[str]) -> None:
    """Remove tables of a level that nothing names any more."""
    database = connection(index)
    for name in database.list_tables(limit=1000).tables:
        if name.startswith(f"{level}-") and name not in keep:
            database.drop_table(name)
