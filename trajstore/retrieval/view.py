"""What one search sees: the rows of an index that are alive at a snapshot, and what is cached."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import pyarrow as pa
import pyarrow.compute as pc

from trajstore.errors import MissingDependencyError, RetrievalError
from trajstore.retrieval.arrays import numpy
from trajstore.retrieval.catalogue import Catalogue, catalogue
from trajstore.retrieval.embedder import Embedder, made_again
from trajstore.retrieval.embedder import embedder as named_embedder
from trajstore.retrieval.embedding import embedded
from trajstore.retrieval.fingerprint import Fingerprint
from trajstore.retrieval.hits import Level
from trajstore.retrieval.index import mismatch
from trajstore.retrieval.index_files import Pointer, broken, pointer_path, read_pointer
from trajstore.retrieval.index_table import IndexTable
from trajstore.retrieval.items import PART_SCHEMA, live_revisions, parts
from trajstore.retrieval.levels import MEMORIES
from trajstore.retrieval.rows import Rows, indexed_rows, stored_rows
from trajstore.store import Reader, Store

if TYPE_CHECKING:
    from trajstore.retrieval.arrays import Bools, Doubles, Ints, Vectors

_SCANNED = 50_000
_QUERIES_KEPT = 512
_TASKS_KEPT = 256


@dataclass(frozen=True, kw_only=True)
class View:
    """The rows of a level that are alive at a snapshot."""

    level: Level
    """Whose rows."""
    rows: Rows
    """The rows of the index, dead ones among them."""
    catalogue: Catalogue
    """What the store says of them."""
    place: Ints
    """Row of the catalogue for each row; -1 where it is dead."""
    notes: tuple[str, ...]
    """What whoever searches should know."""
    excluded: OrderedDict[object, Any] = field(default_factory=OrderedDict)
    """Near-duplicate tasks of tasks that asked before."""

    def keep_excluded(self, key: object, value: Any) -> None:
        """Remember what a task must not see."""
        self.excluded[key] = value
        while len(self.excluded) > _TASKS_KEPT:
            self.excluded.popitem(last=False)

    @cached_property
    def _in_order(self) -> bool:
        """Whether row ``i`` is row ``i`` of the catalogue, as for runs that are all indexed."""
        np = numpy()
        count = len(self.place)
        return count == self.catalogue.table.num_rows and bool(
            (self.place == np.arange(count)).all()
        )

    def alive(self) -> Bools:
        """Which rows are alive; not to be changed."""
        return self._alive

    @cached_property
    def _alive(self) -> Bools:
        return self.place >= 0

    @cached_property
    def _worth(self) -> tuple[pa.Array, Doubles]:
        """The runs or steps that other runs were given, and the share of these that succeeded."""
        known = self.catalogue
        uses = known.reader.query(
            f"SELECT trajectory_id, item_id FROM uses WHERE kind = '{self.level}' ORDER BY item_id"
        ).read_all()
        if not uses.num_rows:
            return pa.array([], pa.string()), numpy().zeros(0)
        ids = known.table.column("item_id").combine_chunks()
        at = pc.index_in(uses.column("trajectory_id"), value_set=ids)
        won = pc.fill_null(pa.array(known.success).take(at), 0.0)
        grouped = uses.append_column("won", won).group_by("item_id", use_threads=False)
        found = grouped.aggregate([("won", "mean")])
        return found.column("item_id").combine_chunks(), found.column("won_mean").to_numpy()

    def utility(self, rows: Ints) -> Doubles:
        """Successes by uses of some rows, from the table ``uses``; 0 where one was never used."""
        found: Doubles = numpy().zeros(len(rows))
        if self.level in MEMORIES:
            found = self.catalogue.utility[self.place[rows]]
        elif len(self._worth[0]):
            items, shares = self._worth
            ids = self.rows.table.column("item_id").take(pa.array(rows))
            at = pc.index_in(ids, value_set=items)
            found = pc.fill_null(pa.array(shares).take(at), 0.0).to_numpy()
        return found

    def of_runs(self, mask: Bools) -> Bools:
        """A mask over the catalogue as one over the rows."""
        np = numpy()
        if self._in_order:
            return mask
        padded = np.concatenate((mask, [False]))
        found: Bools = padded[self.place]
        return found


class Searcher:
    """Everything that searches of one open store share; safe to use from several threads."""

    def __init__(self, store: Store) -> None:
        """Nothing is read before the first search."""
        self._store_uri = store.root.uri
        self._index = store.root.child("index")
        self._folder = self._index.local
        self._lock = threading.RLock()
        self._rows: dict[Level, tuple[object, Rows]] = {}
        self._views: dict[Level, tuple[tuple[object, object], View]] = {}
        self._catalogues: dict[str, tuple[Reader, Catalogue]] = {}
        self._vectors: OrderedDict[tuple[Fingerprint, str], Vectors] = OrderedDict()

    def view(self, reader: Reader, level: Level, *, need_index: bool) -> View:
        """The view of a level at a snapshot; the same object until store or index change.

        Raises:
            RetrievalError: there is no index, or it is damaged, and the search needs one.
        """
        with self._lock:
            stamp = self._stamp(level)
            known = self._views.get(level)
            if known is not None and known[0][0] is reader and known[0][1] == stamp:
                if need_index and known[1].rows.index is None:
                    self._indexed(level, stamp)
                return known[1]
            made = self._made(reader, level, stamp, need_index=need_index)
            self._views[level] = ((reader, stamp), made)
            return made

    def _stamp(self, level: Level) -> object:
        """Changes whenever the index does; a look at one file on a local disk."""
        if self._folder is None:
            return read_pointer(self._index, level)
        try:
            stat = os.stat(f"{self._folder}/{pointer_path(level)}")  # noqa: PTH116  each search asks
        except OSError:
            return None
        return (stat.st_mtime_ns, stat.st_ino, stat.st_size)

    def _made(self, reader: Reader, level: Level, stamp: object, *, need_index: bool) -> View:
        notes: list[str] = []
        try:
            rows = self._indexed(level, stamp)
        except (RetrievalError, MissingDependencyError) as error:
            if need_index:
                raise
            notes.append(f"searched by words without an index: {error}")
            rows = self._scanned(reader, level)
        found = self._catalogue(reader, level)
        place = pc.index_in(rows.table.column("revision"), value_set=_one(found.table, "revision"))
        places = pc.fill_null(place, -1).to_numpy().astype(numpy().int64)
        notes += _missing(self._store_uri, rows, found)
        return View(level=level, rows=rows, catalogue=found, place=places, notes=tuple(notes))

    def _catalogue(self, reader: Reader, level: Level) -> Catalogue:
        kind = level if level in MEMORIES else "runs"
        known = self._catalogues.get(kind)
        if known is None or known[0] is not reader:
            known = (reader, catalogue(reader, level))
            self._catalogues[kind] = known
        return known[1]

    def _indexed(self, level: Level, stamp: object) -> Rows:
        known = self._rows.get(level)
        if known is not None and known[0] == stamp:
            return known[1]
        pointer = read_pointer(self._index, level)
        if pointer is None:
            raise RetrievalError(
                f"{self._store_uri} has no {level} index. Make one with `trajstore index "
                f"{self._store_uri} --level {level}`.",
                path=self._index.uri,
            )
        rows = self._opened(level, pointer)
        self._rows[level] = (stamp, rows)
        return rows

    def _opened(self, level: Level, pointer: Pointer) -> Rows:
        try:
            table = IndexTable.open(self._index, pointer.table, pointer.version)
            return indexed_rows(table, pointer)
        except (ValueError, RuntimeError, OSError, LookupError, pa.ArrowException) as error:
            raise broken(self._index, level, error) from error

    def _scanned(self, reader: Reader, level: Level) -> Rows:
        live = live_revisions(reader, level)
        if live.num_rows > _SCANNED:
            raise RetrievalError(
                f"{live.num_rows:,} items are too many to search without an index (the most is "
                f"{_SCANNED:,}). Make one with `trajstore index {self._store_uri} --level {level}`."
            )
        found = [PART_SCHEMA.empty_table(), *(parts(reader, level, live) if live.num_rows else ())]
        order = [
            ("trajectory_id", "ascending"),
            ("step_index", "ascending"),
            ("item_id", "ascending"),
        ]
        return stored_rows(pa.concat_tables(found).sort_by(order))

    def query_vector(self, view: View, text: str, given: str | Embedder | None) -> Vectors:
        """The vector of a query, by the embedder of the index.

        Raises:
            RetrievalError: another embedder was given, or its weights are not those of the index.
        """
        pointer = view.rows.pointer
        assert pointer is not None
        if given is None:
            found = made_again(pointer.embedder, pointer.fingerprint)
        else:
            found = named_embedder(given) if isinstance(given, str) else given
        key = (pointer.fingerprint, text)
        if found.fingerprint != pointer.fingerprint:
            name = given if isinstance(given, str) else found.fingerprint.model
            raise mismatch(self._store_uri, view.level, pointer, found.fingerprint.model, name)
        with self._lock:
            known = self._vectors.get(key)
        if known is None:
            known = embedded(found, [text], kind="query")[0]
            with self._lock:
                self._vectors[key] = known
                while len(self._vectors) > _QUERIES_KEPT:
                    self._vectors.popitem(last=False)
        return known


def _missing(store: str, rows: Rows, found: Catalogue) -> list[str]:
    """A note where the store holds items that the index does not."""
    if rows.pointer is None or rows.pointer.snapshot == found.reader.snapshot.version:
        return []
    known = pc.is_in(found.table.column("revision"), value_set=_one(rows.table, "revision"))
    new = found.table.num_rows - int(pc.sum(known).as_py() or 0) - rows.pointer.without_text
    if new <= 0:
        return []
    return [f"{new:,} items are not indexed yet; `trajstore index {store}` brings them in"]


_SEARCHERS: WeakKeyDictionary[Store, Searcher] = WeakKeyDictionary()
_SEARCHERS_LOCK = threading.Lock()


def searcher(store: Store) -> Searcher:
    """The searcher of an open store."""
    with _SEARCHERS_LOCK:
        if store not in _SEARCHERS:
            _SEARCHERS[store] = Searcher(store)
        return _SEARCHERS[store]


def _one(table: pa.Table, column: str) -> pa.Array:
    return table.column(column).combine_chunks()
