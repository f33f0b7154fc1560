"""What every importer must do, run over the whole registry."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from trajstore.errors import ImportFormatError
from trajstore.importers import (
    Importer,
    ImportOptions,
    Problem,
    Source,
    detect,
    importer,
    importers,
    sources,
)
from trajstore.schema import (
    Label,
    Trajectory,
    check,
    finish,
    labels_to_arrow,
    steps_to_arrow,
    trajectories_to_arrow,
)

NAMES = sorted(importers())
GARBAGE = [
    "",
    "\n\n",
    "hello",
    "{}",
    "[]",
    "[[]]",
    "[null]",
    "null",
    '"text"',
    "3",
    "{",
    '{"a": 1}\n{"b": 2}\n',
    '{"messages": null}',
    '{"messages": []}',
    '{"messages": [null, 3, "x"]}',
    '{"steps": [{"actor": "agent"}, 7]}',
    '{"conversations": [{"from": 3}]}',
    '[{"role": "user"}]',
    '{"traj": 1, "task_id": null}',
    '{"resourceSpans": [{"scopeSpans": 3}]}',
    '{"trace": {}, "observations": [1]}',
    '{"schema_version": "ATIF-v1.7", "steps": "x"}',
    '{"type": "user", "message": 3, "sessionId": "s"}\n{"type": "assistant"}\n',
    '{"timestamp": "x", "type": "session_meta", "payload": 1}\n',
    '{"response": 1, "responses_create_params": []}\n',
    "\x00\x01\x02",
    "PK\x03\x04broken",
    "PAR1broken",
]


def written(folder: Path, content: str, name: str = "file.json") -> Source:
    path = folder / name
    path.write_text(content)
    return Source(path)


@pytest.fixture(scope="module")
def real_sources(real_data: Path) -> list[Source]:
    return [found for found in sources(real_data) if isinstance(found, Source)]


@pytest.mark.parametrize("name", NAMES)
def test_it_says_what_it_is(name: str) -> None:
    found = importers()[name]
    assert isinstance(found, Importer)
    assert found.title
    assert found.reads
    assert "\n" not in found.title + found.reads


@pytest.mark.parametrize("content", GARBAGE)
def test_garbage_is_never_a_trajectory_and_never_an_exception(tmp_path: Path, content: str) -> None:
    for name, found in importers().items():
        source = written(tmp_path, content)
        assert 0 <= found.detect(source) <= 1
        items = list(found.read(source, ImportOptions()))
        runs = [i for i in items if isinstance(i, Trajectory)]
        assert not any(r.steps and all(s.text is None for s in r.steps) for r in runs), name


@pytest.mark.parametrize("name", NAMES)
def test_an_empty_file_gives_nothing_but_problems(tmp_path: Path, name: str) -> None:
    items = list(importers()[name].read(written(tmp_path, ""), ImportOptions()))
    assert all(isinstance(i, Problem) for i in items)


def test_a_name_that_does_not_exist_is_answered_with_those_that_do() -> None:
    with pytest.raises(ImportFormatError, match=r"Known formats: .*tau-bench"):
        importer("nonsense")


def test_no_two_importers_are_equally_sure_of_a_real_file(real_sources: list[Source]) -> None:
    for source in real_sources:
        sure = Counter({n: i.detect(source) for n, i in importers().items()})
        (first, high), (second, low) = sure.most_common(2)
        assert high == 0 or high > low, f"{source.uri}: {first} and {second} at {high}"


def test_real_runs_fit_the_schema_and_have_stable_ids(real_sources: list[Source]) -> None:
    for source in real_sources:
        found = detect(source)
        if found is None:
            continue
        items = list(found.read(source, ImportOptions()))
        again = list(
            found.read(Source(source.path, uri=source.uri, files=source.files), ImportOptions())
        )
        runs = [finish(i) for i in items if isinstance(i, Trajectory)]
        check(trajectories_to_arrow(runs), "trajectories")
        check(steps_to_arrow(runs), "steps")
        check(labels_to_arrow([i for i in items if isinstance(i, Label)]), "labels")
        assert [i for i in items if not isinstance(i, Label)] == [
            i for i in again if not isinstance(i, Label)
        ]


def test_real_task_ids_are_prefixed_and_goals_are_text(real_sources: list[Source]) -> None:
    for source in real_sources:
        found = detect(source)
        for item in found.read(source, ImportOptions()) if found else ():
            if isinstance(item, Trajectory):
                assert "/" in item.task_id, source.uri
                assert item.goal is None or item.goal.strip(), source.uri
                assert item.source_uri, source.uri
