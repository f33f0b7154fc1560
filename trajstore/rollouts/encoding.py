"""Text to tokens, with the proof that nothing was lost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trajstore.errors import TrainingError

_PIECES = ("x", "y", " z")


def encode(texts: Sequence[str], tokenizer: Any) -> list[list[int]]:
    """The tokens of each text, no special tokens added.

    Args:
        texts: what to tokenise.
        tokenizer: of transformers. The fast kind works on all cores.

    Raises:
        TrainingError: the tokens do not decode to the text again: the tokenizer normalises text,
            does not know all of it, or puts a space before what it is given.
    """
    _check_joins(tokenizer)
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        ids = [tokenizer(text, add_special_tokens=False)["input_ids"] for text in texts]
        again = [tokenizer.decode(i, clean_up_tokenization_spaces=False) for i in ids]
    else:
        found = backend.encode_batch_fast(list(texts), add_special_tokens=False)
        ids = [f.ids for f in found]
        again = backend.decode_batch(ids, skip_special_tokens=False)
    for text, decoded in zip(texts, again, strict=True):
        if text != decoded:
            raise TrainingError(_differs(text, decoded))
    return ids


def decode(rows: Sequence[Sequence[int]], tokenizer: Any, *, special: bool = True) -> list[str]:
    """The text of each row of tokens, which are in the vocabulary, as they stand.

    Args:
        rows: tokens.
        tokenizer: of transformers.
        special: also write special tokens.
    """
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is not None:
        texts: list[str] = backend.decode_batch(
            [list(row) for row in rows], skip_special_tokens=not special
        )
        return texts
    return [
        tokenizer.decode(
            list(row), skip_special_tokens=not special, clean_up_tokenization_spaces=False
        )
        for row in rows
    ]


def _check_joins(tokenizer: Any) -> None:
    """Check that pieces tokenised one by one decode to the whole."""
    backend = getattr(tokenizer, "backend_tokenizer", tokenizer)
    if backend is tokenizer:
        ids = [i for p in _PIECES for i in tokenizer(p, add_special_tokens=False)["input_ids"]]
        whole = tokenizer.decode(ids, clean_up_tokenization_spaces=False)
    else:
        ids = [i for p in _PIECES for i in backend.encode(p, add_special_tokens=False).ids]
        whole = backend.decode(ids, skip_special_tokens=False)
    if whole != "".join(_PIECES):
        raise TrainingError(_differs("".join(_PIECES), whole))


def _differs(text: str, decoded: str) -> str:
    place = next(
        (i for i, (a, b) in enumerate(zip(text, decoded, strict=False)) if a != b),
        min(len(text), len(decoded)),
    )
    return (
        f"the tokenizer does not give text back: {text[place : place + 20]!r} became "
        f"{decoded[place : place + 20]!r}; a byte-level tokenizer does, and stored token ids need "
        "none"
    )
