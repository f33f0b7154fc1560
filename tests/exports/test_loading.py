"""What ``datasets`` reads of an export is what went in: no key added, no text changed."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from trajstore.exports import SFT_COLUMNS, SftOptions, SftRow, export_sft, sft_rows
from trajstore.schema import Observation, Step, ToolCall, Trajectory
from trajstore.testing import generate, sample_trajectories

datasets = pytest.importorskip("datasets")
datasets.disable_progress_bars()

Run = Callable[..., Trajectory]
Load = Callable[..., list[dict[str, Any]]]

_KEEP = SftOptions(masked_turns="keep", media="mark", arguments="text")
_BOTH = pytest.mark.parametrize("format_", ["parquet", "jsonl"])


@pytest.fixture
def load(tmp_path: Path) -> Load:
    """Load all rows of the train split, with a cache of its own."""

    def rows(*arguments: Any, **options: Any) -> list[dict[str, Any]]:
        cache = str(tmp_path / "cache")
        return list(datasets.load_dataset(*arguments, split="train", cache_dir=cache, **options))

    return rows


def _records(runs: Iterable[Trajectory], options: SftOptions) -> list[dict[str, Any]]:
    rows = sft_rows(runs, options=options)
    return [r.record(options.layout) for r in rows if isinstance(r, SftRow)]


@_BOTH
@pytest.mark.parametrize("layout", ["messages", "prompt-completion"])
@pytest.mark.parametrize("streaming", [True, False])
def test_the_folder_loads_as_what_went_in(
    tmp_path: Path, load: Load, format_: Any, layout: Any, *, streaming: bool
) -> None:
    options = SftOptions(layout=layout, masked_turns="keep", media="mark", arguments="text")
    runs = [*sample_trajectories(4), *generate(6, mean_steps=6)]
    export_sft(runs, tmp_path / "set", format=format_, options=options)
    assert load(str(tmp_path / "set"), streaming=streaming) == _records(runs, options)


@_BOTH
def test_the_file_alone_loads_as_what_went_in(tmp_path: Path, load: Load, format_: Any) -> None:
    runs = list(generate(5, mean_steps=6))
    export_sft(runs, tmp_path / "set", format=format_)
    builder = {"parquet": "parquet", "jsonl": "json"}[format_]
    files = str(tmp_path / "set" / f"train.{format_}")
    assert load(builder, data_files=files) == _records(runs, SftOptions())


@_BOTH
def test_no_message_has_a_null_after_loading(tmp_path: Path, load: Load, format_: Any) -> None:
    export_sft(sample_trajectories(3), tmp_path / "set", format=format_, options=_KEEP)
    for row in load(str(tmp_path / "set")):
        for message in row["messages"]:
            assert None not in message.values()


@_BOTH
def test_features_are_those_of_the_columns(tmp_path: Path, format_: Any) -> None:
    export_sft(generate(2, mean_steps=4), tmp_path / "set", format=format_)
    loaded = datasets.load_dataset(
        str(tmp_path / "set"), split="train", cache_dir=str(tmp_path / "cache")
    )
    assert list(loaded.features) == list(SFT_COLUMNS["messages"])
    assert loaded.features["messages"] == datasets.List(datasets.Json())
    assert loaded.features["reward"] == datasets.Value("float64")


@_BOTH
def test_one_argument_of_many_types_loads(
    tmp_path: Path, load: Load, run: Run, format_: Any
) -> None:
    values = [1, "1", 1.5, None, True, [1, "a"], {"k": []}, {"k": {"j": None}}]
    runs = [
        run(
            Step(actor="user", text="q"),
            Step(actor="agent", tool_calls=(ToolCall.of("f", {"x": value}, "c"),)),
            trajectory_id=str(i),
        )
        for i, value in enumerate(values)
    ]
    export_sft(runs, tmp_path / "set", format=format_)
    rows = load(str(tmp_path / "set"))
    found = [r["messages"][1]["tool_calls"][0]["function"]["arguments"]["x"] for r in rows]
    assert [repr(x) for x in found] == [repr(x) for x in values]


@_BOTH
def test_columns_that_begin_with_nulls_and_plain_chat_load(
    tmp_path: Path, load: Load, run: Run, sum_run: Trajectory, format_: Any
) -> None:
    filler = "x" * 400_000
    plain = [
        run(Step(actor="user", text=filler), Step(actor="agent", text="a"), trajectory_id=str(i))
        for i in range(30)
    ]
    export_sft([*plain, sum_run], tmp_path / "set", format=format_)
    rows = load(str(tmp_path / "set"))
    assert rows[0]["messages"] == plain_messages(filler)
    assert rows[-1] == _records([sum_run], SftOptions())[0]


def plain_messages(text: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": text}, {"role": "assistant", "content": "a"}]


_text = st.text(max_size=20)
_argument = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | _text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_text, inner, max_size=3),
    max_leaves=5,
)
_call = st.builds(ToolCall.of, _text, st.dictionaries(_text, _argument, max_size=3), _text)
_raw_call = st.builds(ToolCall.of, _text, _text, _text)


def _runs(calls: st.SearchStrategy[ToolCall]) -> st.SearchStrategy[list[Trajectory]]:
    step = st.builds(
        Step,
        actor=st.sampled_from(["system", "user", "agent", "agent"]),
        text=_text | st.none(),
        reasoning=_text | st.none(),
        tool_calls=st.lists(calls, max_size=2).map(tuple),
        observations=st.lists(st.builds(Observation, text=_text), max_size=2).map(tuple),
    )
    steps = st.lists(step, min_size=1, max_size=5)
    return st.lists(steps, min_size=20, max_size=40).map(
        lambda many: [
            Trajectory(
                trajectory_id=str(i),
                task_id="t",
                source="s",
                steps=(*steps, Step(actor="agent", text="end")),
                reward=float(i) if i % 2 else None,
            )
            for i, steps in enumerate(many)
        ]
    )


_FEW = settings(
    max_examples=4,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
)
"""Loading takes a quarter of a second, so there are few examples and each holds many runs."""


def _loaded(
    runs: list[Trajectory], format_: Literal["parquet", "jsonl"], options: SftOptions
) -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as folder:
        export_sft(runs, f"{folder}/set", format=format_, options=options)
        loaded = datasets.load_dataset(
            f"{folder}/set", split="train", cache_dir=f"{folder}/c", keep_in_memory=True
        )
        return list(loaded)


@_BOTH
@_FEW
@given(runs=_runs(_call | _raw_call))
def test_arguments_as_text_survive_byte_for_byte(format_: Any, runs: list[Trajectory]) -> None:
    rows = _loaded(runs, format_, SftOptions(arguments="text"))
    found = [
        call["function"]["arguments"]
        for row in rows
        for message in row["messages"]
        for call in message.get("tool_calls", ())
    ]
    calls = [c for t in runs for s in t.steps if s.actor == "agent" for c in s.tool_calls]
    assert found == [c.arguments_raw for c in calls]


@_BOTH
@_FEW
@given(runs=_runs(_call))
def test_arguments_as_objects_load_as_equal_messages(format_: Any, runs: list[Trajectory]) -> None:
    rows = _loaded(runs, format_, SftOptions())
    expected = _records(runs, SftOptions())
    assert json.dumps(rows) == json.dumps(expected)


def _with_numbers(numbers: list[float]) -> Trajectory:
    steps = [Step(actor="agent", tool_calls=(ToolCall.of("f", {"x": x}, "c"),)) for x in numbers]
    return Trajectory(
        trajectory_id="t", task_id="t", source="s", steps=tuple(steps), reward=numbers[0]
    )


@_FEW
@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=50, max_size=90))
def test_parquet_keeps_the_reward_exactly_and_numbers_in_arguments_to_10_digits(
    numbers: list[float],
) -> None:
    (row,) = _loaded([_with_numbers(numbers)], "parquet", SftOptions())
    found = [m["tool_calls"][0]["function"]["arguments"]["x"] for m in row["messages"]]
    assert repr(row["reward"]) == repr(numbers[0])
    assert found == pytest.approx(numbers, rel=1e-10, abs=5e-324)
