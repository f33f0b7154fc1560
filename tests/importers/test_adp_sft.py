"""The SFT form of the Agent Data Protocol is the run of the record it was made from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from trajstore.importers import adp
from trajstore.importers.adp_sft import is_adp_sft, standard_record
from trajstore.importers.items import ImportOptions, Problem
from trajstore.importers.sharegpt import IMPORTER
from trajstore.importers.source import Source
from trajstore.schema import Trajectory, finish

ROW = {
    "id": "os_17",
    "system": "Write calls as XML.",
    "conversations": [
        {"from": "human", "value": "List the files."},
        {
            "from": "gpt",
            "value": "Sure.\n\n<function=execute_bash>\n<parameter=command>\nls\n</parameter>\n"
            "</function>",
        },
        {"from": "human", "value": "EXECUTION RESULT of [execute_bash]:\na.txt"},
        {
            "from": "gpt",
            "value": "<function=finish><parameter=message>One file.</parameter>"
            "<parameter=task_completed>true</parameter></function>",
        },
    ],
}


def runs(path: Path, importer: Any = IMPORTER) -> list[Trajectory]:
    items = importer.read(Source(path), ImportOptions())
    return [finish(i) for i in items if isinstance(i, Trajectory)]


def actions(value: str) -> list[dict[str, Any]]:
    row = {**ROW, "conversations": [{"from": "gpt", "value": value}, *ROW["conversations"]]}
    content: list[dict[str, Any]] = standard_record(row)["content"]
    return content[: len(content) - 4]


def test_turns_become_the_items_of_the_standard_form() -> None:
    record = standard_record(ROW)
    assert [i["class_"] for i in record["content"]] == [
        "text_observation",
        "code_action",
        "text_observation",
        "message_action",
    ]
    assert record["content"][1] == {
        "class_": "code_action",
        "language": "bash",
        "content": "ls",
        "description": "Sure.",
    }
    assert record["content"][2]["content"] == "a.txt"
    assert record["content"][3]["content"] == "<finish> One file. </finish>"


def test_other_functions_are_api_actions_with_their_arguments() -> None:
    (item,) = actions("<function=edit><parameter=path>a</parameter></function>")
    assert (item["class_"], item["function"], item["kwargs"]) == (
        "api_action",
        "edit",
        {"path": "a"},
    )


def test_only_the_first_of_parallel_calls_carries_the_text() -> None:
    found = actions("Both.<function=a></function><function=b></function>")
    assert [i["description"] for i in found] == ["Both.", None]


def test_an_answer_without_call_is_a_message() -> None:
    assert actions("Just text.")[0] == {
        "class_": "message_action",
        "content": "Just text.",
        "description": None,
    }


@pytest.mark.parametrize(
    "change",
    [
        {"more": 1},
        {"id": 17},
        {"conversations": [{"from": "gpt", "value": "no call"}]},
        {"conversations": "text"},
    ],
)
def test_other_sharegpt_records_are_not_the_sft_form(change: dict[str, Any]) -> None:
    assert is_adp_sft(ROW)
    assert not is_adp_sft(ROW | change)
    assert not is_adp_sft(["id"])


@pytest.mark.parametrize("value", [1, None])
def test_a_turn_without_text_is_a_problem(tmp_path: Path, value: Any) -> None:
    path = tmp_path / "sft.jsonl"
    broken = [*ROW["conversations"], {"from": "human", "value": value}]
    path.write_text(f"{json.dumps(ROW)}\n{json.dumps(ROW | {'conversations': broken})}\n")
    one, problem = IMPORTER.read(Source(path), ImportOptions())
    assert isinstance(one, Trajectory)
    assert isinstance(problem, Problem)
    assert (problem.line, "must be text" in problem.reason) == (2, True)


def test_the_system_text_of_the_form_is_no_step(tmp_path: Path) -> None:
    path = tmp_path / "sft.jsonl"
    path.write_text(json.dumps(ROW))
    (found,) = runs(path)
    assert [s.actor for s in found.steps] == ["user", "agent", "agent"]
    assert json.loads(found.metadata or "")["system"] == "Write calls as XML."


@pytest.mark.parametrize(
    ("folder", "file", "turns"),
    [
        ("codeactinstruct", "sample_sft_openhands.json", [8, 10, 6, 6, 6]),
        ("toucan_1_5m", "sample_sft_sweagent.json", [6]),
    ],
)
def test_sft_and_standard_records_are_the_same_runs(
    real_data: Path, folder: str, file: str, turns: list[int]
) -> None:
    path = real_data / "adp" / folder / file
    assert IMPORTER.detect(Source(path)) == 0.8
    assert adp.IMPORTER.detect(Source(path)) == 0
    sft = runs(path)
    standard = runs(path.with_name("sample_std.json"), adp.IMPORTER)
    assert len(sft) == len(turns)
    for one, other in zip(sft, standard, strict=True):
        assert one.trajectory_id == other.trajectory_id
        assert (one.task_id, one.model, one.agent) == (other.task_id, other.model, other.agent)
        assert (one.n_steps, one.n_agent_steps, one.n_tool_calls) == (
            other.n_steps,
            other.n_agent_steps,
            other.n_tool_calls,
        )
        assert [len(s.observations) for s in one.steps] == [
            len(s.observations) for s in other.steps
        ]


def test_code_of_sft_and_standard_records_is_equal(real_data: Path) -> None:
    folder = real_data / "adp" / "codeactinstruct"
    sft = runs(folder / "sample_sft_openhands.json")
    standard = runs(folder / "sample_std.json", adp.IMPORTER)
    calls = [
        [[c.arguments for s in t.steps for c in s.tool_calls] for t in x] for x in (sft, standard)
    ]
    assert calls[0] == calls[1]
    assert sum(map(len, calls[0])) == 11
