"""Rows as they lie on disk: sorted, with their revision and the tool columns."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.compute as pc

from trajstore.store.flat import flatten
from trajstore.store.layout import STORED_SCHEMAS


def random_revisions(count: int) -> pa.Array:
    """That many random numbers from 0 to 2**63 - 1."""
    buffer = pa.py_buffer(secrets.token_bytes(8 * count))
    raw = pa.Array.from_buffers(pa.int64(), count, [None, buffer])
    return pc.bit_wise_and(raw, pa.scalar(2**63 - 1, pa.int64()))


def stored(record: str, rows: pa.Table, revisions: pa.Array) -> pa.Table:
    """Rows in the stored schema of ``record``, with revisions (and tool columns for steps)."""
    schema = STORED_SCHEMAS[record]
    columns = {n: rows.column(n) for n in rows.column_names} | {"revision": revisions}
    if record == "step":
        columns |= flatten(
            _from_start(rows.column("tool_calls").combine_chunks()),
            _from_start(rows.column("observations").combine_chunks()),
        )
        calls = _narrow(columns["tool_calls"], ["call_id", "name"])
        results = _narrow(columns["observations"], ["call_id", "is_error"])
        columns["tool_names"] = _names(calls)
        columns["tool_results"] = _places(calls, results)
        columns["tool_errors"] = _errors(results, columns["tool_results"])
    return pa.table([columns[n] for n in schema.names], schema=schema)


def _from_start(lists: pa.ListArray) -> pa.ListArray:
    return pa.concat_arrays([lists]) if lists.offset else lists


def _narrow(lists: pa.ListArray, names: list[str]) -> pa.ListArray:
    """The same lists with only some fields of their structs; no text is copied."""
    lists = _from_start(lists)
    fields = [pc.struct_field(lists.values, n) for n in names]
    structs = pa.StructArray.from_arrays(fields, names=names)
    return pa.ListArray.from_arrays(lists.offsets, structs, mask=pc.is_null(lists))


def _names(calls: pa.ListArray) -> pa.ListArray:
    names = pc.struct_field(calls.values, "name")
    return pa.ListArray.from_arrays(calls.offsets, names, mask=pc.is_null(calls))


def _places(calls: pa.ListArray, results: pa.ListArray) -> pa.ListArray:
    """For each call the place of its result in the step, from 1; null where it has none.

    Where a step has as many results as calls and in the same order, which is nearly always, the
    places are 1, 2, ...; the other steps are linked one by one.
    """
    counts = pc.fill_null(pc.list_value_length(calls), 0)
    same = pc.equal(counts, pc.fill_null(pc.list_value_length(results), 0))
    if not _same_ids(calls.filter(same), results.filter(same)):
        same = pa.repeat(pa.scalar(False), len(calls))
    plain = _counted(calls.filter(same))
    other = pc.invert(same)
    linked = pa.array(_linked(calls.filter(other), results.filter(other)), plain.type)
    order = pc.sort_indices(pc.sort_indices(other.cast(pa.int8())))
    both = pa.concat_arrays([plain, linked]).take(order)
    return pc.if_else(pc.is_null(calls), pa.scalar(None, both.type), both)


def _counted(lists: pa.ListArray) -> pa.ListArray:
    """Lists of the same lengths that hold 1, 2, 3, ..."""
    offsets = _offsets(lists)
    total = offsets[-1].as_py()
    starts = offsets.take(pc.list_parent_indices(lists))
    numbers = pc.subtract(pa.array(range(1, total + 1), pa.int32()), starts.cast(pa.int32()))
    return pa.ListArray.from_arrays(offsets, numbers)


def _errors(results: pa.ListArray, places: pa.ListArray) -> pa.ListArray:
    """For each call the flag of its result, null where it has none."""
    flat = places.flatten()
    starts = _offsets(results).take(pc.list_parent_indices(places))
    at = pc.add(pc.subtract(flat, 1), starts)
    flags = pc.struct_field(results.flatten(), "is_error").take(at)
    return pa.ListArray.from_arrays(_offsets(places), flags, mask=pc.is_null(places))


def _offsets(lists: pa.ListArray) -> pa.Array:
    lengths = pc.fill_null(pc.list_value_length(lists), 0)
    zero = pa.array([0], pa.int32())
    return pa.concat_arrays([zero, pc.cumulative_sum(lengths).cast(pa.int32())])


def _same_ids(calls: pa.ListArray, results: pa.ListArray) -> bool:
    ours = pc.fill_null(pc.struct_field(calls.flatten(), "call_id"), "")
    theirs = pc.fill_null(pc.struct_field(results.flatten(), "call_id"), "")
    return bool(ours.equals(theirs))


def _linked(calls: pa.ListArray, results: pa.ListArray) -> list[list[int | None]]:
    rows = zip(_ids(calls), _ids(results), strict=True)
    return [link(ids, found) for ids, found in rows]


def _ids(lists: pa.ListArray) -> list[list[object]]:
    values = pc.struct_field(lists.flatten(), "call_id")
    result: list[list[object]] = pa.ListArray.from_arrays(_offsets(lists), values).to_pylist()
    return result


def link(call_ids: Sequence[object], result_ids: Sequence[object]) -> list[int | None]:
    """For each call the place of its result, from 1: by id, by order where ids repeat.

    The n-th call with an id belongs to the n-th result with that id; a call whose id has no result
    takes the result at its own place if that one has no id. None where there is no result.

    >>> link(["a", "b", "a"], ["b", "a"])
    [2, 1, None]
    """
    linked: list[int | None] = []
    for place, call_id in enumerate(call_ids):
        nth = sum(1 for c in call_ids[:place] if c == call_id)
        places = [i for i, r in enumerate(result_ids) if r == call_id]
        if nth < len(places):
            linked.append(places[nth] + 1)
        elif place < len(result_ids) and result_ids[place] is None:
            linked.append(place + 1)
        else:
            linked.append(None)
    return linked


def sorted_rows(table: pa.Table, keys: list[str]) -> pa.Table:
    """Rows in ascending order of one or two keys; not copied where they are in order already."""
    if len(table) < 2 or _in_order(table, keys):
        return table
    return table.take(pc.sort_indices(table, [(k, "ascending") for k in keys]))


def _in_order(table: pa.Table, keys: list[str]) -> bool:
    first = table.column(keys[0]).combine_chunks()
    ahead, behind = first.slice(1), first.slice(0, len(first) - 1)
    in_order = pc.greater(ahead, behind)
    if len(keys) > 1:
        second = table.column(keys[1]).combine_chunks()
        later = pc.greater(second.slice(1), second.slice(0, len(second) - 1))
        in_order = pc.or_(in_order, pc.and_(pc.equal(ahead, behind), later))
    return bool(pc.all(in_order).as_py())


def tombstones(revisions: Sequence[int], ids: Sequence[str | None], why: str) -> pa.Table:
    """Rows that make revisions invisible; ``why`` is kept as their ``name``."""
    columns = {
        "revision": list(revisions),
        "trajectory_id": list(ids),
        "name": [why] * len(ids),
        "created_at": [datetime.now(UTC)] * len(ids),
    }
    return pa.Table.from_pydict(columns, schema=STORED_SCHEMAS["tombstone"])
