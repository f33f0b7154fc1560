"""Vectors from an OpenAI-compatible embeddings endpoint, with the standard library alone."""

from __future__ import annotations

import base64
import http.client
import ipaddress
import json
import os
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, Self

from trajstore.errors import EndpointError
from trajstore.retrieval.arrays import numpy
from trajstore.retrieval.fingerprint import Fingerprint, hash_text

if TYPE_CHECKING:
    from trajstore.retrieval.arrays import Vectors

_RETRIED = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})
_SMALLER = frozenset({400, 413, 422})
_MOST_BYTES = 256 << 20
_SHOWN = 300
_LONGEST_PAUSE_S = 60.0


@dataclass(frozen=True, kw_only=True)
class EndpointEmbedder:
    """A model behind ``/embeddings`` (vLLM, llama.cpp, Ollama, OpenAI, a gateway, ...)."""

    base_url: str
    """URL up to and with the version, such as ``http://localhost:8000/v1``."""
    model: str
    """Name of the model."""
    api_key: str | None = field(default=None, repr=False)
    """Sent as bearer token; never logged, never stored."""
    batch: int = 64
    """Texts a request."""
    most_characters: int = 8000
    """A text is cut here."""
    timeout_s: float = 60.0
    """Seconds that one request may take."""
    retries: int = 5
    """Further requests after a 429, a 5xx, a broken connection or a timeout."""
    backoff_s: float = 0.5
    """Seconds before the first retry; doubled each time, ``Retry-After`` heeded, 60 at most."""

    def __post_init__(self) -> None:
        """Check the URL.

        Raises:
            EndpointError: it is no http or https URL, or there is no model.
        """
        parts = urllib.parse.urlsplit(self.base_url)
        if parts.scheme not in {"http", "https"} or not parts.hostname or not self.model:
            message = (
                "An embeddings endpoint is named openai:MODEL@URL, such as "
                "openai:bge-m3@http://localhost:8000/v1, not "
                f"'openai:{self.model}@{self.base_url}'."
            )
            raise EndpointError(message)

    @classmethod
    def named(cls, name: str) -> Self:
        """From ``openai:MODEL@URL``; the key is ``OPENAI_API_KEY``, where that is set."""
        model, _, url = name.removeprefix("openai:").rpartition("@")
        return cls(base_url=url, model=model, api_key=os.environ.get("OPENAI_API_KEY") or None)

    @cached_property
    def fingerprint(self) -> Fingerprint:
        """Model and dimension; the first look asks the endpoint for one vector."""
        width = int(self._vectors(["dimension"]).shape[1])
        return Fingerprint(
            model=f"openai:{self.model}",
            weights=hash_text(f"openai:{self.model}"),
            dimension=width,
            normalised=True,
        )

    def embed(
        self,
        texts: Sequence[str],
        *,
        kind: Literal["document", "query"] = "document",
        progress: Callable[[int, int], None] | None = None,
    ) -> Vectors:
        """One unit vector a text, in requests of ``batch`` texts; equal texts are sent once.

        Raises:
            EndpointError: it refused, failed on every try, or gave something else than vectors.
        """
        del kind
        np = numpy()
        distinct = list(dict.fromkeys(texts))
        found = [np.zeros((0, self.fingerprint.dimension), np.float32)]
        for start in range(0, len(distinct), self.batch):
            found.append(self._vectors(distinct[start : start + self.batch]))
            if progress is not None:
                progress(min(start + self.batch, len(distinct)), len(distinct))
        place = {text: at for at, text in enumerate(distinct)}
        widths = {part.shape[1] for part in found}
        if len(widths) > 1:
            raise self._failed(f"its vectors have several lengths: {sorted(widths)}")
        matrix: Vectors = np.concatenate(found)[np.array([place[t] for t in texts], np.int64)]
        return matrix

    def _vectors(self, texts: list[str]) -> Vectors:
        """The vectors of a batch, in halves where the endpoint finds it too large."""
        np = numpy()
        given = [t[: self.most_characters] for t in texts]
        request = {"model": self.model, "input": given, "encoding_format": "float"}
        body = json.dumps(request, ensure_ascii=False).encode("utf-8", "replace")
        try:
            answer = self._ask(body)
        except _FaultError as fault:
            if fault.status in _SMALLER and len(texts) > 1:
                half = len(texts) // 2
                return np.concatenate((self._vectors(texts[:half]), self._vectors(texts[half:])))  # type: ignore[no-any-return]
            raise self._failed(str(fault)) from fault
        return self._read(answer, len(texts))

    def _ask(self, body: bytes) -> bytes:
        pause = self.backoff_s
        for attempt in range(self.retries + 1):
            try:
                return self._post(body)
            except _FaultError as fault:
                if not fault.passing or attempt == self.retries:
                    raise
                time.sleep(min(max(pause, fault.retry_after_s), _LONGEST_PAUSE_S))
                pause *= 2
        raise AssertionError("the last attempt returns or raises")

    def _post(self, body: bytes) -> bytes:
        url = f"{self.base_url.rstrip('/')}/embeddings"
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if self.api_key:
            headers["Authorization"] = f"Bearer {self.api_key}"
        request = urllib.request.Request(url, data=body, headers=headers, method="POST")  # noqa: S310  http or https
        try:
            with _opener(request.host).open(request, timeout=self.timeout_s) as response:
                found: bytes = response.read(_MOST_BYTES + 1)
        except urllib.error.HTTPError as error:
            with error:
                raise _refusal(error) from error
        except (urllib.error.URLError, http.client.HTTPException, OSError) as error:
            reason = str(getattr(error, "reason", error)) or type(error).__name__
            raise _FaultError(reason, passing=True) from error
        if len(found) > _MOST_BYTES:
            raise _FaultError(f"the answer is longer than {_MOST_BYTES:,} bytes", passing=False)
        return found

    def _read(self, body: bytes, count: int) -> Vectors:
        np = numpy()
        try:
            data = sorted(json.loads(body)["data"], key=lambda d: d["index"])
            places = [d["index"] for d in data]
            vectors: Vectors = np.array([_numbers(d["embedding"]) for d in data], np.float32)
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            shown = body[:_SHOWN].decode("utf-8", "replace")
            raise self._failed(f"no embeddings in the answer: {shown}") from error
        if places != list(range(count)) or vectors.ndim != 2:
            raise self._failed(f"{len(places)} vectors came for {count} texts")
        norms = np.linalg.norm(vectors, axis=1, keepdims=True)
        return vectors / np.where(norms > 0, norms, 1.0)  # type: ignore[no-any-return]

    def _failed(self, reason: str) -> EndpointError:
        if self.api_key:
            reason = reason.replace(self.api_key, "<api key>")
        return EndpointError(f"{self.base_url} (embeddings, model {self.model}) failed: {reason}")


class _FaultError(Exception):
    """One request that brought no answer."""

    def __init__(
        self, message: str, *, passing: bool, status: int = 0, retry_after_s: float = 0.0
    ) -> None:
        super().__init__(message)
        self.passing = passing
        self.status = status
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


def _refusal(error: urllib.error.HTTPError) -> _FaultError:
    try:
        said = error.read(_SHOWN).decode("utf-8", "replace")
    except (OSError, http.client.HTTPException):
        said = ""
    try:
        after = float(error.headers.get("Retry-After") or 0)
    except ValueError:
        after = 0.0
    return _FaultError(
        f"HTTP {error.code} {error.reason}: {' '.join(said.split())}",
        passing=error.code in _RETRIED,
        status=error.code,
        retry_after_s=max(0.0, after),
    )


def _numbers(embedding: Any) -> Any:
    """An embedding as numbers; some servers answer base64 of float32 whatever was asked."""
    if isinstance(embedding, str):
        return numpy().frombuffer(base64.b64decode(embedding, validate=True), dtype="<f4")
    return embedding
