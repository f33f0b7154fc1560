"""Pairs of next actions, by the worked trie of the design."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.pairs.worlds import START, run, sides, stepwise, tables, turn
from trajstore.errors import PairError
from trajstore.pairs import PAIR_SCHEMA, blended_values, label_values, step_pairs
from trajstore.schema import Label, Step, Trajectory, labels_to_arrow


def worked() -> list[Trajectory]:
    """B3: four runs; three begin with search(x), of which one sees something else."""
    return [
        run("r1", turn("search(x)", "o1"), turn("open(a)", "o2"), "edit(z)", reward=1),
        run("r2", turn("search(x)", "o1"), turn("open(b)", "o3")),
        run("r3", turn("search(x)", "o1'"), turn("open(b)", "o3")),
        run("r4", turn("ls(.)", "o4")),
    ]


def test_the_node_after_search_gives_the_only_pair_at_a_half() -> None:
    """At the root Q(search) = 1/3 and Q(ls) = 0; after search and o1, open(a) 1 and open(b) 0."""
    pairs, _ = stepwise(worked())
    (row,) = pairs.to_pylist()
    assert (row["chosen_id"], row["rejected_id"]) == ("r1", "r2")
    assert (row["chosen_step"], row["rejected_step"], row["n_prompt_steps"]) == (3, 3, 3)
    assert (row["chosen_reward"], row["rejected_reward"]) == (1.0, 0.0)


def test_the_root_pairs_at_a_margin_of_three_tenths() -> None:
    pairs, _ = stepwise(worked(), margin=0.3)
    (root,) = [p for p in pairs.to_pylist() if p["chosen_step"] == 2]
    assert (root["chosen_id"], root["rejected_id"]) == ("r1", "r4")
    assert root["chosen_reward"] == pytest.approx(1 / 3)
    assert root["margin"] == pytest.approx(1 / 3)


def test_a_node_with_a_single_action_gives_no_pair() -> None:
    pairs, _ = stepwise(worked(), margin=0.0)
    assert "r3" not in {p["rejected_id"] for p in pairs.to_pylist()}


def test_without_observations_open_a_has_one_run_and_open_b_two() -> None:
    """B3: open(a) 1 (n 1) against open(b) 0 (n 2)."""
    pairs, _ = stepwise(worked(), prefix="actions", least_runs=1)
    assert sides(pairs) == [("r1", "r2")]
    assert sides(stepwise(worked(), prefix="actions", least_runs=2)[0]) == []


def test_the_length_of_a_side_is_that_of_the_turn_without_what_came_back() -> None:
    long = run("good", turn("open(a)", "short", text="I open it."), reward=1)
    short = run("bad", turn("ls(.)", "a listing that is a good deal longer than the turn"))
    assert stepwise([long, short])[1].p_chosen_longer == 1.0


def test_a_task_gives_no_more_pairs_than_asked_for() -> None:
    pairs, report = stepwise(worked(), margin=0.3, max_pairs=1)
    assert (pairs.num_rows, report.pairs_dropped) == (1, {"task-cap": 1})


def test_an_action_needs_as_many_runs_as_asked_for() -> None:
    assert sides(stepwise(worked(), margin=0.3, least_runs=2)[0]) == []


def test_the_best_and_cheapest_run_stands_for_an_action() -> None:
    runs = [
        run("dear", turn("a(1)", "o"), "b(1)", "c(1)", reward=1),
        run("cheap", turn("a(1)", "o"), "d(1)", reward=1),
        run("failed", turn("a(1)", "o"), "e(1)"),
        run("other", "z(1)"),
    ]
    (row,) = [p for p in stepwise(runs)[0].to_pylist() if p["chosen_step"] == 2]
    assert (row["chosen_id"], row["rejected_id"]) == ("cheap", "other")
    assert row["chosen_reward"] == pytest.approx(2 / 3)


def test_what_is_said_beside_an_action_is_no_branch() -> None:
    runs = [
        run("a", turn("x(1)", "o", text="Let me see."), "y(1)", reward=1),
        run("b", turn("x(1)", "o", text="I look.", reasoning="Hm."), "z(1)"),
    ]
    (row,) = stepwise(runs)[0].to_pylist()
    assert row["n_prompt_steps"] == 3
    assert stepwise(runs, prefix="exact")[0].column("n_prompt_steps").to_pylist() == []


def test_an_action_in_words_is_compared_by_its_words() -> None:
    def says(text: str) -> Step:
        return Step(actor="agent", text=text)

    runs = [
        run("a", says("Which  day?"), "x(1)", reward=1),
        run("b", says("which day?"), "y(1)"),
        run("c", says("No."), "z(1)"),
    ]
    pairs, _ = stepwise(runs, margin=0.1)
    assert sides(pairs) == [("a", "b"), ("a", "c")]


def test_volatile_values_do_not_part_two_runs() -> None:
    runs = [
        run("a", turn("x(1)", "wrote /tmp/abc1/f at 2026-01-01 10:00:00"), "y(1)", reward=1),
        run("b", turn("x(1)", "wrote /tmp/zzz/f at 2026-01-02 11:00:00"), "z(1)"),
    ]
    assert stepwise(runs)[0].column("n_prompt_steps").to_pylist() == [3]


def test_another_visible_state_is_another_node() -> None:
    def at(folder: str, action: str) -> Step:
        return turn(action, state=f'{{"cwd":"{folder}"}}')

    runs = [run("a", at("/x", "y(1)"), reward=1), run("b", at("/z", "z(1)"))]
    assert stepwise(runs)[0].num_rows == 0


def test_what_the_user_says_in_between_is_part_of_the_prefix() -> None:
    def answered(name: str, words: str, reward: float) -> Trajectory:
        return run(
            name, turn("x(1)", "o"), Step(actor="user", text=words), f"y({name})", reward=reward
        )

    assert stepwise([answered("a", "yes", 1), answered("b", "yes", 0)])[0].num_rows == 1
    assert stepwise([answered("a", "yes", 1), answered("b", "no", 0)])[0].num_rows == 0


def test_copied_context_is_prefix_and_never_a_side() -> None:
    shown = turn("demo(1)", "o", is_copied=True)
    runs = [run("a", shown, "x(1)", reward=1), run("b", shown, "y(1)")]
    (row,) = stepwise(runs)[0].to_pylist()
    assert (row["chosen_step"], row["n_prompt_steps"]) == (3, 3)


def test_an_action_that_could_not_be_parsed_is_never_chosen() -> None:
    garbled = Step(actor="agent", text="<tool_call>{", format_error=True)
    pairs, report = stepwise([run("a", garbled, "x(1)", reward=1), run("b", "y(1)")])
    assert (pairs.num_rows, report.pairs_dropped) == (0, {"chosen-is-format-error": 1})


def test_four_runs_that_all_end_with_finish_pair_where_they_part() -> None:
    """Case 1: FINISH is on no side."""
    runs = [run(str(i), turn(f"look({i})", "o"), "finish()", reward=i == 0) for i in range(4)]
    pairs, _ = stepwise(runs, policy="all_margin")
    assert {p["chosen_step"] for p in pairs.to_pylist()} == {2}
    assert pairs.num_rows == 3


def test_runs_with_other_prompts_share_no_node() -> None:
    other = (Step(actor="system", text="You are terse."), START[1])
    report = stepwise([run("a", "x(1)", reward=1), run("b", "y(1)", start=other)])[1]
    assert report.tasks_dropped == {"prompts-differ": 1}


def test_zero_pairs_are_explained() -> None:
    """Which of the four reasons holds is told for each task."""

    def opening(words: str) -> tuple[Step, ...]:
        return (START[0], Step(actor="user", text=words))

    later = Step(actor="user", text="ok")
    bare = {"start": (), "goal": None}
    runs = [
        run("a0", "x(1)", later, reward=1, start=opening("Hi"), task="greeted"),
        run("a1", "y(1)", later, start=opening("Hello"), task="greeted"),
        run("b0", "x(1)", "y(1)", "z(1)", reward=1, task="same"),
        run("b1", "x(1)", "y(1)", task="same"),
        run("c0", "x(1)", reward=0.9, task="close"),
        run("c1", "y(1)", reward=0.8, task="close"),
        run("d0", turn("x(1)", state='"p"'), reward=1, task="bare", **bare),  # type: ignore[arg-type]
        run("d1", turn("y(1)", state='"q"'), task="bare", **bare),  # type: ignore[arg-type]
    ]
    report = stepwise(runs)[1]
    assert {d["task_id"]: d["reason"] for d in report.task_drops.to_pylist()} == {
        "greeted": "only-system-shared",
        "same": "no-branch",
        "close": "margin",
        "bare": "nothing-shared",
    }
    assert "no shared prefix beyond the system message" in report.explain()


def test_branches_of_a_search_tree_without_context_meet_at_their_parent() -> None:
    def child(name: str, parent: str, step: int, reward: float) -> Trajectory:
        return run(
            name,
            f"act({name})",
            start=(),
            reward=reward,
            parent_id=parent,
            parent_step=step,
            relation="branch",
        )

    tree = [child("a", "p", 1, 1), child("b", "p", 1, 0), child("c", "p", 2, 0)]
    assert sides(stepwise(tree)[0]) == [("a", "b")]


def q_values(name: str, *values: float) -> pa.Table:
    del name
    count = len(values)
    ids = [f"s{i}" for i in range(count)]
    return pa.table({"trajectory_id": ids, "step_index": [2] * count, "value": list(values)})


def siblings(count: int) -> list[Trajectory]:
    return [run(f"s{i}", f"act({i})", reward=None if i else 0.0) for i in range(count)]


def test_agent_q_blends_search_and_critic_half_and_half() -> None:
    """B3: .5 * .8 + .5 * .6 = .7."""
    blended = blended_values(q_values("search", 0.8), q_values("critic", 0.6))
    assert blended.column("value").to_pylist() == pytest.approx([0.7])


def test_siblings_pair_when_their_q_differs_by_the_threshold() -> None:
    values = q_values("blend", 0.7, 0.45, 0.1)
    runs = [replace(r, success=True, reward=1.0) for r in siblings(3)]
    pairs, _ = stepwise(runs, values, policy="all_margin", margin=0.3)
    assert sides(pairs) == [("s0", "s2"), ("s1", "s2")]
    assert pairs.column("margin").to_pylist() == pytest.approx([0.6, 0.35])


def test_given_values_need_no_contrast_of_outcomes_and_leave_other_steps_out() -> None:
    runs = [run("s0", "act(0)", reward=1), run("s1", "act(1)", reward=1), run("s2", "act(2)")]
    pairs, _ = stepwise(runs, q_values("q", 0.9, 0.1))
    assert sides(pairs) == [("s0", "s1")]


def test_the_newest_label_of_a_step_is_its_value() -> None:
    def word(step: int, value: float, day: int) -> Label:
        return Label(
            trajectory_id="s0",
            step_index=step,
            name="process",
            value=value,
            evaluator=f"e{day}",
            created_at=datetime(2026, 1, day, tzinfo=UTC),
        )

    labels = labels_to_arrow([word(2, 0.1, 1), word(2, 0.8, 2), word(3, 0.5, 1)])
    assert label_values(labels, "process").column("value").to_pylist() == [0.8, 0.5]
    with pytest.raises(
        PairError, match="No step has a label 'proces'; labels on steps are: process"
    ):
        label_values(labels, "proces")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"policy": "adjacent"}, "policy is 'adjacent'; known are: best_worst, all_margin"),
        ({"margin": float("nan")}, "margin is nan"),
        ({"least_runs": 0}, "least_runs is 0; it must be at least 1"),
    ],
)
def test_a_wrong_option_is_answered_with_the_right_ones(
    options: dict[str, object], message: str
) -> None:
    with pytest.raises(PairError, match=message):
        stepwise(worked(), **options)


def test_values_without_a_step_are_refused() -> None:
    with pytest.raises(PairError, match="lack the column 'step_index'"):
        stepwise(worked(), pa.table({"trajectory_id": ["r1"], "value": [1.0]}))
    with pytest.raises(PairError, match="alpha is 2"):
        blended_values(q_values("a", 1.0), q_values("b", 1.0), alpha=2)


def naive(
    runs: list[Trajectory], margin: float
) -> dict[tuple[str, ...], tuple[set[str], set[str]]]:
    """The same trie as nested dictionaries: prefix -> best actions, worst actions."""
    nodes: dict[tuple[str, ...], dict[str, list[float]]] = {}
    for one in runs:
        seen: tuple[str, ...] = ()
        for step in one.steps[len(START) :]:
            nodes.setdefault(seen, {}).setdefault(action_of(step), []).append(one.reward or 0.0)
            seen += (action_of(step), step.observations[0].text or "")
    found = {}
    for seen, actions in nodes.items():
        q = {a: sum(rewards) / len(rewards) for a, rewards in actions.items()}
        high, low = max(q.values()), min(q.values())
        if high - low >= margin:
            ends = ({a for a in q if q[a] == high}, {a for a in q if q[a] == low})
            found[seen] = ends
    return found


def action_of(step: Step) -> str:
    return f"{step.tool_calls[0].name} {step.tool_calls[0].arguments}"


ACTIONS = st.tuples(st.sampled_from("ab"), st.sampled_from("12"), st.sampled_from(["o", "p"]))
WALKS = st.lists(
    st.tuples(st.sampled_from([0.0, 1.0]), st.lists(ACTIONS, min_size=1, max_size=3)), max_size=7
)


@settings(max_examples=20, deadline=None)
@given(WALKS)
def test_the_pairs_are_those_of_a_trie_walked_node_by_node(
    walks: list[tuple[float, list[tuple[str, str, str]]]],
) -> None:
    runs = [
        run(f"r{i}", *(turn(f"{a}({b})", seen) for a, b, seen in walk), reward=reward)
        for i, (reward, walk) in enumerate(walks)
    ]
    unique = {r.source_digest: r for r in reversed(runs)}
    assume(all(unique[r.source_digest].reward == r.reward for r in runs))
    expected = naive(list(unique.values()), 0.5)
    known = {r.trajectory_id: r for r in runs}
    pairs = stepwise(runs)[0].to_pylist()
    places = set()
    for pair in pairs:
        chosen, rejected = known[pair["chosen_id"]], known[pair["rejected_id"]]
        place = pair["chosen_step"]
        before = chosen.steps[len(START) : place]
        seen = tuple(t for s in before for t in (action_of(s), s.observations[0].text or ""))
        best, worst = expected[seen]
        assert action_of(chosen.steps[place]) in best
        assert action_of(rejected.steps[place]) in worst
        places.add(seen)
    assert places == expected.keys()
    assert len(pairs) == len(places)


def test_rows_fit_the_schema_and_do_not_depend_on_the_order() -> None:
    rows, steps = tables(worked())
    pairs, _ = step_pairs(rows, steps)
    back = pa.array(list(range(steps.num_rows))[::-1])
    assert pairs.schema.equals(PAIR_SCHEMA)
    assert step_pairs(rows.take([3, 1, 0, 2]), steps.take(back))[0] == pairs
