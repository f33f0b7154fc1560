"""Build the index of a store: bring it up to the newest snapshot, in commits that add up."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from trajstore.errors import RetrievalError
from trajstore.retrieval.arrays import numpy
from trajstore.retrieval.embedder import DEFAULT_EMBEDDER, Embedder, made_again, name_of
from trajstore.retrieval.embedder import embedder as named_embedder
from trajstore.retrieval.embedding import embedded
from trajstore.retrieval.hits import Level
from trajstore.retrieval.index_files import (
    Pointer,
    broken,
    build_lock,
    read_pointer,
    write_pointer,
)
from trajstore.retrieval.index_table import IndexTable, drop_others, new_table_name
from trajstore.retrieval.items import live_revisions, parts
from trajstore.retrieval.levels import check_level
from trajstore.retrieval.words import segmented
from trajstore.store import Reader, Store

if TYPE_CHECKING:
    from trajstore.retrieval.arrays import Vectors

Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelReport:
    """What a build did at one level."""

    embedder: str
    """What made the vectors."""
    items: int
    """Items in the index now."""
    added: int
    """Items that came in."""
    removed: int
    """Items that were deleted or replaced since."""
    unchanged: int
    """Items that stayed."""
    encoded: int
    """Texts that the embedder was given; equal texts once, known ones never."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexReport:
    """What a build did."""

    snapshot: int
    """The store's snapshot that the index stands at."""
    levels: dict[str, LevelReport] = field(default_factory=dict)
    """By level."""

    @property
    def encoded(self) -> int:
        """Texts that the embedder was given, of all levels."""
        return sum(level.encoded for level in self.levels.values())


def build_index(
    store: Store,
    *,
    embedder: str | Embedder | None = None,
    levels: Sequence[Level] = ("trajectory", "step"),
    rebuild: bool = False,
    progress: Progress | None = None,
) -> IndexReport:
    """Bring the index of a store up to its newest snapshot.

    Only what is new is read and embedded, a few thousand items a commit, so a build that is killed
    goes on where it stopped. Two builders take turns. Searches go on meanwhile.

    Args:
        store: the store.
        embedder: a name (:func:`trajstore.retrieval.embedder`) or an object; the index's own where
            None, ``minilm`` for a new index.
        levels: what to index.
        rebuild: make the index anew, with another embedder or because it is damaged; searches use
            the old one until the new one is whole.
        progress: called with items done and items to do, level by level.

    Raises:
        RetrievalError: the index was made by another embedder, or vectors cannot be trusted.
        WriteError: the index cannot be written.
    """
    for level in levels:
        check_level(level)
    index = store.root.child("index")
    done: dict[str, LevelReport] = {}
    with build_lock(index):
        reader = store.reader()
        for level in levels:
            build = _Build(store, reader, level, embedder, rebuild=rebuild)
            done[level] = build.run(progress)
        return IndexReport(snapshot=reader.snapshot.version, levels=done)


