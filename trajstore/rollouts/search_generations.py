"""Model calls of a search: none is made twice, several are made at once, all are counted."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from threading import Lock

from trajstore.rollouts.attempt import Limits, _naming, _PartError
from trajstore.rollouts.environment import Tool
from trajstore.rollouts.policy import Message, Policy, Response
from trajstore.schema import digest, now


@dataclass(frozen=True, slots=True, kw_only=True)
class Generation:
    """One answer of a policy."""

    response: Response
    """What it said."""
    started_at: datetime
    """When it was asked."""
    latency_s: float
    """How long it took."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One question to a policy."""

    messages: tuple[Message, ...]
    tools: tuple[Tool, ...]
    seed: int

    def key(self, policy: Policy) -> str:
        """Equal for equal questions to equal policies."""
        who = (policy.agent, policy.model, policy.version)
        return digest(*who, self.messages, self.tools, self.seed)


class Generations:
    """What policies answered, by question. It may be shared by searches and threads.

    Everything is kept as long as the object lives.
    """

    def __init__(self) -> None:
        """Start empty."""
        self._found: dict[str, Generation] = {}
        self._lock = Lock()

    def __len__(self) -> int:
        """How many answers are kept."""
        return len(self._found)

    def get(self, key: str) -> Generation | None:
        """The answer, where there is one."""
        with self._lock:
            return self._found.get(key)

    def put(self, key: str, generation: Generation) -> None:
        """Keep an answer; the first one stays."""
        with self._lock:
            self._found.setdefault(key, generation)


class Asking:
    """Asks a policy within a budget of calls."""

    def __init__(
        self,
        policy: Policy,
        cache: Generations,
        *,
        most: int | None,
        concurrency: int,
        limits: Limits,
    ) -> None:
        """Ask nothing yet.

        Args:
            policy: who is asked.
            cache: what was asked before.
            most: calls at most; None sets no limit.
            concurrency: calls at one time.
            limits: how often, and after which pause, a call that failed is made again; each time
                counts as a call.
        """
        self._policy = policy
        self._cache = cache
        self._most = most
        self._concurrency = concurrency
        self._limits = limits
        self._lock = Lock()
        self.calls = 0
        """Calls made."""
        self.cached = 0
        """Questions that had been asked before."""

    @property
    def spent(self) -> bool:
        """Whether no call is left."""
        return self._most is not None and self.calls >= self._most

    def ask(self, requests: Sequence[Request]) -> list[Generation | _PartError | None]:
        """Answers in the order of the requests; None where the budget did not reach.

        A policy that failed is answered by what it raised.
        """
        keys = [request.key(self._policy) for request in requests]
        found: dict[str, Generation | _PartError] = {}
        missing: dict[str, Request] = {}
        for key, request in zip(keys, requests, strict=True):
            cached = self._cache.get(key)
            if cached is not None:
                found[key] = cached
            if cached is not None or key in missing:
                self.cached += 1
            else:
                missing[key] = request
        room = len(missing) if self._most is None else max(0, self._most - self.calls)
        wanted = dict(list(missing.items())[:room])
        found |= self._answers(wanted)
        return [found.get(key) for key in keys]

    def _answers(self, wanted: Mapping[str, Request]) -> dict[str, Generation | _PartError]:
        if min(len(wanted), self._concurrency) <= 1:
            return {key: self._answer(key, request) for key, request in wanted.items()}
        with ThreadPoolExecutor(self._concurrency) as pool:
            answers = pool.map(self._answer, wanted, wanted.values())
            return dict(zip(wanted, answers, strict=True))

    def _answer(self, key: str, request: Request) -> Generation | _PartError:
        retries = self._limits.retries
        for retry in range(retries + 1):
            if retry:
                time.sleep(self._limits.pause_s(retry, request.seed))
            started_at, clock = now(), time.monotonic()
            with self._lock:
                self.calls += 1
            try:
                with _naming("policy.act"):
                    response = self._policy.act(request.messages, request.tools, seed=request.seed)
            except _PartError as error:
                if retry == retries or self.spent:
                    return error
                continue
            latency_s = time.monotonic() - clock
            generation = Generation(response=response, started_at=started_at, latency_s=latency_s)
            self._cache.put(key, generation)
            return generation
        raise AssertionError(key)
