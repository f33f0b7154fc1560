"""The last look at a trajectory before it joins a batch."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from trajstore.importers.sound import sound
from trajstore.schema import Observation, Step, ToolCall, Trajectory

RUN = Trajectory(
    trajectory_id="t",
    task_id="k",
    source="s",
    attempt=1,
    success=True,
    reward=1,
    started_at=datetime(2025, 1, 2, tzinfo=UTC),
    steps=(
        Step(
            actor="agent",
            text="",
            tool_calls=(ToolCall.of("f", {"a": 1}, "c"),),
            observations=(Observation(text="ok", is_error=False),),
            latency_s=0.5,
        ),
    ),
)


def with_step(**fields: Any) -> Trajectory:
    return replace(RUN, steps=(*RUN.steps, replace(RUN.steps[0], **fields)))


def test_a_sound_trajectory_comes_back_as_it_is() -> None:
    assert sound(RUN) is RUN


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("goal", {"text": "x"}),
        ("model", 4),
        ("attempt", 1.5),
        ("attempt", True),
        ("attempt", 2**31),
        ("prompt_tokens", 2**63),
        ("success", "yes"),
        ("reward", "1"),
        ("reward", True),
        ("started_at", "2025-01-02"),
    ],
)
def test_a_value_of_another_kind_is_named(field: str, value: Any) -> None:
    with pytest.raises(TypeError, match=f"'{field}' is"):
        sound(replace(RUN, **{field: value}))


def test_the_step_is_named() -> None:
    with pytest.raises(TypeError, match=r"'text' of step 1 is list where text belongs"):
        sound(with_step(text=["x"]))


def test_calls_and_results_are_looked_at() -> None:
    with pytest.raises(TypeError, match="'call_id' of a call of step 1"):
        sound(with_step(tool_calls=(ToolCall(name="f", call_id=7),)))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="'is_error' of a result of step 1"):
        sound(with_step(observations=(Observation(is_error="no"),)))  # type: ignore[arg-type]


def test_large_counts_fit_where_the_column_is_wide() -> None:
    assert sound(replace(RUN, prompt_tokens=2**40)).prompt_tokens == 2**40
