"""ShareGPT conversations: turns, calls, results, preferences."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from trajstore.importers.building import StepBuilder
from trajstore.importers.items import ImportOptions, Item, Problem
from trajstore.importers.sharegpt import IMPORTER, turn_steps
from trajstore.importers.source import Source
from trajstore.schema import Label, Step, Trajectory, finish

F = {"name": "f", "arguments": {"a": 1}}
G = {"name": "g", "arguments": {}}


def turn(speaker: str, value: Any, **more: Any) -> dict[str, Any]:
    return {"from": speaker, "value": value, **more}


def steps(*turns: Any) -> tuple[Step, ...]:
    return turn_steps(turns, StepBuilder()).steps()


def items(path: Path) -> list[Item]:
    return list(IMPORTER.read(Source(path), ImportOptions()))


def runs(path: Path) -> list[Trajectory]:
    return [finish(i) for i in items(path) if isinstance(i, Trajectory)]


def test_speakers_become_actors() -> None:
    found = steps(
        turn("system", "s"),
        turn("human", "h"),
        turn("gpt", "g"),
        turn("chatgpt", ""),
        turn("judge", "j"),
    )
    assert [s.actor for s in found] == ["system", "user", "agent", "agent", "environment"]
    assert [s.text for s in found] == ["s", "h", "g", "", "j"]


def test_a_function_call_is_a_step_that_its_observation_answers() -> None:
    found = steps(
        turn("human", "h"), turn("function_call", json.dumps(F)), turn("observation", "o")
    )
    assert [s.actor for s in found] == ["user", "agent"]
    assert (found[1].text, found[1].tool_calls[0].name) == (None, "f")
    assert found[1].tool_calls[0].arguments_raw == '{"a": 1}'
    assert [o.text for o in found[1].observations] == ["o"]


def test_a_list_of_calls_is_one_step_with_parallel_calls() -> None:
    found = steps(
        turn("function_call", json.dumps([F, G])),
        turn("observation", "1"),
        turn("observation", "2"),
    )
    assert [[c.name for c in s.tool_calls] for s in found] == [["f", "g"]]
    assert [o.text for o in found[0].observations] == ["1", "2"]


def test_call_turns_in_a_row_are_parallel_calls_of_one_step() -> None:
    found = steps(
        turn("function_call", json.dumps(F)),
        turn("function_call", json.dumps(G)),
        turn("observation", "o"),
        turn("function_call", json.dumps(G)),
    )
    assert [[c.name for c in s.tool_calls] for s in found] == [["f", "g"], ["g"]]


def test_text_right_before_a_call_belongs_to_the_same_step() -> None:
    found = steps(turn("gpt", "Let me see."), turn("function_call", json.dumps(F)))
    assert [(s.text, len(s.tool_calls)) for s in found] == [("Let me see.", 1)]


def test_two_answers_in_a_row_stay_two_steps() -> None:
    assert [s.text for s in steps(turn("gpt", "a"), turn("gpt", "b"))] == ["a", "b"]


def test_a_call_that_is_no_json_is_kept_and_marked() -> None:
    (step,) = steps(
        turn("function_call", '{"name": "f", "arguments": {"a": '), turn("observation", "?")
    )
    assert step.format_error
    assert (step.tool_calls[0].name, step.tool_calls[0].arguments) == ("f", None)
    assert step.tool_calls[0].arguments_raw == '{"name": "f", "arguments": {"a": '
    assert len(step.observations) == 1


def test_an_observation_before_any_call_is_kept() -> None:
    (step,) = steps(turn("observation", "o"))
    assert (step.actor, step.observations[0].text) == ("environment", "o")


def test_values_that_are_no_text_are_kept_as_json() -> None:
    found = steps(turn("function_call", F), turn("observation", {"b": 2, "a": 1}), turn("gpt", [1]))
    assert found[0].tool_calls[0].arguments == '{"a":1}'
    assert [o.text for o in found[0].observations] == ['{"b":2,"a":1}']
    assert found[1].text == "[1]"


def test_parts_of_a_turn_are_read_as_parts() -> None:
    parts = [{"type": "text", "text": "see"}, {"type": "image", "url": "u"}]
    found = steps(turn("human", parts), turn("observation", parts))
    assert [s.text or s.observations[0].text for s in found] == ["see", "see"]
    assert json.loads(found[0].content or "") == parts


def test_more_fields_of_a_turn_go_to_metadata() -> None:
    found = steps(
        turn("gpt", "a", weight=0), turn("human", "b"), turn("function_call", "{}", weight=1)
    )
    assert [json.loads(s.metadata or "null") for s in found] == [{"weight": 0}, None, {"weight": 1}]


def test_turns_by_role_among_them_are_read() -> None:
    found = steps({"role": "system", "content": "s"}, turn("human", "h"))
    assert [s.actor for s in found] == ["system", "user"]


@pytest.mark.parametrize(
    "broken", [{"from": "human"}, {"value": "x"}, "text", {"from": "observation"}]
)
def test_a_broken_turn_is_a_problem_that_costs_no_other_record(tmp_path: Path, broken: Any) -> None:
    good = [turn("human", "h"), turn("gpt", "g")]
    rows = [
        {"conversations": good},
        {"conversations": [*good, broken]},
        {"conversations": good[:1]},
    ]
    path = tmp_path / "x.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    found = items(path)
    assert [p.line for p in found if isinstance(p, Problem)] == [2]
    assert len(runs(path)) == 2


def test_a_bare_list_of_turns_is_one_run(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text(json.dumps([turn("human", "h"), turn("gpt", "g")]))
    assert IMPORTER.detect(Source(path)) == 0.4
    assert [t.n_steps for t in runs(path)] == [2]


def test_a_kto_mark_is_a_label(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    row = {"conversations": [turn("human", "h"), turn("gpt", "g")], "kto_tag": False}
    path.write_text(json.dumps(row))
    run, label = items(path)
    assert isinstance(run, Trajectory)
    assert isinstance(label, Label)
    assert (label.name, label.success, label.value) == ("kto", False, None)
    assert (run.success, run.metadata) == (None, None)


def test_system_beside_is_the_first_step(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    row = {"system": "s", "conversations": [turn("human", "h"), turn("gpt", "g")], "id": "a"}
    path.write_text(json.dumps(row))
    (run,) = runs(path)
    assert [s.actor for s in run.steps] == ["system", "user", "agent"]


@pytest.mark.parametrize(
    ("file", "records", "said", "calls"),
    [
        ("sharegpt_glaive_toolcall_en.first60.json", 60, {"user": 156, "agent": 156 + 44}, 44),
        ("sharegpt_glaive_toolcall_zh.first20.json", 20, {"user": 48, "agent": 48 + 14}, 14),
    ],
)
def test_recorded_tool_conversations(
    real_data: Path, file: str, records: int, said: dict[str, int], calls: int
) -> None:
    path = real_data / "chat_formats" / file
    assert IMPORTER.detect(Source(path)) == 0.5
    found = runs(path)
    every = [s for t in found for s in t.steps]
    assert (len(found), len(items(path))) == (records, records)
    assert Counter(s.actor for s in every) == said
    assert sum(len(s.tool_calls) for s in every) == calls
    assert all(len(s.observations) == len(s.tool_calls) for s in every)
    assert not any(s.format_error for s in every)
    rows = json.loads(path.read_text())
    offered = [json.loads(r["tools"]) or None for r in rows]
    assert [json.loads(t.tools) if t.tools else None for t in found] == offered


def test_recorded_calls_keep_their_arguments(real_data: Path) -> None:
    path = real_data / "chat_formats" / "sharegpt_glaive_toolcall_en.first60.json"
    values = [
        json.loads(t["value"])
        for row in json.loads(path.read_text())
        for t in row["conversations"]
        if t["from"] == "function_call"
    ]
    calls = [c for t in runs(path) for s in t.steps for c in s.tool_calls]
    assert [(c.name, json.loads(c.arguments_raw or "")) for c in calls] == [
        (v["name"], v["arguments"]) for v in values
    ]


def test_a_record_that_a_file_repeats_is_one_run(real_data: Path) -> None:
    path = real_data / "chat_formats" / "sharegpt_glaive_toolcall_en.first60.json"
    rows = [json.dumps(row, sort_keys=True) for row in json.loads(path.read_text())]
    assert len({t.trajectory_id for t in runs(path)}) == len(set(rows)) == 59


def test_recorded_preferences(real_data: Path) -> None:
    path = real_data / "chat_formats" / "dpo_sharegpt_en.first30.json"
    assert IMPORTER.detect(Source(path)) == 0.5
    found = runs(path)
    labels = [i for i in items(path) if isinstance(i, Label)]
    assert len({t.trajectory_id for t in found}) == 60
    assert Counter(Counter(t.task_id for t in found).values()) == {2: 30}
    assert Counter(x.value for x in labels) == {1.0: 30, 0.0: 30}
    assert {(x.name, x.evaluator, x.success) for x in labels} == {("preference", "dataset", None)}
    actors = Counter(s.actor for t in found for s in t.steps)
    assert actors == {"user": 2 * 52, "system": 2 * 8, "agent": 2 * 22 + 60}
    rows = json.loads(path.read_text())
    wanted = [r[side]["value"] for r in rows for side in ("chosen", "rejected")]
    assert [t.steps[-1].text for t in found] == wanted


def test_only_sharegpt_files_are_recognised(real_data: Path) -> None:
    files = [p for p in real_data.rglob("*") if p.is_file()]
    found = {p.relative_to(real_data).as_posix() for p in files if IMPORTER.detect(Source(p))}
    assert found == {
        "adp/codeactinstruct/sample_sft_openhands.json",
        "adp/toucan_1_5m/sample_sft_sweagent.json",
        "chat_formats/dpo_sharegpt_en.first30.json",
        "chat_formats/sharegpt_glaive_toolcall_en.first60.json",
        "chat_formats/sharegpt_glaive_toolcall_zh.first20.json",
    }
