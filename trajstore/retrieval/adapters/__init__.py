"""Retrievers of agent frameworks over a store: each is loaded with the framework it is for."""

from __future__ import annotations

from trajstore.retrieval.adapters.langchain import langchain_retriever
from trajstore.retrieval.adapters.llama_index import llama_index_retriever

__all__ = ["langchain_retriever", "llama_index_retriever"]
