"""The search: what it does with policies and environments, and where it stops."""

from __future__ import annotations

import itertools
from dataclasses import replace
from threading import Barrier
from typing import Any

import pytest

from tests.rollouts.lats_world import TASK, Doors, Gambler, always, going, make
from trajstore.rollouts import (
    Action,
    CalculatorEnvironment,
    Environment,
    Generations,
    Limits,
    Observed,
    Response,
    SearchOptions,
    SearchTree,
    Task,
    Transition,
    calculator_tasks,
    lats,
    search_rollouts,
)
from trajstore.schema import Trajectory

OPTIONS = SearchOptions(iterations=12, expand=2, depth=5, concurrency=1)


def search(policy: Any, environment: Any = make, **options: Any) -> SearchTree:
    seed = options.pop("seed", 0)
    cache = options.pop("cache", None)
    chosen = replace(OPTIONS, **options)
    return lats(environment, policy, TASK, options=chosen, seed=seed, cache=cache)


def doors(run: Trajectory) -> str:
    calls = [s.tool_calls[0].arguments or "" for s in run.steps if s.actor == "agent"]
    return "".join("r" if "right" in call else "l" for call in calls)


def shape(tree: SearchTree) -> list[Any]:
    """What does not depend on the clock."""
    return [
        (r.trajectory_id, r.source_digest, r.parent_id, r.parent_step, r.tags) for r in tree.runs
    ]


def test_the_way_out_is_found_and_handed_in() -> None:
    tree = search(Gambler(0.4), iterations=60)
    assert (tree.stopped, tree.success) == ("solved", True)
    assert tree.best is not None
    assert doors(tree.best) == "rrr"


def test_every_leaf_is_a_run_and_no_two_runs_are_alike() -> None:
    tree = search(Gambler(0.5), stop_on_success=False, iterations=60, expand=8)
    ways = [doors(run) for run in tree.runs if run.status == "terminated"]
    assert sorted(ways) == sorted("".join(w) for w in itertools.product("lr", repeat=3))


def test_without_the_verdict_the_most_visited_way_is_handed_in() -> None:
    tree = search(Gambler(0.5), stop_on_success=False, iterations=6)
    node = tree.root
    while node.children:
        node = max(node.children, key=lambda n: (n.visits, n.q_search or 0.0, -n.number))
    assert tree.best is not None
    assert doors(tree.best) == doors(tree.runs[node.run or 0])


def test_visits_and_values_agree_with_the_runs_below_each_node() -> None:
    tree = search(Gambler(0.5), stop_on_success=False, iterations=60, expand=8)
    for node in tree.root.walk():
        below = [n for n in node.walk() if n.ending is not None]
        assert node.visits == len(below)
        assert node.total == pytest.approx(sum(n.ending.value or 0 for n in below if n.ending))


def test_the_same_search_gives_the_same_tree_however_much_is_done_at_a_time() -> None:
    trees = [search(Gambler(0.4), expand=4, concurrency=n) for n in (1, 4)]
    assert shape(trees[0]) == shape(trees[1])


def test_another_seed_gives_other_runs() -> None:
    one, other = (search(Gambler(0.4), seed=seed) for seed in (1, 2))
    assert {r.trajectory_id for r in one.runs}.isdisjoint(r.trajectory_id for r in other.runs)


def test_samples_of_one_expansion_are_drawn_side_by_side() -> None:
    meeting = Barrier(8)

    class Social(Gambler):
        def act(self, messages: Any, tools: Any, *, seed: int) -> Response:
            meeting.wait(timeout=120)
            return super().act(messages, tools, seed=seed)

    tree = search(Social(0.0), expand=8, concurrency=8, policy_calls=8)
    assert (tree.calls, tree.merged, tree.error) == (8, 7, None)


def test_equal_actions_of_a_node_are_one_child_and_are_counted() -> None:
    tree = search(always("left"), iterations=1, expand=5)
    assert [len(node.children) for node in tree.root.walk()] == [1, 1, 1, 0]
    assert tree.merged == 4


