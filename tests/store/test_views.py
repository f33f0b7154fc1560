from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from trajstore import Label, Observation, Pool, Step, ToolCall, Trajectory
from trajstore.testing import generate

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def agent(*calls: tuple[str, str | None], results: tuple[Observation, ...] = ()) -> Step:
    made = tuple(ToolCall.of(name, {"n": name}, call_id) for name, call_id in calls)
    return Step(actor="agent", tool_calls=made, observations=results)


def stored(pool: Pool, *steps: Step, **changes: object) -> Pool:
    values: dict[str, object] = {"trajectory_id": "a", "task_id": "t", "source": "test"}
    pool.append(Trajectory(**(values | changes), steps=steps))  # type: ignore[arg-type]
    return pool


CALLS = "select name, observation, is_error from tool_calls order by step_index, call_index"


def test_results_are_linked_by_id_whatever_their_order(pool: Pool) -> None:
    results = (
        Observation(call_id="2", text="two", is_error=True),
        Observation(call_id="1", text="one"),
    )
    stored(pool, agent(("x", "1"), ("y", "2"), results=results))
    assert pool.sql(CALLS).fetchall() == [("x", "one", None), ("y", "two", True)]


def test_repeated_ids_are_linked_in_order(pool: Pool) -> None:
    results = (Observation(call_id="1", text="first"), Observation(call_id="1", text="second"))
    stored(pool, agent(("x", "1"), ("y", "1"), results=results))
    assert [r[1] for r in pool.sql(CALLS).fetchall()] == ["first", "second"]


def test_results_without_ids_go_by_place(pool: Pool) -> None:
    results = (Observation(text="first"), Observation(text="second", is_error=True))
    stored(pool, agent(("x", "1"), ("y", "2"), results=results))
    assert pool.sql(CALLS).fetchall() == [("x", "first", None), ("y", "second", True)]


def test_a_call_without_a_result_is_a_row_too(pool: Pool) -> None:
    stored(pool, agent(("x", "1"), ("y", "2"), results=(Observation(call_id="2", text="two"),)))
    assert pool.sql(CALLS).fetchall() == [("x", None, None), ("y", "two", None)]


def test_the_narrow_error_column_says_what_the_results_say(pool: Pool) -> None:
    pool.append(generate(60, seed=2))
    wide = """
        select count(*) from (
            select unnest(observations) o, trajectory_id from steps where actor = 'agent')
        where o.is_error"""
    narrow = pool.sql("select count(*) from tool_calls where is_error").fetchall()
    assert narrow == pool.sql(wide).fetchall()
    assert narrow[0][0] > 0


def test_flat_steps_show_the_only_call_and_result_and_count_the_others(pool: Pool) -> None:
    results = (Observation(call_id="1", text="one"), Observation(call_id="2", text="two"))
    stored(
        pool,
        Step(actor="user", text="go"),
        agent(("x", "1"), results=results[:1]),
        agent(("x", "1"), ("y", "2"), results=results),
    )
    columns = "is_flat, n_calls, n_results, tool_name, result_call_id, observation, len(tool_calls)"
    assert pool.sql(f"select {columns} from flat_steps order by step_index").fetchall() == [
        (True, 0, 0, None, None, None, None),
        (True, 1, 1, "x", "1", "one", None),
        (False, 2, 2, None, None, None, 2),
    ]


def test_messages_come_in_order_with_results_behind_their_call(pool: Pool) -> None:
    stored(
        pool,
        Step(actor="user", text="go"),
        agent(("x", "1"), results=(Observation(call_id="1", text="one"),)),
        Step(actor="agent", text="done"),
    )
    rows = pool.sql("select role, content, call_id from messages").fetchall()
    assert rows == [
        ("user", "go", None),
        ("assistant", None, None),
        ("tool", "one", "1"),
        ("assistant", "done", None),
    ]


def outcome(pool: Pool) -> tuple[object, ...]:
    columns = "success, reward, source_success, source_reward, outcome_evaluator"
    return pool.sql(f"select {columns} from trajectories").fetchall()[0]


def test_without_labels_the_source_decides(pool: Pool) -> None:
    stored(pool, success=True, reward=0.5)
    assert outcome(pool) == (True, 0.5, True, 0.5, None)


def test_the_newest_outcome_label_counts_and_says_so(pool: Pool) -> None:
    stored(pool, success=True, reward=0.5)
    pool.label(
        [
            Label(trajectory_id="a", evaluator="old", success=True, value=1, created_at=NOW),
            Label(
                trajectory_id="a",
                evaluator="new",
                success=False,
                value=0,
                created_at=NOW + timedelta(days=1),
            ),
        ]
    )
    assert outcome(pool) == (False, 0.0, True, 0.5, "new")


def test_a_better_ranked_evaluator_beats_a_newer_one(pool: Pool) -> None:
    test_the_newest_outcome_label_counts_and_says_so(pool)
    pool.rank_evaluators(["old"])
    assert outcome(pool) == (True, 1.0, True, 0.5, "old")


def test_a_label_of_another_name_is_no_outcome(pool: Pool) -> None:
    stored(pool, success=None)
    pool.label([Label(trajectory_id="a", evaluator="judge", name="style", value=0.9)])
    assert outcome(pool)[0] is None


def test_a_verdict_without_a_number_keeps_the_reward(pool: Pool) -> None:
    stored(pool, success=None, reward=0.25)
    pool.label([Label(trajectory_id="a", evaluator="human", success=True)])
    assert outcome(pool) == (True, 0.25, None, 0.25, "human")


def test_tasks_count_unknown_apart_from_failure(pool: Pool) -> None:
    for name, success, calls in (("a", True, 2), ("b", False, 1), ("c", None, 1), ("d", True, 1)):
        stored(
            pool, *(agent(("x", "1")) for _ in range(calls)), trajectory_id=name, success=success
        )
    columns = "attempts, successes, unknown, success_rate, shortest_success"
    assert pool.sql(f"select {columns} from tasks").fetchall() == [
        (4, 2, 1, pytest.approx(2 / 3), 1)
    ]


def test_rewards_that_are_no_number_bound_no_task(pool: Pool) -> None:
    for name, reward in (("a", 0.25), ("b", float("nan")), ("c", 0.5)):
        stored(pool, trajectory_id=name, reward=reward)
    assert pool.sql("select min_reward, max_reward from tasks").fetchall() == [(0.25, 0.5)]


def test_every_view_answers_on_an_empty_store(pool: Pool) -> None:
    from trajstore.store import VIEW_NAMES

    for name in VIEW_NAMES:
        assert pool.sql(f"select count(*) from {name}").fetchall() == [(0,)]


def test_get_and_scan_say_what_sql_says_unless_asked_for_the_source(pool: Pool) -> None:
    stored(pool, success=False, reward=0.0)
    pool.label([Label(trajectory_id="a", evaluator="human", success=True, value=0.8)])
    for run in (pool.get("a"), next(pool.scan())):
        assert run is not None
        assert (run.success, run.reward) == (True, 0.8)
    own = pool.get("a", outcome="source")
    assert own is not None
    assert (own.success, own.reward) == (False, 0.0)
