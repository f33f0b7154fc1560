"""Any run goes out as valid ATIF 1.7 and comes back as it was.

Oracles: the rules of the specification in ``atif_rules`` (Harbor's own models where they are
installed), and equality of every column after the ATIF importer has read the file.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.exports.atif_rules import broken_rules
from trajstore.errors import ExportError
from trajstore.exports import export_atif, to_atif
from trajstore.importers import ImportOptions, detect
from trajstore.importers.atif import IMPORTER
from trajstore.importers.source import Source
from trajstore.schema import Observation, Step, ToolCall, Trajectory, finish, json_text
from trajstore.testing import generate, sample_trajectories, sample_trajectory

Run = Callable[..., Trajectory]


def _read(path: Path) -> list[Any]:
    return list(IMPORTER.read(Source(path), ImportOptions()))


def _documents(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.trajectory.json"))


def _back(run: Trajectory, folder: Path) -> Trajectory:
    """The run after its file was written and read; ``repr`` tells NaN, None and '' apart."""
    export_atif([run], folder)
    (path,) = _documents(folder)
    (item,) = _read(path)
    assert isinstance(item, Trajectory)
    return item


def _assert_same(back: Trajectory, run: Trajectory) -> None:
    assert repr(replace(back, steps=())) == repr(replace(run, steps=()))
    for there, here in zip(back.steps, run.steps, strict=True):
        assert repr(there) == repr(here)


@pytest.mark.parametrize("seed", range(6))
def test_every_column_comes_back(tmp_path: Path, seed: int) -> None:
    run = sample_trajectory(seed)
    _assert_same(_back(run, tmp_path), run)


def test_generated_runs_come_back(tmp_path: Path) -> None:
    runs = {run.trajectory_id: run for run in generate(20)}
    report = export_atif(runs.values(), tmp_path)
    paths = _documents(tmp_path)
    assert report.runs == len(paths) == 20
    assert report.size_bytes == sum(p.stat().st_size for p in paths)
    for path in paths:
        (back,) = _read(path)
        _assert_same(back, runs[back.trajectory_id])


@pytest.mark.parametrize("run", [*sample_trajectories(6), *generate(6)])
def test_the_document_breaks_no_rule(run: Trajectory) -> None:
    assert broken_rules(to_atif(run)) == []


def test_harbor_accepts_the_document() -> None:
    models = pytest.importorskip("harbor.models.trajectories")
    for run in [*sample_trajectories(6), *generate(6)]:
        read = models.Trajectory.model_validate(to_atif(run))
        assert len(read.steps) == len(run.steps)


def test_the_document_is_what_atif_means(sum_run: Trajectory) -> None:
    """Worked out by hand from the specification."""
    document = to_atif(replace(sum_run, agent="react", model="m"))
    called, answered = document["steps"][2:]
    assert [s["source"] for s in document["steps"]] == ["system", "user", "agent", "agent"]
    assert called["reasoning_content"] == "I should add."
    assert called["tool_calls"][0]["function_name"] == "add"
    assert called["tool_calls"][0]["arguments"] == {"a": 2, "b": 3, "note": None}
    assert called["observation"] == {"results": [{"source_call_id": "c1", "content": "5"}]}
    assert answered == {"step_id": 4, "source": "agent", "message": "5"} | (
        {"extra": answered["extra"]}
    )
    assert document["agent"]["tool_definitions"][0]["function"]["name"] == "add"
    assert document["agent"] | {"tool_definitions": []} == {
        "name": "react",
        "version": "unknown",
        "model_name": "m",
        "tool_definitions": [],
    }


def test_a_run_without_steps_comes_back_without_steps(tmp_path: Path, run: Run) -> None:
    empty = run()
    assert broken_rules(to_atif(empty)) == []
    assert _back(empty, tmp_path).steps == ()


def test_calls_of_one_id_are_told_apart_and_come_back(tmp_path: Path, run: Run) -> None:
    calls = tuple(ToolCall.of("f", {"n": n}, "c") for n in range(2))
    results = tuple(Observation(call_id="c", text=str(n)) for n in range(2))
    twice = run(Step(actor="agent", tool_calls=calls, observations=results))
    (step,) = to_atif(twice)["steps"]
    ids = [c["tool_call_id"] for c in step["tool_calls"]]
    assert [r["source_call_id"] for r in step["observation"]["results"]] == ids == ["c", "c_2"]
    _assert_same(_back(twice, tmp_path), twice)


@pytest.mark.parametrize(
    ("raw", "arguments"),
    [
        ("ls -la", {"input": "ls -la"}),
        ("[1]", {"input": "[1]"}),
        (None, {}),
        ('{"b": 1,  "a": 2}', {"b": 1, "a": 2}),
        ('{"a":' * 200 + "1" + "}" * 200, {"input": '{"a":' * 200 + "1" + "}" * 200}),
        ('{"x":NaN}', {"x": "nan"}),
        ('{"x":"\\ud83d"}', {"x": "\ud83d"}),
    ],
)
def test_arguments_of_any_kind_are_an_object_and_come_back(
    tmp_path: Path, run: Run, raw: str | None, arguments: Any
) -> None:
    once = run(Step(actor="agent", tool_calls=(ToolCall.of("f", raw, "c"),)))
    document = to_atif(once)
    assert broken_rules(document) == []
    assert document["steps"][0]["tool_calls"][0]["arguments"] == arguments
    _assert_same(_back(once, tmp_path), once)


def test_what_only_agents_may_have_moves_to_extra(tmp_path: Path, run: Run) -> None:
    calls = (ToolCall.of("f", "{}", "c"),)
    step = Step(actor="user", text="x", reasoning="r", model="m", prompt_tokens=3, tool_calls=calls)
    odd = run(replace(step, observations=(Observation(call_id="c", text="y"),)))
    document = to_atif(odd)
    assert broken_rules(document) == []
    assert document["steps"][0]["extra"]["trajstore"]["reasoning"] == "r"
    _assert_same(_back(odd, tmp_path), odd)


def test_images_stay_parts_and_other_parts_come_back(tmp_path: Path, run: Run) -> None:
    image = {"type": "image", "source": {"media_type": "image/png", "path": "a.png"}}
    good = json_text([{"type": "text", "text": "see"}, image])
    other = json_text([{"type": "image_url", "image_url": {"url": "b:1"}}])
    seen = run(
        Step(actor="user", text="see", content=good),
        Step(actor="user", text="see", content=other),
        Step(actor="user", text="a", content='[{"type":"text","text":"a"}]'),
    )
    document = to_atif(seen)
    assert broken_rules(document) == []
    messages = [s["message"] for s in document["steps"]]
    assert messages[0] == json.loads(good)
    assert messages[1] == "see"
    _assert_same(_back(seen, tmp_path), seen)


def test_numbers_that_json_cannot_say_come_back(tmp_path: Path, run: Run) -> None:
    step = Step(
        actor="agent", text="x", logprobs=(-math.inf, -0.5), completion_token_ids=(1, 2), reward=0.0
    )
    odd = run(step, reward=math.nan, cost_usd=math.inf, rewards={"a": -math.inf})
    document = to_atif(odd)
    assert broken_rules(document) == []
    json.dumps(document, allow_nan=False)
    _assert_same(_back(odd, tmp_path), odd)


def test_what_the_source_said_of_session_and_version_stands_in_its_field(run: Run) -> None:
    metadata = '{"session_id":"s-1","agent":{"version":"2.1"}}'
    document = to_atif(run(Step(actor="user", text="x"), metadata=metadata))
    assert (document["session_id"], document["agent"]["version"]) == ("s-1", "2.1")


def test_an_edited_document_gives_what_it_now_says(tmp_path: Path, sum_run: Trajectory) -> None:
    document = to_atif(sum_run)
    document["steps"][3]["message"] = "six"
    path = tmp_path / "edited.json"
    path.write_text(json.dumps(document))
    (back,) = _read(path)
    assert back.steps[3].text == "six"
    assert back.trajectory_id == sum_run.trajectory_id


@pytest.mark.parametrize(
    "extra", [{"task_id": 5, "source": "s"}, {"task_id": "t", "source": "s", "color": "red"}, []]
)
def test_an_extra_that_is_not_ours_is_read_as_any_atif(
    tmp_path: Path, sum_run: Trajectory, extra: Any
) -> None:
    path = tmp_path / "other.json"
    path.write_text(json.dumps(to_atif(sum_run) | {"extra": {"trajstore": extra}}))
    (back,) = _read(path)
    assert back.source == "atif"
    assert [s.text for s in back.steps] == ["Use the tool.", "2 + 3?", "", "5"]


def test_ids_that_are_no_file_names_are_hashed(tmp_path: Path, run: Run) -> None:
    export_atif([run(trajectory_id="../up"), run(trajectory_id="a b")], tmp_path / "out")
    paths = _documents(tmp_path / "out")
    assert all(len(p.name) == 64 + len(".trajectory.json") for p in paths)
    assert {_read(p)[0].trajectory_id for p in paths} == {"../up", "a b"}


def test_two_runs_of_one_id_are_an_error(tmp_path: Path, run: Run) -> None:
    with pytest.raises(ExportError, match="two runs have the id 't'"):
        export_atif([run(), run()], tmp_path)


def test_the_manifest_names_every_file_with_its_hash(tmp_path: Path) -> None:
    runs = generate(5)
    report = export_atif(runs, tmp_path)
    told = json.loads((tmp_path / "manifest.json").read_text())
    assert told == report.manifest
    assert {f["name"]: f["sha256"] for f in told["files"]} == {
        p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in _documents(tmp_path)
    }
    assert (told["kind"], told["trajectories"], sum(told["outcomes"].values())) == ("atif", 5, 5)


def test_an_earlier_export_leaves_nothing_behind(tmp_path: Path, run: Run) -> None:
    export_atif([run(trajectory_id="a"), run(trajectory_id="b")], tmp_path)
    export_atif([run(trajectory_id="b"), run(trajectory_id="c")], tmp_path)
    assert [p.name[0] for p in _documents(tmp_path)] == ["b", "c"]


def test_documents_that_no_manifest_names_are_not_touched(tmp_path: Path, run: Run) -> None:
    (tmp_path / "mine.trajectory.json").write_text("{}")
    with pytest.raises(ExportError, match=r"holds mine\.trajectory\.json, which no manifest"):
        export_atif([run()], tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["mine.trajectory.json"]


def test_an_export_that_fails_writes_no_manifest(tmp_path: Path, run: Run) -> None:
    with pytest.raises(ExportError):
        export_atif([run(), run()], tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["t.trajectory.json"]


def test_a_file_is_no_folder(tmp_path: Path, run: Run) -> None:
    (tmp_path / "x").write_text("")
    with pytest.raises(ExportError, match="is a file"):
        export_atif([run()], tmp_path / "x")


_TEXT = st.none() | st.text(st.characters(codec="utf-8"), max_size=8)
_IDS = st.none() | st.sampled_from(["", "a", "b", "a_2", "call_1"])
_JSON = st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(), st.lists)
_ARGUMENTS = _TEXT | st.dictionaries(st.text(max_size=3), _JSON, max_size=2)
_PARTS = st.lists(
    st.sampled_from(
        [
            {"type": "text", "text": "a"},
            {"type": "text", "text": "a", "more": None},
            {"type": "image", "source": {"media_type": "image/png", "path": "p"}},
            {"type": "audio", "source": {"media_type": "audio/wav", "path": "p"}},
            "plain",
        ]
    ),
    max_size=3,
)
_CONTENT = st.none() | _PARTS.map(json_text) | st.just("no json")
_TIMES = st.integers(0, 4 * 10**15).map(
    lambda us: datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=us)
)
_STEPS = st.builds(
    Step,
    actor=st.sampled_from(["system", "user", "agent", "environment"]),
    text=_TEXT,
    reasoning=_TEXT,
    content=_CONTENT,
    tool_calls=st.lists(
        st.builds(ToolCall.of, st.text(max_size=3), _ARGUMENTS, _IDS), max_size=3
    ).map(tuple),
    observations=st.lists(
        st.builds(
            Observation,
            text=_TEXT,
            call_id=_IDS,
            is_error=st.none() | st.booleans(),
            content=_CONTENT,
        ),
        max_size=4,
    ).map(tuple),
    reward=st.none() | st.floats(),
    is_copied=st.booleans(),
    format_error=st.booleans(),
    model=_TEXT,
    prompt_tokens=st.none() | st.integers(0, 2**62),
    logprobs=st.none() | st.lists(st.floats(width=32), max_size=2).map(tuple),
    timestamp=st.none() | _TIMES,
    metadata=_TEXT,
)


@given(steps=st.lists(_STEPS, max_size=4), words=_TEXT, success=st.none() | st.booleans())
def test_any_run_is_valid_and_comes_back(
    tmp_path_factory: pytest.TempPathFactory,
    *,
    steps: list[Step],
    words: str | None,
    success: bool | None,
) -> None:
    run = finish(
        Trajectory(
            trajectory_id="t",
            task_id="t/1",
            source="any",
            steps=tuple(steps),
            agent=words,
            tools=words,
            success=success,
            metadata=words,
        )
    )
    assert broken_rules(to_atif(run)) == []
    _assert_same(_back(run, tmp_path_factory.mktemp("any")), run)


def _recorded(folder: Path, most: int) -> Iterator[Trajectory]:
    """The first runs of each importer, so that every format is among them."""
    counts: dict[str, int] = {}
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        source = Source(path)
        found = detect(source) if path.stat().st_size < 5_000_000 else None
        if found is None or counts.get(found.name, 0) >= most:
            continue
        for item in found.read(source, ImportOptions()):
            if isinstance(item, Trajectory) and counts.get(found.name, 0) < most:
                counts[found.name] = counts.get(found.name, 0) + 1
                yield finish(item)


def test_recorded_runs_of_every_format_come_back(tmp_path: Path, real_data: Path) -> None:
    runs = {run.trajectory_id: run for run in _recorded(real_data, 12)}
    assert len({run.source for run in runs.values()}) > 20
    export_atif(runs.values(), tmp_path)
    for path in _documents(tmp_path):
        assert broken_rules(json.loads(path.read_text(encoding="utf-8"))) == []
        (back,) = _read(path)
        _assert_same(back, runs[back.trajectory_id])