def test_no_question_is_asked_twice_and_what_is_known_costs_no_call() -> None:
    policy, cache = Gambler(0.4), Generations()
    first = search(policy, cache=cache, seed=3, iterations=5)
    again = search(policy, cache=cache, seed=3, iterations=8)
    assert len(cache) == len(policy.asked) == first.calls + again.calls
    assert again.cached == first.calls
    asked = [(str(messages), seed) for messages, seed in policy.asked]
    assert len(set(asked)) == len(asked)


def test_a_policy_that_knows_one_way_only_ends_the_search() -> None:
    tree = search(always("left"), iterations=500)
    assert (tree.stopped, tree.success, len(tree.runs)) == ("exhausted", False, 1)


@pytest.mark.parametrize("calls", [1, 2, 5, 17])
def test_no_more_calls_are_made_than_allowed(calls: int) -> None:
    policy = Gambler(0.0)
    tree = search(policy, policy_calls=calls, expand=3, iterations=100)
    assert len(policy.asked) == tree.calls <= calls
    assert tree.stopped in {"policy calls", "exhausted"}


def test_a_run_that_the_budget_cut_off_is_kept_and_not_judged() -> None:
    tree = search(always("left"), policy_calls=3, expand=1)
    cut = search(always("left"), policy_calls=2, expand=1).runs[0]
    assert tree.runs[0].reward == 0.0
    assert (cut.status, cut.success, cut.reward) == ("truncated", None, None)
    assert doors(cut) == "ll"


def test_iterations_bound_a_search_whose_new_actions_all_end_their_runs() -> None:
    """At depth 1 nothing is simulated; each of three rounds draws four new actions."""

    class Inventive(Gambler):
        def act(self, messages: Any, tools: Any, *, seed: int) -> Response:
            super().act(messages, tools, seed=seed)
            return Response(action=going(f"left {seed}"))

    tree = search(Inventive(), iterations=3, expand=4, depth=1, stop_on_success=False)
    assert (tree.iterations, tree.stopped, len(tree.runs), tree.calls) == (3, "iterations", 12, 12)


def test_iterations_and_depth_bound_the_tree() -> None:
    tree = search(Gambler(0.5), iterations=2, depth=2, stop_on_success=False)
    assert (tree.iterations, tree.stopped) == (2, "iterations")
    assert max(node.depth for node in tree.root.walk()) == 2
    assert {r.termination_reason for r in tree.runs} <= {"step limit", "not simulated"}


def test_time_ends_a_search_before_its_next_call() -> None:
    tree = search(Gambler(0.5), seconds=0.0)
    assert (tree.stopped, tree.calls, tree.runs, tree.best) == ("seconds", 0, (), None)


def test_the_critic_decides_which_new_child_comes_first() -> None:
    def critic(task: Task, messages: Any) -> float:
        assert task is TASK
        return float('"right"' in str(messages[2]["tool_calls"]))

    tree = search(Gambler(0.5), expand=6, iterations=1, critic=critic, stop_on_success=False)
    first = next(node for node in tree.root.children if node.visits)
    assert len(tree.root.children) == 2
    assert (first.critic, first.taken is not None) == (1.0, True)
    assert doors(tree.runs[0])[0] == "r"


def test_environments_are_restored_by_doing_the_actions_again_and_all_are_closed() -> None:
    before = Doors.made
    search(Gambler(0.5), iterations=8, stop_on_success=False)
    assert Doors.made > before + 8
    assert Doors.open_now == 0


def test_an_environment_that_forks_is_never_replayed() -> None:
    class Forking(Doors):
        def fork(self) -> Forking:
            copy = Forking()
            copy.way, copy.wanted = list(self.way), list(self.wanted)
            return copy

    resets = []

    class Counted(Forking):
        def reset(self, task: Task) -> Observed:
            resets.append(task)
            return super().reset(task)

    plain = search(Gambler(0.5), iterations=8, stop_on_success=False)
    forked = search(Gambler(0.5), Counted, iterations=8, stop_on_success=False)
    assert shape(plain) == shape(forked)
    assert (len(resets), Doors.open_now) == (1, 0)


