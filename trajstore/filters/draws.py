"""Random numbers that belong to an id: seeded, and the same in whatever order the rows come."""

from __future__ import annotations

import pyarrow as pa

from trajstore.filters.relations import relation

DIGEST = "md5_number_lower(concat($seed, ':', trajectory_id))"
"""SQL for 64 bits of the MD5 hash of a seed and an id; sorted by it, rows are in random order."""


def draws(ids: pa.Array | pa.ChunkedArray, seed: int) -> pa.Array:
    """A number for each id, evenly spread from 0 up to but not 1 (double).

    It is made of 52 bits of a hash of the seed and the id, so it depends on nothing else: rows that
    are added later change no number, and no machine draws another one.

    >>> draws(pa.array(["a", "b"]), 7)[1] == draws(pa.array(["b", "c"]), 7)[0]
    True
    """
    table = pa.table({"trajectory_id": ids, "place": pa.arange(0, len(ids))})
    query = f"""
        SELECT CAST({DIGEST} >> 12 AS DOUBLE) / 4503599627370496 AS draw
        FROM runs ORDER BY place"""
    return relation(query, tables={"runs": table}, seed=seed).column("draw").combine_chunks()
