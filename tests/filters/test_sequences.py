"""What a run did, as asked of the store: canonical actions, volatile values masked."""

from __future__ import annotations

import hashlib

import duckdb
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.filters.frames import call, run, said
from tests.filters.in_memory import did, frame_of, shuffled, wants
from trajstore import Step, ToolCall
from trajstore.filters.sequences import action_hashes, action_texts, goals, masked
from trajstore.schema import canonical_action, mask_volatile

VOLATILE = (
    "0190c1d2-aaaa-7bbb-8ccc-0123456789ab",
    "2026-01-02T03:04:05.678+01:00",
    "2026-01-02 03:04",
    "/tmp/tmpabc.d-1+x",
    "/var/folders/zz/größe",
    "0xdeadBEEF01",
    "0x12",
    "/tmp/",
    "-aaaa-bbbb-cccc-",
)
LETTERS = st.characters(
    max_codepoint=0xFFFF, exclude_categories=("Cn", "Cs"), exclude_characters="\x00"
)
"""Signs that every version of Unicode in use knows."""
PIECES = st.one_of(
    st.sampled_from(VOLATILE), st.text(LETTERS, max_size=4), st.sampled_from(' .\n"/-0xé_')
)


@pytest.fixture(scope="module")
def engine() -> duckdb.DuckDBPyConnection:
    return duckdb.connect(":memory:")


@settings(deadline=None)
@given(st.lists(PIECES, max_size=6).map("".join))
@example(
    "at 2026-01-02T03:04:05Z in /tmp/abc1/x by 0xabcdef12 of 0190c1d2-aaaa-7bbb-8ccc-0123456789ab"
)
@example("/tmp/é_1+x 0x1234567 x2026-01-02T03:04")
def test_masking_in_sql_is_masking_in_python(engine: duckdb.DuckDBPyConnection, text: str) -> None:
    found = engine.execute(f"SELECT {masked('a')} FROM (SELECT $1 AS a)", [text]).fetchone()
    assert found == (mask_volatile(text),)


def number(text: str) -> int:
    """The lower half of MD5 as DuckDB's md5_number_lower reads it."""
    return int.from_bytes(hashlib.md5(text.encode()).digest()[8:], "little")


def test_an_action_is_hashed_as_its_canonical_text() -> None:
    """algorithms.md B: tool, U+001F, canonical arguments; the same hash on every machine."""
    frame = frame_of(run("a", call("search", {"b": 1, "a": [1, 2]})))
    expected = number(canonical_action("search", '{"a":[1,2],"b":1}'))
    assert action_hashes(frame).to_pylist() == [[expected]]


def test_the_order_of_arguments_does_not_count_and_the_order_of_calls_does() -> None:
    frame = frame_of(
        run("a", call("f", '{"x": 1, "y": 2}'), call("g", {})),
        run("b", call("f", '{"y":2,"x":1}'), call("g", {})),
        run("c", call("g", {}), call("f", {"x": 1, "y": 2})),
    )
    a, b, c = action_hashes(frame).to_pylist()
    assert a == b
    assert c == a[::-1]


def test_volatile_values_do_not_count() -> None:
    frame = frame_of(
        run("a", call("cat", {"path": "/tmp/tmp1abc/log", "at": "2026-01-02T03:04:05Z"})),
        run("b", call("cat", {"path": "/tmp/tmp9xyz/log", "at": "2026-05-06T07:08:09Z"})),
        run("c", call("cat", {"path": "/home/log", "at": "2026-05-06T07:08:09Z"})),
    )
    a, b, c = action_hashes(frame).to_pylist()
    assert a == b != c


def test_arguments_that_are_no_json_count_as_they_are() -> None:
    frame = frame_of(run("a", call("bash", "ls  {")), run("b", call("bash", "ls {")))
    a, b = action_hashes(frame).to_pylist()
    assert a == [number("bash\x1fls  {")]
    assert a != b


def test_what_an_agent_says_without_a_call_is_an_action() -> None:
    frame = frame_of(run("a", said(" 42 ")), run("b", said("44")), run("c", said("  ")))
    assert action_hashes(frame).to_pylist() == [[number("\x1f42")], [number("\x1f44")], None]


def test_what_is_said_beside_a_call_and_what_comes_back_is_no_action() -> None:
    beside = Step(actor="agent", text="hm", tool_calls=(ToolCall.of("ls", {}),))
    frame = frame_of(run("a", beside), run("b", call("ls", {}, "other result")))
    a, b = action_hashes(frame).to_pylist()
    assert a == b


def test_copied_context_and_the_words_of_others_are_no_actions() -> None:
    copied = Step(actor="agent", is_copied=True, tool_calls=(ToolCall.of("ls", {}),))
    frame = frame_of(run("a", copied, Step(actor="user", text="hi"), call("cat", {})))
    assert action_hashes(frame).to_pylist() == [[number("cat\x1f{}")]]


def test_parallel_calls_keep_their_order() -> None:
    both = Step(actor="agent", tool_calls=(ToolCall.of("b", {}), ToolCall.of("a", {})))
    frame = frame_of(run("a", both, call("c", {})))
    assert action_hashes(frame).to_pylist() == [[number(f"{n}\x1f{{}}") for n in "bac"]]


def test_answers_come_in_the_order_of_the_frame() -> None:
    frame = frame_of(did("a", "x"), did("b", ""), did("c", "y"))
    straight = action_hashes(frame).to_pylist()
    turned = action_hashes(shuffled(frame, [2, 0, 1])).to_pylist()
    assert turned == [straight[2], straight[0], straight[1]]


def test_many_rows_are_answered_like_few() -> None:
    """Above 200 rows the ids are not named in the query."""
    runs = [did(f"r{n:04}", f"t{n}") for n in range(250)]
    frame = frame_of(*runs)
    part = shuffled(frame, range(0, 250, 2))
    assert action_hashes(part).to_pylist() == action_hashes(frame).to_pylist()[::2]
    assert len(part.rows) == 125


def test_ids_with_quotes_are_ids() -> None:
    frame = frame_of(did("it's", "x"), did("b", "x"))
    assert action_hashes(frame).null_count == 0


def test_actions_in_words_have_a_line_each() -> None:
    frame = frame_of(run("a", call("cat", {"path": "/tmp/x1/log"}), said("done")), did("b", ""))
    assert action_texts(frame).to_pylist() == ['cat {"path":"<tmp>/log"}\n done', None]


def test_goals_are_those_of_the_rows() -> None:
    frame = frame_of(wants("a", "t", "fix it"), wants("b", "t", None))
    assert goals(frame).to_pylist() == ["fix it", None]


def test_a_frame_without_rows_has_no_answers() -> None:
    frame = shuffled(frame_of(did("a", "x")), [])
    assert action_hashes(frame).to_pylist() == []
    assert goals(frame).type == pa.string()
