"""Calls and results of a step as plain columns, where a step has at most one of each.

A nested column is read whole: a search over the text of observations would read ids, flags and
content too, page by page. Nearly every step has one call and its result, so these lie in columns of
their own (:data:`FLAT_COLUMNS`). The few steps with more keep their lists; ``shape`` says which.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from trajstore.schema import STEP_SCHEMA

CALL, RESULT, SAME_ARGUMENTS, SAME_ID = 1, 2, 4, 8
"""Bits of ``shape``: has a call; has a result; ``arguments_raw`` is ``arguments``; the id in the
result is that of the call. What is the same is not written twice. Null: the lists are as they are.
"""

_CALL = {
    "call_id": "call_id",
    "tool_name": "name",
    "arguments": "arguments",
    "arguments_raw": "arguments_raw",
}
_RESULT = {
    "result_call_id": "call_id",
    "observation": "text",
    "is_error": "is_error",
    "observation_content": "content",
}
_CALLS_TYPE = STEP_SCHEMA.field("tool_calls").type
_RESULTS_TYPE = STEP_SCHEMA.field("observations").type

FLAT_COLUMNS = (
    pa.field("shape", pa.int32()),
    *(pa.field(n, _CALLS_TYPE.value_type.field(f).type) for n, f in _CALL.items()),
    *(pa.field(n, _RESULTS_TYPE.value_type.field(f).type) for n, f in _RESULT.items()),
)
"""Stored columns that take the place of the two lists where they can."""


def flatten(calls: pa.ListArray, results: pa.ListArray) -> dict[str, pa.Array]:
    """The flat columns and the lists that are left, by name.

    Args:
        calls: the column ``tool_calls`` of steps, without an offset.
        results: their ``observations``, likewise.
    """
    has_call, has_result, fits = _fitting(calls, results)
    columns = {n: _only(calls, f, has_call) for n, f in _CALL.items()}
    columns |= {n: _only(results, f, has_result) for n, f in _RESULT.items()}
    same_arguments = _same(columns["arguments"], columns["arguments_raw"])
    same_id = _same(columns["call_id"], columns["result_call_id"])
    columns["arguments_raw"] = _unless(same_arguments, columns["arguments_raw"])
    columns["result_call_id"] = _unless(same_id, columns["result_call_id"])
    shape = pa.repeat(pa.scalar(0, pa.int32()), len(calls))
    bits = {CALL: has_call, RESULT: has_result, SAME_ARGUMENTS: same_arguments, SAME_ID: same_id}
    for bit, holds in bits.items():
        shape = pc.bit_wise_or(shape, pc.if_else(holds, pa.scalar(bit, pa.int32()), 0))
    columns["shape"] = pc.if_else(fits, shape, pa.scalar(None, pa.int32()))
    nested = pc.invert(fits)
    columns["tool_calls"] = where(calls, nested)
    columns["observations"] = where(results, nested)
    return columns


def _fitting(
    calls: pa.ListArray, results: pa.ListArray
) -> tuple[pa.BooleanArray, pa.BooleanArray, pa.BooleanArray]:
    """Which steps have a call, a result, and neither more than flat columns can say."""
    n_calls = pc.fill_null(pc.list_value_length(calls), 2)
    n_results = pc.fill_null(pc.list_value_length(results), 2)
    few = pc.and_(pc.less_equal(n_calls, 1), pc.less_equal(n_results, 1))
    one, answered = pc.and_(few, pc.equal(n_calls, 1)), pc.and_(few, pc.equal(n_results, 1))
    both = pc.and_(one, answered)
    asked, found = _only(calls, "call_id", both), _only(results, "call_id", both)
    linked = pc.or_(pc.is_null(found), pc.fill_null(pc.equal(asked, found), False))
    named = pc.is_valid(_only(calls, "name", one))
    fits = pc.and_(few, pc.or_(pc.invert(one), named))
    fits = pc.and_(fits, pc.or_(pc.invert(both), linked))
    return pc.and_(fits, one), pc.and_(fits, answered), fits


def _same(first: pa.Array, second: pa.Array) -> pa.BooleanArray:
    return pc.fill_null(pc.equal(first, second), False)


def _unless(mask: pa.BooleanArray, values: pa.Array) -> pa.Array:
    """The values, null where the mask holds."""
    return pc.if_else(mask, pa.scalar(None, values.type), values)


def _only(lists: pa.ListArray, name: str, mask: pa.BooleanArray) -> pa.Array:
    """A field of the only item of each list where the mask holds, else null.

    Text is not copied: the new array has offsets of its own into the same bytes.
    """
    values = pc.struct_field(lists.values, name)
    starts = lists.offsets.slice(0, len(lists))
    at = pc.if_else(mask, starts, pa.scalar(None, starts.type))
    if not pa.types.is_string(values.type):
        return values.take(at)
    _, ends, data = values.buffers()
    if ends is None or not len(values):
        return pa.nulls(len(lists), values.type)
    bounds = pa.Array.from_buffers(pa.int32(), len(values) + 1, [None, ends], offset=values.offset)
    there = pc.fill_null(values.is_valid().take(at), False)
    return pa.Array.from_buffers(
        values.type,
        len(lists),
        [there.buffers()[1], bounds.take(lists.offsets).buffers()[1], data],
    )


def where(lists: pa.ListArray, mask: pa.BooleanArray) -> pa.ListArray:
    """The lists where the mask holds, else null; text of the others is not copied."""
    if not pc.any(mask).as_py():
        return pa.nulls(len(lists), lists.type)
    rank = pc.subtract(pc.cumulative_sum(mask.cast(pa.int64())), 1)
    return lists.filter(mask).take(pc.if_else(mask, rank, pa.scalar(None, pa.int64())))


def nest(rows: Mapping[str, pa.Array]) -> tuple[pa.ListArray, pa.ListArray]:
    """The columns ``tool_calls`` and ``observations`` again, from the stored columns by name."""
    shape = rows["shape"]
    raw = _instead(rows, "arguments_raw", "arguments", SAME_ARGUMENTS)
    found = _instead(rows, "result_call_id", "call_id", SAME_ID)
    columns = {**rows, "arguments_raw": raw, "result_call_id": found}
    calls = _lists(columns, _CALL, holds(shape, CALL), rows["tool_calls"].cast(_CALLS_TYPE))
    results = _lists(
        columns, _RESULT, holds(shape, RESULT), rows["observations"].cast(_RESULTS_TYPE)
    )
    return calls, results


def holds(shape: pa.Array, bit: int) -> pa.BooleanArray:
    """Whether a bit is set; False for a null shape."""
    masked = pc.bit_wise_and(shape, pa.scalar(bit, pa.int32()))
    return pc.fill_null(pc.not_equal(masked, 0), False)


def _instead(rows: Mapping[str, pa.Array], name: str, other: str, bit: int) -> pa.Array:
    same = holds(rows["shape"], bit)
    return pc.if_else(same, rows[other], rows[name]) if pc.any(same).as_py() else rows[name]


def _lists(
    columns: Mapping[str, pa.Array],
    names: Mapping[str, str],
    has: pa.BooleanArray,
    nested: pa.ListArray,
) -> pa.ListArray:
    fields = [nested.type.value_type.field(f) for f in names.values()]
    parts = [columns[n] if pc.all(has).as_py() else columns[n].filter(has) for n in names]
    values = pa.StructArray.from_arrays(parts, fields=fields)
    counts = pc.cumulative_sum(has.cast(pa.int32()))
    offsets = pa.concat_arrays([pa.array([0], pa.int32()), counts])
    plain = pa.ListArray.from_arrays(offsets, values).cast(nested.type)
    kept = pc.is_null(columns["shape"])
    if not pc.any(kept).as_py():
        return plain
    both = pa.concat_arrays([plain.filter(pc.invert(kept)), nested.filter(kept)])
    order = pc.sort_indices(pc.sort_indices(kept.cast(pa.int8())))
    return both.take(order)


ARGUMENTS_RAW_SQL = f"CASE WHEN shape & {SAME_ARGUMENTS} <> 0 THEN arguments ELSE arguments_raw END"
"""SQL of the raw arguments of a flat step."""

RESULT_ID_SQL = f"CASE WHEN shape & {SAME_ID} <> 0 THEN call_id ELSE result_call_id END"
"""SQL of the call id in the result of a flat step."""

CALLS_SQL = (
    f"CASE WHEN shape IS NULL THEN tool_calls WHEN shape & {CALL} <> 0 THEN "
    "[{'call_id': call_id, 'name': tool_name, 'arguments': arguments, "
    f"'arguments_raw': {ARGUMENTS_RAW_SQL}}}] ELSE [] END"
)
"""SQL of the column ``tool_calls`` of the view ``steps``."""

RESULTS_SQL = (
    f"CASE WHEN shape IS NULL THEN observations WHEN shape & {RESULT} <> 0 THEN "
    f"[{{'call_id': {RESULT_ID_SQL}, 'text': observation, 'is_error': is_error, "
    "'content': observation_content}] ELSE [] END"
)
"""SQL of the column ``observations`` of the view ``steps``."""
