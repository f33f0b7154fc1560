"""A dialect without a tokenizer: a word is a token, and the vocabulary is made as it is needed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trajstore.rollouts import Action


class Words:
    """What policies ask of a ``Dialect``."""

    stop_ids: tuple[int, ...] = (0,)

    def __init__(self) -> None:
        self.known = ["<end>"]

    def tokens(self, text: str) -> list[int]:
        for word in text.split():
            if word not in self.known:
                self.known.append(word)
        return [self.known.index(word) for word in text.split()]

    def prompt(self, messages: Sequence[Any], tools: Sequence[Any]) -> list[int]:
        del tools
        return self.tokens(" ".join(str(m["content"]) for m in messages))

    def read(self, token_ids: Sequence[int], *, calls_before: int = 0) -> tuple[Action, bool]:
        del calls_before
        text = " ".join(self.known[token] for token in token_ids if token)
        return Action(text=text), "broken" in text