def test_an_environment_that_answers_otherwise_is_named_with_what_it_said() -> None:
    numbers = itertools.count()

    class Moody(Doors):
        def step(self, action: Action) -> Transition:
            made = super().step(action)
            return replace(made, observation=Observed(text=f"mood {next(numbers)}"))

    tree = search(Gambler(0.5), Moody, stop_on_success=False)
    assert (tree.stopped, Doors.open_now) == ("error", 0)
    assert tree.error is not None
    assert "doors is not deterministic" in tree.error
    assert "action 1 of task doors/rrr brought ('mood" in tree.error
    assert "fork()" in tree.error


class Broken(Gambler):
    """Fails at some calls."""

    def act(self, messages: Any, tools: Any, *, seed: int) -> Response:
        answer = super().act(messages, tools, seed=seed)
        if seed % 4 == 0:
            raise ConnectionError("no route to the model")
        return answer


def test_a_call_that_fails_costs_its_run_only() -> None:
    tree = search(Broken(0.4), iterations=40, stop_on_success=False)
    failed = [run for run in tree.runs if run.status == "error"]
    assert failed
    assert len(tree.runs) > len(failed)
    assert failed[0].error == "policy.act: ConnectionError: no route to the model"
    assert failed[0].success is None


def test_a_way_that_broke_off_is_not_gone_twice() -> None:
    tree = search(Broken(0.4), iterations=40, stop_on_success=False)
    for node in tree.root.walk():
        actions = [str(child.taken and child.taken.action.tool_calls) for child in node.children]
        assert len(set(actions)) == len(actions)


def test_a_policy_that_always_fails_ends_the_search() -> None:
    class Dead(Gambler):
        def act(self, messages: Any, tools: Any, *, seed: int) -> Response:
            del messages, tools, seed
            raise ConnectionError("no route")

    tree = search(Dead())
    assert (tree.stopped, tree.runs, tree.best) == ("error", (), None)
    assert tree.error == "policy.act: ConnectionError: no route"


def test_retries_ask_again() -> None:
    class Once(Gambler):
        def act(self, messages: Any, tools: Any, *, seed: int) -> Response:
            answer = super().act(messages, tools, seed=seed)
            if sum(s == seed for _, s in self.asked) == 1:
                raise TimeoutError
            return answer

    limits = Limits(retries=1, backoff_s=0.0)
    (tree,) = search_rollouts(make, Once(0.4), [TASK], options=OPTIONS, limits=limits)
    assert tree.error is None
    assert tree.calls == 2 * sum(1 for _ in tree.root.walk()) - 2 + 2 * tree.merged


def test_an_environment_that_fails_ends_that_run_with_the_action_kept() -> None:
    class Trap(Doors):
        def step(self, action: Action) -> Transition:
            made = super().step(action)
            if self.way == ["right", "right"]:
                raise RuntimeError("the floor gave way")
            return made

    tree = search(Gambler(0.6), Trap, iterations=20, stop_on_success=False)
    failed = next(run for run in tree.runs if run.status == "error")
    assert (doors(failed), failed.error) == (
        "rr",
        "environment.step: RuntimeError: the floor gave way",
    )


def test_one_tree_a_task_and_policy_in_their_order_also_side_by_side() -> None:
    tasks = calculator_tasks(5, seed=2)
    policies = [_Guess("1"), _Guess("2")]
    trees = search_rollouts(
        CalculatorEnvironment, policies, tasks, options=OPTIONS, limits=Limits(concurrency=4)
    )
    found = [(t.task.task_id, t.runs[0].policy_version) for t in trees]
    assert found == [(t.task_id, v) for t in tasks for v in ("1", "2")]


class _Guess:
    agent, model = "guess", None

    def __init__(self, version: str) -> None:
        self.version = version

    def act(self, messages: Any, tools: Any, *, seed: int) -> Response:
        del messages, tools
        return Response(action=Action(text=f"{seed % 3}?"))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"iterations": 0}, "iterations is 0; it starts at 1"),
        ({"expand": 0}, "expand is 0"),
        ({"policy_calls": 0}, "policy_calls is 0"),
        ({"alpha": 1.5}, "alpha is 1.5; it must lie between 0 and 1"),
        ({"c": -1.0}, "c is -1.0; it must be at least 0"),
    ],
)
def test_numbers_out_of_range_are_named(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        search(Gambler(), **options)


def test_any_environment_of_the_protocol_will_do() -> None:
    environment: Environment = make()
    assert environment.step(going("right")).terminated is False
    environment.close()
