"""What an Inspect sample says beside its messages: outcome, and what is kept as metadata."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from trajstore.importers.inspect_ai_about import about, grade, outcome
from trajstore.importers.items import ImportOptions

HEADER: dict[str, Any] = {
    "version": 2,
    "status": "success",
    "eval": {
        "task": "t",
        "model": "m",
        "run_id": "r",
        "dataset": {"name": "d", "sample_ids": list(range(1000))},
    },
    "plan": {"steps": [{"solver": "generate"}]},
}


def judged(
    *, threshold: float | None = None, header: dict[str, Any] | None = None, **values: Any
) -> tuple[bool | None, float | None, dict[str, float]]:
    scores = {name: {"value": value} for name, value in values.items()}
    return outcome(scores, header or HEADER, ImportOptions(success_threshold=threshold))


@pytest.mark.parametrize(
    ("value", "number"),
    [  # inspect_ai.scorer.value_to_float
        ("C", 1.0),
        ("P", 0.5),
        ("I", 0.0),
        ("N", 0.0),
        ("Yes", 1.0),
        ("TRUE", 1.0),
        ("no", 0.0),
        ("false", 0.0),
        ("0.25", 0.25),
        (True, 1.0),
        (False, 0.0),
        (3, 3.0),
        (0.93, 0.93),
    ],
)
def test_grades_are_inspects_own(value: Any, number: float) -> None:
    assert grade(value) == number


@pytest.mark.parametrize(
    "value", [None, "maybe", "c", "nan", math.nan, math.inf, [1], {"a": 1}, ""]
)
def test_other_values_are_no_grade(value: Any) -> None:
    assert grade(value) is None


@pytest.mark.parametrize(
    ("value", "success"),
    [
        ("C", True),
        ("I", False),
        ("P", False),
        ("N", False),
        (1, True),
        (0.9999999999999998, True),
        (0.0, False),
        (0.93, False),
        (7, None),
        (-1.5, None),
        (math.nan, None),
        ("later", None),
        (None, None),
    ],
)
def test_success_is_a_full_grade_and_nothing_is_guessed(value: Any, success: object) -> None:
    assert judged(match=value)[0] is success


def test_the_users_threshold_decides_any_scale() -> None:
    assert judged(match=7, threshold=6.5)[0] is True
    assert judged(match=-1.5, threshold=0)[0] is False
    assert judged(match="P", threshold=0.5)[0] is True


def test_no_scores_are_no_outcome() -> None:
    assert outcome({}, HEADER, ImportOptions()) == (None, None, {})
    assert outcome(None, HEADER, ImportOptions()) == (None, None, {})


def test_every_scorer_is_a_component() -> None:
    success, reward, rewards = judged(match="C", f1=0.25, unscored=math.nan)
    assert (success, reward) == (True, 1.0)
    assert rewards == {"match": 1.0, "f1": 0.25}


def test_values_in_dicts_and_lists_are_components_without_a_single_reward() -> None:
    success, reward, rewards = judged(quality={"safe": "C", "useful": 0.5, "note": None})
    assert (success, reward) == (None, None)
    assert rewards == {"quality/safe": 1.0, "quality/useful": 0.5}
    assert judged(many=[1, 0])[2] == {"many/0": 1.0, "many/1": 0.0}


def test_a_dict_of_one_value_is_that_value() -> None:
    assert judged(quality={"safe": "C"})[:2] == (True, 1.0)


def test_the_first_scorer_of_the_results_counts() -> None:
    results = {"scores": [{"name": "b", "scorer": "b"}, {"name": "a", "scorer": "a"}]}
    assert judged(a="C", b="I", header={**HEADER, "results": results})[0] is False


def test_the_headline_metric_of_the_log_counts_before() -> None:
    spec = {**HEADER["eval"], "headline_metric": {"scorer": "b", "score": "useful"}}
    results = {"scores": [{"name": "a", "scorer": "a"}]}
    found = judged(
        a="C", b={"safe": "C", "useful": "I"}, header={**HEADER, "eval": spec, "results": results}
    )
    assert found[:2] == (False, 0.0)


def kept(used: list[Any] | None = None, **fields: Any) -> dict[str, Any]:
    sample = {"id": 1, "epoch": 1, "input": "q", "target": "a", "events": [], **fields}
    return about(sample, HEADER, used or [])


def test_the_log_of_a_sample_is_kept_without_its_lists_of_ids() -> None:
    found = kept()
    assert found["eval"] == {"run_id": "r", "dataset": {"name": "d"}}
    assert found["plan"] == HEADER["plan"]
    assert found["log"] == {"version": 2, "status": "success"}
    assert (found["id"], found["target"]) == (1, "a")


def test_what_the_steps_say_is_not_repeated() -> None:
    said = [{"role": "user", "content": "q"}]
    found = kept(messages=said, input=said, output={"choices": [{"message": {}}], "completion": ""})
    assert found.keys().isdisjoint({"messages", "input", "output", "events"})


def test_an_input_that_is_not_among_the_messages_is_kept() -> None:
    given = [{"role": "user", "content": "shortened later"}]
    assert kept(messages=[], input=given)["input"] == given


def test_errors_keep_their_traceback_in_black_and_white() -> None:
    error = {"message": "m", "traceback": "t", "traceback_ansi": "\x1b[1mt"}
    found = kept(error=error, error_retries=[{**error, "events": [{"event": "model"}]}])
    assert found["error"] == {"message": "m", "traceback": "t"}
    assert found["error_retries"] == [{"message": "m", "traceback": "t"}]


def test_events_that_only_repeat_are_left_out() -> None:
    mine = {"event": "model", "output": {}}
    events = [
        {"event": "sample_init"},
        {"event": "state", "changes": []},
        {"event": "store", "changes": []},
        {"event": "score", "score": {"value": "C"}},
        mine,
        {"event": "score", "score": {"value": 0.5}, "intermediate": True},
        {"event": "info", "data": "note"},
        {"event": "sandbox", "cmd": "ls"},
    ]
    found = kept([mine], events=events, scores={"s": {"value": "C"}})
    assert [e["event"] for e in found["events"]] == ["score", "info", "sandbox"]
    assert found["events"][0]["intermediate"]


def test_calls_of_graders_and_sub_agents_are_kept_without_what_was_said_before() -> None:
    talk = [{"role": "user", "content": f"turn {n}"} for n in range(3)]
    events = [
        {"event": "model", "input": talk[:2], "output": {"model": "g"}, "call": {"request": talk}},
        {"event": "model", "input": talk, "output": {"model": "g"}, "tools": [{"name": "t"}]},
    ]
    found = kept(events=events, messages=[talk[0]])["events"]
    assert [[m["content"] for m in e["input"]] for e in found] == [["turn 1"], ["turn 2"]]
    assert all(e.keys() == {"event", "input", "output"} for e in found)


def test_tool_events_keep_their_times_and_lose_what_the_step_says() -> None:
    event = {
        "event": "tool",
        "id": "c1",
        "function": "bash",
        "arguments": {"cmd": "ls"},
        "result": "a.txt",
        "completed": "2025-01-02T03:04:05+00:00",
        "working_time": 1.5,
        "events": [],
    }
    other = {**event, "id": "of a sub-agent"}
    messages = [{"role": "tool", "tool_call_id": "c1", "content": "a.txt"}]
    mine, foreign = kept(events=[event, other], messages=messages)["events"]
    assert mine.keys() == {"event", "id", "function", "completed", "working_time"}
    assert foreign == other


def test_metadata_can_be_written_as_json() -> None:
    assert json.dumps(kept(store={"n": 1}, model_usage={"m": {"input_tokens": 1}}))
