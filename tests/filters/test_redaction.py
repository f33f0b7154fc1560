from __future__ import annotations

import json
from dataclasses import fields, replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trajstore.filters import find_secrets, redact_trajectory
from trajstore.schema import Observation, Step, ToolCall, Trajectory, canonical_json, json_text

SECRET = "ghp_" + "a1B2c3D4e5F6" * 3
CLEAN = "[REDACTED:github-token]"
IDS = (1, 2, 3)


def agent(**values: object) -> Step:
    given_ids = {"prompt_token_ids": IDS, "completion_token_ids": IDS, "logprobs": (-0.5,) * 3}
    return Step(actor="agent", **given_ids | values)  # type: ignore[arg-type]


def run(*steps: Step, **values: object) -> Trajectory:
    return Trajectory(
        trajectory_id="t",
        task_id="x/1",
        source="test",
        steps=steps,
        **values,  # type: ignore[arg-type]
    )


def only_step(step: Step) -> tuple[Step, dict[str, int]]:
    clean, found = redact_trajectory(run(step))
    return clean.steps[0], found


def test_a_clean_trajectory_is_the_same_object() -> None:
    clean = run(
        agent(
            text="see https://example.com and commit 0123456789abcdef0123456789abcdef01234567",
            tool_calls=(ToolCall.of("bash", {"cmd": "echo 'sk-...'"}),),
            observations=(Observation(text="caf\u00e9", content='[{"t":"\\u0041"}]'),),
            state_key="0123456789abcdef0123456789abcdef",
        ),
        metadata='{"a":1}',
    )
    result, found = redact_trajectory(clean)
    assert result is clean
    assert found == {}


@pytest.mark.parametrize("name", ["goal", "error", "termination_reason", "source_uri"])
def test_texts_of_the_trajectory_are_redacted(name: str) -> None:
    clean, found = redact_trajectory(run(**{name: f"use {SECRET} now"}))
    assert getattr(clean, name) == f"use {CLEAN} now"
    assert found == {"github-token": 1}


@pytest.mark.parametrize("name", ["tools", "metadata"])
def test_json_of_the_trajectory_is_redacted(name: str) -> None:
    clean, _ = redact_trajectory(run(**{name: json_text({"env": [f"T={SECRET}"], "n": 1.50})}))
    assert json.loads(getattr(clean, name)) == {"env": [f"T={CLEAN}"], "n": 1.5}


@pytest.mark.parametrize("name", ["text", "reasoning"])
def test_texts_of_a_step_are_redacted(name: str) -> None:
    step, found = only_step(agent(**{name: f"token {SECRET}"}))
    assert getattr(step, name) == f"token {CLEAN}"
    assert found == {"github-token": 1}


@pytest.mark.parametrize("name", ["content", "state", "sampling", "metadata"])
def test_json_of_a_step_is_redacted(name: str) -> None:
    step, _ = only_step(agent(**{name: json_text([{"type": "text", "text": SECRET}])}))
    assert json.loads(getattr(step, name)) == [{"type": "text", "text": CLEAN}]


def test_observations_are_redacted_and_keep_their_links() -> None:
    seen = Observation(call_id="c1", text=f"x\n{SECRET}", is_error=True, content=f'["{SECRET}"]')
    step, found = only_step(agent(observations=(seen,)))
    assert step.observations == (
        Observation(call_id="c1", text=f"x\n{CLEAN}", is_error=True, content=f'["{CLEAN}"]'),
    )
    assert found == {"github-token": 2}


def test_arguments_are_redacted_raw_and_canonical() -> None:
    raw = '{"b": 1.50,  "a": "line\\n' + SECRET + '"}'
    step, found = only_step(agent(tool_calls=(ToolCall.of("bash", raw, "c1"),)))
    (call,) = step.tool_calls
    assert call.arguments_raw == raw.replace(SECRET, CLEAN)
    assert call.arguments == canonical_json({"a": f"line\n{CLEAN}", "b": 1.5})
    assert call.call_id == "c1"
    assert found == {"github-token": 1}


