"""Kinds of sets: the keys that each reads, and what five tasks give, each won and lost once."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.pipeline.recipes import PLACES, SPLIT, small_store, written
from trajstore.errors import RecipeError
from trajstore.exports import SftOptions
from trajstore.exports.rl import PromptOptions
from trajstore.pairs import GroupOptions, RunRules, StepPairOptions, TrajectoryPairOptions
from trajstore.pipeline import build, read_recipe
from trajstore.pipeline.recipe_kinds import KINDS

ALL = [(kind, to) for kind, made in KINDS.items() for to in made.targets()]


def settings(text: str, folder: Path) -> dict[str, object]:
    return dict(read_recipe(written(folder, text)).datasets[0].settings)


def dataset(kind: str, more: str = "") -> str:
    return f'[[dataset]]\nkind = "{kind}"\n{more}'


def test_a_tokenizer_is_found_beside_the_recipe(tmp_path: Path) -> None:
    made = settings(dataset("sft", 'options = { tokenizer = "tokens", max_tokens = 9 }'), tmp_path)
    assert made["options"] == SftOptions(tokenizer=str(tmp_path / "tokens"), max_tokens=9)


def test_pairs_and_rules_for_runs_are_keys_of_one_table(tmp_path: Path) -> None:
    keys = (
        'pairs = { policy = "all_margin", margin = 1, criterion = "success", within = ["model"] }'
    )
    pairing = settings(dataset("dpo", keys), tmp_path)["pairing"]
    rules = RunRules(criterion="success", within=("model",))
    assert pairing == TrajectoryPairOptions(policy="all_margin", margin=1.0, runs=rules)


def test_the_level_says_which_pairs_are_built(tmp_path: Path) -> None:
    keys = 'pairs = { level = "step", least_runs = 2, step_values = ["q"], alpha = 1 }'
    made = settings(dataset("reward", keys), tmp_path)
    assert made["pairing"] == StepPairOptions(least_runs=2)
    assert (made["step_values"], made["alpha"]) == (("q",), 1.0)


def test_the_seed_at_the_top_is_for_pairs_that_are_drawn_too(tmp_path: Path) -> None:
    text = "seed = 7\n" + dataset("dpo", "pairs = { max_pairs = 3 }")
    assert settings(text, tmp_path)["pairing"] == TrajectoryPairOptions(max_pairs=3, seed=7)


def test_groups_without_a_signal_are_left_out_unless_they_are_asked_for(tmp_path: Path) -> None:
    made = settings(dataset("grpo", 'groups = { variant = "rloo" }'), tmp_path)["grouping"]
    assert made == GroupOptions(variant="rloo", no_signal="drop-zero-variance")
    kept = settings(dataset("grpo", 'groups = { no_signal = "keep" }'), tmp_path)["grouping"]
    assert kept == GroupOptions()


def test_kto_judges_by_the_verdict_unless_told_otherwise(tmp_path: Path) -> None:
    assert settings(dataset("kto"), tmp_path)["rules"] == RunRules(
        criterion="success", truncated="keep"
    )
    keys = 'verdicts = { criterion = "reward", pass_threshold = 0.5 }'
    made = settings(dataset("kto", keys), tmp_path)
    assert made["rules"] == RunRules(criterion="reward", truncated="keep")
    assert made["pass_threshold"] == 0.5


def test_prompts_say_the_split_that_they_are_of(tmp_path: Path) -> None:
    text = SPLIT + dataset("prompts", 'split = "val"\n')
    assert settings(text, tmp_path)["options"] == PromptOptions(split="val")


WRONG = {
    "key": (dataset("dpo", "pairs = { polcy = 'x' }"), 3, "Did you mean 'policy'?"),
    "policy": (dataset("dpo", "pairs = { policy = 'best' }"), 3, "'best_worst' or 'all_margin'"),
    "other level": (
        dataset("dpo", '[dataset.pairs]\nlevel = "step"\nk = 3\n'),
        5,
        "There is no 'k' in [dataset.pairs]",
    ),
    "range": (dataset("dpo", "[dataset.pairs]\nk = 0\n"), 4, "k is 0; it must be at least 1"),
    "seed": (dataset("dpo", "pairs = { max_pairs = 3 }"), 3, "are drawn and need a seed"),
    "groups": (dataset("grpo", "groups = { by = ['model'] }"), 3, "several tasks do not compare"),
    "other kind": (dataset("sft", "pairs = { k = 2 }"), 3, "There is no 'pairs' in [[dataset]]"),
    "trainer": (dataset("kto", 'to = "verl"'), 3, "There are: trl, llama-factory."),
    "no table": (dataset("dpo", 'pairs = "all"'), 3, "'pairs' must be a table, not 'all'"),
}


@pytest.mark.parametrize(("text", "line", "words"), WRONG.values(), ids=WRONG.keys())
def test_an_error_names_the_line_and_what_is_real(
    text: str, line: int, words: str, tmp_path: Path
) -> None:
    with pytest.raises(RecipeError) as caught:
        read_recipe(written(tmp_path, text))
    assert caught.value.line == line
    assert words in str(caught.value)


ROWS = {"sft": 5, "dpo": 5, "reward": 5, "kto": 10, "prompts": 5, "grpo": 10}
"""Five tasks with one success and one failure: five successes, five pairs, ten judged runs, five
prompts, five groups of two."""


@pytest.mark.parametrize("kind", KINDS)
def test_a_set_of_each_kind_holds_what_five_tasks_give(kind: str, tmp_path: Path) -> None:
    small_store(tmp_path / "pool")
    (made,) = build(written(tmp_path, PLACES + dataset(kind))).sets
    assert made.rows == ROWS[kind]
    assert pq.read_table(tmp_path / f"sets/{kind}/train.parquet").num_rows == ROWS[kind]


def test_each_pair_chooses_the_success(tmp_path: Path) -> None:
    small_store(tmp_path / "pool")
    build(written(tmp_path, PLACES + dataset("dpo")))
    data = pq.read_table(tmp_path / "sets/dpo/train.parquet")
    assert {i[-2:] for i in data["chosen_id"].to_pylist()} == {"/0"}
    assert {i[-2:] for i in data["rejected_id"].to_pylist()} == {"/1"}


@pytest.mark.parametrize(("kind", "to"), ALL, ids=str)
def test_every_trainer_of_every_kind_can_be_named(kind: str, to: str, tmp_path: Path) -> None:
    small_store(tmp_path / "pool")
    text = PLACES + dataset(kind, f'to = "{to}"\nallow_empty = true\n')
    (made,) = build(written(tmp_path, text)).sets
    own = json.loads((tmp_path / f"sets/{kind}/manifest.json").read_text())
    assert (own["kind"], own["to"]) == (kind, to)
    assert made.rows > 0 or own["refused"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_second_build_of_each_kind_changes_nothing(kind: str, tmp_path: Path) -> None:
    small_store(tmp_path / "pool")
    path = written(tmp_path, PLACES + dataset(kind))
    build(path)
    assert build(path).changes == {}
