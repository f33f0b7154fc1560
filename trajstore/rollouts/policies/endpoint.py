"""A policy behind any OpenAI-compatible chat endpoint (vLLM, llama.cpp, OpenAI, a gateway, ...)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from trajstore.errors import EndpointError
from trajstore.rollouts.environment import Tool
from trajstore.rollouts.policies.endpoint_answer import Prices, chat_turn
from trajstore.rollouts.policies.endpoint_client import ModelClient
from trajstore.rollouts.policies.sampling import LogprobsMode, Sampling, as_sent, turn_seed
from trajstore.rollouts.policy import Message, Response


@dataclass(frozen=True, kw_only=True)
class EndpointPolicy:
    """Acts by chat completions with tools. Threads share it.

    The server renders the conversation and parses calls, so a model server needs a chat template
    that knows tools, and vLLM ``--enable-auto-tool-choice --tool-call-parser``. With ``token_ids``
    each step keeps what the server's sampler saw and wrote, which only vLLM tells. As a server
    renders each prompt anew, a turn may begin with other tokens than the turn before it wrote;
    :class:`VllmServerPolicy` sends tokens and has no such drift.
    """

    base_url: str
    """URL up to and with the version, such as ``http://localhost:8000/v1``."""
    model: str
    """Name of the model there."""
    agent: str = "chat"
    """Name of the scaffold, for the trajectories."""
    version: str | None = None
    """Checkpoint or iteration, for the trajectories."""
    api_key: str | None = field(default=None, repr=False)
    """Sent as bearer token; never logged, never stored."""
    timeout_s: float = 120.0
    """Seconds that one request may take."""
    retries: int = 5
    """Further requests after a 429, a 5xx, a broken connection or a timeout."""
    backoff_s: float = 1.0
    """Seconds before the first retry; doubled each time, ``Retry-After`` heeded, 60 at most."""
    temperature: float | None = 1.0
    """Left to the server where None, as some models take none."""
    max_tokens: int | None = 1024
    """Tokens of one turn at most; left to the server where None."""
    token_ids: bool = False
    """Ask for tokens and their log-probabilities; an answer without them is an error."""
    logprobs_mode: LogprobsMode = "raw_logprobs"
    """What the server's log-probabilities are; vLLM's own default is raw."""
    keep_reasoning: bool = False
    """Send reasoning of earlier turns back, which some servers refuse."""
    prices: Prices | None = None
    """For the cost, where the server does not say it."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Further fields of a request, such as ``{"tool_choice": "required"}``."""
    _client: ModelClient = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Check the URL.

        Raises:
            EndpointError: it is none of http or https, or there is no model.
        """
        if not self.model:
            raise EndpointError("an endpoint needs the name of a model")
        client = ModelClient(
            self.base_url,
            api_key=self.api_key,
            timeout_s=self.timeout_s,
            retries=self.retries,
            backoff_s=self.backoff_s,
        )
        object.__setattr__(self, "_client", client)

    def check(self) -> None:
        """Ask whether the model is there, before hundreds of attempts fail for it.

        Raises:
            EndpointError: the server refuses or does not answer, or serves other models; which, it
                says.
        """
        self._client.check_model(self.model)

    def act(self, messages: Sequence[Message], tools: Sequence[Tool], *, seed: int) -> Response:
        """The next action of the model.

        Args:
            messages: the conversation so far.
            tools: the tools on offer.
            seed: of the attempt; sent as a seed of this turn, which not every server heeds.

        Raises:
            EndpointError: the server refused, or failed on every try.
            ContextFullError: the conversation is too long for the model.
        """
        drawn = turn_seed(seed, messages)
        turn = self._client.post(
            "chat/completions",
            self._request(messages, tools, drawn),
            lambda v: chat_turn(v, messages, token_ids=self.token_ids, prices=self.prices),
        )
        metadata: dict[str, Any] = {"finish_reason": turn.finish_reason}
        if self.version is not None:
            metadata["policy_version"] = self.version
        return Response(
            action=turn.action,
            usage=turn.usage,
            model=turn.model,
            prompt_token_ids=turn.prompt_token_ids,
            completion_token_ids=turn.completion_token_ids,
            logprobs=turn.logprobs,
            sampling=self._sampling(drawn),
            metadata=metadata,
        )

    def _request(
        self, messages: Sequence[Message], tools: Sequence[Tool], seed: int
    ) -> dict[str, Any]:
        told = [as_sent(m, keep_reasoning=self.keep_reasoning) for m in messages]
        asked: dict[str, Any] = {"model": self.model, "messages": told, **self._drawn(seed)}
        if tools:
            asked["tools"] = list(tools)
        if self.token_ids:
            asked |= {"return_token_ids": True, "logprobs": True, "top_p": 1.0, "top_k": 0}
        return {**asked, **self.extra}

    def _drawn(self, seed: int) -> dict[str, Any]:
        wanted = {"temperature": self.temperature, "max_tokens": self.max_tokens, "seed": seed}
        return {key: value for key, value in wanted.items() if value is not None}

    def _sampling(self, seed: int) -> dict[str, Any]:
        told = {} if not self.token_ids else Sampling().told(seed, self.logprobs_mode)
        return {**told, **self._drawn(seed), **self.extra}
