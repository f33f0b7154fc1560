from __future__ import annotations

import re

import pytest

from trajstore.rollouts.environments.corpus import documents, search


def test_the_corpus_has_about_forty_documents_with_titles_of_their_own() -> None:
    titles = [d.title for d in documents()]
    assert len(titles) >= 40
    assert len(set(titles)) == len(titles)


def test_every_fact_stands_in_its_text_and_nothing_else_does() -> None:
    for document in documents():
        body = document.text.replace("78 percent", "")
        for title in (document.title, *document.links.values()):
            body = body.replace(title, "")
        numbers = [int(n) for n in re.findall(r"\d+", body)]
        assert sorted(numbers) == sorted(document.facts.values()), document.title


def test_every_link_leads_to_a_document_and_is_named_in_the_text() -> None:
    titles = {d.title for d in documents()}
    for document in documents():
        for target in document.links.values():
            assert target in titles
            assert target.lower() in document.text.lower()


@pytest.mark.parametrize(
    ("query", "title"),
    [
        ("height of the Eiffel Tower", "Eiffel Tower"),
        ("EIFFEL tower", "Eiffel Tower"),
        ("Who is Gustave Eiffel?", "Gustave Eiffel"),
        ("K2", "K2"),
        ("atomic number of neon", "Neon"),
        ("Taipei 101 completed", "Taipei 101"),
        ("nuclear fuel", "Uranium"),
    ],
)
def test_the_best_hit_is_what_the_query_is_about(query: str, title: str) -> None:
    assert search(query)[0].title == title


def test_every_title_finds_its_own_document_first() -> None:
    for document in documents():
        assert search(document.title)[0].title == document.title


def test_at_most_so_many_hits_come_back() -> None:
    assert len(search("mountain metres summit")) == 3
    assert len(search("mountain metres summit", limit=5)) == 5


@pytest.mark.parametrize("query", ["", "the of and", "zeppelin", "?!"])
def test_nothing_in_common_means_no_hit(query: str) -> None:
    assert search(query) == []


def test_search_gives_the_same_order_every_time() -> None:
    assert [d.title for d in search("mountain")] == [d.title for d in search("mountain")]
