"""The tree in a store: runs that descend from each other, and who reads their values."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import trajstore
from tests.rollouts.lats_world import TASK, Gambler, make
from trajstore import Pool
from trajstore.pairs import StepPairOptions
from trajstore.pipeline.pairing import build_pairs, compute_credit
from trajstore.rollouts import (
    FreshSeeds,
    Response,
    ScriptedShopper,
    SearchOptions,
    SearchTree,
    Usage,
    WebShopEnvironment,
    first_error,
    lats,
    record_searches,
    shop_tasks,
)
from trajstore.schema import Trajectory, steps_to_arrow, trajectories_to_arrow, validate

OPTIONS = SearchOptions(iterations=10, expand=3, depth=5, concurrency=1, stop_on_success=False)


class Counted(Gambler):
    """Says what each call cost."""

    def act(self, messages: Any, tools: Any, *, seed: int) -> Response:
        usage = Usage(prompt_tokens=10, completion_tokens=3, cost_usd=0.5)
        return replace(super().act(messages, tools, seed=seed), usage=usage)


@pytest.fixture
def store(tmp_path: Path) -> Pool:
    return trajstore.open(tmp_path / "pool", durable=False)


@pytest.fixture(scope="module")
def tree() -> SearchTree:
    return lats(make, Counted(0.5), TASK, options=OPTIONS)


def put(store: Pool, tree: SearchTree) -> None:
    store.append([*tree.runs, *tree.labels])


def doors(run: Trajectory) -> list[str]:
    return [str(s.tool_calls[0].arguments) for s in run.steps if s.actor == "agent"]


def test_runs_fit_the_schema(tree: SearchTree) -> None:
    assert validate(trajectories_to_arrow(list(tree.runs)), "trajectories") == []
    assert validate(steps_to_arrow(list(tree.runs)), "steps") == []


def test_a_run_shares_all_steps_up_to_the_parent_step_and_none_further(tree: SearchTree) -> None:
    by_id = {run.trajectory_id: run for run in tree.runs}
    assert (tree.runs[0].parent_id, tree.runs[0].relation) == (None, None)
    for run in tree.runs[1:]:
        parent, shared = by_id[run.parent_id or ""], run.parent_step or 0
        assert run.relation == "branch"
        assert (parent.attempt or 0) < (run.attempt or 0)
        said = [[(s.actor, s.text) for s in r.steps[: shared + 1]] for r in (run, parent)]
        assert said[0] == said[1]
        assert run.steps[shared + 1].tool_calls != parent.steps[shared + 1].tool_calls


def test_every_call_of_the_policy_is_counted_once_but_for_merged_ones(tree: SearchTree) -> None:
    calls = tree.calls - tree.merged
    assert sum(run.prompt_tokens or 0 for run in tree.runs) == 10 * calls
    assert sum(run.cost_usd or 0 for run in tree.runs) == pytest.approx(0.5 * calls)


def test_the_tree_comes_back_from_the_store_as_it_was(store: Pool, tree: SearchTree) -> None:
    put(store, tree)
    kept = {run.trajectory_id: run for run in store.scan()}
    assert {i: (r.parent_id, r.parent_step, r.relation, r.attempt) for i, r in kept.items()} == {
        r.trajectory_id: (r.parent_id, r.parent_step, r.relation, r.attempt) for r in tree.runs
    }


def test_one_run_a_tree_is_marked_as_the_best(store: Pool, tree: SearchTree) -> None:
    put(store, tree)
    query = "select trajectory_id from trajectories where list_contains(tags, 'lats-best')"
    assert tree.best is not None
    assert store.query(query).read_all().column(0).to_pylist() == [tree.best.trajectory_id]
    assert json.loads(tree.best.metadata or "")["lats"]["best"] is True


def test_statistics_of_the_search_are_read_with_sql(store: Pool, tree: SearchTree) -> None:
    put(store, tree)
    query = """
        select distinct (metadata->'lats'->>'node') node, (metadata->'lats'->>'depth')::int depth,
            (metadata->'lats'->>'visits')::int visits, (metadata->'lats'->>'q')::double q
        from (select metadata::json metadata from steps where actor = 'agent') order by node"""
    found = store.query(query).read_all().to_pylist()
    nodes = [node for node in tree.root.walk() if node is not tree.root]
    assert {row["node"]: (row["depth"], row["visits"], row["q"]) for row in found} == {
        ".".join(map(str, node.path)): (node.depth, node.visits, node.q_search) for node in nodes
    }


def test_rtmc_gives_each_action_the_advantage_that_the_runs_of_the_tree_say(
    store: Pool, tree: SearchTree
) -> None:
    """Q(s, a) - V(s), both counted by hand over the judged runs that came through."""
    put(store, tree)
    credit = compute_credit(store, "rtmc", kappa=0)
    found = {(r["trajectory_id"], r["step_index"]): r for r in credit.rows.to_pylist()}
    judged = [run for run in tree.runs if run.reward is not None]
    assert len(found) == sum(len(doors(run)) for run in judged)
    for run in judged:
        for depth in range(len(doors(run))):
            here = [r for r in judged if doors(r)[:depth] == doors(run)[:depth]]
            same = [r for r in here if doors(r)[: depth + 1] == doors(run)[: depth + 1]]
            v, q = (sum(r.reward or 0 for r in rs) / len(rs) for rs in (here, same))
            row = found[run.trajectory_id, depth + 2]
            assert (row["v"], row["q"], row["value"]) == pytest.approx((v, q, q - v))


def test_q_of_rtmc_without_a_prior_is_q_of_the_search(store: Pool, tree: SearchTree) -> None:
    put(store, tree)
    credit = compute_credit(store, "rtmc", kappa=0)
    nodes = {run.trajectory_id: leaf for run, leaf in zip(tree.runs, _leaves(tree), strict=True)}
    for row in credit.rows.to_pylist():
        node = nodes[row["trajectory_id"]].line()[row["step_index"] - 1]
        assert row["q"] == pytest.approx(node.q_search)


def _leaves(tree: SearchTree) -> list[Any]:
    leaves = [node for node in tree.root.walk() if not node.children]
    return sorted(leaves, key=lambda leaf: leaf.run or 0)


def test_siblings_pair_by_their_q(store: Pool, tree: SearchTree) -> None:
    put(store, tree)
    options = StepPairOptions(policy="all_margin", margin=0.1)
    pairs, _ = build_pairs(store, options=options, step_values=["q_search"])
    found = sorted(
        (r["n_prompt_steps"], r["chosen_reward"], r["rejected_reward"]) for r in pairs.to_pylist()
    )
    expected = sorted(
        (node.depth + 2, one.q_search, other.q_search)
        for node in tree.root.walk()
        for one in node.children
        for other in node.children
        if one.q_search is not None
        and other.q_search is not None
        and one.q_search - other.q_search >= 0.1
    )
    assert expected
    assert found == [pytest.approx(row) for row in expected]


def test_siblings_pair_by_q_of_search_and_critic_together(store: Pool) -> None:
    """Agent Q: Q = alpha * Q_search + (1 - alpha) * Q_critic."""

    def critic(task: Any, messages: Any) -> float:
        del task
        return 0.9 if "right" in str(messages[-2]["tool_calls"]) else 0.2

    tree = lats(make, Gambler(0.5), TASK, options=replace(OPTIONS, critic=critic, expand=6))
    put(store, tree)
    options = StepPairOptions(policy="best_worst", margin=0.0)
    pairs, _ = build_pairs(store, options=options, step_values=["q_search", "q_critic"], alpha=0.25)
    (first,) = [r for r in pairs.to_pylist() if r["n_prompt_steps"] == 2]
    right, left = sorted(tree.root.children, key=lambda n: -(n.critic or 0))
    assert first["chosen_reward"] == pytest.approx(0.25 * (right.q_search or 0) + 0.75 * 0.9)
    assert first["rejected_reward"] == pytest.approx(0.25 * (left.q_search or 0) + 0.75 * 0.2)


def record(store: Pool, **options: Any) -> Any:
    return record_searches(
        store,
        WebShopEnvironment,
        [FreshSeeds(ScriptedShopper("hasty"))],
        shop_tasks(4, seed=1),
        options=SearchOptions(iterations=10, expand=3, reflect=first_error, **options),
    )


def test_trees_are_stored_once_with_their_lessons(store: Pool) -> None:
    first, again = record(store), record(store)
    (tally,) = first.policies.values()
    assert (first.added, again.added) == (tally.runs, 0)
    assert tally.attempts == 4
    query = """select (select count(*) from trajectories where list_contains(tags, 'lats')),
        (select count(*) from reflections where source = 'lats'),
        (select count(*) from labels where name = 'q_search')"""
    runs, lessons, values = store.query(query).read_all().to_pylist()[0].values()
    assert (runs, lessons > 0, values > runs) == (tally.runs, True, True)


def test_reflections_name_the_failed_run_they_speak_of(store: Pool) -> None:
    record(store)
    query = """select count(*) filter (not t.success) = count(*) as all_failed, count(*) > 0 as some
        from reflections r left join trajectories t using (trajectory_id)"""
    assert store.query(query).read_all().to_pylist() == [{"all_failed": True, "some": True}]


def test_progress_is_told_after_each_search(store: Pool) -> None:
    told: list[tuple[int, int]] = []
    record_searches(
        store,
        make,
        [Gambler(0.5)],
        [TASK, replace(TASK, task_id="doors/lll", answer="left left left")],
        options=OPTIONS,
        progress=lambda done, total: told.append((done, total)),
    )
    assert told == [(1, 2), (2, 2)]
