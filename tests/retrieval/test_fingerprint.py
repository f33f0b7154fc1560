"""What decides vectors is kept, and compared."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from trajstore.retrieval import Fingerprint
from trajstore.retrieval.fingerprint import hash_files

ONE = Fingerprint(model="m", weights="w", dimension=3, normalised=True, max_tokens=8)


def test_it_survives_json() -> None:
    assert Fingerprint.from_json(ONE.to_json()) == ONE


@pytest.mark.parametrize(
    "change",
    [{"model": "n"}, {"weights": "v"}, {"dimension": 4}, {"prompt": "query: "}, {"max_tokens": 9}],
    ids=lambda c: next(iter(c)),
)
def test_every_field_counts(change: dict[str, object]) -> None:
    assert replace(ONE, **change).key() != ONE.key()  # type: ignore[arg-type]


def test_weights_are_hashed_by_content_and_name(tmp_path: Path) -> None:
    files = [tmp_path / "a.safetensors", tmp_path / "b.safetensors"]
    for file in files:
        file.write_bytes(b"weights")
    first = hash_files(files)
    assert hash_files(reversed(files)) == first
    files[0].write_bytes(b"Weights")
    assert hash_files(files) != first
