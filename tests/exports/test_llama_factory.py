"""LLaMA-Factory's sharegpt form.

Oracle: the rules of its converter and of its function formatter, stated again in ``_taken`` (the
converter itself where it is installed).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from trajstore.exports import Refusal, SftOptions, export_sft, sft_rows
from trajstore.importers import ImportOptions
from trajstore.importers.source import Source
from trajstore.importers.tau_bench import IMPORTER as TAU
from trajstore.schema import Observation, Step, ToolCall, Trajectory
from trajstore.testing import generate

Run = Callable[..., Trajectory]

_USER = Step(actor="user", text="q")
_ANSWER = Step(actor="agent", text="a")


def _rows(runs: list[Trajectory], folder: Path, **options: Any) -> list[dict[str, Any]]:
    export_sft(runs, folder, to="llama-factory", options=SftOptions(**options))
    return [json.loads(line) for line in (folder / "train.jsonl").read_text().splitlines()]


def _refused(found: Any) -> str:
    assert isinstance(found, Refusal)
    return found.reason


def _calling(*names: str, text: str = "") -> Step:
    calls = tuple(ToolCall.of(n, {"x": i}, f"c{i}") for i, n in enumerate(names))
    results = tuple(Observation(call_id=c.call_id, text=f"r of {c.name}") for c in calls)
    return Step(actor="agent", text=text, tool_calls=calls, observations=results)


def _taken(row: dict[str, Any]) -> None:
    """The checks of ``SharegptDatasetConverter`` and ``FunctionFormatter`` (0.9.5)."""
    turns = row["conversations"]
    assert len(turns) % 2 == 0
    for place, turn in enumerate(turns):
        assert turn.keys() == {"from", "value"}
        assert turn["from"] in (("human", "observation"), ("gpt", "function_call"))[place % 2]
        if turn["from"] == "function_call":
            _calls_in(turn["value"])
    assert isinstance(row["system"], str)
    assert row["tools"] == "" or isinstance(json.loads(row["tools"]), list)


def _calls_in(value: str) -> list[tuple[str, Any]]:
    """Calls as the function formatter finds them."""
    pair = re.search(r"<tool_call>(.*?)</tool_call>", value, re.DOTALL)
    thought = re.search(r"<think>\n(.*?)\n</think>\n\n", value, re.DOTALL)
    text = pair[1] if pair else value.replace(thought[0], "") if thought else value
    found = json.loads(text)
    return [(c["name"], c["arguments"]) for c in (found if isinstance(found, list) else [found])]


def test_a_row_is_what_the_documentation_shows(tmp_path: Path, sum_run: Trajectory) -> None:
    (row,) = _rows([replace(sum_run, tools=None)], tmp_path, include_reasoning=False)
    call = '{"name":"add","arguments":{"a":2,"b":3,"note":null}}'
    assert row == {
        "conversations": [
            {"from": "human", "value": "2 + 3?"},
            {"from": "function_call", "value": call},
            {"from": "observation", "value": "5"},
            {"from": "gpt", "value": "5"},
        ],
        "system": "Use the tool.",
        "tools": "",
        "trajectory_id": "t",
        "task_id": "sums/1",
        "reward": 1.0,
    }


def test_dataset_info_names_file_form_and_columns(tmp_path: Path, sum_run: Trajectory) -> None:
    (row,) = _rows([sum_run], tmp_path)
    about = json.loads((tmp_path / "dataset_info.json").read_text())["trajstore"]
    assert about["formatting"] == "sharegpt"
    assert (tmp_path / about["file_name"]).is_file()
    assert set(about["columns"].values()) <= row.keys()


def test_reasoning_and_text_stand_where_the_formatter_keeps_them(tmp_path: Path, run: Run) -> None:
    step = replace(_calling("f", text="I look."), reasoning="hm")
    report = export_sft([run(_USER, step, _ANSWER)], tmp_path, to="llama-factory")
    row = json.loads((tmp_path / "train.jsonl").read_text())
    value = row["conversations"][1]["value"]
    call = '{"name":"f","arguments":{"x":0}}'
    assert value == f"<think>\nhm\n</think>\n\nI look.\n<tool_call>\n{call}\n</tool_call>"
    assert _calls_in(value) == [("f", {"x": 0})]
    assert report.manifest["rules_applied"] == {"reasoning-as-think": 1, "text-before-calls": 1}


def test_parallel_calls_are_one_list_and_their_results_one_turn(tmp_path: Path, run: Run) -> None:
    (row,) = _rows([run(_USER, _calling("f", "g"), _ANSWER)], tmp_path)
    called, seen = row["conversations"][1:3]
    assert _calls_in(called["value"]) == [("f", {"x": 0}), ("g", {"x": 1})]
    assert seen["value"] == "r of f\n</tool_response>\n<tool_response>\nr of g"
    _taken(row)


@pytest.mark.parametrize(
    "steps",
    [
        (_USER, _USER, _ANSWER),
        (_USER, _ANSWER, _ANSWER),
        (_ANSWER, _USER, _ANSWER),
        (_USER, _calling("f"), _USER, _ANSWER),
    ],
)
def test_turns_out_of_order_are_refused_with_their_place(run: Run, steps: tuple[Step, ...]) -> None:
    (found,) = sft_rows([run(*steps)], to="llama-factory")
    assert _refused(found) == "alternation"
    assert isinstance(found, Refusal)
    assert found.detail.startswith("turn ")


def test_merging_is_the_way_out_for_user_messages_in_a_row(tmp_path: Path, run: Run) -> None:
    (row,) = _rows([run(_USER, _USER, _ANSWER)], tmp_path, consecutive="merge")
    assert row["conversations"][0] == {"from": "human", "value": "q\n\nq"}


def test_a_system_message_is_allowed_at_the_head_only(tmp_path: Path, run: Run) -> None:
    system = Step(actor="system", text="s")
    (row,) = _rows([run(system, system, _USER, _ANSWER)], tmp_path)
    assert row["system"] == "s\n\ns"
    (found,) = sft_rows([run(_USER, _ANSWER, system, _USER, _ANSWER)], to="llama-factory")
    assert _refused(found) == "system-later"


@pytest.mark.parametrize("word", ["<think>", "</think>", "<tool_call>", "</tool_call>"])
def test_words_by_which_a_turn_with_calls_would_be_cut_are_refused(run: Run, word: str) -> None:
    (text,) = sft_rows([run(_USER, _calling("f", text=word), _ANSWER)], to="llama-factory")
    step = replace(_calling("f"), tool_calls=(ToolCall.of("f", {"x": word}, "c0"),))
    (argument,) = sft_rows([run(_USER, step, _ANSWER)], to="llama-factory")
    assert {_refused(text), _refused(argument)} == {"cutting-words"}


def test_every_row_of_generated_runs_is_taken(tmp_path: Path) -> None:
    rows = _rows(list(generate(60)), tmp_path)
    assert len(rows) > 20
    for row in rows:
        _taken(row)


def test_tau_bench_rows_are_taken(tmp_path: Path, real_data: Path) -> None:
    source = Source(real_data / "tau_bench" / "gpt-4o-airline.json")
    runs = [i for i in TAU.read(source, ImportOptions()) if isinstance(i, Trajectory)]
    rows = _rows(runs, tmp_path)
    assert len(rows) == len(runs) == 200
    for row in rows:
        _taken(row)


def test_llama_factory_itself_takes_the_rows(tmp_path: Path, sum_run: Trajectory) -> None:
    converter = pytest.importorskip("llamafactory.data.converter")
    parser = pytest.importorskip("llamafactory.data.parser")
    (row,) = _rows([sum_run], tmp_path)
    (about,) = parser.get_dataset_list(["trajstore"], str(tmp_path))
    out = converter.SharegptDatasetConverter(about, None)(row)
    assert [m["role"] for m in out["_prompt"]] == ["user", "function", "observation"]
    assert out["_response"] == [{"role": "assistant", "content": "5"}]
    assert (out["_system"], out["_tools"]) == ("Use the tool.", row["tools"])
