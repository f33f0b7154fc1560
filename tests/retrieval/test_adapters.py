"""Retrievers of agent frameworks give what the search gives, through the real libraries."""

from __future__ import annotations

import sys

import pytest

from tests.retrieval.conftest import GOALS
from trajstore import Pool
from trajstore.errors import MissingDependencyError
from trajstore.retrieval.adapters import langchain_retriever, llama_index_retriever

QUERY = "cancel the flight"


def test_langchain_gives_a_document_a_hit(small: Pool) -> None:
    pytest.importorskip("langchain_core")
    found = langchain_retriever(small, k=2).invoke(QUERY)
    assert [d.id for d in found] == [h.item_id for h in small.search(QUERY, k=2)]
    assert found[0].page_content == GOALS["flights"]
    assert found[0].metadata["task_id"] == "task/flights"
    assert found[0].metadata["success"] is True


def test_langchain_takes_options_with_the_question(small: Pool) -> None:
    pytest.importorskip("langchain_core")
    retriever = langchain_retriever(small, k=2)
    found = retriever.invoke(QUERY, task_id="task/flights", k=1)
    assert len(found) == 1
    assert found[0].id != "flights"


def test_langchain_chains_and_batches(small: Pool) -> None:
    pytest.importorskip("langchain_core")
    retriever = langchain_retriever(small, k=1) | (lambda found: found[0].id)
    assert retriever.batch([QUERY, "fix the failing unit test"]) == ["flights", "tests"]


def test_llama_index_gives_a_node_a_hit(small: Pool) -> None:
    pytest.importorskip("llama_index.core")
    found = llama_index_retriever(small, k=2).retrieve(QUERY)
    hits = small.search(QUERY, k=2)
    assert [n.node_id for n in found] == [h.item_id for h in hits]
    assert [n.score for n in found] == pytest.approx([h.score for h in hits], rel=1e-3)
    assert found[0].text == GOALS["flights"]
    assert found[0].metadata["task_id"] == "task/flights"
    assert found[0].get_content(metadata_mode="llm") == GOALS["flights"]


@pytest.mark.parametrize(
    ("make", "module", "extra"),
    [
        (langchain_retriever, "langchain_core", "langchain"),
        (llama_index_retriever, "llama_index", "llama-index"),
    ],
    ids=["langchain", "llama-index"],
)
def test_a_framework_that_is_missing_is_named_with_its_extra(
    small: Pool, monkeypatch: pytest.MonkeyPatch, make: object, module: str, extra: str
) -> None:
    for name in [n for n in sys.modules if n.partition(".")[0] == module]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingDependencyError, match=rf"trajstore\[{extra}\]"):
        make(small)  # type: ignore[operator]
