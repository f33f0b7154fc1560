"""Which runs are judged, and what they are worth."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from tests.pairs.worlds import run
from trajstore.pairs import RUN_COLUMNS, RUN_REASONS, RunRules, Runs, judged_runs
from trajstore.schema import Label, Trajectory, labels_to_arrow, trajectories_to_arrow


def judged(*runs: Trajectory, labels: list[Label] | None = None, **options: Any) -> Runs:
    words = None if labels is None else labels_to_arrow(labels)
    rules = RunRules(**{k: v for k, v in options.items() if k not in {"collapse", "need_steps"}})
    rest = {k: v for k, v in options.items() if k in {"collapse", "need_steps"}}
    return judged_runs(trajectories_to_arrow(list(runs)), rules, labels=words, **rest)


def values(found: Runs) -> dict[str, float]:
    return {r["trajectory_id"]: r["value"] for r in found.kept.to_pylist()}


def reasons(found: Runs) -> dict[str, str]:
    return {r["trajectory_id"]: r["reason"] for r in found.dropped.to_pylist()}


def test_a_run_is_worth_its_reward_or_its_verdict() -> None:
    made = run("a", "x(1)", reward=0.4, success=True)
    assert values(judged(made)) == {"a": 0.4}
    assert values(judged(made, criterion="success")) == {"a": 1.0}


def test_a_verdict_without_a_reward_counts_as_1_or_0() -> None:
    runs = [replace(run(n, "x(1)"), reward=None, success=n == "a") for n in "ab"]
    assert values(judged(*runs, collapse=False)) == {"a": 1.0, "b": 0.0}


def test_a_reward_alone_is_enough() -> None:
    assert values(judged(run("a", "x(1)", reward=0.4, success=None))) == {"a": 0.4}


def test_where_verdicts_decide_a_reward_alone_is_unknown() -> None:
    """Two scales never meet: the task has a verdict without a reward."""
    runs = [
        replace(run("a", "x(1)"), reward=None, success=True),
        run("b", "y(1)", reward=0.4, success=None),
        run("c", "z(1)", reward=0.4, success=None, task="other"),
    ]
    found = judged(*runs)
    assert values(found) == {"a": 1.0, "c": 0.4}
    assert reasons(found) == {"b": "unknown-outcome"}


@pytest.mark.parametrize("reward", [float("nan"), float("inf")])
def test_a_reward_that_is_no_number_is_unknown(reward: float) -> None:
    assert reasons(judged(run("a", "x(1)", reward=reward))) == {"a": "unknown-outcome"}


def word(value: float | None, day: int = 1, **changes: Any) -> Label:
    said = {"trajectory_id": "a", "name": "taste", "value": value, "evaluator": "e"}
    return Label(**{**said, "created_at": datetime(2026, 1, day, tzinfo=UTC), **changes})


def test_the_newest_label_counts_whatever_the_order() -> None:
    labels = [word(0.9, 3), word(0.1, 1), word(0.5, 2)]
    assert values(judged(run("a", "x(1)"), labels=labels, criterion="taste")) == {"a": 0.9}


def test_ranked_evaluators_come_before_newer_words_of_others() -> None:
    labels = [word(0.1, 1, evaluator="human"), word(0.9, 2, evaluator="model")]
    rules = {"criterion": "taste", "evaluators": ("human",)}
    assert values(judged(run("a", "x(1)"), labels=labels, **rules)) == {"a": 0.1}


def test_a_verdict_alone_is_a_value_too() -> None:
    labels = [word(None, success=False)]
    assert values(judged(run("a", "x(1)"), labels=labels, criterion="taste")) == {"a": 0.0}


def test_labels_of_steps_do_not_judge_the_run() -> None:
    labels = [word(0.5, step_index=2)]
    found = judged(run("a", "x(1)"), labels=labels, criterion="taste")
    assert reasons(found) == {"a": "unknown-outcome"}


def test_a_label_with_the_name_of_a_column_is_meant_with_a_prefix() -> None:
    labels = [word(0.5, name="reward")]
    assert values(judged(run("a", "x(1)"), labels=labels)) == {"a": 0.0}
    assert values(judged(run("a", "x(1)"), labels=labels, criterion="label:reward")) == {"a": 0.5}


@pytest.mark.parametrize(
    ("safe", "refused", "expected"),
    [(True, None, 1.0), (False, None, 0.0), (None, "harm", 1.0), (False, "harm", 0.0)],
)
def test_safety_is_the_word_on_the_run_and_a_reasoned_refusal_is_safe(
    safe: bool | None,  # noqa: FBT001
    refused: str | None,
    expected: float,
) -> None:
    labels = [] if safe is None else [word(None, name="safe", success=safe)]
    if refused:
        labels.append(word(None, name="refusal", success=True, rationale=refused))
    assert values(judged(run("a", "x(1)"), labels=labels, criterion="safety")) == {"a": expected}


def test_only_the_first_reason_is_given() -> None:
    made = replace(run("a", "x(1)", reward=None), status="error", tags=("mask_sample",))
    assert reasons(judged(made)) == {"a": "mask-sample"}
    assert reasons(judged(made, masked=True)) == {"a": "error"}
    assert reasons(judged(made, masked=True, errors=True)) == {"a": "unknown-outcome"}


def test_runs_without_a_step_of_the_agent_may_be_asked_for() -> None:
    assert reasons(judged(run("a"))) == {"a": "no-agent-step"}
    assert values(judged(run("a"), need_steps=False)) == {"a": 0.0}


def test_copies_collapse_onto_the_first_id_inside_their_task() -> None:
    runs = [run("b", "x(1)"), run("a", "x(1)"), run("c", "x(1)", task="other")]
    found = judged(*runs)
    assert values(found).keys() == {"a", "c"}
    assert reasons(found) == {"b": "duplicate"}


def test_a_run_of_unknown_digest_is_nobodys_copy() -> None:
    table = trajectories_to_arrow([run("a", "x(1)"), run("b", "x(1)")])
    table = table.drop_columns(["source_digest"])
    assert judged_runs(table, RunRules()).kept.num_rows == 2


def test_a_table_with_few_columns_is_enough() -> None:
    table = pa.table({"trajectory_id": ["a"], "task_id": ["t"], "reward": [1]})
    found = judged_runs(table, RunRules())
    assert values(found) == {"a": 1.0}
    assert {*RUN_COLUMNS} <= {*found.kept.column_names}


def test_texts_of_tools_and_goal_become_hashes() -> None:
    one, other, none = (
        judged(run("a", "x(1)", tools=tools)).kept.column("tools_digest")[0].as_py()
        for tools in ("[1]", "[2]", None)
    )
    assert none is None
    assert len({one, other}) == 2


def test_long_deny_lists_go_into_the_parameters_as_a_hash() -> None:
    first = RunRules(deny=tuple(f"task-{i}" for i in range(1000)))
    assert first.parameters()["deny"][0] == 1000
    assert first.parameters() == RunRules(deny=first.deny[::-1]).parameters()
    assert first.parameters() != RunRules(deny=first.deny[1:]).parameters()


def test_every_reason_says_what_it_means() -> None:
    assert all(words.startswith("it") or len(words) > 15 for words in RUN_REASONS.values())
