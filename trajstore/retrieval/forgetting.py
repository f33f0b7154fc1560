"""Take what the store holds no longer out of an index, with every byte of it."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from trajstore.errors import RetrievalError
from trajstore.retrieval.hits import LEVELS, Level
from trajstore.retrieval.index_files import (
    Place,
    broken,
    build_lock,
    read_pointer,
    write_pointer,
)
from trajstore.retrieval.index_table import IndexTable, drop_others, new_table_name
from trajstore.retrieval.items import live_revisions
from trajstore.store import Reader, Store


def forget_deleted(store: Store) -> int:
    """Write the index anew without the items that the store holds no longer.

    Nothing is embedded: what stays is copied with its vectors. LanceDB only marks a deleted row and
    keeps old versions for a while; here the old files are gone when this returns. A search that is
    under way may have to be asked again.

    Args:
        store: the store; one without an index is left as it is.

    Returns:
        Number of items that went.

    Raises:
        RetrievalError: the index cannot be read; the message says how to make it anew.
        WriteError: the index cannot be written.
    """
    index = store.root.child("index")
    levels = [level for level in LEVELS if read_pointer(index, level) is not None]
    if not levels:
        return 0
    with build_lock(index):
        reader = store.reader()
        return sum(_rewritten(index, reader, level) for level in levels)


def _rewritten(index: Place, reader: Reader, level: Level) -> int:
    pointer = read_pointer(index, level)
    if pointer is None:
        return 0
    live = live_revisions(reader, level).column("revision").combine_chunks()
    name = new_table_name(level)
    try:
        old = IndexTable.open(index, pointer.table)
        fresh = IndexTable.create(index, name, pointer.fingerprint)
        gone = 0
        for batch in old.batches(old.names()):
            kept = batch.filter(pc.is_in(batch.column("revision"), value_set=live))
            gone += batch.num_rows - kept.num_rows
            if kept.num_rows:
                fresh.add(pa.Table.from_batches([kept.drop_columns("_rowid")]))
        fresh.upkeep()
    except (ValueError, RuntimeError, OSError) as error:
        if isinstance(error, RetrievalError):
            raise
        raise broken(index, level, error) from error
    moved = replace(pointer, table=name, version=fresh.version, next_table=None, next_key=None)
    write_pointer(index, level, moved)
    drop_others(index, level, [name])
    return gone
