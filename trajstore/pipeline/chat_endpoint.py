"""Ask a chat model behind any OpenAI-compatible endpoint, with the standard library alone."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from trajstore._endpoint import SHOWN, Endpoint, FaultError, is_http_url
from trajstore.errors import EndpointError

_MOST_BYTES = 8 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatAnswer:
    """What a chat model answered."""

    text: str
    """The answer."""
    model: str
    """The model that the endpoint says answered."""
    prompt_tokens: int
    """Tokens read, 0 where the endpoint does not say."""
    completion_tokens: int
    """Tokens written, 0 where the endpoint does not say."""
    tries: int
    """Requests that were sent for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatEndpoint:
    """One model behind an OpenAI-compatible endpoint (vLLM, llama.cpp, OpenAI, a gateway, ...)."""

    base_url: str
    """URL up to and with the version, such as ``http://localhost:8000/v1``."""
    model: str
    """Name of the model."""
    api_key: str | None = field(default=None, repr=False)
    """Sent as bearer token; never logged, never stored."""
    timeout_s: float = 120.0
    """Seconds that one request may take."""
    retries: int = 5
    """Further requests after a 429, a 5xx, a broken connection or a timeout."""
    backoff_s: float = 1.0
    """Seconds before the first retry; doubled each time, up to a quarter less at random."""
    longest_backoff_s: float = 60.0
    """Bound on that, and on what ``Retry-After`` may ask for."""
    temperature: float | None = 0.0
    """Left out of the request where None."""
    max_tokens: int | None = 1024
    """Left out of the request where None."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Further fields of the request, such as ``{"response_format": {"type": "json_object"}}``."""

    def __post_init__(self) -> None:
        """Check the URL.

        Raises:
            EndpointError: it is no http or https URL.
        """
        if not is_http_url(self.base_url):
            message = (
                f"The endpoint must be a URL such as http://localhost:8000/v1, not "
                f"{self.base_url!r}."
            )
            raise EndpointError(message)

    def complete(
        self, messages: Sequence[Mapping[str, str]], *, stop: threading.Event | None = None
    ) -> ChatAnswer:
        """Ask for one answer.

        Args:
            messages: the conversation, ``{"role": ..., "content": ...}``.
            stop: once set, no further request is sent.

        Raises:
            EndpointError: it refused, or failed on every try; ``hopeless`` says that asking for
                anything else would fail too.
        """
        body = json.dumps(self._request(messages), ensure_ascii=False).encode("utf-8", "replace")
        try:
            answer, tries = self._endpoint().post("chat/completions", body, self._answer, stop=stop)
        except FaultError as fault:
            raise self._failed(fault) from fault
        return replace(answer, tries=tries)

    def _endpoint(self) -> Endpoint:
        return Endpoint(
            base_url=self.base_url,
            api_key=self.api_key,
            timeout_s=self.timeout_s,
            retries=self.retries,
            backoff_s=self.backoff_s,
            longest_backoff_s=self.longest_backoff_s,
            most_bytes=_MOST_BYTES,
        )

    def _request(self, messages: Sequence[Mapping[str, str]]) -> dict[str, Any]:
        wanted = {"temperature": self.temperature, "max_tokens": self.max_tokens}
        asked = {k: v for k, v in wanted.items() if v is not None}
        return {"model": self.model, "messages": list(messages), **asked, **self.extra}

    def _answer(self, body: bytes) -> ChatAnswer:
        try:
            value = json.loads(body)
            choice = value["choices"][0]
            text = _text(choice["message"].get("content"))
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            shown = body[:SHOWN].decode("utf-8", "replace")
            raise FaultError(f"no chat completion in the answer: {shown}", passing=True) from error
        if choice.get("finish_reason") == "length":
            message = f"the answer was cut at max_tokens={self.max_tokens}; allow more"
            raise FaultError(message, passing=False)
        usage = value.get("usage") or {}
        return ChatAnswer(
            text=text,
            model=str(value.get("model") or self.model),
            prompt_tokens=int(usage.get("prompt_tokens") or 0),
            completion_tokens=int(usage.get("completion_tokens") or 0),
            tries=1,
        )

    def _failed(self, fault: FaultError) -> EndpointError:
        times = "at once" if fault.tries == 1 else f"after {fault.tries} tries"
        reason = self._endpoint().failure(fault)
        message = f"{self.base_url} (model {self.model}) failed {times}: {reason}"
        return HopelessEndpointError(message) if fault.hopeless else EndpointError(message)


class HopelessEndpointError(EndpointError):
    """The endpoint refuses whatever is asked: a wrong key, a wrong URL, an unknown model."""


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "".join(str(part.get("text") or "") for part in content)