class _Build:
    """The build of one level."""

    def __init__(
        self,
        store: Store,
        reader: Reader,
        level: Level,
        embedder: str | Embedder | None,
        *,
        rebuild: bool,
    ) -> None:
        self._index = store.root.child("index")
        self._store_uri = store.root.uri
        self._reader = reader
        self._level: Level = level
        old = self._old_pointer(rebuild=rebuild)
        given = DEFAULT_EMBEDDER if embedder is None else embedder
        if embedder is None and old is not None:
            self._embedder = made_again(old.embedder, old.fingerprint)
        else:
            self._embedder = named_embedder(given) if isinstance(given, str) else given
        self._fingerprint = self._embedder.fingerprint
        self._made_by = name_of(self._embedder)
        self.name = self._made_by or self._fingerprint.model
        self._rebuild = rebuild
        self._pointer = self._start(old)
        self._known: set[int] = set()
        """Keys of the texts in the table: only those that are there are worth a look for."""

    def _old_pointer(self, *, rebuild: bool) -> Pointer | None:
        try:
            return read_pointer(self._index, self._level)
        except RetrievalError:
            if not rebuild:
                raise
            return None

    def _start(self, old: Pointer | None) -> Pointer:
        """The pointer to go on from, with the table that is built named in ``next_table``."""
        key = self._fingerprint.key()
        if old is not None and not self._rebuild:
            if old.fingerprint != self._fingerprint:
                raise mismatch(
                    self._store_uri, self._level, old, self._fingerprint.model, self.name
                )
            return replace(old, next_table=None, next_key=None)
        if old is not None and old.next_table is not None and old.next_key == key:
            return old
        table = new_table_name(self._level)
        IndexTable.create(self._index, table, self._fingerprint)
        if old is not None:
            fresh = replace(old, next_table=table, next_key=key)
        else:
            fresh = self._pointing(table, version=1, snapshot=-1, without_text=0)
        write_pointer(self._index, self._level, fresh)
        return fresh

    def _pointing(self, table: str, *, version: int, snapshot: int, without_text: int) -> Pointer:
        return Pointer(
            table=table,
            version=version,
            embedder=self._made_by,
            fingerprint=self._fingerprint,
            snapshot=snapshot,
            without_text=without_text,
        )

    def run(self, progress: Progress | None) -> LevelReport:
        name = self._pointer.next_table or self._pointer.table
        try:
            table = IndexTable.open(self._index, name)
            there = table.columns(["revision", "item_id", "text_key"])
        except (ValueError, RuntimeError, OSError) as error:
            raise broken(self._index, self._level, error) from error
        self._known = set(there.column("text_key").to_numpy().tolist())
        live = live_revisions(self._reader, self._level)
        gone = pc.invert(pc.is_in(there.column("revision"), value_set=_one(live, "revision")))
        removed = pc.unique(there.filter(gone).column("revision"))
        known = pc.is_in(live.column("revision"), value_set=_one(there, "revision"))
        new = live.filter(pc.invert(known)).sort_by("trajectory_id")
        table.remove(removed)
        kept = there.num_rows - int(pc.sum(gone).as_py() or 0)
        added, encoded, empty = self._add(table, new, progress)
        if added or len(removed) or self._pointer.snapshot != self._reader.snapshot.version:
            self._finish(table, name, empty)
        return LevelReport(
            embedder=self.name,
            items=kept + added,
            added=added,
            removed=there.num_rows - kept,
            unchanged=kept,
            encoded=encoded,
        )

    def _add(
        self, table: IndexTable, new: pa.Table, progress: Progress | None
    ) -> tuple[int, int, int]:
        """Embed and add what is new; say how many items, texts, and revisions without a text."""
        added = encoded = done = full = 0
        for part in parts(self._reader, self._level, new) if new.num_rows else ():
            vectors, count = self._vectors(table, part)
            rows = part.append_column("words", segmented(part.column("text").combine_chunks()))
            if vectors is not None:
                flat = pa.array(vectors.reshape(-1), pa.float32())
                listed = pa.FixedSizeListArray.from_arrays(flat, self._fingerprint.dimension)
                rows = rows.append_column("vector", listed)
            if rows.num_rows:
                table.add(rows)
            added += rows.num_rows
            encoded += count
            full += pc.count_distinct(part.column("revision")).as_py()
            done = full
            if progress is not None:
                progress(done, new.num_rows)
        return added, encoded, new.num_rows - full

    def _vectors(self, table: IndexTable, part: pa.Table) -> tuple[Vectors | None, int]:
        """The vector of each row, and how many texts had to be encoded."""
        np = numpy()
        if not self._fingerprint.dimension:
            return None, 0
        keys, first, place = np.unique(
            part.column("text_key").to_numpy(), return_index=True, return_inverse=True
        )
        matrix: Vectors = np.zeros((len(keys), self._fingerprint.dimension), np.float32)
        known = table.known(pa.array([k for k in keys.tolist() if k in self._known], pa.int64()))
        self._known.update(keys.tolist())
        at = np.searchsorted(keys, known.column("text_key").to_numpy())
        flat = known.column("vector").combine_chunks().flatten().to_numpy()
        matrix[at] = flat.reshape(len(at), -1) if len(at) else 0
        missing = np.ones(len(keys), bool)
        missing[at] = False
        wanted = part.take(pa.array(first[missing]))
        if wanted.num_rows:
            matrix[missing] = embedded(
                self._embedder, _texts(wanted, "text"), names=_texts(wanted, "item_id")
            )
        return matrix[place], wanted.num_rows

    def _finish(self, table: IndexTable, name: str, empty: int) -> None:
        """Point at what was added, keep house, and point at what that left."""
        for step in (None, table.upkeep):
            if step is not None:
                step()
            fresh = self._pointing(
                name,
                version=table.version,
                snapshot=self._reader.snapshot.version,
                without_text=empty,
            )
            write_pointer(self._index, self._level, fresh)
        drop_others(self._index, self._level, [name])


def mismatch(store: str, level: Level, old: Pointer, model: str, name: str) -> RetrievalError:
    """The error for vectors of one embedder that another should search or add to."""
    return RetrievalError(
        f"The {level} index of {store} was made by {old.fingerprint.model} "
        f"(fingerprint {old.fingerprint.key()}), not by {model}: their vectors cannot be compared. "
        f"Embed everything anew with `trajstore index {store} --level {level} --embedder {name} "
        "--rebuild`."
    )


def _one(table: pa.Table, column: str) -> pa.Array:
    return table.column(column).combine_chunks()


def _texts(table: pa.Table, column: str) -> list[Any]:
    """The few thousand texts of one commit, for the embedder."""
    values: list[Any] = table.column(column).to_pylist()
    return values
