"""``trajstore search``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import HOSTILE, Cli
from tests.retrieval.conftest import GOALS, run
from trajstore import open as open_store


@pytest.fixture
def goals(tmp_path: Path) -> Path:
    """An indexed store of five runs, two of them of one environment."""
    folder = tmp_path / "goals"
    store = open_store(folder, durable=False)
    store.append(
        [run(n, g, environment="air" if n == "flights" else "land") for n, g in GOALS.items()]
    )
    store.index(embedder="hashing")
    return folder


def test_hits_go_to_stdout_and_what_was_cut_to_stderr(cli: Cli, goals: Path) -> None:
    ran = cli("search", goals, "cancel the flight", "-k", 2)
    assert ran.code == 0
    first, text, *_ = ran.out.splitlines()
    assert first.split()[0] == "1"
    assert "flights  success  task/flights  air" in first
    assert text.strip() == GOALS["flights"]
    assert "2 of 2 trajectory hits by hybrid search" in ran.err
    assert "3 came after the first k" in ran.err


def test_json_is_one_hit_a_line(cli: Cli, goals: Path) -> None:
    ran = cli("search", goals, "cancel the flight", "--json", "--mode", "vector")
    rows = [json.loads(line) for line in ran.out.splitlines()]
    assert rows[0]["item_id"] == "flights"
    assert rows[0]["parts"]["success"] == 1.0
    assert rows[0]["ranks"] == {"vector": 1}


def test_filters_reach_the_search(cli: Cli, goals: Path) -> None:
    ran = cli("search", goals, "x", "--environment", "land", "--task", "task/wood", "--json",
              "--where", "trajectory_id <> 'tests'", "--success-only")  # fmt: skip
    assert {json.loads(line)["item_id"] for line in ran.out.splitlines()} == {"hotels", "weather"}
    assert "1 are attempts at the querying task" in ran.err


def test_bounds_reach_the_search(cli: Cli, goals: Path) -> None:
    assert "5 scored less than min_score" in cli("search", goals, "x", "--min-score", 9).err
    ran = cli("search", goals, "x", "--token-budget", 0, "--mmr", 0.5)
    assert "5 did not fit into the token budget" in ran.err


def test_a_cosine_below_the_bound_is_cut_and_said(cli: Cli, goals: Path) -> None:
    ran = cli("search", goals, "photosynthesis of algae", "--min-similarity", 0.3)
    assert (ran.code, ran.out) == (0, "")
    assert "5 are less like the query than min_similarity" in ran.err


def test_the_goal_of_a_new_task_keeps_its_near_duplicates_out(cli: Cli, goals: Path) -> None:
    asked = ("search", goals, "result for wood", "--level", "step", "--task", "new", "--json")
    near = "are attempts at a task that is nearly the same"
    assert near not in cli(*asked).err
    assert f"2 {near}" in cli(*asked, "--goal", GOALS["wood"]).err


def test_what_is_no_text_is_said_plainly(cli: Cli, goals: Path) -> None:
    ran = cli("search", goals, "caf\udcff")
    assert ran.code == 1
    assert "text is not valid text: what is at place 3" in ran.err
    assert "unexpected" not in ran.err


def test_nothing_found_can_be_an_error(cli: Cli, goals: Path) -> None:
    asked = ("search", goals, "zzz", "--mode", "text")
    assert cli(*asked).code == 0
    assert cli(*asked, "--fail-empty").code == 1


def test_steps_are_searched(cli: Cli, goals: Path) -> None:
    ran = cli("search", goals, "result for wood", "--level", "step", "--json", "-k", 1)
    assert json.loads(ran.out)["item_id"] == "wood/2"


def test_without_an_index_it_searches_words_and_says_so(cli: Cli, tmp_path: Path) -> None:
    open_store(tmp_path / "bare", durable=False).append(run("a", "fix a test"))
    ran = cli("search", tmp_path / "bare", "test")
    assert ran.code == 0
    assert "note: searched by words without an index" in ran.err


@pytest.mark.parametrize("arguments", [[], ["text", "--evaluate"]], ids=["neither", "both"])
def test_a_text_or_evaluate(cli: Cli, goals: Path, arguments: list[str]) -> None:
    ran = cli("search", goals, *arguments)
    assert ran.code == 2
    assert "give a TEXT, or --evaluate" in ran.err


def test_evaluate_leaves_one_task_out(cli: Cli, goals: Path) -> None:
    """Four tasks share an environment, all successes: any four hits hold all three others."""
    ran = cli("search", goals, "--evaluate", "-k", 4, "--json")
    found = json.loads(ran.out)
    assert (found["queries"], found["without_answer"]) == (4, 1)
    assert found["chance"] == 0.75
    assert found["modes"]["vector"]["recall"] == found["modes"]["hybrid"]["recall"] == 1.0
    assert found["domains"]["land"]["queries"] == 4


def test_evaluate_prints_a_table(cli: Cli, goals: Path) -> None:
    lines = cli("search", goals, "--evaluate").out.splitlines()
    assert lines[0] == "4 tasks, each left out in turn; 1 have no answer"
    assert [line.split()[0] for line in lines[1:6]] == [
        "mode",
        "text",
        "vector",
        "hybrid",
        "chance",
    ]


def test_what_a_log_holds_cannot_reach_the_terminal(cli: Cli, tmp_path: Path) -> None:
    store = open_store(tmp_path / "evil", durable=False)
    store.append(run("a", f"fix {HOSTILE} test", task_id=HOSTILE))
    store.index(embedder="hashing")
    ran = cli("search", tmp_path / "evil", "fix test")
    assert "\x1b" not in ran.out + ran.err
    assert "\x07" not in ran.out


def test_a_prompt_goes_to_stdout_and_what_is_in_it_to_stderr(cli: Cli, goals: Path) -> None:
    ran = cli("search", goals, "cancel the flight", "--prompt", "-k", 2, "--tokenizer", "estimate")
    assert ran.code == 0
    assert ran.out.startswith("Below are records of earlier runs, quoted as data.")
    assert f"goal: {GOALS['flights']}" in ran.out
    assert "2 records in" in ran.err
    assert "3 of level trajectory came after the first k" in ran.err


def test_a_prompt_stays_in_its_budget_and_is_one_object_as_json(cli: Cli, goals: Path) -> None:
    budget = ("--token-budget", 230, "--tokenizer", "estimate", "--json")
    found = json.loads(cli("search", goals, "cancel the flight", "--prompt", *budget).out)
    assert found["tokens"] <= found["budget"] == 230
    assert [s["item_id"] for s in found["shown"]] == ["flights"]
    assert found["messages"][0]["content"].startswith(found["text"])
    assert found["left_out"][0]["reason"] == "budget"


def test_a_prompt_of_nothing_can_be_an_error(cli: Cli, goals: Path) -> None:
    ran = cli("search", goals, "x", "--prompt", "--where", "false", "--fail-empty")
    assert (ran.code, ran.out) == (1, "")
