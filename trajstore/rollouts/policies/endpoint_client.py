"""JSON to and from a model server, with retries, and errors that say what to do."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from trajstore._endpoint import SHOWN, Endpoint, FaultError, is_http_url
from trajstore.errors import ContextFullError, EndpointError
from trajstore.rollouts.policies.sampling import LackingError

_MOST_BYTES = 64 << 20
_T = TypeVar("_T")

_ADVICE: Mapping[int, str] = {
    401: "give the right API key",
    403: "the key may not do this, or the server was started without the option that allows it",
    404: "check the URL, which ends with the version such as /v1, and the name of the model",
}

_CONTEXT_FULL = re.compile(
    r"context[ _](length|window|size)|maximum model length|prompt is too long", re.IGNORECASE
)
"""What vLLM, OpenAI, Anthropic and llama.cpp say of a conversation that is too long."""


class ModelClient:
    """One model server. Threads share it; each request has a connection of its own."""

    def __init__(
        self,
        base_url: str,
        *,
        api_key: str | None = None,
        timeout_s: float = 120.0,
        retries: int = 5,
        backoff_s: float = 1.0,
    ) -> None:
        """Prepare; nothing is sent yet.

        Args:
            base_url: URL up to and with the version, such as ``http://localhost:8000/v1``.
            api_key: sent as bearer token; never logged, never stored.
            timeout_s: seconds that one request may take.
            retries: further requests after a 429, a 5xx, a broken connection or a timeout.
            backoff_s: seconds before the first retry; doubled each time, ``Retry-After`` heeded,
                60 at most.

        Raises:
            EndpointError: the URL is none of http or https.
        """
        if not is_http_url(base_url):
            message = (
                f"The endpoint must be a URL such as http://localhost:8000/v1, not {base_url!r}."
            )
            raise EndpointError(message)
        self.base_url = base_url.rstrip("/")
        self._endpoint = Endpoint(
            base_url=self.base_url,
            api_key=api_key,
            timeout_s=timeout_s,
            retries=retries,
            backoff_s=backoff_s,
            most_bytes=_MOST_BYTES,
        )

    def post(self, path: str, value: Mapping[str, Any], read: Callable[[Any], _T]) -> _T:
        """Send JSON, and make something of the JSON that comes back.

        Args:
            path: below the base URL.
            value: the request.
            read: makes something of the answer. Whatever it raises for an answer that lacks what
                is wanted (``ValueError``, ``LookupError``, ``TypeError``) is an endpoint's error.

        Raises:
            EndpointError: the server refused, or failed on every try; ``status`` is what HTTP said.
            ContextFullError: the server refused, as the conversation is too long for the model.
        """
        body = json.dumps(value, ensure_ascii=False).encode("utf-8", "replace")
        try:
            found, _ = self._endpoint.post(path, body, lambda answer: _read(answer, read))
        except FaultError as fault:
            failed = self._failed(path, fault)
            if fault.status in {400, 413} and _CONTEXT_FULL.search(str(fault)):
                raise ContextFullError(str(failed)) from fault
            raise failed from fault
        return found

    def get(self, path: str, read: Callable[[Any], _T]) -> _T:
        """As :meth:`post`, without a request body."""
        try:
            found, _ = self._endpoint.get(path, lambda answer: _read(answer, read))
        except FaultError as fault:
            raise self._failed(path, fault) from fault
        return found

    def tell(self, path: str, value: Mapping[str, Any] | None = None) -> None:
        """As :meth:`post`, for a request whose answer says nothing but that it was done."""
        body = json.dumps(value or {}).encode()
        try:
            self._endpoint.post(path, body, lambda _: None)
        except FaultError as fault:
            raise self._failed(path, fault) from fault

    def check_model(self, name: str) -> None:
        """Ask whether a model is served.

        Raises:
            EndpointError: it is not, and those are that are; or the server refuses or does not
                answer.
        """
        served = self.get("models", lambda v: [str(model["id"]) for model in v["data"]])
        if name not in served:
            known = ", ".join(served[:10]) or "none"
            message = f"{self.base_url} serves no model '{name}'; those it serves: {known}"
            raise EndpointError(message)

    def _failed(self, path: str, fault: FaultError) -> RefusedError:
        times = "at once" if fault.tries == 1 else f"after {fault.tries} tries"
        reason = self._endpoint.failure(fault)
        advice = f"; {_ADVICE[fault.status]}" if fault.status in _ADVICE else ""
        message = f"{self.base_url}/{path} failed {times}: {reason}{advice}"
        return RefusedError(message, status=fault.status)


class RefusedError(EndpointError):
    """What the server said, with its HTTP status; 0 where it said nothing."""

    def __init__(self, message: str, *, status: int) -> None:
        """Keep both."""
        super().__init__(message)
        self.status = status


def _read(body: bytes, read: Callable[[Any], _T]) -> _T:
    try:
        return read(json.loads(body))
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        shown = " ".join(body[:SHOWN].decode("utf-8", "replace").split())
        message = f"the answer makes no sense ({type(error).__name__}: {error}): {shown}"
        raise FaultError(message, passing=not isinstance(error, LackingError)) from error
