from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa
import pytest

from tests.filters.frames import details, selected, summaries, why
from trajstore.errors import SelectionError
from trajstore.filters import Frame, Selection, stage


def tasks(rates: dict[str, tuple[int, int]], **fields: Any) -> Frame:
    """Runs of tasks with ``(passes, attempts)``; ids are the task and a number."""
    rows = [
        {"trajectory_id": f"{name}-{i:02}", "task_id": name, "success": i < passes} | fields
        for name, (passes, attempts) in rates.items()
        for i in range(attempts)
    ]
    return summaries(*rows)


def chosen(selection: Selection) -> list[str]:
    return sorted(set(selection.rows.column("task_id").to_pylist()))


def column(selection: Selection, name: str) -> dict[str, Any]:
    rows = selection.rows
    return dict(zip(rows.column("task_id").to_pylist(), rows.column(name).to_pylist(), strict=True))


RATES = {"never": (0, 4), "rare": (1, 4), "half": (2, 4), "often": (3, 4), "always": (4, 4)}


def test_dapo_drops_what_has_no_signal() -> None:
    selection = selected(tasks(RATES), stage("pass-rate"))
    assert chosen(selection) == ["half", "often", "rare"]
    assert Counter(why(selection).values()) == {"all-fail": 4, "all-pass": 4}
    assert column(selection, "pass_rate") == {"half": 0.5, "often": 0.75, "rare": 0.25}


def test_all_runs_of_a_task_stay_or_go_together() -> None:
    selection = selected(tasks(RATES), stage("pass-rate", above=0.3, below=0.7))
    assert selection.ids() == [f"half-{i:02}" for i in range(4)]
    assert why(selection)["rare-00"] == "pass-rate-too-low"
    assert why(selection)["often-00"] == "pass-rate-too-high"
    assert details(selection)["rare-00"] == "1 of 4"


def test_a_task_that_nobody_judged_has_no_pass_rate() -> None:
    frame = summaries({"success": None})
    assert why(selected(frame, stage("pass-rate"))) == {"a": "unknown-pass-rate"}


def test_case_54_the_stage_takes_a_threshold_for_rewards() -> None:
    frame = summaries({"reward": 0.6}, {"reward": 1.4})
    assert len(selected(frame, stage("pass-rate", passed="reward"))) == 2
    made = stage("pass-rate", passed="reward", pass_threshold=0.5)
    assert set(why(selected(frame, made)).values()) == {"all-pass"}


def test_case_55_an_expired_profile_is_named() -> None:
    frame = tasks(RATES, policy_version="iter-1")
    selection = selected(frame, stage("curriculum", policies=["iter-2"]))
    assert set(why(selection).values()) == {"expired-profile"}


MANY = {f"{name}{i:02}": rate for name, rate in RATES.items() for i in range(20)}
"""100 tasks; with 4 attempts and Beta(1, 1) the five rates are levels 5, 4, 3, 2 and 1."""


@pytest.mark.parametrize(
    ("level", "counts"),
    [(2, {1: 8, 2: 8, 3: 4}), (3, {1: 1, 2: 3, 3: 12, 4: 4}), (5, {1: 2, 2: 3, 3: 5, 4: 6, 5: 4})],
)
def test_levels_are_mixed_as_declared(level: int, counts: dict[int, int]) -> None:
    selection = selected(tasks(MANY), stage("curriculum", n=20, level=level))
    assert Counter(column(selection, "level").values()) == counts
    assert set(why(selection).values()) == {"not-in-curriculum"}


def test_a_level_without_tasks_passes_its_share_on() -> None:
    some = {k: v for k, v in MANY.items() if not k.startswith("half")}
    selection = selected(tasks(some), stage("curriculum", n=20, level=2))
    assert Counter(column(selection, "level").values()) == {1: 10, 2: 10}


def test_without_a_size_every_task_with_a_weight_stays() -> None:
    selection = selected(tasks(RATES), stage("curriculum", level=2))
    assert chosen(selection) == ["always", "half", "often"]
    assert column(selection, "weight") == pytest.approx({"always": 0.4, "often": 0.4, "half": 0.2})


def test_variance_draws_tasks_that_are_passed_half_the_time_most_often() -> None:
    """Smoothed p(1-p): half 1/4, rare and often 2/9, never and always 5/36."""
    weights = column(selected(tasks(RATES), stage("curriculum", by="variance")), "weight")
    assert weights["half"] / weights["never"] == pytest.approx((1 / 4) / (5 / 36))