def test_arguments_that_are_no_json_are_redacted_as_text() -> None:
    step, _ = only_step(agent(tool_calls=(ToolCall.of("bash", f'{{"cmd": "echo {SECRET}'),)))
    assert step.tool_calls[0].arguments_raw == f'{{"cmd": "echo {CLEAN}'
    assert step.tool_calls[0].arguments is None


@pytest.mark.parametrize("raw", [None, f"bash(token={SECRET})", "see the other column"])
def test_canonical_arguments_that_do_not_come_from_the_raw_text_are_redacted(
    raw: str | None,
) -> None:
    call = ToolCall(name="bash", arguments=canonical_json({"t": SECRET}), arguments_raw=raw)
    step, found = only_step(agent(tool_calls=(call,)))
    assert step.tool_calls[0].arguments == f'{{"t":"{CLEAN}"}}'
    assert SECRET not in str(step.tool_calls[0].arguments_raw)
    assert found == {"github-token": 1}


def test_arguments_are_redacted_where_only_the_canonical_form_is_left() -> None:
    call = ToolCall(name=f"run_{SECRET}", arguments=canonical_json(["x", SECRET]))
    step, found = only_step(agent(tool_calls=(call,)))
    assert step.tool_calls == (ToolCall(name=f"run_{CLEAN}", arguments=f'["x","{CLEAN}"]'),)
    assert found == {"github-token": 2}


def test_clean_calls_beside_a_secret_stay_as_they_are() -> None:
    calls = (
        ToolCall.of("bash", '{"b": 1,   "a": 2.50}', "c1"),
        ToolCall.of("bash", "not json", "c2"),
        ToolCall.of("bash", None, "c3"),
        ToolCall(name="x", arguments='{"a":1}', arguments_raw="x(a=1)"),
    )
    step, _ = only_step(agent(text=SECRET, tool_calls=calls))
    assert step.tool_calls == calls


def test_different_kinds_are_counted_apart() -> None:
    key = "AKIA" + "IOSFODNN7EXAMPLE"
    clean, found = redact_trajectory(run(agent(text=f"{key} {SECRET}"), goal=f"{key} and {key}"))
    assert found == {"aws-access-key-id": 3, "github-token": 1}
    assert clean.goal == "[REDACTED:aws-access-key-id] and [REDACTED:aws-access-key-id]"


def test_redacting_twice_is_redacting_once() -> None:
    once, _ = redact_trajectory(
        run(agent(text=SECRET, metadata=f'["{SECRET}"]'), tools=f'["{SECRET}"]', error=SECRET)
    )
    twice, found = redact_trajectory(once)
    assert twice is once
    assert found == {}


def test_a_secret_spelt_with_json_escapes_is_found() -> None:
    raw = '{"t": "\\u0067hp_' + SECRET[4:] + '", "é": 1}'
    step, found = only_step(agent(tool_calls=(ToolCall.of("bash", raw),)))
    assert json.loads(str(step.tool_calls[0].arguments_raw)) == {"t": CLEAN, "é": 1}
    assert step.tool_calls[0].arguments == canonical_json({"t": CLEAN, "é": 1})
    assert found == {"github-token": 1}


def test_a_key_split_over_json_values_leaves_json() -> None:
    begin, end = "-----BEGIN " + "PRIVATE KEY-----", "-----END " + "PRIVATE KEY-----"
    body = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQ"
    text = json_text({"a": f"{begin}\n{body}", "b": {"c": [body, end]}, "d": 1})
    step, found = only_step(agent(metadata=text))
    value = json.loads(str(step.metadata))
    assert value["a"] == "[REDACTED:private-key]"
    assert value["d"] == 1
    assert found == {"private-key": 1}


def test_keys_of_objects_are_redacted() -> None:
    step, _ = only_step(agent(metadata=json_text({SECRET: {"x": 1}})))
    assert json.loads(str(step.metadata)) == {CLEAN: {"x": 1}}


