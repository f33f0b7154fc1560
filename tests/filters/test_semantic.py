"""The stage for runs that mean the same: given vectors, or a function that makes them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

from tests.filters.frames import details, selected, why
from tests.filters.in_memory import did, frame_of, shuffled, wants
from trajstore.errors import SelectionError
from trajstore.filters import Frame, stage
from trajstore.filters.embeddings import embedded
from trajstore.filters.semantic import SemanticDuplicates

pytest.importorskip("numpy")


def with_vectors(frame: Frame, vectors: Sequence[Sequence[float] | None]) -> Frame:
    column = pa.array(vectors, pa.list_(pa.float32()))
    return Frame(frame.rows.append_column("embedding", column), frame.steps)


def letters(texts: list[str]) -> list[list[float]]:
    """A vector of letter counts: anagrams mean the same."""
    return [[float(t.lower().count(chr(97 + n))) for n in range(26)] for t in texts]


def test_runs_whose_vectors_point_the_same_way_are_duplicates() -> None:
    frame = with_vectors(
        frame_of(did("a", "x"), did("b", "y", success=True), did("c", "z")),
        [[1, 0], [5, 0.1], [0, 1]],
    )
    selection = selected(frame, stage("semantic-duplicates"))
    assert (why(selection), details(selection)) == ({"a": "semantic-duplicate"}, {"a": "b"})


def test_the_threshold_is_a_cosine_of_its_own() -> None:
    """Case 22: .96 apart in meaning, nothing in common in actions; .79 is a fact beside it."""
    frame = with_vectors(
        frame_of(did("a", "x"), did("b", "y"), did("c", "z")),
        [[1, 0], [0.96, 0.28], [0.79, -0.6131]],
    )
    assert why(selected(frame, stage("semantic-duplicates"))) == {"b": "semantic-duplicate"}
    assert why(selected(frame, stage("near-duplicates", threshold=0.3))) == {}
    assert len(selected(frame, stage("semantic-duplicates", threshold=0.75))) == 1


def test_likeness_alone_supersedes_nothing_of_another_task() -> None:
    """Case 23."""
    frame = with_vectors(
        frame_of(did("a", "x", task_id="t1"), did("b", "y", task_id="t2")), [[1, 0], [1, 0]]
    )
    assert len(selected(frame, stage("semantic-duplicates"))) == 2
    assert len(selected(frame, stage("semantic-duplicates", within="all"))) == 1


def test_a_run_without_a_vector_stays() -> None:
    frame = with_vectors(
        frame_of(did("a", "x"), did("b", "y"), did("c", "z")), [None, None, [1, 0]]
    )
    assert len(selected(frame, stage("semantic-duplicates"))) == 3


def test_the_unusual_one_can_be_kept_as_in_semdedup() -> None:
    vectors = [[1, 0], [0.999, 0.0447], [0.8, 0.6], [0.78, 0.6258], [0, 1]]
    frame = with_vectors(frame_of(*(did(f"r{n}", "x") for n in range(5))), vectors)
    made = stage("semantic-duplicates", order="far")
    assert selected(frame, made).ids() == ["r0", "r3", "r4"]


def test_a_function_makes_vectors_of_goal_and_actions() -> None:
    frame = frame_of(
        did("a", "listen", goal="enlist"),
        did("b", "silent", goal="tinsel"),
        did("c", "dog", goal="enlist"),
    )
    selection = selected(frame, SemanticDuplicates(embed=letters))
    assert why(selection) == {"b": "semantic-duplicate"}


def test_a_function_makes_vectors_of_goals_alone() -> None:
    frame = frame_of(wants("a", "t", "enlist"), wants("b", "t", "silent"), wants("c", "t", None))
    selection = selected(frame, SemanticDuplicates(embed=letters, text="goal"))
    assert selection.ids() == ["a", "c"]


def test_given_vectors_come_before_the_function() -> None:
    frame = with_vectors(frame_of(did("a", "abc"), did("b", "abc")), [[1, 0], [0, 1]])
    assert len(selected(frame, SemanticDuplicates(embed=letters))) == 2


def test_no_vectors_and_no_function_is_an_error() -> None:
    frame = frame_of(did("a", "x"))
    with pytest.raises(SelectionError, match="finds no column 'embedding'"):
        selected(frame, stage("semantic-duplicates"))


def test_a_recipe_keeps_the_name_of_what_made_the_vectors() -> None:
    recipe = SemanticDuplicates(embed=letters).parameters()
    assert recipe["embedder"] == "letters"
    assert "embed" not in recipe
    with pytest.raises(SelectionError, match="made by 'letters'"):
        selected(frame_of(did("a", "x")), stage("semantic-duplicates", **recipe))


def test_an_embedder_with_a_fingerprint_is_named_by_it() -> None:
    class Model:
        fingerprint = "all-MiniLM-L6-v2@abc"

        def __call__(self, texts: list[str]) -> list[list[float]]:
            return letters(texts)

    assert SemanticDuplicates(embed=Model()).embedder == "all-MiniLM-L6-v2@abc"


def test_equal_texts_are_embedded_once_and_in_portions() -> None:
    asked: list[list[str]] = []

    def embed(texts: list[str]) -> list[list[float]]:
        asked.append(texts)
        return letters(texts)

    texts = pa.chunked_array([[f"t{n % 300}" for n in range(900)] + [None]])
    vectors = embedded(texts, embed)
    assert [len(a) for a in asked] == [256, 44]
    assert (len(vectors), vectors.null_count) == (901, 1)
    assert vectors[5] == vectors[305]


def test_a_function_that_loses_texts_is_an_error() -> None:
    with pytest.raises(SelectionError, match="gave 1 vectors for 2 texts"):
        embedded(pa.array(["a", "b"]), lambda texts: letters(texts[:1]))


def test_a_dry_run_lists_the_groups() -> None:
    frame = with_vectors(frame_of(did("a", "x"), did("b", "y")), [[1, 0], [0.96, 0.28]])
    groups = SemanticDuplicates().groups(frame)
    assert groups["trajectory_id"].to_pylist() == ["a", "b"]
    assert groups["similarity"].to_pylist() == pytest.approx([1.0, 0.96])


def test_one_cluster_that_swallows_a_source_stops() -> None:
    runs = [did(f"r{n:02}", f"t{n}") for n in range(30)]
    frame = with_vectors(frame_of(*runs), [[1.0, n / 1000] for n in range(30)])
    with pytest.raises(SelectionError, match=r"semantic-duplicates.*30 of the 30 runs"):
        selected(frame, stage("semantic-duplicates"))


def test_the_order_of_the_rows_does_not_count() -> None:
    runs = [did(f"r{n}", f"t{n}") for n in range(12)]
    frame = with_vectors(frame_of(*runs), [[1.0, (n * 7 % 12) / 6] for n in range(12)])
    made = SemanticDuplicates(threshold=0.97)
    turned = shuffled(frame, [n * 5 % 12 for n in range(12)])
    assert made.groups(frame) == made.groups(turned)


@pytest.mark.parametrize("parameters", [{"threshold": 0.0}, {"threshold": 1.1}, {"order": "near"}])
def test_parameters_that_do_not_fit_are_refused(parameters: dict[str, Any]) -> None:
    with pytest.raises(SelectionError):
        stage("semantic-duplicates", **parameters)


def test_no_rows_in_no_rows_out() -> None:
    empty = with_vectors(shuffled(frame_of(did("a", "x")), []), [])
    assert len(selected(empty, stage("semantic-duplicates"))) == 0
