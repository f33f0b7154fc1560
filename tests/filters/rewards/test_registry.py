from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from tests.filters.rewards import tables
from trajstore.errors import SelectionError
from trajstore.filters.rewards import INPUTS, REWARDS, reward_named

EMPTY = {
    "rows": tables.ROWS.empty_table(),
    "calls": tables.NO_CALLS,
    "steps": tables.NO_STEPS,
    "actions": tables.ACTIONS.empty_table(),
    "scores": tables.NO_SCORES,
    "goals": tables.GOALS.empty_table(),
    "estimates": tables.NO_ESTIMATES,
}
NEEDED: dict[str, dict[str, Any]] = {"turn-budget": {"max_turns": 5}}


def test_the_registry_holds_every_composition() -> None:
    assert list(REWARDS) == [
        "dense-tool-agent",
        "efficiency",
        "judge",
        "next-state",
        "react",
        "react-any-error",
        "rlef",
        "search",
        "spl",
        "sql",
        "sub-goals",
        "three-dimensions",
        "turn-budget",
    ]


@pytest.mark.parametrize("name", REWARDS)
def test_every_reward_reads_known_inputs_and_says_its_formula(name: str) -> None:
    reward = REWARDS[name]
    assert set(reward.inputs) <= INPUTS.keys()
    assert len(reward.formula) > 20


@pytest.mark.parametrize("name", REWARDS)
def test_nothing_in_gives_nothing_out_in_typed_columns(name: str) -> None:
    result = REWARDS[name](EMPTY, **NEEDED.get(name, {}))
    assert result.num_rows == 0
    assert result.schema.field("value").type == pa.float64()
    has_steps = "step_index" in result.column_names
    assert has_steps == (REWARDS[name].level == "step")


def test_an_unknown_reward_is_answered_with_the_real_ones() -> None:
    with pytest.raises(SelectionError, match=r"Did you mean 'react'\?.*turn-budget"):
        reward_named("raect")


def test_an_unknown_parameter_is_answered_with_the_real_ones() -> None:
    with pytest.raises(SelectionError, match=r"no parameter 'lamda'.*lambda_length \(default"):
        REWARDS["react"].filled({"lamda": 1})


def test_a_parameter_without_a_default_is_needed() -> None:
    with pytest.raises(SelectionError, match="'turn-budget' needs 'max_turns'"):
        REWARDS["turn-budget"].filled()


@pytest.mark.parametrize("value", ["0.1", True, None, float("nan"), float("inf")])
def test_a_parameter_of_another_kind_is_refused(value: Any) -> None:
    with pytest.raises(SelectionError, match="cannot take lambda_length="):
        REWARDS["react"].filled({"lambda_length": value})


def test_a_threshold_may_be_none() -> None:
    assert REWARDS["spl"].filled({"pass_threshold": None}) == {"pass_threshold": None}


def test_a_missing_input_is_named() -> None:
    with pytest.raises(SelectionError, match="'search' also reads the tables calls"):
        REWARDS["search"]({"rows": EMPTY["rows"]})


def test_the_version_tells_parameters_apart_and_equal_ones_together() -> None:
    version = REWARDS["react"].evaluator_version
    assert version() == version({"lambda_length": 0.01})
    assert version({"lambda_length": 1}) == version({"lambda_length": 1.0})
    assert version() != version({"lambda_length": 0.02})