def test_a_step_whose_output_changed_loses_its_token_ids() -> None:
    for changed in (
        agent(text=SECRET),
        agent(reasoning=SECRET),
        agent(tool_calls=(ToolCall.of("bash", {"c": SECRET}),)),
    ):
        step, _ = only_step(changed)
        assert (step.prompt_token_ids, step.completion_token_ids, step.logprobs) == (None,) * 3


def test_a_step_whose_observation_changed_keeps_its_token_ids() -> None:
    step, _ = only_step(agent(text="run", observations=(Observation(text=SECRET),)))
    assert step.prompt_token_ids == step.completion_token_ids == IDS


def test_prompts_after_a_change_go_and_those_before_it_stay() -> None:
    clean, _ = redact_trajectory(
        run(
            agent(text="a"),
            agent(text="b", observations=(Observation(text=SECRET),)),
            agent(text="c"),
            agent(text="d"),
        )
    )
    assert [s.prompt_token_ids for s in clean.steps] == [IDS, IDS, None, None]
    assert [s.completion_token_ids for s in clean.steps] == [IDS] * 4
    assert [s.logprobs for s in clean.steps] == [(-0.5,) * 3] * 4


@pytest.mark.parametrize("name", ["goal", "tools"])
def test_a_secret_in_what_every_prompt_shows_drops_every_prompt(name: str) -> None:
    clean, _ = redact_trajectory(run(agent(text="a"), agent(text="b"), **{name: f'"{SECRET}"'}))
    assert [s.prompt_token_ids for s in clean.steps] == [None, None]


def test_a_secret_in_the_state_drops_the_prompt_of_that_step() -> None:
    clean, _ = redact_trajectory(run(agent(text="a"), agent(text="b", state=f'{{"s":"{SECRET}"}}')))
    assert [s.prompt_token_ids for s in clean.steps] == [IDS, None]
    assert clean.steps[1].completion_token_ids == IDS


def test_a_secret_that_no_model_saw_drops_nothing() -> None:
    clean, _ = redact_trajectory(run(agent(text="a", metadata=f'"{SECRET}"'), error=SECRET))
    assert clean.steps[0].prompt_token_ids == clean.steps[0].completion_token_ids == IDS


def test_what_meets_only_at_the_border_of_two_texts_is_no_secret() -> None:
    clean = run(agent(text="AWS_SECRET_ACCESS_KEY="), agent(text="a1B2c3D4e5" * 4))
    assert redact_trajectory(clean)[0] is clean


def test_every_other_field_stays_as_it_is() -> None:
    moment = datetime(2026, 1, 2, tzinfo=UTC)
    full = run(
        replace(agent(text=SECRET), reward=1.0, model="m", latency_s=2.0, timestamp=moment),
        reward=0.5,
        rewards={"a": 1.0},
        tags=("x",),
        started_at=moment,
        success=True,
        attempt=3,
    )
    clean, _ = redact_trajectory(full)
    assert {f.name for f in fields(full) if getattr(full, f.name) != getattr(clean, f.name)} == {
        "steps"
    }
    before, after = full.steps[0], clean.steps[0]
    changed = {f.name for f in fields(before) if getattr(before, f.name) != getattr(after, f.name)}
    assert changed == {"text", "prompt_token_ids", "completion_token_ids", "logprobs"}


json_values = st.recursive(
    st.sampled_from(
        [SECRET, f"a\n{SECRET}", f'"{SECRET}"', f"\\{SECRET}", "x", "é\u2028", "\x1b[31m"]
    )
    | st.integers()
    | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=8,
)


styles = st.sampled_from([{}, {"ensure_ascii": False}, {"indent": 1}, {"separators": (",", ":")}])


@given(json_values, styles)
def test_json_stays_json_and_only_the_secrets_change(value: object, style: dict[str, Any]) -> None:
    raw = json.dumps(value, **style)
    step, _ = only_step(agent(tool_calls=(ToolCall.of("f", raw),)))
    (call,) = step.tool_calls
    expected = json.loads(json.dumps(value).replace(SECRET, CLEAN))
    assert json.loads(str(call.arguments_raw)) == expected
    assert call.arguments == canonical_json(expected)
    assert find_secrets(str(call.arguments_raw)) == []
