"""Tables of conversations: columns by content, by name, by mapping."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from trajstore.importers import adp, openai_chat, sharegpt
from trajstore.importers.importer import Importer
from trajstore.importers.items import ImportOptions, Item, Problem
from trajstore.importers.source import Record, Source
from trajstore.importers.tables import IMPORTER
from trajstore.schema import Label, Trajectory, finish

ASK = {"role": "user", "content": "Fix it"}
SAY = {"role": "assistant", "content": "Done"}
CALL = {"id": "c1", "type": "function", "function": {"name": "run", "arguments": '{"a":  1}'}}
RUN = [
    ASK,
    {"role": "assistant", "content": None, "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "c1", "content": "ok"},
    SAY,
]


def parquet(folder: Path, *rows: dict[str, Any]) -> Source:
    path = folder / "table.parquet"
    pq.write_table(pa.Table.from_pylist(list(rows)), path)
    return Source(path)


def lines(folder: Path, *rows: Any) -> Source:
    path = folder / "table.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    return Source(path)


def items(source: Source, importer: Importer = IMPORTER, **options: Any) -> list[Item]:
    return list(importer.read(source, ImportOptions(**options)))


def runs(source: Source, importer: Importer = IMPORTER, **options: Any) -> list[Trajectory]:
    return [finish(i) for i in items(source, importer, **options) if isinstance(i, Trajectory)]


def problems(source: Source, **options: Any) -> list[Problem]:
    return [i for i in items(source, **options) if isinstance(i, Problem)]


def test_a_table_of_runs_is_read_by_well_known_names(tmp_path: Path) -> None:
    row = {
        "instance_id": "django-1",
        "problem_statement": "It breaks",
        "messages": RUN,
        "resolved": True,
        "reward": 0.5,
        "model": "m",
        "patch": "diff",
    }
    source = parquet(tmp_path, row, {**row, "resolved": None, "messages": RUN[:2]})
    assert IMPORTER.detect(source) == 0.5
    one, other = runs(source)
    assert (one.task_id, one.goal, one.model, one.source) == (
        "chat/django-1",
        "It breaks",
        "m",
        "tables",
    )
    assert (one.success, one.reward, one.n_tool_calls) == (True, 0.5, 1)
    assert one.steps[1].observations[0].text == "ok"
    assert json.loads(one.metadata or "") == {"patch": "diff"}
    assert (other.success, other.n_agent_steps) == (None, 1)
    assert one.source_uri == f"{source.uri}#0"


@pytest.mark.parametrize("name", ["messages", "conversations", "trajectory", "log of the run"])
@pytest.mark.parametrize("form", ["list", "text", "texts"])
def test_the_column_is_found_by_its_content(tmp_path: Path, name: str, form: str) -> None:
    shapes = {"list": RUN, "text": json.dumps(RUN), "texts": [json.dumps(m) for m in RUN]}
    row = {"n": 1, name: shapes[form], "tags_of_it": ["a"]}
    for source in (parquet(tmp_path, row), lines(tmp_path, row)):
        (found,) = runs(source)
        assert (found.n_steps, found.n_tool_calls) == (3, 1)
        assert found.steps[1].tool_calls[0].arguments_raw == '{"a":  1}'
        assert json.loads(found.metadata or "") == {"n": 1, "tags_of_it": ["a"]}


def test_of_two_columns_of_unknown_name_the_longer_is_the_conversation(tmp_path: Path) -> None:
    (found,) = runs(parquet(tmp_path, {"few_shot": [ASK, SAY], "log": RUN}))
    assert found.n_steps == 3
    assert "few_shot" in json.loads(found.metadata or "")


@pytest.mark.parametrize(
    "messages",
    [
        [{"from": "human", "value": "x"}, {"from": "gpt", "value": "y"}],
        [
            ASK,
            {"role": "assistant", "content": "<think>hm</think>Done"},
            {"role": "tool", "content": "<tool_response>a</tool_response>"},
        ],
        [
            ASK,
            {
                "role": "assistant",
                "content": [{"type": "tool_use", "id": "1", "name": "f", "input": {"a": 1}}],
            },
        ],
        [
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "x"}]},
            {"type": "function_call", "call_id": "1", "name": "f", "arguments": "{}"},
        ],
        [
            {"role": "system", "system_prompt": "s", "text": None},
            {"role": "user", "text": "x"},
            {"role": "ai", "text": "y"},
        ],
    ],
    ids=["sharegpt", "hermes", "anthropic", "responses", "text"],
)
def test_every_dialect_is_read_by_its_own_importer(tmp_path: Path, messages: list[Any]) -> None:
    for row in ({"messages": json.dumps(messages)}, {"trajectory": json.dumps(messages)}):
        (found,) = runs(parquet(tmp_path, row))
        agent = [s for s in found.steps if s.actor == "agent"]
        assert len(agent) == 1
        assert agent[0].text in {"y", "Done"} or agent[0].tool_calls[0].name == "f"
        assert found.steps[0].text in {"x", "Fix it", "s"}


def test_responses_of_input_and_output_columns_are_read(tmp_path: Path) -> None:
    output = [
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "y"}]}
    ]
    row = {"input": json.dumps([ASK]), "output": json.dumps(output)}
    (found,) = runs(parquet(tmp_path, row))
    assert [(s.actor, s.text) for s in found.steps] == [("user", "Fix it"), ("agent", "y")]


def test_padding_of_structs_never_reaches_a_run(tmp_path: Path) -> None:
    calls = [
        {"id": "1", "function": {"name": "f", "arguments": {"path": "a"}}},
        {"id": "2", "function": {"name": "g", "arguments": {"line": 3}}},
    ]
    rows = [{"messages": [ASK, {"role": "assistant", "tool_calls": [c]}]} for c in calls]
    found = runs(parquet(tmp_path, *rows))
    raw = [t.steps[1].tool_calls[0].arguments_raw for t in found]
    assert raw == ['{"path":"a"}', '{"line":3}']
    assert all(s.metadata is None for t in found for s in t.steps)


def test_nulls_that_a_json_row_states_are_kept(tmp_path: Path) -> None:
    call = {"id": "1", "function": {"name": "f", "arguments": {"path": None}}}
    row = {"log": [ASK, {"role": "assistant", "content": None, "tool_calls": [call]}]}
    (found,) = runs(lines(tmp_path, row))
    assert found.steps[1].tool_calls[0].arguments == '{"path":null}'


def test_calls_as_json_text_inside_messages_are_opened(tmp_path: Path) -> None:
    message = {"role": "assistant", "content": "", "tool_calls": json.dumps([CALL])}
    (found,) = runs(parquet(tmp_path, {"messages": [ASK, message]}))
    assert found.steps[1].tool_calls[0].call_id == "c1"


def test_a_preference_table_gives_pairs(tmp_path: Path) -> None:
    row = {"prompt": "Q", "chosen": [ASK, SAY], "rejected": [ASK, {**SAY, "content": "No"}]}
    every = items(parquet(tmp_path, row))
    found = [i for i in every if isinstance(i, Trajectory)]
    assert len({t.task_id for t in found}) == 1
    assert [x.value for x in every if isinstance(x, Label)] == [1.0, 0.0]


def test_the_same_rows_are_the_same_runs_in_every_file_form(tmp_path: Path) -> None:
    row = {"messages": RUN, "instance_id": "a", "model": "m"}
    table = runs(parquet(tmp_path, row))
    text = runs(parquet(tmp_path, {**row, "messages": json.dumps(RUN)}))
    json_row = runs(lines(tmp_path, row), openai_chat.IMPORTER)
    ids = {(t.trajectory_id, t.task_id) for t in (*table, *text, *json_row)}
    assert len(ids) == 1


def test_a_mapping_names_columns_and_reaches_into_structs(tmp_path: Path) -> None:
    row = {
        "trace": {"steps": RUN, "note": "n"},
        "question_text": "What?",
        "eval": json.dumps({"passed": 1, "score": {"total": 0.75}}),
    }
    mapping = {
        "messages": "trace.steps",
        "goal": "question_text",
        "success": "eval.passed",
        "reward": "eval.score.total",
    }
    for source in (parquet(tmp_path, row), lines(tmp_path, row)):
        (found,) = runs(source, mapping=mapping)
        assert (found.goal, found.success, found.reward) == ("What?", True, 0.75)
        assert found.n_steps == 3


def test_a_mapping_of_an_unknown_column_is_one_problem_that_lists_the_real_ones(
    tmp_path: Path,
) -> None:
    row = {"messages": RUN, "eval": {"passed": True}}
    source = parquet(tmp_path, row, row)
    (problem,) = items(source, mapping={"success": "eval.resolved"})
    assert isinstance(problem, Problem)
    assert "there is no column eval.resolved" in problem.reason
    assert "columns: messages, eval, eval.passed" in problem.reason


def test_a_mapped_column_may_be_null_in_the_first_rows(tmp_path: Path) -> None:
    rows = [{"messages": RUN, "verdict": v} for v in (None, True)]
    found = runs(parquet(tmp_path, *rows), mapping={"success": "verdict"})
    assert [t.success for t in found] == [None, True]


def test_a_table_without_conversation_is_one_problem_that_lists_the_columns(
    tmp_path: Path,
) -> None:
    source = parquet(tmp_path, *[{"a": n, "text": "x"} for n in range(5)])
    assert IMPORTER.detect(source) == 0.1
    (problem,) = items(source)
    assert isinstance(problem, Problem)
    assert "columns: a, text" in problem.reason
    assert "messages=COLUMN" in problem.reason


def test_a_row_without_conversation_costs_no_other(tmp_path: Path) -> None:
    source = parquet(tmp_path, {"messages": None, "n": 0}, {"messages": RUN}, {"messages": []})
    assert len(runs(source)) == 1
    assert [p.record for p in problems(source)] == ["0", "2"]


def test_a_broken_message_costs_no_other_row(tmp_path: Path) -> None:
    source = lines(tmp_path, {"log": RUN}, {"log": [ASK, "text"]}, {"log": RUN, "id": 2})
    assert len(runs(source)) == 2
    assert [p.line for p in problems(source)] == [2]


def test_a_broken_file_is_recognised_and_reported(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    path.write_bytes(b"PAR1 and no more")
    assert IMPORTER.detect(Source(path)) == 0.1
    (problem,) = items(Source(path))
    assert isinstance(problem, Problem)
    assert "parquet file cannot be read" in problem.reason


def test_an_empty_table_gives_nothing(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"messages": pa.array([], pa.string())}), path)
    assert items(Source(path)) == []


def test_pictures_in_a_column_become_parts(tmp_path: Path) -> None:
    message = {"role": "user", "content": "<image>What is it?"}
    row = {"messages": [message, SAY], "images": [{"bytes": b"\x89PNG..", "path": "a.png"}]}
    (found,) = runs(parquet(tmp_path, row))
    part = json.loads(found.steps[0].content or "")[0]
    assert part["image_url"]["url"].startswith("data:image/png;base64,")
    assert found.metadata is None


@pytest.mark.parametrize(
    ("file", "importer"),
    [
        ("kto_en.first20.json", openai_chat.IMPORTER),
        ("v1_reason_tool_use.first20.jsonl", openai_chat.IMPORTER),
        ("dpo_v1_blocks.jsonl", openai_chat.IMPORTER),
        ("mllm_messages_images.json", openai_chat.IMPORTER),
        ("dpo_sharegpt_en.first30.json", sharegpt.IMPORTER),
        ("sharegpt_glaive_toolcall_en.first60.json", sharegpt.IMPORTER),
    ],
)
def test_recorded_rows_as_parquet_are_the_same_runs(
    tmp_path: Path, real_data: Path, file: str, importer: Importer
) -> None:
    source = Source(real_data / "chat_formats" / file)
    rows = [r.value for r in source.records() if not isinstance(r, Problem)]
    table = runs(parquet(tmp_path, *rows))
    plain = runs(source, importer)
    assert len(table) == len(plain) > 0
    for one, other in zip(table, plain, strict=True):
        assert (one.trajectory_id, one.task_id) == (other.trajectory_id, other.task_id)
        assert one.steps == other.steps


@pytest.mark.parametrize(
    ("file", "owner"),
    [
        ("swe-smith/sample_raw.json", adp.IMPORTER),
        ("codeactinstruct/sample_raw.json", adp.IMPORTER),
        ("codeactinstruct/sample_sft_openhands.json", sharegpt.IMPORTER),
    ],
)
def test_rows_of_the_agent_data_protocol_are_the_runs_its_importer_reads(
    tmp_path: Path, real_data: Path, file: str, owner: Importer
) -> None:
    source = Source(real_data / "adp" / file)
    rows = [r.value for r in source.records() if isinstance(r, Record)]
    table = parquet(tmp_path, *rows)
    assert IMPORTER.detect(table) == 0.5
    found, own = runs(table), runs(source, owner)
    assert [(t.trajectory_id, t.task_id, t.success) for t in found] == [
        (t.trajectory_id, t.task_id, t.success) for t in own
    ]
    assert [t.steps for t in found] == [t.steps for t in own]


def test_a_mapping_wins_over_the_importer_of_the_rows(tmp_path: Path, real_data: Path) -> None:
    rows = json.loads((real_data / "adp/swe-smith/sample_raw.json").read_text())
    texts = [{**r, "messages": json.dumps(r["messages"])} for r in rows]
    found = runs(parquet(tmp_path, *texts), mapping={"goal": "instance_id", "success": "resolved"})
    assert [t.goal for t in found] == [r["instance_id"] for r in rows]
    assert [t.success for t in found] == [True] * 5
    assert [sum(1 + len(s.observations) for s in t.steps) for t in found] == [31, 47, 37, 45, 77]
    assert {t.source for t in found} == {"tables"}


def test_only_rows_of_conversations_are_recognised(real_data: Path) -> None:
    folders = {"adp", "atif", "chat_formats", "tau_bench"}
    for path in real_data.rglob("*"):
        sure = IMPORTER.detect(Source(path)) if path.is_file() else 0.0
        assert sure in {0.0, 0.3}
        if sure:
            assert path.relative_to(real_data).parts[0] in folders
