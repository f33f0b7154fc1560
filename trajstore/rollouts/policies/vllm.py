"""A policy on a vLLM server, tokens in and tokens out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Condition
from typing import TYPE_CHECKING, Any

from trajstore.errors import EndpointError
from trajstore.rollouts.dialect import calls_in
from trajstore.rollouts.environment import Tool
from trajstore.rollouts.policies.endpoint_answer import usage_of
from trajstore.rollouts.policies.endpoint_client import ModelClient
from trajstore.rollouts.policies.sampling import (
    LogprobsMode,
    Sampling,
    tokens_and_logprobs,
    told_mode,
    turn_seed,
)
from trajstore.rollouts.policies.vllm_weights import VllmWeights, is_adapter
from trajstore.rollouts.policy import Message, Response, Usage

if TYPE_CHECKING:
    from trajstore.rollouts.dialect import Dialect


@dataclass(frozen=True, slots=True, kw_only=True)
class _Weights:
    """What the server samples from."""

    name: str
    """Name of the model or the adapter in a request."""
    version: str | None
    """What the trajectories call it."""
    adapter: bool = False
    """Whether it is an adapter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sampled:
    """What one completion holds."""

    prompt: tuple[int, ...]
    written: tuple[int, ...]
    logprobs: tuple[float, ...]
    finish_reason: str
    usage: Usage


