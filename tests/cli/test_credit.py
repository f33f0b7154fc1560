"""``trajstore credit``, ``rewards`` and ``evaluators``."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.cli.conftest import Cli
from trajstore import Label
from trajstore import open as open_store


def lines(text: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in text.splitlines()]


def values(text: str) -> list[tuple[object, ...]]:
    return [(r["trajectory_id"], r["step_index"], r["value"]) for r in lines(text)]


def count(store: Path, where: str = "true") -> int:
    (row,) = open_store(store).sql(f"SELECT count(*) FROM labels WHERE {where}").fetchall()
    return int(row[0])


def test_credit_prints_a_row_a_step(cli: Cli, small: Path) -> None:
    """Runs a1 (reward 1) and a2 (0.25): two agent turns each, the first one discounted by half."""
    ran = cli("credit", small, "--method", "returns", "--set", "gamma=0.5")
    assert values(ran.out) == [("a1", 1, 0.5), ("a1", 2, 1.0), ("a2", 1, 0.125), ("a2", 2, 0.25)]
    assert ran.err.startswith('4 values of returns/1 {"criterion":"reward","gamma":0.5')
    assert count(small) == 0


def test_credit_is_kept_once(cli: Cli, small: Path) -> None:
    first = json.loads(cli("credit", small, "--method", "returns", "--write", "--json").out)
    again = json.loads(cli("credit", small, "--method", "returns", "--write", "--json").out)
    assert (first["labels"], first["already"]) == (4, 0)
    assert (again["labels"], again["already"]) == (0, 4)
    assert count(small, "name = 'return' AND evaluator = 'trajstore'") == 4


def test_credit_goes_by_what_it_is_told(cli: Cli, small: Path) -> None:
    ran = cli("credit", small, "--method", "returns", "--criterion", "success")
    assert [v for _, _, v in values(ran.out)] == [1.0, 1.0, 0.0, 0.0]


def test_credit_of_some_runs(cli: Cli, small: Path) -> None:
    ran = cli("credit", small, "--method", "returns", "--where", "trajectory_id = 'a2'")
    assert {i for i, _, _ in values(ran.out)} == {"a2"}


def test_credit_goes_to_a_file(cli: Cli, small: Path, tmp_path: Path) -> None:
    path = tmp_path / "credit.parquet"
    assert cli("credit", small, "--method", "returns", "-o", path).out == ""
    assert pq.read_table(path).column("value").to_pylist() == [1.0, 1.0, 0.25, 0.25]
    assert [p.name for p in tmp_path.glob("*.part")] == []


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("credit", "--method", "returns", "--set", "gama=1"), 1, "it takes: gamma, source"),
        (("credit", "--method", "luck"), 2, "luck"),
        (("credit", "--method", "returns", "--set", "gamma"), 2, "KEY=VALUE"),
        (("credit", "--method", "returns", "--set", "gamma=x"), 1, "must be a number, not 'x'"),
        (("rewards", "--reward", "recat"), 1, "Did you mean 'react'?"),
        (("rewards", "--reward", "turn-budget"), 1, "needs 'max_turns'"),
        (("rewards", "--reward", "react", "--set", "lamda=1"), 1, "no parameter 'lamda'"),
    ],
    ids=["parameter", "method", "pair", "value", "reward", "missing", "unknown"],
)
def test_what_is_not_there_is_answered_with_what_is(
    arguments: tuple[str, ...], code: int, said: str, cli: Cli, small: Path
) -> None:
    ran = cli(arguments[0], small, *arguments[1:])
    assert (ran.code, ran.out) == (code, "")
    assert said in ran.err


def test_rewards_print_value_and_terms_and_what_is_to_know(cli: Cli, small: Path) -> None:
    """Two agent turns of 10, no format error: 1 - 0.02 and 0 - 0.02 (a2 failed)."""
    ran = cli("rewards", small, "--reward", "turn-budget", "--set", "max_turns=10")
    rows = {r["trajectory_id"]: r["value"] for r in lines(ran.out)}
    assert rows == {"a1": 0.98, "a2": -0.02, "b1": None}
    assert "trajectories 3  without 1" in ran.err
    assert count(small) == 0


def test_rewards_are_kept_once(cli: Cli, small: Path) -> None:
    first = cli("rewards", small, "--reward", "react", "--write")
    again = json.loads(cli("rewards", small, "--reward", "react", "--write", "--json").out)
    assert first.out.splitlines()[0].split() == ["reward", "react"]
    assert (again["labels"], again["already"], again["without"]) == (0, 2, 1)
    assert count(small, "evaluator = 'trajstore/react'") == 2


def test_rewards_of_a_selection(cli: Cli, small: Path, tmp_path: Path) -> None:
    chosen = tmp_path / "s.parquet"
    cli("select", small, "--stage", "success", "-o", chosen)
    ran = cli("rewards", small, "--reward", "react", "--selection", chosen)
    assert [r["trajectory_id"] for r in lines(ran.out)] == ["a1"]


def test_a_selection_and_a_condition_do_not_go_together(
    cli: Cli, small: Path, tmp_path: Path
) -> None:
    chosen = tmp_path / "s.parquet"
    cli("select", small, "-o", chosen)
    both = ("--selection", chosen, "--where", "success")
    ran = cli("rewards", small, "--reward", "react", *both)
    assert ran.code == 1
    assert "not both" in ran.err


def test_rules_that_fire_on_steps_go_to_a_file(cli: Cli, small: Path, tmp_path: Path) -> None:
    path = tmp_path / "dense.parquet"
    cli("rewards", small, "--reward", "dense-tool-agent", "-o", path)
    rows = pq.read_table(path).select(["trajectory_id", "name"]).to_pylist()
    assert [tuple(r.values()) for r in rows] == [
        ("a1", "successful-call"),
        ("a2", "error"),
        ("b1", "successful-call"),
    ]


def test_a_ranking_decides_whose_outcome_counts(cli: Cli, small: Path) -> None:
    store = open_store(small)
    store.append(
        [
            Label(trajectory_id="b1", name="outcome", success=True, evaluator="tests"),
            Label(trajectory_id="b1", name="outcome", success=False, evaluator="guess"),
        ]
    )
    for best, verdict in (("tests,guess", True), ("guess,tests", False)):
        assert cli("evaluators", small, "--rank", best).code == 0
        run = open_store(small).get("b1")
        assert run is not None
        assert run.success is verdict


def test_evaluators_are_listed_by_rank(cli: Cli, small: Path) -> None:
    cli("rewards", small, "--reward", "react", "--write")
    ran = cli("evaluators", small, "--rank", "tests, judge", "--json")
    assert [(r["rank"], r["evaluator"], r["labels"]) for r in lines(ran.out)] == [
        (1, "tests", 0),
        (2, "judge", 0),
        (None, "trajstore/react", 2),
    ]
    shown = cli("evaluators", small).out.splitlines()
    assert shown[0].split() == ["rank", "evaluator", "labels", "outcomes", "trajectories"]


def test_an_empty_rank_takes_the_ranking_away(cli: Cli, small: Path) -> None:
    cli("evaluators", small, "--rank", "tests")
    ran = cli("evaluators", small, "--rank", "")
    assert (ran.code, ran.out) == (0, "")
    assert "no evaluator is ranked" in ran.err
