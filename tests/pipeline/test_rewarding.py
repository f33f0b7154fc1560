from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.filters.frames import asked, call, run, said
from trajstore import Label, Pool
from trajstore.errors import QueryError, SelectionError
from trajstore.filters.rewards import REWARDS
from trajstore.pipeline import rewarding, write_rewards

LOOK, EDIT = call("look", {"at": 1}), call("edit", {"line": 1}, "Error: no", is_error=True)


@pytest.fixture
def three(pool: Pool) -> Pool:
    pool.append(
        [
            run("a", asked("go"), LOOK, said("done"), success=True),
            run("b", asked("go"), LOOK, EDIT, success=False),
            run("c", asked("go"), LOOK, success=None),
        ]
    )
    return pool


def labels(pool: Pool, columns: str = "trajectory_id, name, value") -> list[tuple[Any, ...]]:
    query = f"SELECT {columns} FROM labels WHERE evaluator LIKE 'trajstore/%' ORDER BY ALL"
    return pool.sql(query).fetchall()


def test_rewards_of_runs_become_labels(three: Pool) -> None:
    report = write_rewards(three, "react", {"lambda_length": 0.25})
    assert labels(three) == [("a", "reward", 0.5), ("b", "reward", -0.5)]
    assert (report.trajectories, report.labels, report.without) == (3, 2, 1)


def test_a_label_names_reward_version_parameters_and_terms(three: Pool) -> None:
    write_rewards(three, "react", {"lambda_length": 0.25})
    assert labels(three, "evaluator, evaluator_version, rationale")[0] == (
        "trajstore/react",
        '1 {"lambda_format":0.1,"lambda_length":0.25}',
        "task=0, format=0, length=-0.5",
    )


def test_rewards_of_steps_become_labels_of_the_rule_on_the_step(three: Pool) -> None:
    report = write_rewards(three, "dense-tool-agent")
    found = labels(three, "trajectory_id, step_index, name, value")
    assert found == [
        ("a", 1, "successful-call", 0.05),
        ("b", 1, "successful-call", 0.05),
        ("b", 2, "error", -0.03),
        ("c", 1, "successful-call", 0.05),
    ]
    assert report.without == 0


@pytest.mark.parametrize("name", REWARDS)
def test_twice_is_once(three: Pool, name: str) -> None:
    parameters = {"max_turns": 9} if name == "turn-budget" else None
    first = write_rewards(three, name, parameters)
    again = write_rewards(three, name, parameters)
    assert (again.labels, again.already) == (0, first.labels)


def test_other_parameters_add_labels_and_replace_none(three: Pool) -> None:
    for step_cost in (0.25, 0.5):
        write_rewards(three, "react", {"lambda_length": step_cost})
    assert [v for *_, v in labels(three)] == [0.0, 0.5, -1.0, -0.5]


def test_a_late_outcome_adds_the_reward_that_was_missing(three: Pool) -> None:
    write_rewards(three, "react")
    three.label([Label(trajectory_id="c", evaluator="world", success=True)])
    report = write_rewards(three, "react")
    assert (report.labels, report.already, report.without) == (1, 2, 0)
    assert ("c", "reward", 0.99) in labels(three)


def test_a_changed_outcome_stands_beside_the_old_one_and_is_newer(three: Pool) -> None:
    write_rewards(three, "react")
    three.label([Label(trajectory_id="b", evaluator="world", success=True)])
    write_rewards(three, "react")
    query = (
        "SELECT value FROM labels WHERE trajectory_id = 'b' AND name = 'reward' ORDER BY created_at"
    )
    assert three.sql(query).fetchall() == [(-0.02,), (0.98,)]


def test_a_reward_never_becomes_the_outcome(three: Pool) -> None:
    before = three.sql(
        "SELECT trajectory_id, success, reward FROM trajectories ORDER BY 1"
    ).fetchall()
    write_rewards(three, "react")
    after = three.sql(
        "SELECT trajectory_id, success, reward FROM trajectories ORDER BY 1"
    ).fetchall()
    assert after == before


def test_a_condition_limits_who_gets_a_label_but_not_what_is_compared_with(three: Pool) -> None:
    """a has one call; d needs two, so its efficiency is 1/2 also where only d is labelled."""
    three.append([run("d", LOOK, EDIT, success=True)])
    report = write_rewards(three, "spl", where="trajectory_id = 'd'")
    assert labels(three) == [("d", "reward", 0.5)]
    assert report.trajectories == 1


def test_an_older_snapshot_can_be_rewarded(three: Pool) -> None:
    first = three.snapshot()
    three.append([run("d", LOOK, success=True)])
    report = write_rewards(three, "react", at=first)
    assert (report.snapshot, report.trajectories) == (first, 3)


