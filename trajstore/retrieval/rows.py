"""The rows of an index in memory: ids, which text each has, and the vectors of the texts."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from trajstore.retrieval.arrays import numpy
from trajstore.retrieval.index_files import Pointer
from trajstore.retrieval.index_table import EXACT_ROWS, IndexTable
from trajstore.retrieval.word_scan import WordScan
from trajstore.retrieval.words import segmented

if TYPE_CHECKING:
    from trajstore.retrieval.arrays import Doubles, Ints, Vectors

_TEXT_BYTES = 256 << 20
_WORD_BYTES = 128 << 20
_COMPARED = 4
DIGITS = 6
"""Digits of a cosine or of a BM25 score that count; the last ones are noise."""
_KEPT = ("item_id", "trajectory_id", "step_index", "revision", "state_key", "tools")
_COLUMNS = (*_KEPT, "text_key", "environment")


@dataclass(frozen=True, kw_only=True)
class Rows:
    """Rows of one level, ordered by id, each id once; equal texts share one vector."""

    table: pa.Table
    """``item_id``, ``trajectory_id``, ``step_index``, ``revision``, ``state_key``, ``tools``."""
    text_of: Ints
    """Number of the text of each row."""
    matrix: Vectors | None
    """The vector of each text; None where there are none, or too many to hold."""
    index: IndexTable | None
    """Where they came from; None where the store itself was read."""
    pointer: Pointer | None
    """What the index says of itself."""
    row_ids: Ints
    """LanceDB's number of each row."""
    texts: pa.Array | None = None
    """The texts, where the store itself was read."""
    compared: dict[bytes, Doubles] = field(default_factory=dict)
    """Cosines of all texts with the last few queries."""

    @cached_property
    def shown(self) -> pa.Table:
        """The columns that a hit shows."""
        return self.table.select(["item_id", "trajectory_id", "step_index"])

    @cached_property
    def text_keys(self) -> Ints:
        """A number for the text of each row; equal texts have the same one."""
        if self.texts is None:
            return self.text_of
        codes: Ints = self.texts.dictionary_encode().indices.to_numpy().astype(numpy().int64)
        return codes

    def __len__(self) -> int:
        """Number of rows."""
        return int(self.table.num_rows)

    @cached_property
    def by_row_id(self) -> tuple[Ints, Ints]:
        """LanceDB's numbers in order, and the row of each."""
        np = numpy()
        order = np.argsort(self.row_ids, kind="stable")
        return self.row_ids[order], order

    def places(self, row_ids: Ints) -> Ints:
        """The rows with those numbers of LanceDB; what is unknown is left out."""
        np = numpy()
        listed, order = self.by_row_id
        at = np.minimum(np.searchsorted(listed, row_ids), max(0, len(listed) - 1))
        there = listed[at] == row_ids if len(listed) else np.zeros(len(row_ids), bool)
        found: Ints = np.where(there, order[at] if len(listed) else at, -1)
        return found

    def text(self, places: Ints) -> pa.Array:
        """The texts of some rows, in their order."""
        if self._held is not None:
            return self._held.take(pa.array(self.text_of[places]))
        return self._taken("text", places)

    @cached_property
    def _held(self) -> pa.Array | None:
        """Every text once, where they fit into memory: asking LanceDB takes milliseconds."""
        return self._distinct("text", _TEXT_BYTES) if self.texts is None else self.texts

    def _distinct(self, column: str, most: int | None) -> pa.Array | None:
        """A column of the first row of each text, in order; None if it is over ``most`` bytes."""
        np = numpy()
        assert self.index is not None
        _, first = np.unique(self.text_of, return_index=True)
        wanted = pa.array(self.row_ids[first], pa.uint64())
        found: list[pa.RecordBatch] = []
        size = 0
        for batch in self.index.batches([column]):
            found.append(batch.filter(pc.is_in(batch.column("_rowid"), value_set=wanted)))
            size += found[-1].nbytes
            if most is not None and size > most:
                return None
        if not found:
            return pa.array([], pa.string())
        whole = pa.Table.from_batches(found)
        order = pc.index_in(wanted, value_set=whole.column("_rowid").combine_chunks())
        return whole.column(column).combine_chunks().take(order)

    @cached_property
    def _by_text(self) -> tuple[Ints, Ints]:
        """Rows in order of their text, and where each text begins."""
        np = numpy()
        order = np.argsort(self.text_of, kind="stable")
        count = int(self.text_of.max(initial=-1)) + 1
        ends = np.cumsum(np.bincount(self.text_of, minlength=count))
        return order, np.concatenate(([0], ends))

    def of_texts(self, texts: Ints) -> Ints:
        """The rows that have one of some texts, each text once, by text and then by row."""
        np = numpy()
        order, starts = self._by_text
        sizes = starts[texts + 1] - starts[texts]
        skipped = np.repeat(starts[texts] - np.cumsum(sizes) + sizes, sizes)
        found: Ints = order[np.arange(int(sizes.sum())) + skipped]
        return found

    def cosines(self, query: Vectors) -> Doubles:
        """The cosine of each text with a query, kept for the next few calls with it."""
        assert self.matrix is not None
        key = query.tobytes()
        known = self.compared.get(key)
        if known is None:
            known = rounded_cosines(self.matrix, query)
            self.compared[key] = known
            while len(self.compared) > _COMPARED:
                self.compared.pop(next(iter(self.compared)), None)
        return known

    def vectors(self, places: Ints) -> Vectors:
        """The vectors of some rows, in their order."""
        if self.matrix is not None:
            return self.matrix[self.text_of[places]]
        flat = self._taken("vector", places).flatten().to_numpy()
        found: Vectors = flat.reshape(len(places), -1)
        return found

    def _taken(self, column: str, places: Ints) -> pa.Array:
        assert self.index is not None
        wanted = pa.array(self.row_ids[places], pa.uint64())
        rows = self.index.take(wanted.to_pylist(), [column])
        order = pc.index_in(wanted, value_set=rows.column("_rowid").combine_chunks())
        return rows.column(column).combine_chunks().take(order)

    @cached_property
    def word_scan(self) -> WordScan | None:
        """The words of each distinct text; None where they are too many to hold."""
        return self._scan(_WORD_BYTES)

    @cached_property
    def whole_word_scan(self) -> WordScan:
        """The same, however many they are."""
        scan = self._scan(None)
        assert scan is not None
        return scan

    def _scan(self, most: int | None) -> WordScan | None:
        rows = numpy().bincount(self.text_of) if len(self) else None
        words = self._distinct("words", most) if self.texts is None else segmented(self.texts)
        return None if words is None else WordScan(words, rows)


