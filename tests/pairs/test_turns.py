"""Turn keys against the Python functions that say the same."""

from __future__ import annotations

import hashlib

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.pairs.worlds import run, tables, turn
from trajstore.pairs import TURN_SCHEMA, turn_keys, turn_source
from trajstore.pairs.turns import masked_hash
from trajstore.schema import Observation, Step, ToolCall, Trajectory, mask_volatile, steps_to_arrow
from trajstore.testing import sample_trajectories


def keys(*steps: Step) -> list[dict[str, object]]:
    """Turn keys of the steps, each in a run of its own."""
    runs = [run(f"r{i:03}", step, start=()) for i, step in enumerate(steps)]
    return list(turn_keys(steps_to_arrow(runs)).to_pylist())


def same(name: str, a: Step, b: Step) -> bool:
    one, other = keys(a, b)
    return one[name] == other[name]


CALL = turn("open(a)", "text")


@pytest.mark.parametrize(
    "other",
    [
        turn("open(a)", "other"),
        turn("open(b)", "text"),
        turn("shut(a)", "text"),
        turn("open(a)", "text", text="words"),
        turn("open(a)", "text", reasoning="thought"),
        turn("open(a)", "text", content='[{"type":"image"}]'),
        Step(actor="user", tool_calls=CALL.tool_calls, observations=CALL.observations),
    ],
)
def test_turns_differ_by_role_text_calls_and_results(other: Step) -> None:
    assert not same("turn", CALL, other)


def test_null_text_and_empty_text_are_one_turn_and_ids_do_not_count() -> None:
    assert same("turn", turn("x(1)", "o", text=None), turn("x(1)", "o", text="", call_id="c9"))


def test_an_action_is_its_calls_and_not_what_is_said_beside_them() -> None:
    assert same("action", CALL, turn("open(a)", "other", text="I open it."))
    assert not same("action", CALL, turn("open(b)", "text"))


def test_arguments_that_are_no_json_are_compared_as_they_are() -> None:
    def raw(text: str) -> Step:
        return Step(actor="agent", tool_calls=(ToolCall.of("bash", text),))

    assert same("action", raw("ls -la"), raw("ls -la"))
    assert not same("action", raw("ls -la"), raw("ls -l"))


def test_a_call_and_words_that_look_like_it_are_two_actions() -> None:
    spoken = Step(actor="agent", text='open\x1f{"x":"a"}')
    assert not same("action", CALL, spoken)


def test_what_a_result_answers_is_part_of_what_was_seen() -> None:
    calls = (ToolCall.of("a", {}, "1"), ToolCall.of("b", {}, "2"))
    seen = [
        Step(actor="agent", tool_calls=calls, observations=(Observation(text="x", call_id=i),))
        for i in ("1", "2")
    ]
    assert not same("seen", *seen)


def test_only_agent_steps_have_an_action() -> None:
    found = keys(Step(actor="user", text="hi"), Step(actor="agent", text="hi"))
    assert [k["action"] is None for k in found] == [True, False]
    assert [k["own"] for k in found] == [False, True]


def test_copied_context_is_not_the_runs_own() -> None:
    assert [k["own"] for k in keys(turn("x(1)", is_copied=True))] == [False]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("at 2026-01-02T03:04:05Z", "at 2027-09-08T13:14:15.5+01:00"),
        ("in /tmp/abc/x", "in /tmp/q.9/x"),
        ("object at 0x7f00deadbeef", "object at 0x55aa00ff11"),
        ("id 123e4567-e89b-12d3-a456-426614174000", "id 00000000-0000-8e37-bb40-36a4482ea248"),
    ],
)
def test_volatile_values_count_in_turns_and_not_in_what_was_seen(one: str, other: str) -> None:
    assert same("seen", turn("x(1)", one), turn("x(1)", other))
    assert not same("turn", turn("x(1)", one), turn("x(1)", other))


PIECES = st.sampled_from(
    [
        "2026-01-02T03:04:05Z",
        "2026-01-02 03:04",
        "-12-31 23:59",
        "/tmp/a_b.c",
        "/var/folders/zz/q",
        "0x7f00deadbeef",
        "0x12",
        "00000000-0000-8e37-bb40-36a4482ea248",
        "é",
        " ",
        "word",
    ]
)


@settings(max_examples=200, deadline=None)
@given(st.lists(PIECES, max_size=5).map("".join))
def test_masking_in_sql_is_mask_volatile(text: str) -> None:
    query = f"SELECT {masked_hash('t', 'hash(t)')}, hash(?::VARCHAR) FROM (SELECT ? AS t)"
    found = duckdb.execute(query, [mask_volatile(text), text]).fetchone()
    assert found is not None
    assert found[0] == found[1]


def test_digests_are_sha_256_of_what_the_docstring_says() -> None:
    """The text written out by hand: role, text, reasoning, content, calls, results, links."""
    step = turn("open(a)", "text", text="I open it.", call_id="c1")
    parts = ["agent", "I open it.", "", "", 'open\x1f{"x":"a"}', "text", "1"]
    source = turn_source([run("r", step, start=())])
    (row,) = source.digests(pa.array(["r"]), 1).to_pylist()
    assert row["digest"] == hashlib.sha256("\x1c".join(parts).encode()).hexdigest()


def test_digests_are_of_the_first_steps_of_the_runs_asked_for() -> None:
    source = turn_source(tables([run("a", "x(1)"), run("b", "y(1)")])[1])
    found = source.digests(pa.array(["a"]), 2).to_pylist()
    assert [(d["trajectory_id"], d["step_index"]) for d in found] == [("a", 0), ("a", 1)]


def test_keys_fit_the_schema_and_come_in_order() -> None:
    runs = sample_trajectories(3)
    found = turn_keys(steps_to_arrow(runs[::-1]))
    assert found.schema.equals(TURN_SCHEMA)
    places = [(k["trajectory_id"], k["step_index"]) for k in found.to_pylist()]
    assert places == sorted(places)
    assert len(places) == sum(r.n_steps for r in runs)


def test_bytes_are_those_of_the_summary() -> None:
    made = run("r", turn("open(ä)", "täxt", text="wörds", reasoning="hm"), start=())
    (key,) = turn_keys(steps_to_arrow([made])).to_pylist()
    # The name of the tool and a separator come on top of what the summary counts.
    assert key["n_bytes"] == made.size_bytes + len("open") + 1


def test_iterators_tables_and_sources_give_the_same() -> None:
    runs: list[Trajectory] = [run(f"r{i:03}", f"x({i})") for i in range(3)]
    steps = steps_to_arrow(runs)
    assert turn_keys(iter(runs)) == turn_keys(steps) == turn_keys(turn_source(steps))


def test_no_steps_give_no_keys() -> None:
    assert turn_keys([]).num_rows == 0