class VllmServerPolicy:
    """Samples from a vLLM server by ``/v1/completions`` with token ids. Threads share it.

    The prompt of a turn is the tokens of the turns before it and of what came since, never text
    that is tokenised anew, so a run trains as one row on the very tokens that were sampled.

    :meth:`update` puts new weights under a new version while attempts are under way. Each step's
    metadata hold the ``policy_version`` that sampled it: an adapter is loaded under the name of its
    version and a request names it, and full weights change only once no request is under way.
    """

    def __init__(
        self,
        base_url: str,
        dialect: Dialect,
        *,
        model: str,
        agent: str = "react",
        name: str | None = None,
        version: str | None = None,
        sampling: Sampling | None = None,
        logprobs_mode: LogprobsMode = "processed_logprobs",
        **connection: Any,
    ) -> None:
        """Prepare; nothing is sent yet.

        Args:
            base_url: URL of the server, such as ``http://localhost:8000``, with ``/v1`` or without.
            dialect: messages to tokens and back, with the tokenizer and template of the model.
            model: name that the server serves the model under.
            agent: name of the scaffold, for the trajectories.
            name: of the model, for the trajectories; as ``model`` where None.
            version: of the weights that the server has now.
            sampling: how to draw; from the model's own distribution where None.
            logprobs_mode: what the server was started with (``--logprobs-mode``). Training wants
                ``processed_logprobs``, which is not vLLM's own default.
            connection: ``api_key``, ``timeout_s``, ``retries``, ``backoff_s`` of
                :class:`ModelClient`.

        Raises:
            EndpointError: the URL is none of http or https.
        """
        base_url = f"{base_url.rstrip('/').removesuffix('/v1')}/v1"
        self.agent = agent
        self.model: str | None = name or model
        self._base = model
        self._dialect = dialect
        self._sampling = sampling or Sampling()
        self._mode = logprobs_mode
        self._client = ModelClient(base_url, **connection)
        self._load = VllmWeights(base_url, api_key=connection.get("api_key"))
        self._weights = _Weights(name=model, version=version)
        self._running: Counter[_Weights] = Counter()
        self._loaded: set[_Weights] = set()
        self._free = Condition()
        self._closed = False

    @property
    def version(self) -> str | None:
        """Of the weights that the next request samples from."""
        return self._weights.version

    def check(self) -> None:
        """Ask whether the server is there and serves the model.

        Raises:
            EndpointError: it does not.
        """
        self._load.check(self._base)

    def act(self, messages: Sequence[Message], tools: Sequence[Tool], *, seed: int) -> Response:
        """The next action of the model.

        Args:
            messages: the conversation so far.
            tools: the tools on offer.
            seed: of the attempt; each turn draws with a seed of its own made of it.

        Raises:
            EndpointError: the server refused, or failed on every try.
            ContextFullError: prompt and answer together are longer than the model can read.
        """
        drawn = turn_seed(seed, messages)
        prompt = list(self._dialect.prompt(messages, tools))
        with self._weights_in_use() as weights:
            sampled = self._client.post(
                "completions", self._request(weights.name, prompt, drawn), _sampled
            )
        action, broken = self._dialect.read(sampled.written, calls_before=calls_in(messages))
        return Response(
            action=action,
            usage=sampled.usage,
            format_error=broken,
            prompt_token_ids=sampled.prompt,
            completion_token_ids=sampled.written,
            logprobs=sampled.logprobs,
            sampling=self._sampling.told(drawn, told_mode(self._sampling, self._mode)),
            metadata={"finish_reason": sampled.finish_reason, "policy_version": weights.version},
        )

    def update(self, checkpoint: Path, version: str) -> None:
        """Sample from new weights from now on; requests under way end on those they began with.

        Args:
            checkpoint: folder with a PEFT adapter or with full weights, at a path that the server
                can read too.
            version: what trajectories call them; a version is loaded once.

        Raises:
            EndpointError: the folder holds neither, the server was started without the option that
                this needs, or the weights do not fit.
        """
        if version == self._base:
            raise EndpointError(f"'{version}' is the name of the model; give the version another")
        before = self._weights
        if is_adapter(checkpoint):
            self._load.adapter(checkpoint, version)
            with self._free:
                self._weights = _Weights(name=version, version=version, adapter=True)
                self._loaded.add(self._weights)
        else:
            with self._alone():
                self._load.full(checkpoint, version)
                self._weights = _Weights(name=self._base, version=version)
        self._drop(before)

    @contextmanager
    def _weights_in_use(self) -> Iterator[_Weights]:
        with self._free:
            self._free.wait_for(lambda: not self._closed)
            weights = self._weights
            self._running[weights] += 1
        try:
            yield weights
        finally:
            with self._free:
                self._running[weights] -= 1
                self._free.notify_all()
            self._drop(weights)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Begin no request and wait for those under way."""
        with self._free:
            self._closed = True
            self._free.wait_for(lambda: not self._running.total())
        try:
            yield
        finally:
            with self._free:
                self._closed = False
                self._free.notify_all()

    def _drop(self, weights: _Weights) -> None:
        """Unload an adapter that is neither current nor in use."""
        with self._free:
            used = self._running[weights] > 0 or weights == self._weights
            if used or weights not in self._loaded:
                return
            self._loaded.remove(weights)
        self._load.drop_adapter(weights.name)

    def _request(self, model: str, prompt: list[int], seed: int) -> dict[str, Any]:
        drawn = self._sampling
        return {
            "model": model,
            "prompt": prompt,
            "temperature": drawn.temperature,
            "max_tokens": drawn.max_tokens,
            "top_p": drawn.top_p,
            "top_k": drawn.top_k,
            "min_p": 0.0,
            "repetition_penalty": 1.0,
            "seed": seed,
            "logprobs": 0,
            "return_token_ids": True,
            "stop_token_ids": list(self._dialect.stop_ids),
        }


def _sampled(value: Mapping[str, Any]) -> _Sampled:
    choice = value["choices"][0]
    written, logprobs = tokens_and_logprobs(
        choice.get("token_ids"),
        (choice.get("logprobs") or {}).get("token_logprobs"),
        "the completion",
    )
    return _Sampled(
        prompt=tuple(int(t) for t in choice.get("prompt_token_ids") or value["prompt_token_ids"]),
        written=written,
        logprobs=logprobs,
        finish_reason=str(choice.get("finish_reason")),
        usage=usage_of(value, None),
    )
