"""Stages of recipes: the registry's, each error with its line, nothing left to clock or chance."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.pipeline.recipes import small_store, written
from trajstore.errors import RecipeError
from trajstore.filters import stage
from trajstore.pipeline import build, read_recipe

SET = '\n[[dataset]]\nkind = "sft"\n'


def stages(text: str, folder: Path) -> list[dict[str, object]]:
    recipe = read_recipe(written(folder, text + SET))
    return [{"stage": s.name, **s.parameters()} for s in recipe.stages]


def failure(text: str, folder: Path) -> str:
    with pytest.raises(RecipeError) as caught:
        read_recipe(written(folder, text))
    return str(caught.value).removeprefix(f"{folder}/")


def test_a_stage_is_the_one_of_the_registry(tmp_path: Path) -> None:
    made = stages('[[select]]\nstage = "top-n"\nn = 2\ncost = "tokens"\n', tmp_path)
    plain = stage("top-n", n=2, cost="tokens")
    assert made == [{"stage": "top-n", **plain.parameters()}]


WRONG = {
    "name": ('[[select]]\nstage = "succes"\n', 2, "no stage 'succes'. Did you mean 'success'?"),
    "no name": ("[[select]]\nn = 2\n", 1, "[[select]] needs stage ="),
    "parameter": (
        '[[select]]\nstage = "top-n"\nn = 2\ncosts = "tokens"\n',
        4,
        "The stage 'top-n' has no parameter 'costs'. Did you mean 'cost'? Parameters of 'top-n': n",
    ),
    "value": ('[[select]]\nstage = "top-n"\n\nn = "2"\n', 4, "cannot take n='2'"),
    "missing": ('[[select]]\nstage = "top-n"\n', 1, "The stage 'top-n' needs n."),
    "its own rule": (
        '[[select]]\nstage = "expiry"\nttl_s = -1.0\nnow = 2026-01-01T00:00:00Z\n',
        3,
        "needs a ttl_s of 0 or more",
    ),
    "in a set": (
        f'{SET}[[dataset.select]]\nstage = "success"\n[[dataset.select]]\nstage = "stepz"\n',
        7,
        "Did you mean 'steps'?",
    ),
    "split": ('[[select]]\nstage = "split"\n', 2, "write a table [split] instead"),
    "seed": ('[[select]]\nstage = "sample"\nn = 2\n', 1, "needs a seed"),
    "clock": ('[[select]]\nstage = "expiry"\nttl_s = 60\n', 1, "needs 'now'"),
    "clock in SQL": (
        '[[select]]\nstage = "where"\ncondition = "ended_at > NOW() - INTERVAL 7 DAY"\n',
        3,
        "The condition asks for NOW, which changes",
    ),
    "date in SQL": ('[[select]]\nstage = "keep"\ncondition = "x > current_date"\n', 3, "changes"),
    "chance in SQL": ('[[select]]\nstage = "where"\ncondition = "random() < .5"\n', 3, "changes"),
}


@pytest.mark.parametrize(("text", "line", "words"), WRONG.values(), ids=WRONG.keys())
def test_an_error_names_the_line_and_what_is_real(
    text: str, line: int, words: str, tmp_path: Path
) -> None:
    said = failure(text + ("" if "dataset" in text else SET), tmp_path)
    assert said.startswith(f"recipe.toml:{line}: ")
    assert words in said


def test_words_in_a_text_are_no_clock(tmp_path: Path) -> None:
    condition = "goal <> 'now() or random()' AND knowledge = 1"
    text = f'[[select]]\nstage = "where"\ncondition = "{condition}"\n'
    assert stages(text, tmp_path) == [{"stage": "where", "condition": condition}]


def test_the_seed_at_the_top_is_for_every_stage_without_one(tmp_path: Path) -> None:
    draws = '[[select]]\nstage = "sample"\nn = 3\n'
    made = stages(f"seed = 7\n{draws}{draws}seed = 8\n", tmp_path)
    assert [s["seed"] for s in made] == [7, 8]


def test_a_moment_in_toml_is_told_as_text(tmp_path: Path) -> None:
    text = '[[select]]\nstage = "expiry"\nnow = 2026-03-01T12:00:00Z\n'
    assert json.dumps(stages(text, tmp_path)[0]["now"]) == '"2026-03-01T12:00:00+00:00"'


def test_a_file_is_found_beside_the_recipe_and_told_as_written(tmp_path: Path) -> None:
    (tmp_path / "held.jsonl").write_text('{"task_id": "task-1"}\n')
    text = '[[select]]\nstage = "contamination"\nfile = "held.jsonl"\n'
    made = stages(text, tmp_path)[0]
    assert made["file"] == "held.jsonl"
    assert len(str(made["file_sha256"])) == 64


def test_a_stage_that_fails_names_its_line(tmp_path: Path) -> None:
    text = '[[select]]\nstage = "keep"\ncondition = "no_such_column > 1"\n'
    path = written(tmp_path, text + SET)
    with pytest.raises(RecipeError, match=r"recipe\.toml:1: The stage 'keep' failed: .*no_such"):
        build(path, store=small_store(tmp_path / "pool"), output=tmp_path / "sets")