def test_variance_draws_in_proportion_to_its_weights() -> None:
    """300 tasks of each of five rates: three weigh .694 in all and two .278, 2.5 times less."""
    frame = tasks({f"{name}{i:03}": rate for name, rate in RATES.items() for i in range(300)})
    drawn = chosen(selected(frame, stage("curriculum", by="variance", n=250)))
    settled = sum(name.startswith(("never", "always")) for name in drawn)
    assert 1.8 < (250 - settled) / settled < 3.2


def test_the_target_moves_the_draw() -> None:
    easy, hard = (
        column(selected(tasks(MANY), stage("curriculum", n=20, by="target", target=t)), "pass_rate")
        for t in (0.8, 0.2)
    )
    assert sum(easy.values()) / len(easy) > 0.6
    assert sum(hard.values()) / len(hard) < 0.4


def test_case_55_domains_have_shares() -> None:
    rows = [
        {"trajectory_id": f"{e}{i}", "task_id": f"{e}{i // 2}", "success": i % 2 == 0}
        | {"environment": e}
        for e, n in (("code", 40), ("web", 40), ("game", 40))
        for i in range(n)
    ]
    frame = summaries(*rows)
    shares = {"code": 3.0, "web": 1.0}
    made = stage("curriculum", n=8, by="variance", domain="environment", shares=shares)
    selection = selected(frame, made)
    assert Counter(column(selection, "environment").values()) == {"code": 6, "web": 2}
    assert Counter(why(selection).values())["no-share"] == 40


def test_domains_without_shares_get_as_many_each() -> None:
    rows = [
        {"trajectory_id": f"{e}{i}", "task_id": f"{e}{i}", "success": True, "environment": e}
        for e, n in (("code", 30), ("web", 6))
        for i in range(n)
    ]
    made = stage("curriculum", n=10, by="variance", domain="environment")
    selection = selected(summaries(*rows), made)
    assert Counter(column(selection, "environment").values()) == {"code": 5, "web": 5}


def test_levels_by_steps_are_fifths_of_the_tasks() -> None:
    rows = [
        {"trajectory_id": f"t{i}", "task_id": f"t{i}", "success": True, "n_agent_steps": 10 - i}
        for i in range(10)
    ]
    selection = selected(summaries(*rows), stage("curriculum", difficulty="steps", level=5))
    levels = column(selection, "level")
    assert (levels["t9"], levels["t8"], levels["t5"], levels["t0"]) == (1, 1, 3, 5)


def test_levels_can_be_given_and_others_are_named() -> None:
    frame = tasks({"a": (1, 1), "b": (1, 1), "c": (1, 1)})
    rows = frame.rows.append_column("grade", pa.array([1, 9, None], pa.int32()))
    made = stage("curriculum", difficulty="grade", level=2)
    selection = selected(Frame(rows, frame.steps), made)
    assert (column(selection, "level"), chosen(selection)) == ({"a": 1}, ["a"])
    assert set(why(selection).values()) == {"unknown-level"}


def test_a_level_that_is_unknown_does_not_matter_to_weights() -> None:
    frame = tasks({"a": (1, 2)})
    rows = frame.rows.append_column("grade", pa.array([9, 9], pa.int32()))
    made = stage("curriculum", difficulty="grade", by="variance")
    assert chosen(selected(Frame(rows, frame.steps), made)) == ["a"]


def test_no_rows_are_no_tasks() -> None:
    empty = Frame(summaries({}).rows.slice(0, 0), summaries({}).steps)
    assert selected(empty, stage("curriculum", n=3)).ids() == []


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n": -1}, "0 tasks or more"),
        ({"level": 6}, "2 to 5"),
        ({"width": 0.0}, "above 0"),
        ({"shares": {"web": 1.0}}, "Shares need a domain"),
    ],
)
def test_a_curriculum_out_of_range_is_refused(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(SelectionError, match=message):
        stage("curriculum", **parameters)


def test_bounds_out_of_order_are_refused() -> None:
    with pytest.raises(SelectionError, match=r"in order, not 0\.9, 0\.1"):
        stage("pass-rate", above=0.9, below=0.1)
