"""RTMC, turn-level advantages and pivots, by the worked numbers of the design (B7)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.pairs.worlds import run, tables, turn
from trajstore.errors import PairError
from trajstore.pairs import (
    Credit,
    RunRules,
    StateOptions,
    pivots,
    rtmc_advantages,
    turn_advantages,
)
from trajstore.schema import Step, Trajectory


def at(state: str, action: str) -> Step:
    return turn(f"{action}(.)", state_key=state)


def worked() -> list[Trajectory]:
    """Four rollouts over states s0 to s4 that are named by their keys."""
    return [
        run("r1", at("s0", "search"), at("s1", "open"), at("s2", "edit"), reward=1),
        run("r2", at("s0", "search"), at("s1", "open"), at("s3", "grep")),
        run("r3", at("s0", "ls"), at("s4", "open")),
        run("r4", at("s0", "search"), at("s1", "edit"), reward=1),
    ]


def by_place(credit: Credit, column: str = "value") -> dict[tuple[str, int], float]:
    """(run, number of its turn) -> a number; the start of these runs has two steps."""
    return {(r["trajectory_id"], r["step_index"] - 2): r[column] for r in credit.rows.to_pylist()}


def rtmc(runs: list[Trajectory], **options: Any) -> Credit:
    return rtmc_advantages(*tables(runs), **options)


def test_rtmc_is_q_minus_v() -> None:
    """V(s0) .5, V(s1) .6667; A(s0,search) .1667, A(s0,ls) -.5, A(s1,open) -.1667, edit .3333."""
    credit = rtmc(worked(), kappa=0)
    values, v = by_place(credit), by_place(credit, "v")
    assert (v["r1", 0], v["r1", 1]) == pytest.approx((0.5, 2 / 3))
    expected = {
        ("r1", 0): 1 / 6,
        ("r2", 0): 1 / 6,
        ("r4", 0): 1 / 6,
        ("r3", 0): -0.5,
        ("r1", 1): -1 / 6,
        ("r2", 1): -1 / 6,
        ("r4", 1): 1 / 3,
        ("r1", 2): 0,
        ("r2", 2): 0,
        ("r3", 1): 0,
    }
    assert values == pytest.approx(expected)


def test_rtmc_smooths_towards_the_state_by_one_imagined_run() -> None:
    """Q' (s0,search) .625, (s0,ls) .25, (s1,open) .5556, (s1,edit) .8333."""
    q = by_place(rtmc(worked()), "q")
    found = (q["r1", 0], q["r3", 0], q["r1", 1], q["r4", 1])
    assert found == pytest.approx((0.625, 0.25, 5 / 9, 5 / 6))


def test_rtmc_names_how_many_runs_took_the_action() -> None:
    n = by_place(rtmc(worked()), "n")
    assert (n["r1", 0], n["r3", 0], n["r1", 1], n["r4", 1]) == (3, 1, 2, 1)


def test_a_loop_back_to_a_state_counts_once() -> None:
    """B7: the second visit with another action must add nothing."""
    loop = run("loop", at("s0", "search"), at("s0", "ls"), reward=1)
    plain = run("plain", at("s0", "ls"))
    credit = rtmc([loop, plain], kappa=0)
    assert by_place(credit) == pytest.approx({("loop", 0): 0.5, ("plain", 0): -0.5})
    assert by_place(credit, "n") == {("loop", 0): 1, ("plain", 0): 1}


def test_states_are_told_apart_by_task() -> None:
    runs = [
        run("a", at("s", "x"), reward=1),
        run("b", at("s", "y")),
        run("c", at("s", "x"), task="other", reward=1),
    ]
    assert by_place(rtmc(runs, kappa=0))["c", 0] == 0.0


def test_without_stored_keys_a_state_is_everything_before_it() -> None:
    runs = [
        run("a", turn("x(1)", "o"), "y(1)", reward=1),
        run("b", turn("x(1)", "o"), "z(1)"),
        run("c", turn("x(1)", "p"), "z(1)"),
    ]
    values = by_place(rtmc(runs, kappa=0))
    assert values["a", 1] == pytest.approx(0.5)
    assert values["c", 1] == 0.0


def test_rtmc_takes_discounted_returns() -> None:
    """By hand: from s0, r1 is worth .25 and r3 0, both with n 1, so V = .125."""
    runs = [worked()[0], worked()[2]]
    values = by_place(rtmc(runs, kappa=0, options=StateOptions(gamma=0.5)))
    assert (values["r1", 0], values["r3", 0]) == pytest.approx((0.125, -0.125))


def test_rtmc_refuses_a_negative_prior() -> None:
    with pytest.raises(PairError, match="kappa is -1"):
        rtmc(worked(), kappa=-1)


