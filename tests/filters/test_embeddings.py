from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from tests.filters.frames import bash, run, said, stored, summaries
from trajstore.errors import SelectionError
from trajstore.filters import Frame
from trajstore.filters.embeddings import Embed, vectors_of


def lengths(texts: list[str]) -> list[list[float]]:
    return [[float(len(t)), 1.0] for t in texts]


def ask(
    frame: Frame, *, embed: Embed | None = lengths, embedder: str | None = None, whole: bool = False
) -> list[list[float] | None]:
    found: list[list[float] | None] = vectors_of(
        frame,
        stage="diverse",
        column="vector",
        text="run" if whole else "goal",
        embed=embed,
        embedder=embedder,
    ).to_pylist()
    return found


def test_a_column_is_taken_as_it_is() -> None:
    frame = summaries({}, {})
    rows = frame.rows.append_column("vector", pa.array([[1.0], None]))
    assert ask(Frame(rows, frame.steps), embed=None) == [[1.0], None]


def test_goals_are_embedded_and_a_run_without_one_has_no_vector(tmp_path: Path) -> None:
    frame = stored(tmp_path, run("a", said("x"), goal="four"), run("b", said("x"), goal=None))
    assert ask(frame) == [[4.0, 1.0], None]


def test_a_whole_run_is_its_goal_and_its_actions(tmp_path: Path) -> None:
    frame = stored(tmp_path, run("a", bash("ls"), goal="four"))
    heard: list[str] = []

    def listen(texts: list[str]) -> list[list[float]]:
        heard.extend(texts)
        return lengths(texts)

    ask(frame, embed=listen, whole=True)
    assert heard == ['four\nbash {"command":"ls"}']


def test_without_column_or_function_the_error_says_what_made_the_vectors() -> None:
    message = "'diverse' finds no column 'vector' among the rows, made by 'mini'"
    with pytest.raises(SelectionError, match=message):
        ask(summaries({}), embed=None, embedder="mini")
