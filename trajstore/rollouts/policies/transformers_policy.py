"""A policy in this process: a causal language model of transformers."""

from __future__ import annotations

import copy
import time
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Lock, Thread
from typing import Any

from trajstore._optional import require
from trajstore.errors import ContextFullError
from trajstore.rollouts.dialect import Dialect, calls_in
from trajstore.rollouts.environment import Tool
from trajstore.rollouts.policies.sampling import Sampling, turn_seed
from trajstore.rollouts.policies.sampling_loop import Request, Sampled, sample
from trajstore.rollouts.policy import Message, Response, Usage

_GAP_S = 0.004
"""A batch begins once no request has come for so long."""

_LONGEST_GAP_S = 0.25
"""It begins after that long whatever comes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Weights:
    """What samples."""

    model: Any
    version: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """One turn that a thread waits for."""

    request: Request
    answer: Future[tuple[Sampled, str | None]] = field(default_factory=Future)


class TransformersPolicy:
    """Samples from a model in this process, tokens in and tokens out; threads share it.

    One worker gathers the requests of all attempts that wait and samples them in one batch. Tokens
    are drawn from the whole distribution, with the seed of attempt and turn, and stored with their
    exact log-probabilities: in float32 they are those that a trainer computes, to about 1e-5.
    """

    def __init__(  # noqa: PLR0913 - the knobs of sampling
        self,
        model: Any,
        dialect: Dialect,
        *,
        agent: str = "react",
        name: str | None = None,
        version: str | None = None,
        temperature: float = 1.0,
        max_tokens: int = 256,
        max_batch: int = 64,
        device: str | None = None,
    ) -> None:
        """Take a model; nothing is sampled yet.

        Args:
            model: a causal language model of transformers, adapters and all.
            dialect: messages to tokens and back, with the tokenizer of the model.
            agent: name of the scaffold, for the trajectories.
            name: of the model, for the trajectories.
            version: of its weights.
            temperature: logits are divided by it; 0 takes the likeliest token.
            max_tokens: tokens of one turn at most.
            max_batch: turns that are sampled at once.
            device: where the model goes; it stays where it is if None.

        Raises:
            ValueError: a number is out of range.
        """
        if temperature < 0 or max_tokens < 1 or max_batch < 1:
            message = (
                "temperature starts at 0, max_tokens and max_batch at 1, not "
                f"{temperature}, {max_tokens} and {max_batch}"
            )
            raise ValueError(message)
        self.agent = agent
        self.model = name
        self._dialect = dialect
        self._sampling = Sampling(temperature=temperature, max_tokens=max_tokens)
        self._max_batch = max_batch
        self._device = device
        self._weights = _Weights(model=self._placed(model), version=version)
        self._own_adapter = False
        self._asked: SimpleQueue[_Asked] = SimpleQueue()
        self._sampling_now = Lock()
        self._starting = Lock()
        self._worker: Thread | None = None

    @property
    def version(self) -> str | None:
        """Of the weights that the next request samples from."""
        return self._weights.version

    def act(self, messages: Sequence[Message], tools: Sequence[Tool], *, seed: int) -> Response:
        """Sample one turn; returns once the batch that it is part of has come to its end of turn.

        Args:
            messages: the conversation so far, oldest first.
            tools: the tools on offer.
            seed: number of the attempt.

        Raises:
            TrainingError: the template refuses the messages.
            ContextFullError: the prompt is as long as the model can read.
        """
        prompt = self._dialect.prompt(messages, tools)
        own = turn_seed(seed, messages)
        most = min(self._sampling.max_tokens, self._room(len(prompt)))
        asked = _Asked(request=Request(prompt=prompt, seed=own, max_tokens=most))
        self._start()
        self._asked.put(asked)
        sampled, version = asked.answer.result()
        action, broken = self._dialect.read(sampled.token_ids, calls_before=calls_in(messages))
        greedy = self._sampling.temperature == 0
        return Response(
            action=action,
            usage=Usage(prompt_tokens=len(prompt), completion_tokens=len(sampled.token_ids)),
            format_error=broken,
            prompt_token_ids=tuple(prompt),
            completion_token_ids=sampled.token_ids,
            logprobs=sampled.logprobs,
            sampling=self._sampling.told(own, "raw_logprobs" if greedy else "processed_logprobs"),
            metadata={
                "policy_version": version,
                "finish_reason": "stop" if sampled.stopped else "length",
            },
        )

    def update(self, checkpoint: Path | None, version: str, model: Any = None) -> None:
        """Sample from new weights from now on; the batch under way ends with the old ones.

        Args:
            checkpoint: a folder with full weights, or with a PEFT adapter for the model that this
                policy was made with; None for a live model.
            version: what the trajectories call them.
            model: the live model instead of a folder.

        Raises:
            ValueError: neither or both are given.
        """
        if (checkpoint is None) == (model is None):
            raise ValueError("give either a checkpoint or a model")
        if checkpoint is not None:
            model = self._loaded(Path(checkpoint))
        else:
            self._own_adapter = False
        with self._sampling_now:
            self._weights = _Weights(model=self._placed(model), version=version)

    def _loaded(self, checkpoint: Path) -> Any:
        now = self._weights.model
        if not (checkpoint / "adapter_config.json").is_file():
            transformers = require("transformers", extra="train", purpose="Loading a model")
            dtype = next(now.parameters()).dtype
            return transformers.AutoModelForCausalLM.from_pretrained(checkpoint, dtype=dtype)
        peft = require("peft", extra="train", purpose="Loading an adapter")
        with self._sampling_now:
            bare = self._bare(now) if isinstance(now, peft.PeftModel) else now
        self._own_adapter = True
        return peft.PeftModel.from_pretrained(bare, str(checkpoint))

    def _bare(self, model: Any) -> Any:
        """The model without adapters; one that somebody else holds is left as it is."""
        return (model if self._own_adapter else copy.deepcopy(model)).unload()

    def _placed(self, model: Any) -> Any:
        return model if self._device is None else model.to(self._device)

    def _room(self, length: int) -> int:
        """Tokens that the model can write behind so many."""
        most = getattr(self._weights.model.config, "max_position_embeddings", None)
        if most is None:
            return self._sampling.max_tokens
        if length >= most:
            message = (
                f"the conversation has {length} tokens and the model reads {most} at most; allow "
                "fewer steps or shorter turns (max_steps, max_tokens)"
            )
            raise ContextFullError(message)
        return int(most) - length

    def _start(self) -> None:
        with self._starting:
            if self._worker is None or not self._worker.is_alive():
                self._worker = Thread(target=self._work, daemon=True)
                self._worker.start()

    def _work(self) -> None:
        while True:
            batch = self._gather()
            with self._sampling_now:
                self._answer(batch, self._weights)

    def _gather(self) -> list[_Asked]:
        """What waits, once no more comes for a moment: attempts come back in a bunch."""
        batch = [self._asked.get()]
        deadline = time.monotonic() + _LONGEST_GAP_S
        while len(batch) < self._max_batch and time.monotonic() < deadline:
            try:
                batch.append(self._asked.get(timeout=_GAP_S))
            except Empty:
                break
        return batch

    def _answer(self, batch: Sequence[_Asked], weights: _Weights) -> None:
        """Sample a batch and wake the threads; what goes wrong is raised in each of them."""
        open_ = dict(enumerate(batch))
        try:
            for place, sampled in sample(
                weights.model,
                [asked.request for asked in batch],
                stop_ids=self._dialect.stop_ids,
                temperature=self._sampling.temperature,
            ):
                open_.pop(place).answer.set_result((sampled, weights.version))
        except Exception as error:  # noqa: BLE001 - raised by act, in the thread of the attempt
            for asked in open_.values():
                asked.answer.set_exception(error)
