"""Workflows by rule: against a naive count, hand-worked contrasts, and recorded runs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trajstore import Label, Pool, Step, ToolCall, Trajectory
from trajstore.memory import RuleOptions, Workflows, induce_workflows, retract
from trajstore.memory.workflow_arguments import steps_with_variables
from trajstore.memory.workflow_grams import Calls, frequent_grams
from trajstore.schema import finish


def run(
    name: str, task: str, tools: Sequence[str | tuple[str, object]], *, success: bool | None = True
) -> Trajectory:
    """A run of one call a step; a tool with its arguments, or its name alone."""
    pairs = [(t, {}) if isinstance(t, str) else t for t in tools]
    calls = [ToolCall.of(t, a, f"c{n}") for n, (t, a) in enumerate(pairs)]
    steps = tuple(Step(actor="agent", tool_calls=(call,)) for call in calls)
    return finish(
        Trajectory(
            trajectory_id=name,
            task_id=task,
            source="x",
            environment="shop",
            success=success,
            steps=steps,
        )
    )


def patterns(store: Pool, **options: object) -> dict[str, tuple[int, int, int]]:
    """Name -> successes, failures, tasks of every workflow that is found."""
    found = induce_workflows(store, options=RuleOptions(**options))  # type: ignore[arg-type]
    kept = [Workflows(store).get(i) for i in found.workflows]
    names = ("successes", "failures", "tasks")
    return {w.name: tuple(w.about[n] for n in names) for w in kept}


def test_what_successes_of_two_tasks_share_is_a_workflow(store: Pool) -> None:
    store.append(
        [
            run("a", "t1", ["search", "open", "buy"]),
            run("b", "t2", ["look", "search", "open", "buy"]),
            run("c", "t3", ["search", "leave"], success=False),
        ]
    )
    assert patterns(store) == {"search > open > buy": (2, 0, 2)}


def test_two_successes_of_one_task_are_not_enough(store: Pool) -> None:
    store.append([run("a", "t1", ["search", "open"]), run("b", "t1", ["search", "open"])])
    assert patterns(store) == {}
    assert patterns(store, support=1) == {"search > open": (2, 0, 1)}


@pytest.mark.parametrize(("failures", "kept"), [(1, 1), (2, 0)], ids=["half", "less"])
def test_the_contrast_with_failures_decides(failures: int, kept: int, store: Pool) -> None:
    # 3 successes and 1 failure: (3 - 1) / 4 = 0.5, which is enough; 2 failures: 0.2.
    store.append(run(f"s{n}", f"t{n}", ["search", "open"]) for n in range(3))
    store.append(run(f"f{n}", "t0", ["search", "open"], success=False) for n in range(failures))
    found = induce_workflows(store)
    assert len(found.workflows) == kept
    assert found.left_out == ({} if kept else {"no contrast with failures": 1})


def test_a_run_whose_outcome_is_unknown_counts_for_neither(store: Pool) -> None:
    store.append(run(n, n, ["search", "open"], success=None) for n in "abc")
    assert induce_workflows(store).runs == 0
    store.label(Label(trajectory_id=n, name="outcome", success=True, evaluator="e") for n in "ab")
    assert patterns(store) == {"search > open": (2, 0, 2)}


def test_a_pattern_inside_a_longer_one_as_frequent_is_left_out(store: Pool) -> None:
    store.append(
        [
            run("a", "t1", ["x", "y", "z"]),
            run("b", "t2", ["x", "y", "z"]),
            run("c", "t3", ["x", "y"]),
        ]
    )
    # y > z is in as many successes as x > y > z; x > y is in one more.
    assert patterns(store) == {"x > y": (3, 0, 3), "x > y > z": (2, 0, 2)}


def test_calls_of_two_runs_never_make_one_pattern(store: Pool) -> None:
    store.append(run(n, n, ["y", "x"] if n in "ac" else ["x", "z"]) for n in "abcd")
    assert patterns(store) == {"x > z": (2, 0, 2), "y > x": (2, 0, 2)}


def test_one_tool_again_and_again_is_no_workflow(store: Pool) -> None:
    store.append(run(n, n, ["bash"] * 4) for n in "ab")
    found = induce_workflows(store)
    assert found.workflows == ()
    assert found.left_out == {"one tool repeated": 3}


def test_copied_context_is_not_counted(store: Pool) -> None:
    for name in "ab":
        one = run(name, name, ["search", "open"])
        store.append(
            Trajectory(
                trajectory_id=name,
                task_id=name,
                source="x",
                success=True,
                steps=tuple(
                    Step(actor=s.actor, tool_calls=s.tool_calls, is_copied=True) for s in one.steps
                ),
            )
        )
    assert induce_workflows(store).runs == 0


Run = tuple[str, bool, list[str]]
Counts = dict[tuple[str, ...], tuple[int, int, int, bool]]


def naive(runs: Sequence[Run], longest: int) -> Counts:
    """Gram -> successes, failures, tasks, closed; one run after another."""
    won: dict[tuple[str, ...], set[int]] = defaultdict(set)
    lost: dict[tuple[str, ...], set[int]] = defaultdict(set)
    for number, (_, success, tools) in enumerate(runs):
        for length in range(1, longest + 1):
            for at in range(len(tools) - length + 1):
                (won if success else lost)[tuple(tools[at : at + length])].add(number)
    counts = {}
    for gram, numbers in won.items():
        tasks = len({runs[n][0] for n in numbers})
        longer = [g for g in won if len(g) == len(gram) + 1 and gram in (g[1:], g[:-1])]
        closed = all(len(won[g]) < len(numbers) for g in longer)
        if tasks > 1:
            counts[gram] = (len(numbers), len(lost[gram]), tasks, closed)
    return counts


def by_columns(runs: Sequence[Run], longest: int) -> Counts:
    """The same, as the module counts it."""
    lengths = [len(tools) for _, _, tools in runs]
    tools = pa.array([t for _, _, listed in runs for t in listed], pa.string()).dictionary_encode()
    starts = [sum(lengths[:n]) for n in range(len(runs))]
    calls = Calls(
        run=pa.array([n for n, length in enumerate(lengths) for _ in range(length)], pa.int64()),
        tool=tools.indices.cast(pa.int64()),
        names=tools.dictionary,
        success=pa.array([success for _, success, _ in runs], pa.bool_()),
        task=pa.array([task for task, _, _ in runs], pa.string()).dictionary_encode().indices,
        ids=pa.array([str(n) for n in range(len(runs))], pa.string()),
        start=pa.array(starts, pa.int64()),
    )
    levels = list(frequent_grams(calls, longest=longest, support=2))
    flat = [t for _, _, listed in runs for t in listed]
    counts = {}
    for level, longer in zip(levels, [*levels[1:], None], strict=False):
        closed = level.closed(longer).to_pylist()
        places = dict(zip(level.code.to_pylist(), level.at.to_pylist(), strict=True))
        for code, row in enumerate(level.table.to_pylist()):
            gram = tuple(flat[places[code] : places[code] + level.length])
            counts[gram] = (row["successes"], row["failures"], row["tasks"], closed[code])
    return counts


RUNS = st.lists(
    st.tuples(
        st.sampled_from(["t1", "t2", "t3"]),
        st.booleans(),
        st.lists(st.sampled_from("abc"), max_size=9),
    ),
    max_size=9,
)


@settings(max_examples=60, deadline=None)
@given(runs=RUNS)
def test_the_columns_count_as_a_naive_loop_does(runs: list[Run]) -> None:
    found, expected = by_columns(runs, 4), naive(runs, 4)
    longest = {g: c[:3] for g, c in found.items() if len(g) == 4}
    assert longest == {g: c[:3] for g, c in expected.items() if len(g) == 4}
    assert {g: c for g, c in found.items() if len(g) < 4} == {
        g: c for g, c in expected.items() if len(g) < 4
    }


# --- variables -------------------------------------------------------------------------------


def test_what_differs_is_a_variable_and_what_does_not_stays() -> None:
    steps = steps_with_variables(
        ["find", "open"],
        [
            ['{"name":"Ann","limit":5}', '{"id":7,"by":"Ann"}'],
            ['{"name":"Bob","limit":5}', '{"id":9,"by":"Bob"}'],
        ],
    )
    assert steps == [
        {"tool": "find", "arguments": {"limit": 5, "name": "{name}"}, "variables": ["name"]},
        {"tool": "open", "arguments": {"by": "{name}", "id": "{id}"}, "variables": ["name", "id"]},
    ]


def test_two_values_under_one_name_are_two_variables() -> None:
    steps = steps_with_variables(
        ["get", "get"], [['{"id":1}', '{"id":2}'], ['{"id":3}', '{"id":4}']]
    )
    assert [s["arguments"] for s in steps] == [{"id": "{id}"}, {"id": "{id_2}"}]


@pytest.mark.parametrize(
    ("supports", "arguments"),
    [
        ([['{"a":1}'], ["{}"]], {"a": "{a}"}),
        ([['{"a":{"b":[1,2]}}'], ['{"a":{"b":[1,2]}}']], {"a": {"b": [1, 2]}}),
        ([['"ls"'], ['"pwd"']], {"input": "{input}"}),
        ([[None], [None]], {}),
        ([['{"a":null}'], ["{}"]], {"a": "{a}"}),
    ],
    ids=["missing in one", "nested", "no object", "none", "null is not missing"],
)
def test_arguments_are_compared_as_values(
    supports: list[list[str | None]], arguments: dict[str, object]
) -> None:
    assert steps_with_variables(["t"], supports)[0]["arguments"] == arguments


def test_brackets_and_commas_in_an_argument_do_not_mislead(store: Pool) -> None:
    # agent-workflow-memory cut calls at the first '(' and ',': fill('12', 'a, b (c)').
    for name, value in (("a", "a, b (c)"), ("b", "d), e")):
        calls = [("fill", {"id": "12", "text": value}), ("click", {"id": "(13"})]
        store.append(run(name, name, calls))
    (found,) = induce_workflows(store).workflows
    steps = Workflows(store).get(found).steps
    assert [s["arguments"] for s in steps] == [{"id": "12", "text": "{text}"}, {"id": "(13"}]


def test_the_first_place_in_each_run_gives_the_arguments(store: Pool) -> None:
    for name in "ab":
        calls = [("x", {"n": 0}), ("y", {"n": 1}), ("x", {"n": 8}), ("y", {"n": 9})]
        store.append(run(name, name, calls))
    found = induce_workflows(store, options=RuleOptions(longest=2))
    (first,) = [w for w in map(Workflows(store).get, found.workflows) if w.name == "x > y"]
    assert [s["arguments"] for s in first.steps] == [{"n": 0}, {"n": 1}]


# --- keeping ---------------------------------------------------------------------------------


def test_inducing_again_adds_nothing(store: Pool) -> None:
    store.append(run(n, n, ["search", "open"]) for n in "ab")
    first, again = induce_workflows(store), induce_workflows(store)
    assert first.added == 1
    assert (again.workflows, again.added) == (first.workflows, 0)


def test_a_run_that_is_taken_back_makes_it_stale_until_it_is_made_anew(store: Pool) -> None:
    store.append(run(n, n, ["search", "open"]) for n in "abc")
    induce_workflows(store)
    assert retract(store, ["a"], because="it cheated").stale["workflows"] == 1
    assert Workflows(store).all() == []
    assert [w.state for w in Workflows(store).all(every=True)] == ["stale"]
    induce_workflows(store, where="trajectory_id <> 'a'")
    (kept,) = Workflows(store).all()
    assert kept.trajectory_ids == ("b", "c")


def test_when_every_run_is_taken_back_it_is_out_for_good(store: Pool) -> None:
    store.append(run(n, n, ["search", "open"]) for n in "ab")
    induce_workflows(store)
    assert retract(store, ["a", "b"], because="wrong").retired["workflows"] == 1
    induce_workflows(store)
    assert Workflows(store).all() == []


def test_the_most_cuts_and_says_so(store: Pool) -> None:
    store.append(run(n, n, ["a", "b"]) for n in "xyz")
    store.append(run(n, n, ["c", "d"]) for n in "uv")
    found = induce_workflows(store, options=RuleOptions(most=1))
    assert [Workflows(store).get(i).name for i in found.workflows] == ["a > b"]
    assert found.left_out == {"beyond the most": 1}


def test_a_store_without_calls_has_no_workflows(store: Pool) -> None:
    assert induce_workflows(store).workflows == ()
    store.append(Trajectory(trajectory_id="a", task_id="t", source="x", success=True))
    assert induce_workflows(store).workflows == ()


def test_recorded_airline_runs_have_workflows(store: Pool, real_data: Path) -> None:
    # Counted by an SQL query of its own: runs that have the two calls one behind the other.
    store.import_files(real_data / "tau_bench")
    found = patterns(store)
    count = """
        WITH pairs AS (
            SELECT trajectory_id, name, lead(name) OVER (
                PARTITION BY trajectory_id ORDER BY step_index, call_index) AS behind
            FROM tool_calls WHERE actor = 'agent' AND NOT is_copied)
        SELECT count(DISTINCT trajectory_id) FILTER (success),
            count(DISTINCT trajectory_id) FILTER (NOT success),
            count(DISTINCT task_id) FILTER (success)
        FROM pairs JOIN trajectories USING (trajectory_id)
        WHERE name = 'get_reservation_details' AND behind = 'transfer_to_human_agents'"""
    name = "get_reservation_details > transfer_to_human_agents"
    assert [found[name]] == store.sql(count).fetchall() == [(23, 5, 9)]


def test_reflexion_trials_without_steps_have_none(store: Pool, real_data: Path) -> None:
    store.import_files(real_data / "reflexion" / "alfworld" / "reflexion_run_logs")
    assert induce_workflows(store).runs == 0