def rounded_cosines(vectors: Vectors, query: Vectors) -> Doubles:
    """The cosine of each vector with a query, to :data:`DIGITS`.

    ``vecdot`` goes row by row in one thread: a product of matrices by BLAS costs two to eight times
    the processor time from ten thousand vectors on, most of it in threads that wait.
    """
    np = numpy()
    found: Doubles = np.round(np.vecdot(vectors, query).astype(np.float64), DIGITS)
    return found


def indexed_rows(index: IndexTable, pointer: Pointer) -> Rows:
    """The rows of an index."""
    np = numpy()
    found = index.columns(_COLUMNS)
    order = pc.sort_indices(
        found,
        [("trajectory_id", "ascending"), ("step_index", "ascending"), ("item_id", "ascending")],
    )
    found = found.take(order)
    ids = found.column("item_id").combine_chunks()
    again = np.zeros(len(ids), bool)
    if len(ids) > 1:
        again[1:] = pc.equal(ids[1:], ids[:-1]).to_numpy(zero_copy_only=False)
        again[1:] &= np.diff(found.column("revision").to_numpy()) == 0
    found = found.filter(pa.array(~again))
    _, first, text_of = np.unique(
        found.column("text_key").to_numpy(), return_index=True, return_inverse=True
    )
    first, text_of = _by_environment(found.column("environment"), first, text_of)
    row_ids = found.column("_rowid").to_numpy().astype(np.int64)
    matrix = None
    if pointer.fingerprint.dimension and len(first) <= EXACT_ROWS:
        matrix = _matrix(index, row_ids[first], pointer.fingerprint.dimension)
    return Rows(
        table=found.select(_KEPT).combine_chunks(),
        text_of=text_of,
        matrix=matrix,
        index=index,
        pointer=pointer,
        row_ids=row_ids,
    )


def _by_environment(names: pa.ChunkedArray, first: Ints, text_of: Ints) -> tuple[Ints, Ints]:
    """Number the texts so that those of one environment, which are asked for together, adjoin.

    Args:
        names: environment of each row.
        first: the first row of each text.
        text_of: number of the text of each row.
    """
    np = numpy()
    codes = names.combine_chunks().dictionary_encode(null_encoding="encode").indices.to_numpy()
    order = np.lexsort((first, codes[first]))
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    return first[order], place[text_of]


def _matrix(index: IndexTable, row_ids: Ints, dimension: int) -> Vectors:
    """The vectors of some rows, read a few thousand at a time."""
    np = numpy()
    order = np.argsort(row_ids)
    listed = row_ids[order]
    matrix: Vectors = np.zeros((len(row_ids), dimension), np.float32)
    for batch in index.batches(["vector"]):
        numbers = batch.column("_rowid").to_numpy().astype(np.int64)
        at = np.minimum(np.searchsorted(listed, numbers), len(listed) - 1)
        wanted = listed[at] == numbers
        vectors = batch.column("vector").flatten().to_numpy().reshape(-1, dimension)
        matrix[order[at[wanted]]] = vectors[wanted]
    return matrix


def stored_rows(table: pa.Table) -> Rows:
    """Rows read from the store itself, without vectors.

    Args:
        table: in :data:`trajstore.retrieval.items.PART_SCHEMA`.
    """
    np = numpy()
    return Rows(
        table=table.select(_KEPT).combine_chunks(),
        text_of=np.arange(table.num_rows),
        matrix=None,
        index=None,
        pointer=None,
        row_ids=np.arange(table.num_rows),
        texts=table.column("text").combine_chunks(),
    )
