from __future__ import annotations

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from trajstore import Observation, Pool, Step, ToolCall, Trajectory
from trajstore.schema import STEP_SCHEMA
from trajstore.store.flat import CALL, RESULT, SAME_ARGUMENTS, SAME_ID, flatten, nest

_WORDS = st.none() | st.sampled_from(["", "a", "b", "é"])
_CALLS = st.fixed_dictionaries(
    {"call_id": _WORDS, "name": _WORDS, "arguments": _WORDS, "arguments_raw": _WORDS}
)
_RESULTS = st.fixed_dictionaries(
    {"call_id": _WORDS, "text": _WORDS, "is_error": st.none() | st.booleans(), "content": _WORDS}
)
_ROWS = st.lists(
    st.tuples(st.none() | st.lists(_CALLS, max_size=3), st.none() | st.lists(_RESULTS, max_size=3)),
    max_size=12,
)


def lists(rows: list[tuple[object, object]]) -> tuple[pa.ListArray, pa.ListArray]:
    calls, results = ([row[n] for row in rows] for n in (0, 1))
    names = ("tool_calls", "observations")
    types = [STEP_SCHEMA.field(n).type for n in names]
    return pa.array(calls, types[0]), pa.array(results, types[1])


def shapes(*steps: tuple[list[ToolCall], list[Observation]]) -> list[int | None]:
    def values(items: list[ToolCall] | list[Observation]) -> list[dict[str, object]]:
        return [{n: getattr(i, n) for n in i.__dataclass_fields__} for i in items]

    rows = [(values(calls), values(results)) for calls, results in steps]
    found: list[int | None] = flatten(*lists(rows))["shape"].to_pylist()
    return found


@settings(deadline=None)
@given(_ROWS)
def test_flattened_lists_come_back_equal(rows: list[tuple[object, object]]) -> None:
    calls, results = lists(rows)
    back = nest(flatten(calls, results))
    assert back[0].to_pylist() == calls.to_pylist()
    assert back[1].to_pylist() == results.to_pylist()


@settings(deadline=None)
@given(_ROWS)
def test_a_row_has_either_flat_columns_or_lists(rows: list[tuple[object, object]]) -> None:
    flat = {n: c.to_pylist() for n, c in flatten(*lists(rows)).items()}
    for at, shape in enumerate(flat["shape"]):
        row = {n: c[at] for n, c in flat.items() if n != "shape"}
        nested = {n: row.pop(n) for n in ("tool_calls", "observations")}
        assert set((row if shape is None else nested).values()) <= {None}


def test_the_shape_says_what_a_step_has() -> None:
    call, other = ToolCall.of("x", {"q": 1}, "1"), ToolCall.of("x", "{ }", "1")
    answer, foreign = Observation(call_id="1"), Observation(call_id="2")
    assert shapes(([], []), ([call], []), ([], [foreign]), ([call], [answer])) == [
        0,
        CALL + SAME_ARGUMENTS,
        RESULT,
        CALL + RESULT + SAME_ARGUMENTS + SAME_ID,
    ]
    assert shapes(([other], [Observation()])) == [CALL + RESULT]


def test_steps_that_flat_columns_cannot_say_keep_their_lists() -> None:
    call, foreign = ToolCall.of("x", {}, "1"), Observation(call_id="2")
    assert shapes(([call, call], []), ([], [foreign, foreign]), ([call], [foreign])) == [None] * 3


def test_views_show_flat_and_other_steps_alike(pool: Pool) -> None:
    one = (ToolCall.of("x", {"q": 1}, "1"), Observation(call_id="1", text="one", is_error=True))
    two = (ToolCall.of("y", "no json", "2"), Observation(call_id="2", text="two"))
    steps = (
        Step(actor="agent", tool_calls=one[:1], observations=one[1:]),
        Step(actor="agent", tool_calls=(two[0], one[0]), observations=(one[1], two[1])),
        Step(actor="environment", observations=two[1:]),
    )
    pool.append(Trajectory(trajectory_id="a", task_id="t", source="test", steps=steps))
    columns = "step_index, call_index, name, arguments, arguments_raw, observation, is_error"
    x = ("x", '{"q":1}', '{"q":1}', "one", True)
    assert pool.sql(f"select {columns} from tool_calls order by 1, 2").fetchall() == [
        (0, 0, *x),
        (1, 0, "y", None, "no json", "two", None),
        (1, 1, *x),
    ]
    said = "select step_index, part_index, role, content, call_id from messages"
    assert pool.sql(said).fetchall() == [
        (0, 0, "assistant", None, None),
        (0, 1, "tool", "one", "1"),
        (1, 0, "assistant", None, None),
        (1, 1, "tool", "one", "1"),
        (1, 2, "tool", "two", "2"),
        (2, 1, "tool", "two", "2"),
    ]


def test_blobs_are_found_in_flat_and_other_steps(pool: Pool) -> None:
    names = [c * 64 for c in "abc"]
    seen = [Observation(content=f'["blob:sha256:{n}"]') for n in names[:2]]
    steps = (
        Step(actor="agent", observations=(seen[0],)),
        Step(actor="agent", observations=(seen[1], Observation(text="x"))),
        Step(actor="user", content=f'["blob:sha256:{names[2]}"]'),
    )
    pool.append(Trajectory(trajectory_id="a", task_id="t", source="test", steps=steps))
    assert sorted(pool.reader().blobs()) == names
