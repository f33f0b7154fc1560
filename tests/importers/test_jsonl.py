"""The plain JSONL format: reading by hand-written lines, writing by round trips."""

from __future__ import annotations

import json
import math
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from trajstore.importers.items import ImportOptions, Item, Problem
from trajstore.importers.jsonl import IMPORTER, read_jsonl_record, to_jsonl_record
from trajstore.importers.source import Source
from trajstore.schema import (
    ACTORS,
    RELATIONS,
    STATUSES,
    STEP_SCHEMA,
    TRAJECTORY_SCHEMA,
    Observation,
    Step,
    ToolCall,
    Trajectory,
    finish,
)
from trajstore.testing import sample_trajectories

STEPS = [{"actor": "user", "text": "2+2?"}, {"actor": "agent", "text": "4"}]
DOC = Path(__file__).parents[2] / "docs" / "reference" / "jsonl.md"


def read(folder: Path, *rows: Any, **options: Any) -> list[Item]:
    path = folder / "x.jsonl"
    path.write_text("\n".join(r if isinstance(r, str) else json.dumps(r) for r in rows))
    return list(IMPORTER.read(Source(path), ImportOptions(**options)))


def one(**more: Any) -> Trajectory:
    return read_jsonl_record({"steps": STEPS, **more})


def step(**values: Any) -> Step:
    return one(steps=[{"actor": "agent", **values}]).steps[0]


def test_the_smallest_line_is_read() -> None:
    found = one()
    assert [(s.actor, s.text) for s in found.steps] == [("user", "2+2?"), ("agent", "4")]
    assert (found.goal, found.source, found.success) == ("2+2?", "trajstore-jsonl", None)


def test_without_task_the_goal_names_it() -> None:
    assert one(goal="g").task_id == one(goal="g", model="m").task_id != one().task_id
    assert one(task_id="shop/1").task_id == "shop/1"
    assert one(task_id=0).task_id == "0"


def test_without_id_the_whole_line_decides() -> None:
    assert one().trajectory_id == one().trajectory_id != one(reward=1.0).trajectory_id


def test_an_id_stays_as_the_run_grows() -> None:
    longer = one(trajectory_id="run-1", steps=[*STEPS, *STEPS])
    assert longer.trajectory_id == one(trajectory_id="run-1").trajectory_id == "run-1"


@pytest.mark.parametrize(
    ("arguments", "parsed", "raw"),
    [
        ({"b": 1, "a": 2}, '{"a":2,"b":1}', '{"b":1,"a":2}'),
        ('{"b":  1}', '{"b":1}', '{"b":  1}'),
        ("ls -la", None, "ls -la"),
        (None, None, None),
        ([1], "[1]", "[1]"),
    ],
)
def test_arguments_may_be_objects_or_text(arguments: Any, parsed: Any, raw: Any) -> None:
    (call,) = step(tool_calls=[{"name": "f", "arguments": arguments}]).tool_calls
    assert (call.arguments, call.arguments_raw) == (parsed, raw)


def test_raw_arguments_beside_are_taken_exactly() -> None:
    given_ = {"name": "f", "arguments": None, "arguments_raw": '{"a":1}', "call_id": "c"}
    assert step(tool_calls=[given_]).tool_calls == (
        ToolCall(name="f", arguments=None, arguments_raw='{"a":1}', call_id="c"),
    )


def test_observations_may_be_plain_texts() -> None:
    found = step(observations=["a", {"text": None, "is_error": True}]).observations
    assert found == (Observation(text="a"), Observation(is_error=True))


def test_json_columns_take_objects_and_json_text() -> None:
    assert one(metadata={"b": 1, "a": 2}).metadata == '{"b":1,"a":2}'
    assert one(tools='[{"name": "f"}]').tools == '[{"name": "f"}]'
    assert step(sampling={"temperature": 1.0}).sampling == '{"temperature":1.0}'


def test_names_that_are_no_column_go_to_metadata() -> None:
    assert json.loads(one(metadata={"a": 1}, seed=7).metadata or "") == {"a": 1, "seed": 7}
    assert json.loads(one(metadata="[1]", seed=7).metadata or "") == {"metadata": [1], "seed": 7}
    assert json.loads(step(confidence=0.5).metadata or "") == {"confidence": 0.5}


def test_times_without_zone_are_utc() -> None:
    assert one(started_at="2026-01-31T12:00:00").started_at == datetime(2026, 1, 31, 12, tzinfo=UTC)
    assert (
        one(started_at="2026-01-31T13:00:00+01:00").started_at
        == one(started_at="2026-01-31T12:00:00Z").started_at
    )


@pytest.mark.parametrize("reward", [math.nan, "nan"])
def test_a_reward_that_is_no_number_decides_nothing(tmp_path: Path, reward: object) -> None:
    (found,) = read(tmp_path, {"steps": STEPS, "reward": reward}, success_threshold=1)
    assert isinstance(found, Trajectory)
    assert found.success is None


