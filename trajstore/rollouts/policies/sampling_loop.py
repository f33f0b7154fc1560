"""Tokens out of a causal language model of transformers, many requests in one batch."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from trajstore._optional import require

Tensor = Any
"""A tensor of torch, which this package does not import."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One turn to sample."""

    prompt: Sequence[int]
    """Tokens to read, at least one."""
    seed: int
    """What the tokens are drawn by, whatever else is in the batch."""
    max_tokens: int
    """Tokens to write at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampled:
    """What was sampled for a request."""

    token_ids: tuple[int, ...]
    """With the stop token, if there was one."""
    logprobs: tuple[float, ...]
    """Natural-log probability of each token in the distribution that it was drawn from; at
    temperature 0, that of temperature 1."""
    stopped: bool
    """Whether a stop token ended it; else it is as long as was allowed."""


def sample(
    model: Any,
    requests: Sequence[Request],
    *,
    stop_ids: Sequence[int],
    temperature: float = 1.0,
) -> Iterator[tuple[int, Sampled]]:
    """Draw from the whole distribution, and hand out each request as it ends.

    Prompts are padded on the left and share one cache; who has ended leaves the batch. The uniform
    numbers of a request come from its own seed, and a token is the one where the cumulated
    distribution passes that number. So the other requests of the batch change nothing but the last
    digits of the logits.

    Args:
        model: a causal language model of transformers; it is put into evaluation mode meanwhile.
        requests: what to sample, at least one.
        stop_ids: tokens that end a request.
        temperature: logits are divided by it; 0 takes the likeliest token.

    Yields:
        The place of a request and what was sampled.
    """
    torch = require("torch", extra="train", purpose="Sampling from a model")
    was_training = model.training
    model.eval()
    try:
        with torch.no_grad():
            batch = _Batch(torch, model, requests, temperature)
            yield from batch.run(frozenset(stop_ids))
    finally:
        model.train(was_training)


class _Batch:
    """The requests that have not ended, row by row; a row leaves when its request ends."""

    def __init__(
        self, torch: Any, model: Any, requests: Sequence[Request], temperature: float
    ) -> None:
        self._torch = torch
        self._call = partial(model, use_cache=True, logits_to_keep=1)
        self._cache_name = _cache_name(model)
        self._device = next(model.parameters()).device
        self._temperature = temperature
        self._limits = [r.max_tokens for r in requests]
        self._places = list(range(len(requests)))
        self._ids: list[list[int]] = [[] for _ in requests]
        self._logprobs: list[list[float]] = [[] for _ in requests]
        length = max(len(r.prompt) for r in requests)
        blanks = [length - len(r.prompt) for r in requests]
        rows = [[0] * b + list(r.prompt) for b, r in zip(blanks, requests, strict=True)]
        self._next = torch.tensor(rows, device=self._device)
        self._mask = (torch.arange(length) >= torch.tensor(blanks).unsqueeze(1)).to(
            self._device, torch.long
        )
        self._positions = (self._mask.cumsum(1) - 1).clamp(min=0)
        self._draws = torch.stack([_uniform(torch, r.seed, max(self._limits)) for r in requests])
        self._cache: Any = None

    def run(self, stop_ids: frozenset[int]) -> Iterator[tuple[int, Sampled]]:
        for count in range(1, max(self._limits) + 1):
            ids, logprobs = self._step(count - 1)
            going = []
            for row, place in enumerate(self._places):
                self._ids[place].append(ids[row])
                self._logprobs[place].append(logprobs[row])
                stopped = ids[row] in stop_ids
                if stopped or count == self._limits[place]:
                    yield place, self._sampled(place, stopped=stopped)
                else:
                    going.append(row)
            if not going:
                return
            self._keep(going)

    def _step(self, count: int) -> tuple[list[int], list[float]]:
        """One more token of each row, and its log-probability."""
        torch = self._torch
        out = self._call(
            input_ids=self._next,
            attention_mask=self._mask,
            position_ids=self._positions,
            **{self._cache_name: self._cache},
        )
        self._cache = getattr(out, self._cache_name)
        logits = out.logits[:, -1].float()
        if self._temperature > 0:
            logprobs = (logits / self._temperature).log_softmax(-1)
            chosen = _drawn(torch, logprobs, self._draws[:, count].to(self._device))
        else:
            logprobs = logits.log_softmax(-1)
            chosen = logits.argmax(-1)
        self._next = chosen.unsqueeze(1)
        self._positions = self._positions[:, -1:] + 1
        self._mask = torch.nn.functional.pad(self._mask, (0, 1), value=1)
        return chosen.tolist(), logprobs.gather(-1, self._next).squeeze(1).tolist()

    def _keep(self, rows: list[int]) -> None:
        """Let the other rows go."""
        if len(rows) == len(self._places):
            return
        at = self._torch.tensor(rows, device=self._device)
        self._cache.batch_select_indices(at)
        self._places = [self._places[row] for row in rows]
        self._next, self._positions = self._next[at], self._positions[at]
        self._mask, self._draws = self._mask[at], self._draws[at.cpu()]

    def _sampled(self, place: int, *, stopped: bool) -> Sampled:
        return Sampled(
            token_ids=tuple(self._ids[place]),
            logprobs=tuple(self._logprobs[place]),
            stopped=stopped,
        )


def _uniform(torch: Any, seed: int, count: int) -> Tensor:
    """(count,) float64 from 0 to 1, the same for a seed on every device."""
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(count, generator=generator, dtype=torch.float64)


def _drawn(torch: Any, logprobs: Tensor, draws: Tensor) -> Tensor:
    """(B,) the first token at which the cumulated chance passes the drawn number.

    A token without a chance is never drawn: the sum does not grow there.
    """
    sums = logprobs.double().exp().cumsum(-1)
    wanted = (draws.unsqueeze(1) * sums[:, -1:]).contiguous()
    found = torch.searchsorted(sums, wanted, right=True).squeeze(1)
    return found.clamp(max=logprobs.shape[-1] - 1)


def _cache_name(model: Any) -> str:
    """What the model calls its cache: transformers 5.20 or so gave it another name."""
    bare = model.get_base_model() if hasattr(model, "get_base_model") else model
    given = inspect.signature(type(bare).forward).parameters
    return "cache" if "cache" in given else "past_key_values"