def test_a_dry_run_counts_and_writes_nothing(three: Pool) -> None:
    before = three.snapshot()
    assert write_rewards(three, "react", dry_run=True).labels == 2
    assert three.snapshot() == before


def test_parts_of_a_store_give_what_the_whole_gives(
    three: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = write_rewards(three, "three-dimensions", dry_run=True)
    monkeypatch.setattr(rewarding, "_RUNS_AT_ONCE", 1)
    parts = write_rewards(three, "three-dimensions")
    assert (parts.labels, parts.spread, parts.without) == (whole.labels, whole.spread, 1)
    assert write_rewards(three, "three-dimensions").labels == 0


def test_an_id_with_a_quote_is_no_problem(pool: Pool) -> None:
    pool.append([run("it's", LOOK, success=True)])
    assert write_rewards(pool, "search").labels == 1


def test_case_53_the_report_names_groups_without_signal(three: Pool) -> None:
    three.append([run(f"x{n}", LOOK, task_id="easy", success=True) for n in range(3)])
    spread = write_rewards(three, "react").spread
    assert (spread.groups, spread.all_pass, spread.all_fail) == (2, 1, 0)


def test_the_report_names_tasks_whose_penalties_are_too_high(three: Pool) -> None:
    three.append([run("long", *[LOOK] * 60, success=True)])
    assert write_rewards(three, "react").outranked == ()
    assert write_rewards(three, "react", {"lambda_length": 0.05}).outranked == ("task",)


def test_case_54_scores_come_with_the_run_or_as_labels_and_the_label_is_newer(pool: Pool) -> None:
    told = {"tests_passed": 3.0, "tests_total": 4.0}
    pool.append([run("a", LOOK, rewards=told), run("b", LOOK, rewards=told)])
    pool.label([Label(trajectory_id="b", evaluator="ci", name="tests_passed", value=4.0)])
    write_rewards(pool, "rlef")
    assert labels(pool) == [("a", "reward", 0.75), ("b", "reward", 1.0)]


def test_sub_goals_and_value_estimates_are_labels_of_the_store(three: Pool) -> None:
    """b fails ``edit`` at step 2; an estimate of 0.6 before it, nothing behind it: -0.6."""
    three.label(
        [
            Label(
                trajectory_id="b", evaluator="x", name="sub-goal/find", step_index=1, success=True
            ),
            Label(trajectory_id="b", evaluator="x", name="sub-goal/edit", success=False),
            Label(trajectory_id="b", evaluator="critic", name="value", step_index=2, value=0.6),
        ]
    )
    write_rewards(three, "sub-goals")
    assert labels(three, "step_index, name, value, rationale") == [
        (1, "sub-goal-reached", 0.2, "find"),
        (2, "sub-goal-failed", -0.6, "edit, by value estimates"),
    ]


def test_the_newest_word_on_a_sub_goal_counts(three: Pool) -> None:
    for success in (False, True):
        goal = Label(
            trajectory_id="a", evaluator="x", name="sub-goal/find", step_index=1, success=success
        )
        three.label([goal])
    write_rewards(three, "sub-goals")
    assert labels(three, "step_index, name") == [(1, "sub-goal-reached")]


def test_an_ambiguous_goal_is_a_label_of_the_store(pool: Pool) -> None:
    pool.append([run("a", asked("Book it"), said("Which day?"), asked("Monday"), said("Done"))])
    assert write_rewards(pool, "dense-tool-agent").labels == 0
    pool.label([Label(trajectory_id="a", evaluator="me", name="ambiguous-goal", value=1.0)])
    write_rewards(pool, "dense-tool-agent")
    assert labels(pool, "step_index, name") == [(1, "clarifying-question")]


def test_an_empty_store_has_no_rewards(pool: Pool) -> None:
    assert write_rewards(pool, "dense-tool-agent").trajectories == 0


def test_a_wrong_name_parameter_or_condition_is_refused(three: Pool) -> None:
    with pytest.raises(SelectionError, match="There is no reward 'reakt'"):
        write_rewards(three, "reakt")
    with pytest.raises(SelectionError, match="no parameter 'x'"):
        write_rewards(three, "react", {"x": 1})
    with pytest.raises(QueryError):
        write_rewards(three, "react", where="nonsense = 1")


def test_rewards_of_recorded_runs(pool: Pool, real_data: Path) -> None:
    """tau-bench: 84 of 200 succeed; of 50 tasks 10 always pass and 14 never do."""
    pool.import_files(real_data / "tau_bench")
    report = write_rewards(pool, "search", {"penalty": 0.0})
    assert (report.labels, report.without) == (200, 0)
    assert (report.spread.groups, report.spread.all_pass, report.spread.all_fail) == (50, 10, 14)
    assert sum(v for *_, v in labels(pool)) == 84
