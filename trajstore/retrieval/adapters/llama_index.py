"""A retriever for LlamaIndex."""

from __future__ import annotations

from typing import Any

from trajstore._optional import require
from trajstore.retrieval.hits import as_row
from trajstore.retrieval.search import search
from trajstore.store import Store


def llama_index_retriever(store: Store, **options: Any) -> Any:
    """A ``BaseRetriever`` that finds experiences: one ``NodeWithScore`` a hit, the best first.

    A node's id is the item, its text what was compared with the query, its metadata the rest of the
    hit: parts of the score, task, outcome, source.

    Args:
        store: an open store.
        options: for :func:`trajstore.retrieval.search`.

    Raises:
        MissingDependencyError: ``llama-index-core`` is not installed.
    """
    purpose = "A retriever for LlamaIndex"
    retrievers = require("llama_index.core.retrievers", extra="llama-index", purpose=purpose)
    schema = require("llama_index.core.schema", extra="llama-index", purpose=purpose)

    class TrajstoreRetriever(retrievers.BaseRetriever):  # type: ignore[name-defined,misc]
        """The experiences of a store."""

        def _retrieve(self, query_bundle: Any) -> list[Any]:
            rows = map(as_row, search(store, query_bundle.query_str, **options))
            return [self._node(r) for r in rows]

        @staticmethod
        def _node(row: dict[str, Any]) -> Any:
            node = schema.TextNode(id_=row["item_id"], text=row.pop("text"), metadata=row)
            node.excluded_llm_metadata_keys = node.excluded_embed_metadata_keys = list(row)
            return schema.NodeWithScore(node=node, score=row["score"])

    return TrajstoreRetriever()