def test_a_threshold_decides_only_where_success_is_unknown(tmp_path: Path) -> None:
    rows = [{"steps": STEPS, "reward": 0.5, **more} for more in ({}, {"success": False})]
    found = read(tmp_path, *rows, success_threshold=0.5)
    assert [t.success for t in found if isinstance(t, Trajectory)] == [True, False]


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"steps": []}, "there are no steps"),
        ({"steps": None}, "there are no steps"),
        ({"steps": {}}, "steps: must be a list"),
        ({"steps": [{"text": "x"}]}, r"steps: \[0\] a step has no actor"),
        ({"steps": [*STEPS, {"actor": "assistant"}]}, r"steps: \[2\] actor: must be one of system"),
        ({"steps": ["x"]}, "a step must be an object, not 'x'"),
        ({"success": "yes"}, "success: must be true or false, not 'yes'"),
        ({"reward": "high"}, "reward: must be a number"),
        ({"attempt": 1.5}, "attempt: must be a whole number"),
        ({"attempt": True}, "attempt: must be a whole number"),
        ({"goal": 3}, "goal: must be text"),
        ({"status": "done"}, "status: must be one of terminated"),
        ({"tags": "a"}, "tags: must be a list"),
        ({"rewards": {"a": "x"}}, "rewards: must be a number"),
        ({"rewards": [1]}, "rewards: must be an object of numbers"),
        ({"started_at": "yesterday"}, "started_at: must be a time such as"),
        ({"metadata": "no json"}, "metadata: must be JSON or JSON text"),
    ],
)
def test_a_value_of_the_wrong_kind_is_named(more: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        one(**more)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"tool_calls": [{"name": "f", "argument": {}}]}, "unknown field argument; known are"),
        ({"tool_calls": [{"arguments": {}}]}, "must be text, not None"),
        ({"tool_calls": ["f"]}, "must be an object, not 'f'"),
        ({"observations": [{"text": "x", "is_eror": True}]}, "unknown field is_eror; known are"),
        ({"observations": [{"text": {"a": 1}}]}, r"observations: \[0\] text: must be text"),
        ({"logprobs": [0.5, None]}, r"logprobs: \[1\] must be a number"),
    ],
)
def test_a_broken_part_of_a_step_is_named(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        step(**values)


def test_a_broken_line_costs_no_other_and_is_named_by_number(tmp_path: Path) -> None:
    good = {"steps": STEPS}
    items = read(tmp_path, good, "{broken", {"steps": [1]}, "[]", {**good, "task_id": "t"})
    problems = [i for i in items if isinstance(i, Problem)]
    assert [p.line for p in problems] == [2, 3, 4]
    assert sum(isinstance(i, Trajectory) for i in items) == 2


def test_where_a_line_came_from_is_noted(tmp_path: Path) -> None:
    (found,) = read(tmp_path, {"steps": STEPS})
    assert isinstance(found, Trajectory)
    assert (found.source_uri or "").endswith("x.jsonl#L1")
    assert one(source_uri="s3://b/x").source_uri == "s3://b/x"


def test_a_pretty_printed_object_and_an_array_are_read_too(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    for text in (json.dumps({"steps": STEPS}, indent=1), json.dumps([{"steps": STEPS}] * 2)):
        path.write_text(text)
        assert IMPORTER.detect(Source(path)) == 0.95
        assert all(isinstance(i, Trajectory) for i in IMPORTER.read(Source(path), ImportOptions()))


def test_no_recorded_file_of_another_format_is_recognised(real_data: Path) -> None:
    files = [p for p in real_data.rglob("*") if p.is_file()]
    assert [p for p in files if IMPORTER.detect(Source(p))] == []


def test_every_column_of_the_schema_can_be_written_and_read() -> None:
    record = to_jsonl_record(_full())
    assert set(TRAJECTORY_SCHEMA.names) <= set(record)
    columns = set(STEP_SCHEMA.names) - {"trajectory_id", "step_index"}
    assert columns <= set(record["steps"][0])
    assert read_jsonl_record(json.loads(json.dumps(record))) == _full()


def _full() -> Trajectory:
    """A trajectory with a value other than the default in every field."""
    now = datetime(2026, 1, 31, 12, 0, 0, 123456, tzinfo=UTC)
    texts = {n: n for n in ("trajectory_id", "task_id", "source", "goal", "source_uri", "error")}
    texts |= {n: n for n in ("source_digest", "environment", "environment_version", "agent")}
    texts |= {n: n for n in ("model", "policy_version", "parent_id", "termination_reason")}
    counts = {n: i for i, n in enumerate(TRAJECTORY_SCHEMA.names, 1) if n.startswith("n_")}
    times = dict.fromkeys(("started_at", "ended_at", "imported_at", "expires_at"), now)
    rest: dict[str, Any] = {**texts, **counts, **times}
    step_ = Step(
        actor="agent",
        text="t",
        reasoning="r",
        content="[1]",
        tool_calls=(ToolCall.of("f", {"a": 1}, "c"),),
        observations=(Observation(text="o", call_id="c", is_error=False, content="[]"),),
        reward=0.5,
        state="{}",
        state_key="k",
        is_copied=True,
        format_error=True,
        model="m",
        prompt_tokens=1,
        completion_tokens=2,
        cached_tokens=3,
        latency_s=0.25,
        timestamp=now,
        prompt_token_ids=(1, 2),
        completion_token_ids=(3,),
        logprobs=(-0.5,),
        sampling='{"seed":1}',
        metadata='{"a":1}',
    )
    return Trajectory(
        **rest,
        steps=(step_,),
        attempt=1,
        parent_step=2,
        relation="branch",
        status="error",
        success=False,
        reward=-1.5,
        rewards={"a": 1.0},
        tools="[]",
        prompt_tokens=4,
        completion_tokens=5,
        cached_tokens=6,
        cost_usd=0.5,
        duration_s=1.5,
        size_bytes=7,
        tags=("x",),
        metadata='"text"',
    )


@pytest.mark.parametrize("seed", range(3))
def test_the_sample_trajectories_come_back(seed: int) -> None:
    for trajectory in sample_trajectories(4, seed=seed):
        text = json.dumps(to_jsonl_record(trajectory))
        assert read_jsonl_record(json.loads(text)) == trajectory


TEXT = st.text(st.characters(exclude_categories=()), max_size=8)
OPTIONAL = st.none() | TEXT
NUMBER = st.none() | st.floats(allow_nan=False)
COUNT = st.none() | st.integers(0, 2**40)
TIME = st.none() | st.datetimes(timezones=st.just(UTC))
VALUE = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
JSON = st.none() | VALUE.map(json.dumps) | VALUE.map(lambda v: json.dumps(v, separators=(",", ":")))
CALLS = st.builds(ToolCall.of, TEXT, st.none() | TEXT | VALUE | VALUE.map(json.dumps), OPTIONAL)
OBSERVATIONS = st.builds(
    Observation, text=OPTIONAL, call_id=OPTIONAL, is_error=st.none() | st.booleans(), content=JSON
)
IDS = st.none() | st.lists(st.integers(0, 2**31 - 1), max_size=3).map(tuple)
STEP = st.builds(
    Step,
    actor=st.sampled_from(ACTORS),
    text=OPTIONAL,
    reasoning=OPTIONAL,
    content=JSON,
    tool_calls=st.lists(CALLS, max_size=3).map(tuple),
    observations=st.lists(OBSERVATIONS, max_size=3).map(tuple),
    reward=NUMBER,
    state=JSON,
    state_key=OPTIONAL,
    is_copied=st.booleans(),
    format_error=st.booleans(),
    model=OPTIONAL,
    prompt_tokens=COUNT,
    latency_s=NUMBER,
    timestamp=TIME,
    prompt_token_ids=IDS,
    completion_token_ids=IDS,
    logprobs=st.none() | st.lists(st.floats(allow_nan=False), max_size=3).map(tuple),
    sampling=JSON,
    metadata=JSON,
)
RUN = st.builds(
    Trajectory,
    trajectory_id=TEXT,
    task_id=TEXT,
    source=TEXT,
    steps=st.lists(STEP, min_size=1, max_size=3).map(tuple),
    attempt=COUNT,
    goal=OPTIONAL,
    source_uri=OPTIONAL,
    relation=st.none() | st.sampled_from(RELATIONS),
    status=st.none() | st.sampled_from(STATUSES),
    success=st.none() | st.booleans(),
    reward=NUMBER,
    rewards=st.dictionaries(TEXT, st.floats(allow_nan=False), max_size=3),
    tools=JSON,
    n_steps=st.integers(0, 2**31 - 1),
    prompt_tokens=COUNT,
    cost_usd=NUMBER,
    started_at=TIME,
    expires_at=TIME,
    tags=st.lists(TEXT, max_size=3).map(tuple),
    metadata=JSON,
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(RUN)
def test_writing_and_reading_give_the_same_trajectory(run: Trajectory) -> None:
    text = json.dumps(to_jsonl_record(run), allow_nan=False)
    assert read_jsonl_record(json.loads(text)) == run


def _examples() -> list[dict[str, Any]]:
    return [json.loads(b) for b in re.findall(r"```json\n(.*?)```", DOC.read_text(), re.DOTALL)]


def test_the_examples_of_the_documentation_are_read(tmp_path: Path) -> None:
    found = [finish(t) for t in read(tmp_path, *_examples()) if isinstance(t, Trajectory)]
    assert len(found) == len(_examples()) == 2
    run = found[0]
    assert (run.trajectory_id, run.task_id, run.attempt) == ("run-7f3a-2", "shop/return-order", 2)
    assert (run.success, run.reward, run.n_tool_calls, run.prompt_tokens) == (True, 0.9, 1, 120)
    assert run.steps[2].observations[0].call_id == run.steps[2].tool_calls[0].call_id
    assert found[1].goal == "2+2?"


def test_the_documented_example_is_what_the_writer_writes() -> None:
    example = _examples()[0]
    written = to_jsonl_record(read_jsonl_record(example))
    del written["source"], example["steps"][2]["text"]
    assert written == example