WALKS = st.lists(
    st.tuples(
        st.lists(st.tuples(st.sampled_from("stu"), st.sampled_from("xyz")), min_size=1, max_size=5),
        st.sampled_from([0.0, 0.5, 1.0]),
    ),
    min_size=1,
    max_size=6,
)


@settings(max_examples=30, deadline=None)
@given(WALKS)
def test_advantages_of_a_state_sum_to_zero_over_runs(
    walks: list[tuple[list[tuple[str, str]], float]],
) -> None:
    """B7: sum over a of n(a) * A(s, a) = 0; each run that visited s counts once."""
    runs = [
        run(f"r{i}", *(at(s, a) for s, a in walk), reward=reward)
        for i, (walk, reward) in enumerate(walks)
    ]
    values = by_place(rtmc(runs, kappa=0))
    sums: dict[str, float] = {}
    for (name, place), value in values.items():
        state = walks[int(name[1:])][0][place][0]
        sums[state] = sums.get(state, 0.0) + value
    assert all(abs(total) < 1e-9 for total in sums.values())


def test_turn_advantages_are_centred_in_their_state() -> None:
    """GiGPO at s1: returns .95, 0, 1, centred .3, -.65, .35."""
    credit = turn_advantages(*tables(worked()), normaliser="mean")
    step = by_place(credit, "step")
    found = (step["r1", 1], step["r2", 1], step["r4", 1])
    assert found == pytest.approx((0.3, -0.65, 0.35))


def test_turn_advantages_are_divided_by_the_population_std() -> None:
    """GiGPO at s1: .652071, -1.412821, .76075."""
    step = by_place(turn_advantages(*tables(worked())), "step")
    found = (step["r1", 1], step["r2", 1], step["r4", 1])
    assert found == pytest.approx((0.652071, -1.412821, 0.76075), rel=1e-5)


def test_turn_advantages_add_the_run_and_the_weighted_turn() -> None:
    """Runs 1, 0, 0, 1: the episode part is +-1, or +-.5 where only the mean goes."""
    credit = turn_advantages(*tables(worked()), normaliser="mean", weight=2)
    value, episode = by_place(credit), by_place(credit, "episode")
    assert episode["r1", 1] == 0.5
    assert value["r1", 1] == pytest.approx(0.5 + 2 * 0.3)
    scaled = by_place(turn_advantages(*tables(worked())), "episode")
    assert scaled["r3", 0] == pytest.approx(-1, abs=1e-5)


def test_a_turn_alone_in_its_state_has_no_step_part() -> None:
    assert by_place(turn_advantages(*tables(worked())), "step")["r1", 2] == 0.0


def test_an_unknown_normaliser_is_answered_with_the_known_ones() -> None:
    with pytest.raises(PairError, match="no normaliser 'max'; known are: std, mean"):
        turn_advantages(*tables(worked()), normaliser="max")  # type: ignore[arg-type]


def deciding(outcomes: str) -> Credit:
    """Pivots of one state from which four runs went on, each with its own action."""
    runs = [run(f"r{i}", at("s", f"a{i}"), reward=int(o)) for i, o in enumerate(outcomes)]
    return pivots(*tables(runs))


@pytest.mark.parametrize(
    ("outcomes", "is_pivot"), [("1111", False), ("1001", True), ("0000", False), ("1110", False)]
)
def test_a_pivot_varies_and_does_not_mostly_pass(outcomes: str, is_pivot: bool) -> None:  # noqa: FBT001
    """B7: 1111 no; 1001 yes; 0000 no; 1110 no (mean .75)."""
    assert set(by_place(deciding(outcomes)).values()) == {float(is_pivot)}


def test_a_pivot_tells_its_mean_and_variance() -> None:
    credit = deciding("1001")
    assert set(by_place(credit, "pass_rate").values()) == {0.5}
    assert set(by_place(credit, "variance").values()) == {0.25}
    assert set(by_place(credit, "runs").values()) == {4}


def test_one_run_decides_nothing() -> None:
    runs = [run("a", at("s", "x"), reward=1), run("b", at("s", "y"))]
    credit = pivots(*tables(runs), least_runs=3)
    assert set(by_place(credit).values()) == {0.0}


def test_runs_that_may_not_be_used_have_no_state() -> None:
    options = StateOptions(runs=RunRules(criterion="success", truncated="drop"))
    runs = [*worked(), run("cut", at("s0", "cd"), status="truncated")]
    assert ("cut", 0) not in by_place(rtmc(runs, options=options))


def test_credit_says_how_it_was_made() -> None:
    credit = rtmc(worked(), kappa=2)
    assert credit.version == 'rtmc/1 {"criterion":"reward","gamma":1.0,"kappa":2,"source":"auto"}'
