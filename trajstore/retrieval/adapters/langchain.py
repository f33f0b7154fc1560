"""A retriever for LangChain and LangGraph."""

from __future__ import annotations

from typing import Any

from trajstore._optional import require
from trajstore.retrieval.hits import as_row
from trajstore.retrieval.search import search
from trajstore.store import Store


def langchain_retriever(store: Store, **options: Any) -> Any:
    """A ``BaseRetriever`` that finds experiences: one ``Document`` a hit, the best first.

    A document's ``id`` is the item, its text what was compared with the query, its metadata the
    rest of the hit: score and parts, task, outcome, source.

    Args:
        store: an open store.
        options: for :func:`trajstore.retrieval.search`; those given to ``invoke`` come first.

    Raises:
        MissingDependencyError: ``langchain-core`` is not installed.
    """
    purpose = "A retriever for LangChain"
    retrievers = require("langchain_core.retrievers", extra="langchain", purpose=purpose)
    documents = require("langchain_core.documents", extra="langchain", purpose=purpose)

    class TrajstoreRetriever(retrievers.BaseRetriever):  # type: ignore[name-defined,misc]
        """The experiences of a store."""

        def _get_relevant_documents(
            self, query: str, *, run_manager: Any = None, **given: Any
        ) -> list[Any]:
            del run_manager
            rows = map(as_row, search(store, query, **{**options, **given}))
            return [
                documents.Document(id=r["item_id"], page_content=r.pop("text"), metadata=r)
                for r in rows
            ]

    return TrajstoreRetriever()
