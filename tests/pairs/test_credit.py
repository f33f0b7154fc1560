"""Discounted returns, and credit as labels."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.pairs.worlds import run, tables, turn
from trajstore.errors import PairError
from trajstore.pairs import (
    CREDIT_SCHEMA,
    Credit,
    RunRules,
    discounted_returns,
    group_advantages,
    group_credit,
    labels_of,
    turn_rewards,
)
from trajstore.schema import Label, Step, Trajectory, label_id, labels_to_arrow


def returns(*runs: Trajectory, **options: Any) -> dict[str, list[float]]:
    """Run -> the credit of its agent steps in order."""
    rows, steps = tables(list(runs))
    found: dict[str, list[float]] = {}
    for row in discounted_returns(rows, steps, **options).rows.to_pylist():
        found.setdefault(row["trajectory_id"], []).append(row["value"])
    return found


def test_a_terminal_reward_is_discounted_back() -> None:
    """A: gamma .9, rewards 0, 0, 1 give .81, .9, 1."""
    made = run("r", "a(1)", "b(2)", "c(3)", reward=1)
    assert returns(made, gamma=0.9)["r"] == pytest.approx([0.81, 0.9, 1.0])


def test_rewards_of_the_environment_count_where_there_are_any() -> None:
    """By hand at gamma .5: 3, then 0 + .5 * 3, then 1 + .5 * 1.5; the outcome is not added."""
    turns = (turn("a(1)", reward=1.0), turn("b(2)"), turn("c(3)", reward=3.0))
    made = run("r", *turns, reward=1)
    assert returns(made, gamma=0.5)["r"] == [1.75, 1.5, 3.0]
    assert returns(made, gamma=0.5, source="run")["r"] == [0.25, 0.5, 1.0]
    assert returns(run("r", "a(1)", reward=1), source="steps")["r"] == [0.0]


def test_only_the_agents_own_steps_are_turns() -> None:
    said = Step(actor="user", text="and?")
    made = run("r", turn("z(0)", is_copied=True), "a(1)", said, "b(2)", said, reward=1)
    rows, steps = tables([made])
    found = discounted_returns(rows, steps, gamma=0.5).rows.to_pylist()
    assert [(f["step_index"], f["value"]) for f in found] == [(3, 0.5), (5, 1.0)]


def test_gamma_0_looks_no_further_and_gamma_1_sees_it_all() -> None:
    made = run("r", "a(1)", "b(2)", reward=1)
    assert returns(made, gamma=0.0)["r"] == [0.0, 1.0]
    assert returns(made)["r"] == [1.0, 1.0]


def test_returns_do_not_leak_from_one_run_into_the_next() -> None:
    found = returns(run("a", "x(1)"), run("b", "x(1)", reward=1), run("c", "x(1)"))
    assert found == {"a": [0.0], "b": [1.0], "c": [0.0]}


def test_runs_of_unknown_worth_get_no_credit() -> None:
    assert returns(run("a", "x(1)", reward=None), run("b", "x(1)")) == {"b": [0.0]}


def test_a_label_may_be_the_reward() -> None:
    rows, steps = tables([run("a", "x(1)")])
    labels = labels_to_arrow([Label(trajectory_id="a", name="taste", value=0.4, evaluator="e")])
    rules = RunRules(criterion="taste")
    found = turn_rewards(rows, steps, rules=rules, labels=labels)
    assert found.column("reward").to_pylist() == [0.4]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"gamma": 1.5}, "gamma is 1.5; it must lie between 0 and 1"),
        ({"source": "both"}, "no source of rewards 'both'; known are: auto, run, steps"),
    ],
)
def test_a_wrong_option_is_answered_with_the_right_ones(
    options: dict[str, Any], message: str
) -> None:
    with pytest.raises(PairError, match=message):
        returns(run("a", "x(1)"), **options)


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.lists(st.floats(-5, 5), min_size=1, max_size=6), min_size=1, max_size=4),
    st.sampled_from([0.0, 0.5, 0.9, 1.0]),
)
def test_returns_are_the_sum_written_out(drawn: list[list[float]], gamma: float) -> None:
    runs = [
        run(f"r{i}", *(turn(f"a({n})", reward=r) for n, r in enumerate(rewards)))
        for i, rewards in enumerate(drawn)
    ]
    found = returns(*runs, gamma=gamma)
    for i, rewards in enumerate(drawn):
        for t, value in enumerate(found[f"r{i}"]):
            ahead = sum(gamma**k * r for k, r in enumerate(rewards[t:]))
            assert value == pytest.approx(ahead, abs=1e-9)


def test_credit_goes_out_as_labels_of_trajstore_and_its_version_names_the_method() -> None:
    rows, steps = tables([run("r", "a(1)", "b(2)", reward=1)])
    first, second = labels_of(discounted_returns(rows, steps, gamma=0.9))
    assert (first.trajectory_id, first.step_index, first.name) == ("r", 2, "return")
    assert (first.value, second.value) == (0.9, 1.0)
    assert first.evaluator == "trajstore"
    assert first.evaluator_version == 'returns/1 {"criterion":"reward","gamma":0.9,"source":"auto"}'


def test_the_same_credit_is_the_same_label_and_other_parameters_are_another() -> None:
    rows, steps = tables([run("r", "a(1)", reward=1)])
    ids = [
        label_id(label)
        for gamma in (0.9, 0.9, 0.5)
        for label in labels_of(discounted_returns(rows, steps, gamma=gamma))
    ]
    assert ids[0] == ids[1] != ids[2]


def test_advantages_of_groups_are_labels_of_whole_runs() -> None:
    rows, _ = tables([run("a", "x(1)", reward=1), run("b", "y(1)")])
    credit = group_credit(group_advantages(rows)[0])
    labels = list(labels_of(credit))
    assert [(x.trajectory_id, x.step_index, x.name) for x in labels] == [
        ("a", None, "advantage"),
        ("b", None, "advantage"),
    ]
    assert labels[0].evaluator_version == 'groups/1 {"std":"population","variant":"grpo"}'


def test_credit_fits_its_schema() -> None:
    rows, steps = tables([run("r", "a(1)", reward=1)])
    credit: Credit = discounted_returns(rows, steps)
    assert credit.rows.select(CREDIT_SCHEMA.names).schema.equals(CREDIT_SCHEMA)
    assert isinstance(credit.rows, pa.Table)
