"""Pairs of whole runs, by the worked numbers of the design and by what went wrong elsewhere."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.pairs.worlds import START, paired, run, sides, tables, turn
from trajstore.errors import PairError
from trajstore.pairs import PAIR_SCHEMA, RunRules, TrajectoryPairOptions, trajectory_pairs
from trajstore.schema import Label, Step, Trajectory

REWARDS = (1, 1, 0.6, 0.2, 0)
LENGTHS = (5, 9, 6, 12, 4)


def worked() -> list[Trajectory]:
    """Five runs of the worked example (B3): rewards 1, 1, .6, .2, 0 and 5, 9, 6, 12, 4 calls."""
    return [
        run(str(i), *(f"act{i}({n})" for n in range(length)), reward=reward)
        for i, (reward, length) in enumerate(zip(REWARDS, LENGTHS, strict=True))
    ]


def indices(**options: object) -> set[tuple[int, int]]:
    return {(int(c), int(r)) for c, r in sides(paired(worked(), **options)[0])}


def test_best_worst_is_the_default_and_gives_0_4() -> None:
    assert indices() == {(0, 4)}


def test_all_strictly_better_gives_9_pairs() -> None:
    assert len(indices(policy="all_margin")) == 9


def test_a_margin_of_a_half_leaves_5() -> None:
    expected = {(0, 3), (0, 4), (1, 3), (1, 4), (2, 4)}
    assert indices(policy="all_margin", margin=0.5) == expected


def test_a_margin_that_binary_fractions_miss_by_a_hair_is_met() -> None:
    assert (2, 3) in indices(policy="all_margin", margin=0.4)


def test_top_2_against_bottom_2() -> None:
    assert indices(policy="topk_bottomk", k=2) == {(0, 4), (0, 3), (1, 4), (1, 3)}


def test_adjacent_levels_go_down_by_their_cheapest_run() -> None:
    """Case 9: a > b > c > d as adjacent pairs."""
    assert indices(policy="adjacent") == {(0, 2), (2, 3), (3, 4)}


def test_a_length_ratio_of_one_and_a_half_keeps_5_of_the_9() -> None:
    expected = {(0, 2), (0, 4), (1, 2), (1, 3), (2, 4)}
    assert indices(policy="all_margin", length_ratio=1.5) == expected


def test_equal_rewards_pair_only_when_efficiency_breaks_the_tie() -> None:
    extra = indices(policy="all_margin", efficiency_tiebreak=True) - indices(policy="all_margin")
    assert extra == {(0, 1)}


def test_a_tie_broken_by_efficiency_has_margin_0() -> None:
    pairs, _ = paired(worked()[:2], policy="all_margin", efficiency_tiebreak=True)
    assert pairs.column("margin").to_pylist() == [0.0]


def test_a_short_failure_is_never_the_efficient_one() -> None:
    failures = [run("short", "a(1)"), run("long", "b(1)", "c(2)")]
    assert sides(paired(failures, policy="all_margin", efficiency_tiebreak=True)[0]) == []


def test_weights_are_1_over_the_pairs_of_the_task_and_share_a_group() -> None:
    """Case 9: one task with many pairs must not dominate."""
    other = [replace(r, task_id="u", trajectory_id=f"u{r.trajectory_id}") for r in worked()[3:]]
    pairs, _ = paired([*worked(), *other], policy="all_margin")
    rows = pairs.to_pylist()
    assert {p["weight"] for p in rows if p["task_id"] == "t"} == {1 / 9}
    assert [p["weight"] for p in rows if p["task_id"] == "u"] == [1.0]
    assert len({p["pair_group"] for p in rows}) == 2


def test_policy_and_parameters_stand_in_each_row() -> None:
    """Case 10."""
    pairs, _ = paired(worked(), policy="all_margin", margin=0.5)
    (row, *_) = pairs.to_pylist()
    parameters = json.loads(row["parameters"])
    assert (row["policy"], parameters["margin"]) == ("all_margin", 0.5)
    assert parameters["runs"]["criterion"] == "reward"


def test_rows_fit_the_schema_and_say_what_they_compare() -> None:
    pairs, _ = paired(worked())
    (row,) = pairs.to_pylist()
    assert pairs.schema.equals(PAIR_SCHEMA)
    expected = {"level": "trajectory", "chosen_reward": 1.0, "rejected_reward": 0.0, "margin": 1.0}
    assert row.items() >= expected.items()
    assert (row["chosen_step"], row["rejected_step"], row["n_prompt_steps"]) == (None, None, 2)
    assert row["same_start"] is True


def test_hard_negatives_take_the_loser_that_goes_along_longest() -> None:
    """B3: the hardest negative of r1 is r2, which shares one turn; r3 and r4 share none."""
    runs = [
        run("r1", turn("search(x)", "o1"), turn("open(a)", "o2"), "edit(z)", reward=1),
        run("r2", turn("search(x)", "o1"), turn("open(b)", "o3")),
        run("r3", turn("search(x)", "o1'"), turn("open(b)", "o3")),
        run("r4", turn("ls(.)", "o4")),
    ]
    assert sides(paired(runs, policy="hard_negatives")[0]) == [("r1", "r2")]


def test_hard_negatives_break_a_tie_by_the_higher_reward() -> None:
    runs = [run("a", "x(1)", reward=1), run("b", "y(1)", reward=0.1), run("c", "z(1)", reward=0.3)]
    assert sides(paired(runs, policy="hard_negatives")[0]) == [("a", "c")]


def test_four_runs_that_all_end_with_finish_still_pair() -> None:
    """Case 1: the same last action on both sides says nothing."""
    runs = [run(str(i), f"look({i})", "finish()", reward=i == 0) for i in range(4)]
    pairs, report = paired(runs, policy="all_margin")
    assert sides(pairs) == [("0", "1"), ("0", "2"), ("0", "3")]
    assert report.pairs_dropped == {}


def test_no_pair_says_how_many_were_dropped_and_why() -> None:
    """Case 1: two runs that do the very same differ in reward by luck alone."""
    pairs, report = paired([run("a", "x(1)", reward=1), run("b", turn("x(1)", call_id="other"))])
    assert pairs.num_rows == 0
    assert report.runs_dropped == {"contradicting-duplicate": 2}
    assert report.tasks_dropped == {"no-runs-left": 1}


def test_a_denied_task_is_in_no_pair_and_counted() -> None:
    """Case 11: a planted instance, named by task, by its hash, by run or by content."""
    planted = run("b", "y(1)")
    runs = [run("a", "x(1)", reward=1), planted]
    hashed = hashlib.sha256(b"t").hexdigest()
    for name, count in (("t", 2), (hashed, 2), ("b", 1), (planted.source_digest, 1)):
        pairs, report = paired(runs, runs=RunRules(deny=(str(name),)))
        assert (pairs.num_rows, report.runs_dropped) == (0, {"denied": count})


def test_asking_for_a_denied_task_fails() -> None:
    """Case 11: the build fails when asked to include one."""
    with pytest.raises(PairError, match="tasks t are asked for and on the deny-list"):
        paired([run("a", "x(1)")], runs=RunRules(tasks=("t",), deny=("t",)))


def test_a_selection_with_a_denied_run_can_be_made_to_fail() -> None:
    """Case 11."""
    with pytest.raises(PairError, match="Runs of 1 tasks are on the deny-list: t"):
        paired([run("a", "x(1)")], runs=RunRules(deny=("t",), denied="fail"))


def test_only_the_tasks_that_are_asked_for_pair() -> None:
    other = [replace(r, task_id="u", trajectory_id=f"u{r.trajectory_id}") for r in worked()]
    pairs, report = paired([*worked(), *other], runs=RunRules(tasks=("u",)))
    assert set(pairs.column("task_id").to_pylist()) == {"u"}
    assert report.runs_dropped == {"other-task": 5}


def test_pairs_with_the_same_actions_collapse() -> None:
    """Case 11: near-identical pairs; what came back and what was said differ a little."""
    runs = [
        run("a", turn("x(1)", "at 10"), reward=1),
        run("b", turn("x(1)", "at 11"), reward=1),
        run("c", turn("y(1)", "no")),
    ]
    pairs, report = paired(runs, policy="all_margin")
    assert sides(pairs) == [("a", "c")]
    assert report.pairs_dropped == {"near-identical": 1}


def test_copies_of_one_attempt_never_pair_with_themselves() -> None:
    """Reflexion prints a solved attempt again in every later trial."""
    copies = [run(f"copy{i}", "x(1)", reward=1) for i in range(3)]
    pairs, report = paired([*copies, run("z", "y(1)")], policy="all_margin")
    assert sides(pairs) == [("copy0", "z")]
    assert report.runs_dropped == {"duplicate": 2}


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"status": "error"}, "error"),
        ({"status": "running"}, "running"),
        ({"tags": ("mask_sample",)}, "mask-sample"),
        ({"success": None, "reward": None}, "unknown-outcome"),
    ],
)
def test_what_must_not_be_trained_on_is_left_out_and_counted(
    changes: dict[str, object], reason: str
) -> None:
    runs = [run("a", "x(1)", reward=1), run("b", "y(1)"), replace(run("c", "z(1)"), **changes)]  # type: ignore[arg-type]
    pairs, report = paired(runs, policy="all_margin")
    assert sides(pairs) == [("a", "b")]
    assert report.runs_dropped == {reason: 1}
    assert report.run_drops.to_pylist() == [
        {"task_id": "t", "trajectory_id": "c", "reason": reason}
    ]


def test_an_error_that_nobody_judged_stays_unknown_whatever_its_reward() -> None:
    broken = replace(run("b", "y(1)"), status="error", success=None, reward=0.0)
    report = paired([run("a", "x(1)", reward=1), broken], runs=RunRules(errors=True))[1]
    assert report.runs_dropped == {"unknown-outcome": 1}


@pytest.mark.parametrize(
    ("truncated", "expected"),
    [
        ("rejected-only", [("good", "cut0"), ("good", "bad")]),
        ("keep", [("good", "cut0"), ("good", "bad"), ("cut1", "cut0"), ("cut1", "bad")]),
        ("drop", [("good", "bad")]),
    ],
)
def test_a_run_that_was_cut_off_is_rejected_only_unless_told_otherwise(
    truncated: str, expected: list[tuple[str, str]]
) -> None:
    runs = [
        run("good", "x(1)", reward=1),
        run("bad", "y(1)"),
        run("cut0", "z(1)", status="truncated"),
        run("cut1", "w(1)", reward=1, status="truncated"),
    ]
    pairs, report = paired(runs, policy="all_margin", runs=RunRules(truncated=truncated))  # type: ignore[arg-type]
    assert sides(pairs) == sorted(expected)
    assert report.rejected_only == (2 if truncated == "rejected-only" else 0)


def test_a_task_whose_better_runs_were_cut_off_says_so() -> None:
    runs = [run("a", "x(1)", reward=1, status="truncated"), run("b", "y(1)")]
    assert paired(runs)[1].tasks_dropped == {"no-winner": 1}


def test_reward_and_verdict_that_contradict_give_no_pair() -> None:
    """A late verdict may overrule a success whose reward stayed 1."""
    overruled = replace(run("a", "x(1)", reward=1), success=False)
    report = paired([overruled, run("b", "y(1)", reward=0.5, success=True)])[1]
    assert report.pairs_dropped == {"contradiction": 1}


def test_two_scales_never_meet_in_one_task() -> None:
    """Rewards -1 and 1 beside verdicts without a reward: the verdicts decide for the task."""
    runs = [
        run("won", "x(1)", reward=1),
        replace(run("lost", "y(1)", reward=-1), success=False),
        replace(run("failed", "z(1)"), reward=None, success=False),
    ]
    pairs, _ = paired(runs, policy="all_margin")
    assert sides(pairs) == [("won", "failed"), ("won", "lost")]
    assert set(pairs.column("rejected_reward").to_pylist()) == {0.0}


def test_pairs_can_be_kept_inside_one_model() -> None:
    runs = [
        run("a", "x(1)", reward=1, model="s"),
        run("b", "y(1)", model="l"),
        run("c", "z(1)", model="s"),
    ]
    assert paired(runs, policy="all_margin")[1].other_policy == 1
    pairs, report = paired(runs, policy="all_margin", runs=RunRules(within=("model",)))
    assert sides(pairs) == [("a", "c")]
    assert report.other_policy == 0


def test_one_run_no_contrast_and_no_runs_are_told_apart() -> None:
    runs = [
        run("a", "x(1)", task="one"),
        *(run(f"b{i}", f"x({i})", task="equal") for i in range(2)),
        run("c", "x(1)", task="unknown", reward=None),
        *(run(f"d{i}", f"x({i})", task="close", reward=i / 10) for i in range(2)),
    ]
    drops = paired(runs, margin=0.5)[1].task_drops.to_pylist()
    found = {d["task_id"]: (d["reason"], d["runs"]) for d in drops}
    assert found == {
        "one": ("one-run", 1),
        "equal": ("no-contrast", 2),
        "unknown": ("no-runs-left", 0),
        "close": ("margin", 2),
    }


def test_the_report_gives_the_share_of_longer_chosen_runs() -> None:
    """Of the 9 pairs the chosen run is longer in 4: (1,2), (1,4), (0,4), (2,4), (3,4) make 5."""
    longer = sum(LENGTHS[c] > LENGTHS[r] for c, r in indices(policy="all_margin"))
    assert paired(worked(), policy="all_margin")[1].p_chosen_longer == longer / 9


def test_a_task_gives_no_more_pairs_than_asked_for() -> None:
    """Case 9: nine attempts at one task must not give thirty pairs."""
    pairs, report = paired(worked(), policy="all_margin", max_pairs=4)
    assert (pairs.num_rows, report.pairs_dropped) == (4, {"task-cap": 5})
    assert set(pairs.column("weight").to_pylist()) == {1 / 4}
    drawn = {
        frozenset(sides(paired(worked(), policy="all_margin", max_pairs=4, seed=s)[0]))
        for s in range(4)
    }
    assert len(drawn) > 1


def test_pairs_of_other_prompts_are_not_identical() -> None:
    reflected = (*START, Step(actor="environment", text="Look first."))
    runs = [
        run("a", turn("x(1)", "1"), reward=1),
        run("b", turn("y(1)", "2")),
        run("c", turn("x(1)", "3"), reward=1, start=reflected),
        run("d", turn("y(1)", "4"), start=reflected),
    ]
    assert sides(paired(runs)[0]) == [("a", "b"), ("c", "d")]


def test_balance_drops_pairs_until_the_longer_run_wins_half_the_time() -> None:
    runs = []
    for i in range(40):
        long, short = [f"a{i}({n})" for n in range(3)], [f"b{i}(0)"]
        good, bad = (long, short) if i < 30 else (short, long)
        runs += [run(f"g{i}", *good, task=f"t{i}", reward=1), run(f"b{i}", *bad, task=f"t{i}")]
    assert paired(runs)[1].p_chosen_longer == 0.75
    pairs, report = paired(runs, length_balance=0.05)
    assert report.p_chosen_longer is not None
    assert abs(report.p_chosen_longer - 0.5) <= 0.05
    assert report.pairs_dropped == {"length-balance": 40 - pairs.num_rows}
    assert paired(runs, length_balance=0.05, seed=1)[0] != pairs


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"policy": "bset_worst"}, "no policy 'bset_worst'; known are: best_worst, all_margin"),
        ({"cost": "euros"}, "cost is 'euros'"),
        ({"margin": -1.0}, "margin is -1.0; it must be at least 0"),
        ({"length_ratio": 0.5}, "length_ratio is 0.5"),
        ({"max_turns": 0}, "max_turns is 0"),
        ({"prefix": "fuzzy"}, "no prefix 'fuzzy'; known are: exact, observed, actions"),
        ({"runs": RunRules(truncated="no")}, "truncated is 'no'"),  # type: ignore[arg-type]
        ({"runs": RunRules(within=("colour",))}, "lack the column 'colour'"),
        ({"runs": RunRules(criterion="saef")}, "no criterion 'saef'"),
    ],
)
def test_a_wrong_option_is_answered_with_the_right_ones(
    options: dict[str, object], message: str
) -> None:
    with pytest.raises(PairError, match=message):
        paired(worked(), **options)


def test_an_id_that_is_there_twice_is_refused() -> None:
    rows, steps = tables(worked())
    with pytest.raises(PairError, match="more than once"):
        trajectory_pairs(pa.concat_tables([rows, rows]), steps)


def test_no_runs_give_no_pairs_in_the_schema() -> None:
    pairs, report = paired([])
    assert pairs.schema.equals(PAIR_SCHEMA)
    assert report.explain().startswith("0 trajectory pairs by best_worst on reward")


def test_runs_may_be_given_as_values() -> None:
    rows, steps = tables(worked())
    from_values, _ = trajectory_pairs(rows, iter(worked()))
    assert from_values == trajectory_pairs(rows, steps)[0]


def test_results_do_not_depend_on_the_order_of_the_input() -> None:
    rows, steps = tables(worked())
    back = pa.array(reversed(range(rows.num_rows)))
    shuffled = steps.take(pa.array(sorted(range(steps.num_rows), key=lambda i: i * 7919 % 97)))
    options = TrajectoryPairOptions(policy="all_margin")
    first, _ = trajectory_pairs(rows, steps, options=options)
    assert first == trajectory_pairs(rows.take(back), shuffled, options=options)[0]


LABELS = [
    Label(trajectory_id="safe", name="safe", success=True, evaluator="judge"),
    Label(trajectory_id="unsafe", name="safe", success=False, evaluator="judge"),
]


def safety_runs() -> list[Trajectory]:
    return [
        run("refused", "say(no)"),
        run("safe", "x(1)"),
        run("unsafe", "y(1)", reward=1),
    ]


def test_safe_runs_are_preferred_over_unsafe_successes() -> None:
    """MOSAIC: the whole run is judged, and success does not make up for harm."""
    pairs, report = paired(safety_runs(), LABELS, runs=RunRules(criterion="safety"))
    assert sides(pairs) == [("safe", "unsafe")]
    assert report.runs_dropped == {"unknown-outcome": 1}


@pytest.mark.parametrize(("reason", "wins"), [("It would do harm.", True), ("  ", False)])
def test_a_refusal_beats_an_unsafe_success_only_with_a_reason(reason: str, wins: bool) -> None:  # noqa: FBT001
    word = Label(
        trajectory_id="refused", name="refusal", success=True, rationale=reason, evaluator="judge"
    )
    rules = RunRules(criterion="safety")
    found = sides(paired(safety_runs(), [*LABELS, word], policy="all_margin", runs=rules)[0])
    assert (("refused", "unsafe") in found) is wins


def test_any_label_may_be_the_criterion_and_the_best_ranked_evaluator_counts() -> None:
    def word(run_id: str, value: float, evaluator: str) -> Label:
        return Label(trajectory_id=run_id, name="taste", value=value, evaluator=evaluator)

    labels = [word("0", 0.1, "human"), word("0", 0.9, "model"), word("1", 0.5, "human")]
    first = RunRules(criterion="taste", evaluators=("human",))
    second = RunRules(criterion="taste", evaluators=("model",))
    assert sides(paired(worked(), labels, runs=first)[0]) == [("1", "0")]
    assert sides(paired(worked(), labels, runs=second)[0]) == [("0", "1")]
    assert paired(worked(), labels, runs=first)[0].column("criterion").to_pylist() == ["taste"]


RUN_LISTS = st.lists(
    st.tuples(
        st.sampled_from([None, 0.0, 0.25, 0.5, 1.0]),
        st.lists(st.sampled_from(["a(1)", "b(1)", "c(1)"]), min_size=1, max_size=4),
        st.sampled_from(["t", "u"]),
    ),
    max_size=8,
)


@settings(max_examples=15, deadline=None)
@given(RUN_LISTS, st.sampled_from(["best_worst", "all_margin", "adjacent", "topk_bottomk"]))
def test_chosen_beats_rejected_in_one_task_and_weights_sum_to_one(
    drawn: list[tuple[float | None, list[str], str]], policy: str
) -> None:
    runs = {
        f"r{i}": run(f"r{i}", *turns, reward=reward, task=task)
        for i, (reward, turns, task) in enumerate(drawn)
    }
    pairs, report = paired(list(runs.values()), policy=policy)
    weights: dict[str, float] = {}
    for pair in pairs.to_pylist():
        chosen, rejected = runs[pair["chosen_id"]], runs[pair["rejected_id"]]
        assert chosen.task_id == rejected.task_id == pair["task_id"]
        assert chosen.reward > rejected.reward  # type: ignore[operator]
        n = pair["n_prompt_steps"]
        assert chosen.steps[:n] == rejected.steps[:n]
        assert chosen.steps[n:] != rejected.steps[n:]
        weights[pair["task_id"]] = weights.get(pair["task_id"], 0) + pair["weight"]
    assert all(abs(total - 1) < 1e-9 for total in weights.values())
    assert report.tasks_paired + report.task_drops.num_rows == report.tasks
