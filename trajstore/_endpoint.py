"""Requests to OpenAI-compatible endpoints, with the standard library alone."""

from __future__ import annotations

import email.utils
import http.client
import ipaddress
import random
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

SHOWN = 300
"""So many characters of an answer that makes no sense stand in the message."""

_RETRIED = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})
_HOPELESS = frozenset({401, 403, 404})
_T = TypeVar("_T")


class FaultError(Exception):
    """A request that brought no answer."""

    def __init__(
        self,
        message: str,
        *,
        passing: bool,
        hopeless: bool = False,
        status: int = 0,
        retry_after_s: float = 0.0,
    ) -> None:
        """What went wrong, and what is known of it."""
        super().__init__(message)
        self.passing = passing
        """The same request may bring an answer later."""
        self.hopeless = hopeless
        """Asking for anything else would fail too: a wrong key, a wrong URL, an unknown model."""
        self.status = status
        """HTTP status, 0 where there was none."""
        self.retry_after_s = retry_after_s
        """Seconds that the endpoint asks to wait."""
        self.tries = 1
        """Requests that were sent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """Where requests go, and how long anybody waits for an answer."""

    base_url: str
    """URL up to and with the version, such as ``http://localhost:8000/v1``."""
    api_key: str | None = field(default=None, repr=False)
    """Sent as bearer token; never logged, never stored."""
    timeout_s: float
    """Seconds that one request may take."""
    retries: int
    """Further requests after a 429, a 5xx, a broken connection or a timeout."""
    backoff_s: float
    """Seconds before the first retry; doubled each time, up to a quarter less at random."""
    longest_backoff_s: float = 60.0
    """Bound on that, and on what ``Retry-After`` may ask for."""
    most_bytes: int
    """A longer answer is a fault."""

    def post(
        self,
        path: str,
        body: bytes,
        read: Callable[[bytes], _T],
        *,
        stop: threading.Event | None = None,
    ) -> tuple[_T, int]:
        """Send JSON and read the answer, again and again where a fault may pass.

        Args:
            path: below the base URL.
            body: JSON.
            read: makes something of the answer; may raise a fault itself.
            stop: once set, no further request is sent.

        Returns:
            What ``read`` made of the answer, and the number of requests sent.

        Raises:
            FaultError: that of the last request.
        """
        return self._tried(path, body, read, stop or threading.Event())

    def get(self, path: str, read: Callable[[bytes], _T]) -> tuple[_T, int]:
        """Ask for what stands below the base URL; otherwise as :meth:`post`."""
        return self._tried(path, None, read, threading.Event())

    def _tried(
        self, path: str, body: bytes | None, read: Callable[[bytes], _T], stop: threading.Event
    ) -> tuple[_T, int]:
        fault: FaultError | None = None
        for attempt in range(self.retries + 1):
            if fault is not None and stop.wait(self._pause(attempt, fault.retry_after_s)):
                break
            try:
                return read(self._sent(path, body)), attempt + 1
            except FaultError as error:
                fault = error
                fault.tries = attempt + 1
                if not error.passing:
                    break
        assert fault is not None
        raise fault

    def failure(self, fault: Exception | str) -> str:
        """A fault in words that never hold the key."""
        reason = str(fault)
        return reason.replace(self.api_key, "<api key>") if self.api_key else reason

    def _pause(self, attempt: int, asked_s: float) -> float:
        doubled = self.backoff_s * 2.0 ** min(attempt - 1, 30)
        jitter = random.uniform(0.75, 1.0)  # noqa: S311  spreads requests, hides nothing
        return min(max(doubled * jitter, asked_s), self.longest_backoff_s)

    def _sent(self, path: str, body: bytes | None) -> bytes:
        url = f"{self.base_url.rstrip('/')}/{path}"
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if self.api_key:
            headers["Authorization"] = f"Bearer {self.api_key}"
        method = "GET" if body is None else "POST"
        request = urllib.request.Request(url, data=body, headers=headers, method=method)  # noqa: S310  http or https
        ends = time.monotonic() + self.timeout_s
        try:
            with _opener(request.host).open(request, timeout=self.timeout_s) as response:
                return self._body(response, ends)
        except urllib.error.HTTPError as error:
            with error:
                raise _refusal(error) from error
        except TimeoutError as error:
            raise FaultError(f"no answer within {self.timeout_s:g} s", passing=True) from error
        except (urllib.error.URLError, http.client.HTTPException, OSError) as error:
            reason = getattr(error, "reason", error)
            if isinstance(reason, TimeoutError):
                reason = f"no answer within {self.timeout_s:g} s"
            raise FaultError(str(reason) or type(error).__name__, passing=True) from error

    def _body(self, response: Any, ends: float) -> bytes:
        parts: list[bytes] = []
        size = 0
        while part := response.read1(1 << 16):
            parts.append(part)
            size += len(part)
            if time.monotonic() > ends:
                raise TimeoutError
            if size > self.most_bytes:
                message = f"the answer is longer than {self.most_bytes:,} bytes"
                raise FaultError(message, passing=False)
        return b"".join(parts)


def is_http_url(url: str) -> bool:
    """Whether it is an http or https URL with a host."""
    parts = urllib.parse.urlsplit(url)
    return parts.scheme in {"http", "https"} and bool(parts.hostname)


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


def _refusal(error: urllib.error.HTTPError) -> FaultError:
    try:
        said = error.read(SHOWN).decode("utf-8", "replace")
    except (OSError, http.client.HTTPException):
        said = ""
    return FaultError(
        f"HTTP {error.code} {error.reason}: {' '.join(said.split())}",
        passing=error.code in _RETRIED,
        hopeless=error.code in _HOPELESS or 300 <= error.code < 400,
        status=error.code,
        retry_after_s=_seconds(error.headers.get("Retry-After")),
    )


def _seconds(retry_after: str | None) -> float:
    """What ``Retry-After`` asks for: a number of seconds or a date; 0 where it makes no sense."""
    if retry_after is None:
        return 0.0
    try:
        return max(0.0, float(retry_after))
    except ValueError:
        pass
    try:
        return max(0.0, email.utils.parsedate_to_datetime(retry_after).timestamp() - time.time())
    except (TypeError, ValueError):
        return 0.0
