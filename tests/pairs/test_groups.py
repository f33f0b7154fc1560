"""Groups and advantages, by the worked numbers of the design (B7) and by what went wrong."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.pairs.worlds import grouped, run
from trajstore.errors import PairError
from trajstore.pairs import GROUP_SCHEMA, GroupOptions, GroupReport, RunRules, group_advantages
from trajstore.schema import Label, Trajectory, labels_to_arrow, trajectories_to_arrow


def built(
    runs: list[Trajectory], /, **options: object
) -> tuple[list[dict[str, object]], GroupReport]:
    groups, report = group_advantages(trajectories_to_arrow(runs), options=GroupOptions(**options))  # type: ignore[arg-type]
    return groups.to_pylist(), report


def test_population_std_gives_one_up_and_one_down() -> None:
    """B7: (1, 0, 0, 1), eps 1e-6."""
    assert grouped([1, 0, 0, 1])[0] == pytest.approx([1, -1, -1, 1], abs=1e-5)


def test_sample_std_with_its_eps() -> None:
    """B7: +-.865875 at eps 1e-4."""
    expected = [0.865875, -0.865875, -0.865875, 0.865875]
    assert grouped([1, 0, 0, 1], std="sample")[0] == pytest.approx(expected, abs=1e-6)


def test_dr_grpo_only_subtracts_the_mean() -> None:
    assert grouped([1, 0, 0, 1], variant="dr_grpo")[0] == [0.5, -0.5, -0.5, 0.5]


@pytest.mark.parametrize(
    ("std", "expected"),
    [
        ("population", [1.031691, 0.941979, -0.762554, -1.211116]),
        ("sample", [0.893471, 0.815778, -0.660391, -1.048857]),
    ],
)
def test_uneven_rewards(std: str, expected: list[float]) -> None:
    """B7: (1, .96, .2, 0)."""
    assert grouped([1, 0.96, 0.2, 0], std=std, eps=0.0)[0] == pytest.approx(expected, abs=1e-6)


def test_leave_one_out_compares_with_the_others() -> None:
    """By hand: 1 - (0 + 0 + 1) / 3 = 2/3; 0 - (1 + 0 + 1) / 3 = -2/3."""
    expected = [2 / 3, -2 / 3, -2 / 3, 2 / 3]
    assert grouped([1, 0, 0, 1], variant="rloo")[0] == pytest.approx(expected)


@pytest.mark.parametrize(
    ("rewards", "label"),
    [([1, 1, 1], "all_pass"), ([0, 0], "all_fail"), ([0.2, 0.2], "all_fail"), ([1], "all_pass")],
)
@pytest.mark.parametrize("variant", ["grpo", "rloo", "dr_grpo"])
def test_equal_rewards_give_0_and_say_why(rewards: list[float], label: str, variant: str) -> None:
    """Case 53: std 0 gives advantage 0, not NaN, and the group is labelled."""
    advantages, groups, report = grouped(rewards, variant=variant)  # type: ignore[arg-type]
    assert advantages == [0.0] * len(rewards)
    assert set(groups.column("zero_variance").to_pylist()) == {label}
    assert report.zero_variance == {label: 1}


def test_equal_rewards_of_unlike_verdicts_are_mixed() -> None:
    runs = [run("a", "x(1)", reward=0.5, success=True), run("b", "y(1)", reward=0.5)]
    assert {g["zero_variance"] for g in built(runs)[0]} == {"mixed_equal"}


def test_a_reward_of_almost_one_is_a_reward_of_one() -> None:
    """Seen in recorded runs: 0.9999999999999998 beside 1.0."""
    runs = [run(n, f"x({n})", reward=r, success=None) for n, r in (("a", 1), ("b", 1 - 2e-16))]
    found = built(runs)[0]
    assert [(g["advantage"], g["zero_variance"]) for g in found] == [(0.0, "all_pass")] * 2


def test_the_pass_threshold_is_explicit() -> None:
    """Case 54: partial rewards pass where somebody says so."""
    runs = [run(n, f"x({n})", reward=0.7, success=None) for n in "ab"]
    assert {g["zero_variance"] for g in built(runs)[0]} == {"all_fail"}
    assert {g["zero_variance"] for g in built(runs, pass_threshold=0.7)[0]} == {"all_pass"}


def test_groups_without_signal_can_be_left_out_and_the_fraction_is_reported() -> None:
    """Case 53."""
    runs = [run(f"{t}{i}", f"x({i})", task=t, reward=r) for t in "pq" for i, r in enumerate([1, 1])]
    runs += [run(f"m{i}", f"x({i})", task="m", reward=i) for i in range(2)]
    groups, report = built(runs, no_signal="drop-zero-variance")
    assert {g["task_id"] for g in groups} == {"m"}
    assert (report.groups, report.groups_dropped) == (1, 2)
    assert "no signal: 2 of 3 groups (2 all_pass)" in built(runs)[1].explain()


def test_equal_verdicts_under_a_shaped_reward_can_be_left_out_too() -> None:
    """verl-recipe 125: a shaped reward differs although every run failed."""
    runs = [run("a", "x(1)", reward=0.1), run("b", "y(1)", reward=0.3)]
    assert built(runs)[1].same_verdict == 1
    assert built(runs, no_signal="drop-same-verdict")[0] == []
    assert len(built(runs, no_signal="drop-zero-variance")[0]) == 2


def test_most_groups_of_one_are_worth_a_warning() -> None:
    """Case 51: a group id made anew for each rollout."""
    runs = [run(f"r{i}", "x(1)", task=f"t{i}", reward=i % 2) for i in range(4)]
    report = built(runs)[1]
    assert report.sizes == {1: 4}
    assert "4 of 4 groups hold a single run" in report.warnings[0]
    assert "warning: no group has any signal" in report.explain()


def test_a_healthy_build_warns_of_nothing() -> None:
    assert built([run("a", "x(1)", reward=1), run("b", "y(1)")])[1].warnings == ()


def test_the_group_id_is_made_of_what_the_runs_share() -> None:
    """Case 51: task, or task and policy version, and the same on every build."""
    runs = [
        run(f"r{i}", f"x({i})", reward=i % 2, policy_version=f"iter-{i // 2}") for i in range(4)
    ]
    by_task, by_version = built(runs)[0], built(runs, by=("task_id", "policy_version"))[0]
    assert len({g["group_id"] for g in by_task}) == 1
    assert len({g["group_id"] for g in by_version}) == 2
    assert built(runs[:2])[0][0]["group_id"] == by_task[0]["group_id"]


def aged(*versions: str | None) -> list[Trajectory]:
    return [run(f"r{i}", f"x({i})", reward=i % 2, policy_version=v) for i, v in enumerate(versions)]


def test_the_staleness_window_keeps_its_boundary() -> None:
    """Case 56 and B6: window 4, current 10: version 6 stays, 5 goes."""
    groups, report = built(aged("10", "6", "5"), max_staleness=4)
    assert [(g["policy_version"], g["staleness"]) for g in groups] == [("10", 0), ("6", 4)]
    assert report.runs_dropped == {"stale": 1}


def test_the_current_version_can_be_given() -> None:
    groups, _ = built(aged("iter-10", "iter-6", "iter-5"), max_staleness=4, current_version=9)
    assert [g["staleness"] for g in groups] == [-1, 3, 4]


def test_a_run_of_unknown_version_is_outside_the_window_and_counted() -> None:
    report = built(aged("10", None), max_staleness=4)[1]
    assert report.runs_dropped == {"unknown-version": 1}
    assert len(built(aged("10", None))[0]) == 2


def test_names_of_versions_can_be_given_their_order() -> None:
    versions = {"base": 0, "tuned": 1}
    groups, _ = built(aged("tuned", "base"), versions=versions)
    assert [g["staleness"] for g in groups] == [0, 1]


@pytest.mark.parametrize(("order", "kept"), [("freshest", {"9", "8"}), ("fifo", {"7", "8"})])
def test_more_runs_than_asked_for_are_evicted_and_counted(order: str, kept: set[str]) -> None:
    """Case 56."""
    groups, report = built(aged("9", "7", "8"), max_size=2, order=order)
    assert {g["policy_version"] for g in groups} == kept
    assert report.runs_dropped == {"evicted": 1}


def test_unknown_outcomes_enter_no_group_and_groups_may_be_uneven() -> None:
    runs = [
        *(run(f"a{i}", f"x({i})", task="a", reward=i % 2) for i in range(3)),
        *(run(f"b{i}", f"x({i})", task="b", reward=i % 2) for i in range(2)),
        run("c", "x(1)", task="b", reward=None),
    ]
    groups, report = built(runs)
    assert report.sizes == {2: 1, 3: 1}
    assert report.runs_dropped == {"unknown-outcome": 1}
    assert "c" not in {g["trajectory_id"] for g in groups}


def test_a_run_that_was_cut_off_counts_in_its_group() -> None:
    """TRL 6369: leaving it out would raise the mean."""
    runs = [run("a", "x(1)", reward=1), run("b", "y(1)", status="truncated")]
    assert len(built(runs)[0]) == 2
    assert len(built(runs, runs=RunRules(truncated="drop"))[0]) == 1


def test_rows_fit_the_schema_and_name_the_std_convention() -> None:
    _, groups, _ = grouped([1, 0], std="sample")
    assert groups.schema.equals(GROUP_SCHEMA)
    assert set(groups.column("std_convention").to_pylist()) == {"sample"}
    assert groups.column("std").to_pylist() == pytest.approx([math.sqrt(0.5)] * 2)


def test_no_runs_give_no_groups() -> None:
    groups, report = built([])
    assert (groups, report.groups, report.warnings) == ([], 0, ())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"variant": "ppo"}, "variant is 'ppo'; known are: grpo, rloo, dr_grpo"),
        ({"std": "n"}, "std is 'n'"),
        ({"no_signal": "hide"}, "no_signal is 'hide'"),
        ({"by": ("model",)}, "do not compare"),
        ({"order": "lifo"}, "order is 'lifo'"),
        ({"max_size": 0}, "max_size is 0"),
    ],
)
def test_a_wrong_option_is_answered_with_the_right_ones(
    options: dict[str, object], message: str
) -> None:
    with pytest.raises(PairError, match=message):
        grouped([1, 0], **options)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.floats(-1000, 1000, allow_subnormal=False), min_size=1, max_size=12),
    st.sampled_from(["grpo", "rloo", "dr_grpo"]),
    st.sampled_from(["population", "sample"]),
)
def test_advantages_of_a_group_sum_to_zero(rewards: list[float], variant: str, std: str) -> None:
    advantages, _, _ = grouped([*rewards], variant=variant, std=std)
    assert abs(math.fsum(advantages)) < 1e-9


@settings(max_examples=30, deadline=None)
@given(st.lists(st.sampled_from([0.0, 0.25, 1.0]), min_size=2, max_size=6))
def test_a_higher_reward_never_has_a_lower_advantage(rewards: list[float]) -> None:
    advantages, _, _ = grouped([*rewards])
    ranked = sorted(zip(rewards, advantages, strict=True))
    assert [a for _, a in ranked] == sorted(advantages)


def test_the_order_of_the_rows_does_not_show() -> None:
    runs = [run(f"r{i}", f"x({i})", reward=i / 7) for i in range(6)]
    table = trajectories_to_arrow(runs)
    assert group_advantages(table)[0] == group_advantages(table.take([5, 2, 0, 4, 1, 3]))[0]


def test_a_label_may_be_the_criterion() -> None:
    runs = [run("a", "x(1)"), run("b", "y(1)"), replace(run("c", "z(1)"), reward=9.0)]
    labels = labels_to_arrow(
        [
            Label(trajectory_id=i, name="taste", value=v, evaluator="e")
            for i, v in (("a", 1), ("b", 3))
        ]
    )
    groups, report = group_advantages(
        trajectories_to_arrow(runs),
        options=GroupOptions(runs=RunRules(criterion="taste"), variant="dr_grpo"),
        labels=labels,
    )
    assert groups.column("advantage").to_pylist() == [-1.0, 1.0]
    assert report.runs_dropped == {"unknown-outcome": 1}
