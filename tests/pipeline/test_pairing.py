"""Pairs, groups and credit over a store: the same as over its tables, at one snapshot."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from tests.pairs.worlds import run, sides, tables, turn
from trajstore import Pool
from trajstore.errors import PairError, QueryError
from trajstore.filters import Selection, stage
from trajstore.pairs import (
    GroupOptions,
    RunRules,
    StepPairOptions,
    TrajectoryPairOptions,
    group_advantages,
    rtmc_advantages,
    step_pairs,
    trajectory_pairs,
    turn_keys,
    turn_source,
)
from trajstore.pipeline import pairing_input
from trajstore.pipeline.pairing import build_groups, build_pairs, compute_credit, write_credit
from trajstore.pipeline.selecting import select
from trajstore.schema import Label, Observation, Step, ToolCall, Trajectory


def runs() -> list[Trajectory]:
    """Two tasks, three runs each, two of which share their first turn."""
    found = []
    for task in ("t", "u"):
        for n, reward in enumerate((1, 0, 0.5)):
            first = turn("look(.)", "o" if n < 2 else "p")
            made = run(f"{task}{n}", first, f"act({n})", reward=reward, task=task)
            found.append(replace(made, tools='[{"name":"look"}]', goal="Do it."))
    return found


@pytest.fixture
def store(pool: Pool) -> Pool:
    pool.append(runs())
    return pool


def step_word(run_id: str, name: str, value: float) -> Label:
    return Label(trajectory_id=run_id, step_index=3, name=name, value=value, evaluator="critic")


def test_pairs_of_a_store_are_those_of_its_tables(store: Pool) -> None:
    options = TrajectoryPairOptions(policy="all_margin")
    pairs, report = build_pairs(store, options=options)
    expected, told = trajectory_pairs(*tables(runs()), options=options)
    assert pairs.num_rows == 6
    assert pairs == expected
    assert report.as_dict() == told.as_dict()


def test_turn_keys_of_a_store_are_those_of_its_tables(pool: Pool) -> None:
    """Steps that lie flat on disk have the keys of the lists that they were made of."""
    call, other = ToolCall.of("f", {"x": 1}, "c"), ToolCall.of("g", {}, None)
    broken = ToolCall(name="f", arguments_raw="{no json")
    calls = [(), (call,), (other,), (broken,), (call, other)]
    named, nameless = Observation(call_id="c", text="a"), Observation(text="in /tmp/x")
    parts = Observation(text=None, content='[{"type":"text"}]')
    results = [(), (named,), (nameless,), (parts,), (named, nameless)]
    steps = [
        Step(actor=actor, text="Say it.", tool_calls=made, observations=came)
        for actor in ("agent", "user")
        for made in calls
        for came in results
    ]
    made = run("r", *steps)
    pool.append([made])
    source = pairing_input.pairing_input(pool, None, None, None, ()).turns
    assert turn_keys(source) == turn_keys([made])
    found, expected = (
        pa.table(s(pa.array(["r"]), 60)).sort_by("step_index").column("digest")
        for s in (source.digests, turn_source([made]).digests)
    )
    assert found == expected


def test_only_the_columns_that_are_asked_for_are_read(store: Pool) -> None:
    source = pairing_input.pairing_input(store, None, None, None, ()).turns
    turns = source.turns(None, ("step_index", "own"))
    assert turns.schema.names == ["step_index", "own"]


def test_the_kind_of_options_says_the_level(store: Pool) -> None:
    pairs, _ = build_pairs(store, options=StepPairOptions())
    assert pairs == step_pairs(*tables(runs()))[0]
    assert sides(pairs) == [("t0", "t1"), ("u0", "u1")]


def test_a_condition_says_which_runs(store: Pool) -> None:
    pairs, report = build_pairs(store, where="task_id = 't'")
    assert sides(pairs) == [("t0", "t1")]
    assert report.runs == 3


def test_a_selection_says_which_runs_and_brings_its_columns(store: Pool) -> None:
    chosen = select(store, [stage("where", condition="reward <> 0")])
    pairs, _ = build_pairs(store, chosen)
    assert sides(pairs) == [("t0", "t2"), ("u0", "u2")]
    split = chosen.rows.append_column("split", [["train", "val"] * 2])
    within = TrajectoryPairOptions(runs=RunRules(within=("split",)))
    assert build_pairs(store, replace(chosen, rows=split), options=within)[0].num_rows == 0


def test_a_selection_gives_the_same_pairs_as_its_condition(store: Pool) -> None:
    chosen = select(store, [stage("where", condition="task_id = 't'")])
    assert build_pairs(store, chosen)[0] == build_pairs(store, where="task_id = 't'")[0]


def test_the_snapshot_of_the_selection_is_read(store: Pool) -> None:
    chosen = select(store, [])
    store.label([Label(trajectory_id="t0", value=0.0, success=False, evaluator="human")])
    assert sides(build_pairs(store, chosen)[0]) == [("t0", "t1"), ("u0", "u1")]
    assert sides(build_pairs(store)[0]) == [("t2", "t0"), ("u0", "u1")]
    assert sides(build_pairs(store, at=chosen.snapshot)[0]) == [("t0", "t1"), ("u0", "u1")]


def test_the_effective_outcome_counts(store: Pool) -> None:
    """An outcome that came late makes an unknown run a side of a pair."""
    store.append([run("t9", "late(1)", reward=None, task="t", tools=runs()[0].tools)])
    assert "t9" in build_pairs(store)[1].run_drops.column("trajectory_id").to_pylist()
    store.label([Label(trajectory_id="t9", value=2.0, success=True, evaluator="human")])
    assert sides(build_pairs(store, where="task_id = 't'")[0]) == [("t9", "t1")]


def test_labels_of_the_store_may_be_the_criterion(store: Pool) -> None:
    words = [
        Label(trajectory_id=i, name="taste", value=v, evaluator=e)
        for i, v, e in (("t0", 1, "a"), ("t0", 5, "b"), ("t1", 3, "a"))
    ]
    store.label(words)
    options = TrajectoryPairOptions(runs=RunRules(criterion="label:taste"))
    store.rank_evaluators(["a"])
    assert sides(build_pairs(store, options=options)[0]) == [("t1", "t0")]
    store.rank_evaluators(["b"])
    assert sides(build_pairs(store, options=options)[0]) == [("t0", "t1")]


def test_an_unknown_criterion_is_answered_with_the_labels_that_are_there(store: Pool) -> None:
    store.label([Label(trajectory_id="t0", name="taste", value=1, evaluator="a")])
    options = TrajectoryPairOptions(runs=RunRules(criterion="tatse"))
    with pytest.raises(PairError, match=r"no criterion 'tatse'.*\(taste\)"):
        build_pairs(store, options=options)


def test_a_label_named_as_a_column_is_named_so_that_it_can_be_asked_for(store: Pool) -> None:
    store.label([Label(trajectory_id="t0", name="reward", value=1, evaluator="a")])
    options = TrajectoryPairOptions(runs=RunRules(criterion="turn-budget"))
    with pytest.raises(PairError, match=r"\(label:reward\)"):
        build_pairs(store, options=options)


def test_step_labels_may_be_the_value_of_actions(store: Pool) -> None:
    store.label([step_word("t0", "q", 0.1), step_word("t1", "q", 0.9)])
    pairs, _ = build_pairs(store, options=StepPairOptions(), step_values=["q"])
    assert sides(pairs) == [("t1", "t0")]


def test_two_step_labels_are_blended(store: Pool) -> None:
    """.25 * 0 + .75 * 1 against .25 * 1 + .75 * 0."""
    store.label([step_word("t0", "search", 0), step_word("t0", "critic", 1)])
    store.label([step_word("t1", "search", 1), step_word("t1", "critic", 0)])
    pairs, _ = build_pairs(
        store, options=StepPairOptions(), step_values=["search", "critic"], alpha=0.25
    )
    (row,) = pairs.to_pylist()
    assert (row["chosen_id"], row["chosen_reward"], row["rejected_reward"]) == ("t0", 0.75, 0.25)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"step_values": ["q"]}, "need options of the step level"),
        ({"options": StepPairOptions(), "step_values": ["q"]}, "No step has a label 'q'.*: none"),
        ({"options": StepPairOptions(), "step_values": ["a", "b", "c"]}, "one or two names"),
    ],
)
def test_step_values_that_cannot_be_used_are_refused(
    store: Pool, arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(PairError, match=message):
        build_pairs(store, **arguments)


def test_a_selection_and_a_condition_at_once_are_refused(store: Pool) -> None:
    with pytest.raises(PairError, match="not both"):
        build_pairs(store, select(store, []), where="true")


def test_a_condition_that_does_not_fit_is_told(store: Pool) -> None:
    with pytest.raises(QueryError, match="nonsense"):
        build_pairs(store, where="nonsense = 1")


def test_a_selection_of_another_store_is_refused(store: Pool) -> None:
    foreign = select(store, []).rows.slice(0, 1)
    foreign = foreign.set_column(0, "trajectory_id", [["elsewhere"]])
    with pytest.raises(PairError, match="1 of the selected trajectories are not in snapshot"):
        build_pairs(store, Selection(rows=foreign))


def test_many_ids_are_read_in_one_scan_and_give_the_same(
    store: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = build_pairs(store, select(store, []))[0]
    monkeypatch.setattr(pairing_input, "_MOST_IDS", 1)
    assert build_pairs(store, select(store, []))[0] == few
    monkeypatch.setattr(pairing_input, "_MOST_IDS", 100)
    monkeypatch.setattr(pairing_input, "_IDS_A_QUERY", 1)
    assert build_pairs(store, select(store, []))[0] == few


def test_prompts_have_the_same_digest_from_a_store_and_from_tables(store: Pool) -> None:
    pairs, _ = build_pairs(store.reader())
    digests = set(pairs.column("prompt_digest").to_pylist())
    expected = trajectory_pairs(*tables(runs()))[0].column("prompt_digest").to_pylist()
    assert digests == set(expected)


def test_an_empty_store_gives_empty_tables(pool: Pool) -> None:
    assert build_pairs(pool)[0].num_rows == 0
    assert build_pairs(pool, options=StepPairOptions())[0].num_rows == 0
    assert build_groups(pool)[0].num_rows == 0
    assert compute_credit(pool, "rtmc").rows.num_rows == 0


def test_groups_of_a_store_are_those_of_its_rows(store: Pool) -> None:
    groups, report = build_groups(store)
    assert groups == group_advantages(tables(runs())[0])[0]
    assert report.sizes == {3: 2}


def test_groups_may_be_by_any_column_of_the_view(store: Pool) -> None:
    options = GroupOptions(by=("task_id", "environment_version"))
    assert build_groups(store, options=options)[1].groups == 2


def test_credit_is_computed_and_written_as_labels_once(store: Pool) -> None:
    credit = compute_credit(store, "returns", gamma=0.5)
    first, again = write_credit(store, credit), write_credit(store, credit)
    assert (first.labels, first.already) == (12, 0)
    assert (again.labels, again.already) == (0, 12)
    where = "where name = 'return' and trajectory_id = 't0'"
    query = f"select value from labels {where} order by step_index"
    assert store.sql(query).fetchall() == [(0.5,), (1.0,)]


def test_credit_with_other_parameters_stands_beside_it(store: Pool) -> None:
    write_credit(store, compute_credit(store, "returns", gamma=0.5))
    report = write_credit(store, compute_credit(store, "returns", gamma=0.9))
    assert report.labels == 12
    assert report.method == 'returns/1 {"criterion":"reward","gamma":0.9,"source":"auto"}'


def test_computed_credit_never_changes_the_outcome(store: Pool) -> None:
    before = store.sql("select success, reward from trajectories order by trajectory_id").fetchall()
    for method in ("returns", "rtmc", "turn_advantages", "pivots", "groups"):
        write_credit(store, compute_credit(store, method))
    query = "select success, reward from trajectories order by trajectory_id"
    assert store.sql(query).fetchall() == before


def test_state_credit_of_a_store_is_that_of_its_tables(store: Pool) -> None:
    expected = rtmc_advantages(*tables(runs()), kappa=0)
    found = compute_credit(store, "rtmc", kappa=0)
    assert found.rows == expected.rows
    assert found.version == expected.version


def test_sub_goals_come_from_step_labels(store: Pool) -> None:
    store.label(
        [
            Label(trajectory_id="t1", step_index=2, name="subgoal", success=True, evaluator="c"),
            Label(trajectory_id="t1", step_index=3, name="subgoal", success=False, evaluator="c"),
        ]
    )
    found = compute_credit(store, "subgoals").rows.to_pylist()
    assert [(f["step_index"], f["value"]) for f in found] == [(2, 0.2), (3, -0.2)]


def test_credit_of_the_runs_of_a_condition(store: Pool) -> None:
    found = compute_credit(store, "groups", where="task_id = 'u'", variant="dr_grpo")
    assert found.rows.column("value").to_pylist() == pytest.approx([0.5, -0.5, 0.0])


@pytest.mark.parametrize(
    ("method", "parameters", "message"),
    [
        ("gae", {}, "no credit 'gae'; known are: returns, rtmc"),
        ("returns", {"gama": 1}, "'returns' has no parameter 'gama'; it takes: gamma, source"),
    ],
)
def test_unknown_credit_is_answered_with_the_known_kinds(
    store: Pool, method: Any, parameters: dict[str, Any], message: str
) -> None:
    with pytest.raises(PairError, match=message):
        compute_credit(store, method, **parameters)


def test_a_deleted_run_is_in_no_pair(store: Pool) -> None:
    store.delete("trajectory_id = 't1'")
    assert sides(build_pairs(store, where="task_id = 't'")[0]) == [("t0", "t2")]


def test_steps_of_a_user_do_not_become_actions(store: Pool) -> None:
    talk = (turn("x(1)", "o"), Step(actor="user", text="go on"), turn("y(1)", "o"))
    store.append([run("v0", *talk, task="v", reward=1), run("v1", "z(1)", task="v")])
    found = compute_credit(store, "returns", where="task_id = 'v'").rows
    assert found.column("step_index").to_pylist() == [2, 4, 2]
