"""A weak policy does better with a search than without, by a margin, for the same calls."""

from __future__ import annotations

from trajstore.rollouts import (
    FreshSeeds,
    Limits,
    ScriptedShopper,
    SearchOptions,
    WebShopEnvironment,
    first_error,
    run_rollouts,
    search_rollouts,
    shop_tasks,
)

TASKS = shop_tasks(24, seed=5)
POLICY = FreshSeeds(ScriptedShopper("hasty"))
CALLS = 120
ONE = Limits(concurrency=1, max_steps=15)


def solved_by_attempts(most: int) -> int:
    """Tasks of which one of the attempts that fit into ``CALLS`` calls is a success."""
    runs = run_rollouts(WebShopEnvironment, POLICY, TASKS, attempts=most, seed=5, limits=ONE)
    used: dict[str, int] = {}
    solved = set()
    for run in runs:
        used[run.task_id] = used.get(run.task_id, 0) + run.n_agent_steps
        if run.success and used[run.task_id] <= CALLS:
            solved.add(run.task_id)
    return len(solved)


def test_a_search_beats_one_attempt_and_as_many_attempts_as_its_calls_allow() -> None:
    options = SearchOptions(
        iterations=100, expand=2, policy_calls=CALLS, reflect=first_error, concurrency=1
    )
    trees = list(
        search_rollouts(WebShopEnvironment, POLICY, TASKS, options=options, seed=5, limits=ONE)
    )
    found = sum(tree.success is True for tree in trees)
    assert max(tree.calls for tree in trees) <= CALLS
    assert found >= solved_by_attempts(1) + 12
    assert found >= solved_by_attempts(20) + 4
