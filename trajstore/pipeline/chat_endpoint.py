"""Ask a chat model behind any OpenAI-compatible endpoint, with the standard library alone."""

from __future__ import annotations

import email.utils
import http.client
import ipaddress
import json
import random
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from trajstore.errors import EndpointError

_RETRIED = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})
_HOPELESS = frozenset({401, 403, 404})
_MOST_BYTES = 8 << 20
_SHOWN = 300


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
        parts = urllib.parse.urlsplit(self.base_url)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
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
        stop = stop or threading.Event()
        fault: _FaultError | None = None
        for attempt in range(self.retries + 1):
            if fault is not None and stop.wait(self._pause(attempt, fault.retry_after_s)):
                break
            try:
                return self._answer(self._post(body), attempt + 1)
            except _FaultError as error:
                fault = error
                if not error.passing:
                    break
        assert fault is not None
        raise self._failed(fault, attempt + 1) from fault

    def _request(self, messages: Sequence[Mapping[str, str]]) -> dict[str, Any]:
        wanted = {"temperature": self.temperature, "max_tokens": self.max_tokens}
        asked = {k: v for k, v in wanted.items() if v is not None}
        return {"model": self.model, "messages": list(messages), **asked, **self.extra}

    def _pause(self, attempt: int, asked_s: float | None) -> float:
        doubled = self.backoff_s * 2.0 ** min(attempt - 1, 30)
        jitter = random.uniform(0.75, 1.0)  # noqa: S311  spreads requests, hides nothing
        return min(max(doubled * jitter, asked_s or 0.0), self.longest_backoff_s)

    def _post(self, body: bytes) -> bytes:
        url = f"{self.base_url.rstrip('/')}/chat/completions"
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if self.api_key:
            headers["Authorization"] = f"Bearer {self.api_key}"
        request = urllib.request.Request(url, data=body, headers=headers, method="POST")  # noqa: S310  http or https
        ends = time.monotonic() + self.timeout_s
        try:
            with _opener(request.host).open(request, timeout=self.timeout_s) as response:
                return _body(response, ends)
        except urllib.error.HTTPError as error:
            with error:
                raise _refusal(error) from error
        except TimeoutError as error:
            raise _FaultError(f"no answer within {self.timeout_s:g} s", passing=True) from error
        except (urllib.error.URLError, http.client.HTTPException, OSError) as error:
            reason = getattr(error, "reason", error)
            if isinstance(reason, TimeoutError):
                reason = f"no answer within {self.timeout_s:g} s"
            raise _FaultError(str(reason) or type(error).__name__, passing=True) from error

    def _answer(self, body: bytes, tries: int) -> ChatAnswer:
        try:
            value = json.loads(body)
            choice = value["choices"][0]
            text = _text(choice["message"].get("content"))
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            shown = body[:_SHOWN].decode("utf-8", "replace")
            raise _FaultError(f"no chat completion in the answer: {shown}", passing=True) from error
        if choice.get("finish_reason") == "length":
            message = f"the answer was cut at max_tokens={self.max_tokens}; allow more"
            raise _FaultError(message, passing=False)
        usage = value.get("usage") or {}
        return ChatAnswer(
            text=text,
            model=str(value.get("model") or self.model),
            prompt_tokens=int(usage.get("prompt_tokens") or 0),
            completion_tokens=int(usage.get("completion_tokens") or 0),
            tries=tries,
        )

    def _failed(self, fault: _FaultError, tries: int) -> EndpointError:
        times = "at once" if tries == 1 else f"after {tries} tries"
        reason = str(fault)
        if self.api_key:
            reason = reason.replace(self.api_key, "<api key>")
        message = f"{self.base_url} (model {self.model}) failed {times}: {reason}"
        return HopelessEndpointError(message) if fault.hopeless else EndpointError(message)


class HopelessEndpointError(EndpointError):
    """The endpoint refuses whatever is asked: a wrong key, a wrong URL, an unknown model."""


class _FaultError(Exception):
    """One request that brought no answer."""

    def __init__(
        self,
        message: str,
        *,
        passing: bool,
        hopeless: bool = False,
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(message)
        self.passing = passing
        self.hopeless = hopeless
        self.retry_after_s = retry_after_s


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirect would carry the key to another host, so it is an error."""

    def redirect_request(self, *_args: Any, **_named: Any) -> None:
        return None


def _opener(host: str) -> urllib.request.OpenerDirector:
    """An opener without redirects; proxies of the environment do not stand before loopback."""
    name = urllib.parse.urlsplit(f"//{host}").hostname or ""
    direct = [urllib.request.ProxyHandler({})] if _is_loopback(name) else []
    return urllib.request.build_opener(_NoRedirect, *direct)


def _is_loopback(name: str) -> bool:
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return name == "localhost"


def _body(response: Any, ends: float) -> bytes:
    parts: list[bytes] = []
    size = 0
    while part := response.read1(1 << 16):
        parts.append(part)
        size += len(part)
        if time.monotonic() > ends:
            raise TimeoutError
        if size > _MOST_BYTES:
            raise _FaultError(f"the answer is longer than {_MOST_BYTES:,} bytes", passing=False)
    return b"".join(parts)


def _refusal(error: urllib.error.HTTPError) -> _FaultError:
    try:
        said = error.read(_SHOWN).decode("utf-8", "replace")
    except (OSError, http.client.HTTPException):
        said = ""
    return _FaultError(
        f"HTTP {error.code} {error.reason}: {' '.join(said.split())}",
        passing=error.code in _RETRIED,
        hopeless=error.code in _HOPELESS or 300 <= error.code < 400,
        retry_after_s=_seconds(error.headers.get("Retry-After")),
    )


def _seconds(retry_after: str | None) -> float | None:
    """What ``Retry-After`` asks for: a number of seconds or a date."""
    if retry_after is None:
        return None
    try:
        return max(0.0, float(retry_after))
    except ValueError:
        pass
    try:
        return max(0.0, email.utils.parsedate_to_datetime(retry_after).timestamp() - time.time())
    except (TypeError, ValueError):
        return None


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "".join(str(part.get("text") or "") for part in content)
