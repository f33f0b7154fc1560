"""Vectors from an OpenAI-compatible embeddings endpoint, with the standard library alone."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, Self

from trajstore._endpoint import SHOWN, Endpoint, FaultError, is_http_url
from trajstore.errors import EndpointError
from trajstore.retrieval.arrays import numpy
from trajstore.retrieval.fingerprint import Fingerprint, hash_text

if TYPE_CHECKING:
    from trajstore.retrieval.arrays import Vectors

_SMALLER = frozenset({400, 413, 422})
_MOST_BYTES = 256 << 20


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
        if not is_http_url(self.base_url) or not self.model:
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
            found, _ = self._endpoint().post(
                "embeddings", body, lambda answer: self._read(answer, len(texts))
            )
        except FaultError as fault:
            if fault.status in _SMALLER and len(texts) > 1:
                half = len(texts) // 2
                return np.concatenate((self._vectors(texts[:half]), self._vectors(texts[half:])))  # type: ignore[no-any-return]
            raise self._failed(str(fault)) from fault
        return found

    def _endpoint(self) -> Endpoint:
        return Endpoint(
            base_url=self.base_url,
            api_key=self.api_key,
            timeout_s=self.timeout_s,
            retries=self.retries,
            backoff_s=self.backoff_s,
            most_bytes=_MOST_BYTES,
        )

    def _read(self, body: bytes, count: int) -> Vectors:
        np = numpy()
        try:
            data = sorted(json.loads(body)["data"], key=lambda d: d["index"])
            places = [d["index"] for d in data]
            vectors: Vectors = np.array([_numbers(d["embedding"]) for d in data], np.float32)
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            shown = body[:SHOWN].decode("utf-8", "replace")
            raise self._failed(f"no embeddings in the answer: {shown}") from error
        if places != list(range(count)) or vectors.ndim != 2:
            raise self._failed(f"{len(places)} vectors came for {count} texts")
        norms = np.linalg.norm(vectors, axis=1, keepdims=True)
        return vectors / np.where(norms > 0, norms, 1.0)  # type: ignore[no-any-return]

    def _failed(self, reason: str) -> EndpointError:
        said = self._endpoint().failure(reason)
        return EndpointError(f"{self.base_url} (embeddings, model {self.model}) failed: {said}")


def _numbers(embedding: Any) -> Any:
    """An embedding as numbers; some servers answer base64 of float32 whatever was asked."""
    if isinstance(embedding, str):
        return numpy().frombuffer(base64.b64decode(embedding, validate=True), dtype="<f4")
    return embedding
