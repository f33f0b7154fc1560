"""verl's multi-turn Parquet: what pandas gives verl, and what the shipped class makes of it.

The class stands on a base that reads the file as verl 0.9.1 does (``read_parquet`` with Arrow
types, nested values to lists), since verl itself needs a GPU build.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow.parquet as pq
import pytest

from trajstore.exports import Refusal, SftOptions, chat_messages, export_sft, sft_rows
from trajstore.schema import Step, ToolCall, Trajectory
from trajstore.testing import generate

Run = Callable[..., Trajectory]


def _plain(value: Any) -> Any:
    """``convert_nested_value_to_list_recursive`` of verl."""
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items()}
    if hasattr(value, "tolist"):
        return _plain(value.tolist())
    return [_plain(v) for v in value] if isinstance(value, list) else value


class _Base:
    """The part of verl's ``MultiTurnSFTDataset`` that touches the file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read_files_and_process()

    def _read_files_and_process(self) -> None:
        pandas = pytest.importorskip("pandas")
        self.dataframe = pandas.read_parquet(self._path, dtype_backend="pyarrow")
        self.messages = self.dataframe["messages"].apply(_plain).tolist()
        self.tools = self.dataframe["tools"].apply(_plain).tolist()
        self.enable_thinking = self.dataframe["enable_thinking"].tolist()

    def _build_messages(self, example: dict[str, Any]) -> list[dict[str, Any]]:
        messages: list[dict[str, Any]] = _plain(example["messages"])
        return messages

    def example(self, item: int) -> list[dict[str, Any]]:
        return self._build_messages(self.dataframe.iloc[item].to_dict())


def _loaded(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The file through the class that lies beside it."""
    names = ("verl", "verl.utils", "verl.utils.dataset", "verl.utils.dataset.multiturn_sft_dataset")
    for name in names:
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    sys.modules[names[-1]].MultiTurnSFTDataset = _Base  # type: ignore[attr-defined]
    scope: dict[str, Any] = {}
    exec((folder / "verl_dataset.py").read_text(), scope)
    return scope["TrajstoreDataset"](folder / "train.parquet")


def test_messages_are_structs_with_empty_values_and_no_nulls(
    tmp_path: Path, sum_run: Trajectory
) -> None:
    export_sft([sum_run], tmp_path, to="verl")
    (row,) = pq.read_table(tmp_path / "train.parquet").to_pylist()
    assert row["messages"][1] == {
        "role": "user",
        "content": "2 + 3?",
        "reasoning_content": "",
        "tool_calls": [],
        "name": "",
        "tool_call_id": "",
    }
    function = row["messages"][2]["tool_calls"][0]["function"]
    assert function == {"name": "add", "arguments": '{"a": 2, "b": 3, "note": null}'}
    assert json.loads(row["tools"])[0]["function"]["name"] == "add"


def test_thinking_is_on_where_a_row_holds_reasoning(tmp_path: Path, sum_run: Trajectory) -> None:
    for reasoning in (True, False):
        out = tmp_path / str(reasoning)
        options = SftOptions(include_reasoning=reasoning)
        export_sft([sum_run], out, to="verl", options=options)
        assert pq.read_table(out / "train.parquet")["enable_thinking"].to_pylist() == [reasoning]


def test_the_class_gives_verl_the_messages_of_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sum_run: Trajectory
) -> None:
    runs = [sum_run, *generate(4)]
    kept = SftOptions(masked_turns="keep")
    export_sft(runs, tmp_path, to="verl", options=kept)
    loaded = _loaded(tmp_path, monkeypatch)
    for item, run in enumerate(runs):
        expected = chat_messages(run)
        for message in expected:
            for call in message.get("tool_calls", ()):
                call["function"]["arguments"] = json.loads(call["function"]["arguments"])
        got = loaded.example(item)
        assert got == expected[: len(got)]
        assert len(expected) - len(got) <= 1, "only a tail that nothing is trained on"
    assert loaded.tools[0][0]["function"]["parameters"] == {"type": "object"}


def test_a_run_without_tools_has_none_for_the_class_and_empty_text_without_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    export_sft(
        [run(Step(actor="user", text="q"), Step(actor="agent", text="a"))], tmp_path, to="verl"
    )
    assert _Base(tmp_path / "train.parquet").tools == [""]
    assert _loaded(tmp_path, monkeypatch).tools == [None]


@pytest.mark.parametrize("name", ["verl", "axolotl"])
def test_arguments_that_the_trainer_cannot_parse_are_refused(run: Run, name: Any) -> None:
    step = Step(actor="agent", tool_calls=(ToolCall.of("f", "ls", "c"),))
    (found,) = sft_rows([run(Step(actor="user", text="q"), step)], to=name)
    assert isinstance(found, Refusal)
    assert found.reason == "arguments"
    assert "call 'c' of 'f'" in found.detail
