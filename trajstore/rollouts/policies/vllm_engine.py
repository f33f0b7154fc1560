"""A policy on a vLLM engine in this process, tokens in and tokens out, without a server."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from queue import SimpleQueue
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any

from trajstore._optional import require
from trajstore.errors import ContextFullError
from trajstore.rollouts.dialect import calls_in
from trajstore.rollouts.environment import Tool
from trajstore.rollouts.policies.sampling import (
    LogprobsMode,
    Sampling,
    tokens_and_logprobs,
    told_mode,
    turn_seed,
)
from trajstore.rollouts.policies.vllm_weights import is_adapter
from trajstore.rollouts.policy import Message, Response, Usage

if TYPE_CHECKING:
    from trajstore.rollouts.dialect import Dialect


@dataclass(frozen=True, slots=True, kw_only=True)
class _Weights:
    """What the engine samples from."""

    version: str | None
    adapter: Any = None
    """A ``LoRARequest``, where it is an adapter."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Asked:
    """One turn that a thread waits for."""

    prompt: list[int]
    seed: int
    answer: Future[tuple[Any, str | None]] = field(default_factory=Future)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Change:
    """New weights that a thread waits for."""

    checkpoint: Path
    version: str
    answer: Future[None] = field(default_factory=Future)


class VllmEnginePolicy:
    """Samples from ``vllm.LLM``. Threads share it; one worker feeds the engine.

    A request joins those under way at the engine's next step, so attempts never wait for each
    other. Make the engine with ``logprobs_mode="processed_logprobs"``, and with
    ``enable_lora=True`` if adapters are to be loaded. It needs vLLM in this very Python.
    """

    def __init__(
        self,
        llm: Any,
        dialect: Dialect,
        *,
        agent: str = "react",
        name: str | None = None,
        version: str | None = None,
        sampling: Sampling | None = None,
        logprobs_mode: LogprobsMode = "processed_logprobs",
    ) -> None:
        """Take an engine; nothing is sampled yet.

        Args:
            llm: a ``vllm.LLM`` that nobody else uses.
            dialect: messages to tokens and back, with the tokenizer and template of the model.
            agent: name of the scaffold, for the trajectories.
            name: of the model, for the trajectories.
            version: of its weights.
            sampling: how to draw; from the model's own distribution where None.
            logprobs_mode: what the engine was made with.
        """
        self.agent = agent
        self.model = name
        self._llm = llm
        self._engine = llm.llm_engine
        self._dialect = dialect
        self._sampling = sampling or Sampling()
        self._mode = logprobs_mode
        self._weights = _Weights(version=version)
        self._numbers = count(1)
        self._waiting: SimpleQueue[_Asked | _Change] = SimpleQueue()
        self._running: dict[str, tuple[_Asked, str | None]] = {}
        self._starting = Lock()
        self._worker: Thread | None = None

    @property
    def version(self) -> str | None:
        """Of the weights that the next request samples from."""
        return self._weights.version

    def act(self, messages: Sequence[Message], tools: Sequence[Tool], *, seed: int) -> Response:
        """Sample one turn.

        Args:
            messages: the conversation so far, oldest first.
            tools: the tools on offer.
            seed: number of the attempt.

        Raises:
            TrainingError: the template refuses the messages.
            ContextFullError: the prompt is longer than the engine can read.
        """
        drawn = turn_seed(seed, messages)
        asked = _Asked(prompt=list(self._dialect.prompt(messages, tools)), seed=drawn)
        self._put(asked)
        output, version = asked.answer.result()
        (choice,) = output.outputs
        written, logprobs = _sampled(choice)
        action, broken = self._dialect.read(written, calls_before=calls_in(messages))
        return Response(
            action=action,
            usage=Usage(
                prompt_tokens=len(output.prompt_token_ids),
                completion_tokens=len(written),
                cached_tokens=output.num_cached_tokens,
            ),
            format_error=broken,
            prompt_token_ids=tuple(output.prompt_token_ids),
            completion_token_ids=written,
            logprobs=logprobs,
            sampling=self._sampling.told(drawn, told_mode(self._sampling, self._mode)),
            metadata={"finish_reason": choice.finish_reason, "policy_version": version},
        )

    def update(self, checkpoint: Path, version: str) -> None:
        """Sample from new weights from now on; requests under way end with the old ones.

        Args:
            checkpoint: folder with a PEFT adapter or with full weights.
            version: what trajectories call them.

        Raises:
            EndpointError: the folder holds neither.
        """
        change = _Change(checkpoint=Path(checkpoint), version=version)
        self._put(change)
        change.answer.result()

    def _put(self, item: _Asked | _Change) -> None:
        with self._starting:
            if self._worker is None or not self._worker.is_alive():
                self._worker = Thread(target=self._work, daemon=True)
                self._worker.start()
            self._waiting.put(item)

    def _work(self) -> None:
        while True:
            if not self._running:
                self._take(self._waiting.get())
            while not self._waiting.empty():
                self._take(self._waiting.get())
            if self._running:
                self._step()

    def _take(self, item: _Asked | _Change) -> None:
        """Begin a request, or put in new weights; what goes wrong is raised where it was asked."""
        try:
            if isinstance(item, _Change):
                self._change(item)
                item.answer.set_result(None)
            else:
                self._begin(item)
        except Exception as error:  # noqa: BLE001 - raised in the thread that waits
            item.answer.set_exception(error)

    def _begin(self, asked: _Asked) -> None:
        vllm = require("vllm", extra="train", purpose="Sampling from a vLLM engine")
        drawn, number = self._sampling, str(next(self._numbers))
        parameters = vllm.SamplingParams(
            temperature=drawn.temperature,
            max_tokens=drawn.max_tokens,
            top_p=drawn.top_p,
            top_k=drawn.top_k,
            seed=asked.seed,
            logprobs=0,
            stop_token_ids=list(self._dialect.stop_ids),
        )
        prompt = {"prompt_token_ids": asked.prompt}
        weights = self._weights
        try:
            self._engine.add_request(number, prompt, parameters, lora_request=weights.adapter)
        except ValueError as error:
            if "maximum model length" in str(error):
                raise ContextFullError(str(error)) from error
            raise
        self._running[number] = asked, weights.version

    def _step(self) -> None:
        """One step of the engine; an engine that fails fails all that it has begun."""
        try:
            for output in self._engine.step():
                if output.finished:
                    asked, version = self._running.pop(str(output.request_id))
                    asked.answer.set_result((output, version))
        except Exception as error:  # noqa: BLE001 - raised in the threads that wait
            failed, self._running = self._running, {}
            for asked, _ in failed.values():
                asked.answer.set_exception(error)

    def _change(self, change: _Change) -> None:
        if is_adapter(change.checkpoint):
            lora = require("vllm.lora.request", extra="train", purpose="Loading an adapter")
            number = next(self._numbers)
            adapter = lora.LoRARequest(change.version, number, str(change.checkpoint.resolve()))
            self._weights = _Weights(version=change.version, adapter=adapter)
            return
        while self._running:
            self._step()
        path = str(change.checkpoint.resolve())
        self._llm.collective_rpc("reload_weights", kwargs={"weights_path": path})
        self._llm.reset_prefix_cache()
        self._weights = _Weights(version=change.version)


def _sampled(choice: Any) -> tuple[tuple[int, ...], tuple[float, ...]]:
    """Tokens, and the log-probability of each; vLLM gives a table a place, the drawn one in it."""
    ids = list(choice.token_ids)
    found = [place[token].logprob for token, place in zip(ids, choice.logprobs, strict=True)]
    return tokens_and_logprobs(ids, found, "the completion")
