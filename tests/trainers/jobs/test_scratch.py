from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trajstore.errors import TrainingError
from trajstore.rollouts.templates import BARE
from trajstore.store import Store
from trajstore.trainers import tokenise
from trajstore.trainers.jobs.config import ModelTable, Scratch
from trajstore.trainers.jobs.models import load_model, load_tokenizer
from trajstore.trainers.jobs.scratch import make_scratch, texts_of, train_tokenizer

pytest.importorskip("transformers")


@pytest.fixture(scope="module")
def own(scripted: Path) -> Any:
    return train_tokenizer(texts_of(Store(scripted).scan(), BARE), 500)


@given(text=st.text(max_size=40))
def test_any_text_comes_back_as_it_was(text: str, own: Any) -> None:
    ids = own(text, add_special_tokens=False)["input_ids"]
    assert own.decode(ids, clean_up_tokenization_spaces=False) == text


def test_digits_stand_alone(own: Any) -> None:
    tokens = own.convert_ids_to_tokens(own("goes 1234 km", add_special_tokens=False)["input_ids"])
    assert [t for t in tokens if any(c.isdigit() for c in t)] == ["1", "2", "3", "4"]


def test_the_same_runs_give_the_same_tokenizer(own: Any, scripted: Path) -> None:
    again = train_tokenizer(texts_of(Store(scripted).scan(), BARE), 500)
    assert again.get_vocab() == own.get_vocab()


def test_a_model_from_nothing_is_a_folder_of_transformers(scripted: Path, tmp_path: Path) -> None:
    size = Scratch(layers=1, hidden=16, heads=2, vocabulary=400)
    runs = list(Store(scripted).scan())
    for name in ("a", "b"):
        make_scratch(size, runs, BARE, tmp_path / name, seed=7)
    tokenizer = load_tokenizer(tmp_path / "a")
    a, b = (load_model(ModelTable(base="x"), tmp_path / n, None, seed=0) for n in "ab")
    rows = tokenise(runs[0], tokenizer, BARE)
    assert len(tokenizer) <= 400
    assert int(rows[0].token_ids.max()) < a.config.vocab_size == len(tokenizer)
    assert all(bool((p == q).all()) for p, q in zip(a.parameters(), b.parameters(), strict=True))


def test_no_text_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match="no run to train a tokenizer on"):
        make_scratch(Scratch(), [], BARE, tmp_path / "m", seed=0)
