"""What a recipe may say, and what is answered where it says something else."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.pipeline.recipes import written
from trajstore.errors import RecipeError
from trajstore.pipeline import read_recipe

SFT = '[[dataset]]\nkind = "sft"\n'

WRONG = {
    "key": ('stor = "pool"\n', 1, "There is no 'stor' in the recipe. Did you mean 'store'?"),
    "no set": ('store = "pool"\n', 1, "makes no set: add a [[dataset]]"),
    "syntax": ('store = "pool"\noutput = \n', 2, "This is no TOML: Invalid value"),
    "type": (f"store = 3\n{SFT}", 1, "'store' must be a text, not 3"),
    "bool is no number": (f"seed = true\n{SFT}", 1, "'seed' must be a whole number, not True"),
    "one table": (f'[select]\nstage = "success"\n{SFT}', 1, "write [[select]], not [select]"),
    "dataset list": ('dataset = "sft"\n', 1, "write [[dataset]], not 'sft'"),
    "kind": ('[[dataset]]\nkind = "sfd"\n', 2, "no kind 'sfd'. Did you mean 'sft'?"),
    "no kind": ('[[dataset]]\nto = "trl"\n', 1, "[[dataset]] needs 'kind': one of sft"),
    "target": (f'{SFT}to = "trll"\n', 3, "cannot be written for 'trll'. Did you mean 'trl'?"),
    "format": (f'{SFT}format = "csv"\n', 3, "'format' must be 'parquet' or 'jsonl', not 'csv'"),
    "option": (
        f'{SFT}[dataset.options]\nmedia = "mark"\nlayuot = "messages"\n',
        5,
        "no 'layuot' in [dataset.options]. Did you mean 'layout'?",
    ),
    "option's value": (
        f'{SFT}options = {{ layout = "chat" }}\n',
        3,
        "'layout' must be 'messages' or 'prompt-completion', not 'chat'",
    ),
    "twice": (f"{SFT}\n{SFT}", 5, "There are two sets 'sft'"),
    "twice but for case": (f'{SFT}\n{SFT}name = "SFT"\n', 6, "There are two sets 'SFT'"),
    "folder": (f'{SFT}name = "../sft"\n', 3, "'../sft' is no folder's"),
    "hidden": (f'{SFT}name = ".sft"\n', 3, "'.sft' is no folder's"),
    "no such split": (
        f'[split]\nshares = {{ val = 0.1 }}\n{SFT}split = "eval"\n',
        5,
        "There is no split 'eval'. Did you mean 'val'? There are: val, train.",
    ),
    "no split at all": (f'{SFT}split = "val"\n', 3, "the recipe has no table [split]"),
    "split not said": (f"[split]\n{SFT}", 2, "does not say its split, and none is taken"),
    "shares": (
        f"[split]\nrest = 'train'\nshares = {{ val = 1.5 }}\n{SFT}split = 'val'\n",
        3,
        "shares above 0 with a sum below 1",
    ),
    "share's type": (f"[split]\nshares = {{ val = 'x' }}\n{SFT}", 2, "'shares' must be a table"),
    "import": (f'[import]\nformat = "auto"\n{SFT}', 1, "[import] needs 'paths'"),
    "import paths": (f'[import]\npaths = "runs"\n{SFT}', 2, "'paths' must be a list, not 'runs'"),
    "import of an old snapshot": (
        f'snapshot = 3\n[import]\npaths = ["runs"]\n{SFT}',
        1,
        "leave one of the two out",
    ),
}


@pytest.mark.parametrize(("text", "line", "words"), WRONG.values(), ids=WRONG.keys())
def test_an_error_names_file_and_line_and_what_is_real(
    text: str, line: int, words: str, tmp_path: Path
) -> None:
    path = written(tmp_path, text)
    with pytest.raises(RecipeError) as caught:
        read_recipe(path)
    assert str(caught.value).startswith(f"{path}:{line}: ")
    assert words in str(caught.value)
    assert (caught.value.path, caught.value.line) == (str(path), line)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match=r"nowhere\.toml cannot be read: No such file"):
        read_recipe(tmp_path / "nowhere.toml")


def test_what_is_not_said_has_a_default(tmp_path: Path) -> None:
    recipe = read_recipe(written(tmp_path, SFT))
    (dataset,) = recipe.datasets
    assert (dataset.name, dataset.to, dataset.split, dataset.format) == ("sft", "trl", None, None)
    assert (recipe.seed, recipe.snapshot, recipe.imports, recipe.split) == (None,) * 4


def test_places_are_relative_to_the_recipe_and_a_uri_stays(tmp_path: Path) -> None:
    path = written(tmp_path, f'store = "s3://bucket/pool"\noutput = "a/sets"\n{SFT}')
    recipe = read_recipe(path)
    assert recipe.store_uri() == "s3://bucket/pool"
    assert recipe.output_folder() == tmp_path / "a/sets"


def test_sets_do_not_go_to_a_uri(tmp_path: Path) -> None:
    recipe = read_recipe(written(tmp_path, f'output = "s3://b/sets"\n{SFT}'))
    with pytest.raises(RecipeError, match=r"recipe\.toml:1: .* a local folder, not to s3://b/sets"):
        recipe.output_folder()


@pytest.mark.parametrize("name", ["store_uri", "output_folder"])
def test_a_place_that_is_not_said_is_asked_for(name: str, tmp_path: Path) -> None:
    recipe = read_recipe(written(tmp_path, SFT))
    with pytest.raises(RecipeError, match=r"recipe\.toml:1: The recipe needs (store|output) = "):
        getattr(recipe, name)()


SAME = [
    'store = "here"\n' + SFT,
    '# a remark\n[[dataset]]\nkind   =  "sft"',
    'snapshot = 4\noutput = "there"\n' + SFT,
    '[import]\npaths = ["x"]\n' + SFT,
]


@pytest.mark.parametrize("text", SAME, ids=["store", "spaces", "snapshot", "import"])
def test_the_digest_depends_on_what_decides_the_sets_only(text: str, tmp_path: Path) -> None:
    plain = read_recipe(written(tmp_path, SFT)).digest
    assert read_recipe(written(tmp_path, text, "other.toml")).digest == plain


@pytest.mark.parametrize("more", ['to = "verl"\n', '[[select]]\nstage = "success"\n'])
def test_the_digest_changes_with_the_sets(more: str, tmp_path: Path) -> None:
    plain = read_recipe(written(tmp_path, SFT)).digest
    assert read_recipe(written(tmp_path, SFT + more, "other.toml")).digest != plain
