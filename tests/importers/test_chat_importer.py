"""What all chat formats share: identity, task, outcome, mapping, metadata."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from trajstore.importers.chat_importer import ChatImporter
from trajstore.importers.items import ImportOptions, Problem
from trajstore.importers.openai_chat import IMPORTER
from trajstore.importers.sharegpt import IMPORTER as SHAREGPT
from trajstore.importers.source import Source
from trajstore.schema import Label, Trajectory

SYSTEM = {"role": "system", "content": "Be kind."}
ASK = {"role": "user", "content": "Hi"}


def say(text: str) -> dict[str, str]:
    return {"role": "assistant", "content": text}


def runs(
    folder: Path, *rows: Any, importer: ChatImporter = IMPORTER, **options: Any
) -> list[Trajectory]:
    path = folder / "rows.jsonl"
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    items = importer.read(Source(path), ImportOptions(**options))
    return [i for i in items if isinstance(i, Trajectory)]


def ids(folder: Path, *rows: Any) -> list[str]:
    return [t.trajectory_id for t in runs(folder, *rows)]


def test_the_same_content_is_the_same_run_and_other_content_another(tmp_path: Path) -> None:
    one, same, other = ids(
        tmp_path,
        {"messages": [ASK, say("a")]},
        {"messages": [ASK, say("a")], "note": 1},
        {"messages": [ASK, say("b")]},
    )
    assert one == same != other


def test_two_formats_of_one_conversation_are_one_run(tmp_path: Path) -> None:
    call = {"name": "f", "arguments": {"a": 1}}
    chat = [
        ASK,
        {"role": "assistant", "content": None, "tool_calls": [{"id": "1", "function": call}]},
        {"role": "tool", "tool_call_id": "1", "content": "ok"},
    ]
    turns = [
        {"from": "human", "value": "Hi"},
        {"from": "function_call", "value": json.dumps(call)},
        {"from": "observation", "value": "ok"},
    ]
    (one,) = runs(tmp_path, {"messages": chat})
    (other,) = runs(tmp_path, {"conversations": turns}, importer=SHAREGPT)
    assert (one.trajectory_id, one.task_id) == (other.trajectory_id, other.task_id)


@pytest.mark.parametrize(
    "name", ["trajectory_id", "traj_id", "session_id", "conversation_id", "uuid", "rollout_id"]
)
def test_a_name_of_the_run_alone_decides(tmp_path: Path, name: str) -> None:
    one, longer, other = ids(
        tmp_path,
        {name: "run-0001-abc", "messages": [ASK, say("a")]},
        {name: "run-0001-abc", "messages": [ASK, say("a"), ASK, say("b")]},
        {name: "run-0002-abc", "messages": [ASK, say("a")]},
    )
    assert one == longer != other


def test_the_name_of_the_run_stays_readable(tmp_path: Path) -> None:
    (found,) = runs(tmp_path, {"session_id": "run-0001-abc", "messages": [ASK, say("a")]})
    assert json.loads(found.metadata or "") == {"session_id": "run-0001-abc"}


def test_a_sweep_names_a_run_together_with_the_task(tmp_path: Path) -> None:
    rows = [
        {"run_id": r, "instance_id": t, "messages": [ASK, say(s)]}
        for r, t, s in [
            ("s1", "t1", "a"),
            ("s1", "t1", "a, longer"),
            ("s1", "t2", "a"),
            ("s2", "t1", "a"),
        ]
    ]
    found = ids(tmp_path, *rows)
    assert found[0] == found[1]
    assert len(set(found)) == 3


@pytest.mark.parametrize("name", ["id", "trajectory_id"])
def test_a_row_number_names_a_run_with_its_first_answer(tmp_path: Path, name: str) -> None:
    one, longer, attempt, elsewhere = ids(
        tmp_path,
        {name: 7, "messages": [ASK, say("a")]},
        {name: 7, "messages": [ASK, say("a"), ASK, say("b")]},
        {name: 7, "messages": [ASK, say("another try")]},
        {name: 7, "messages": [{"role": "user", "content": "Another set"}, say("a")]},
    )
    assert one == longer
    assert len({one, attempt, elsewhere}) == 3


def test_attempts_and_models_that_are_named_keep_equal_answers_apart(tmp_path: Path) -> None:
    base = {"task_id": "t", "messages": [ASK, say("a")]}
    found = runs(
        tmp_path, {**base, "attempt": 0}, {**base, "attempt": 1}, {**base, "model": "m"}, base
    )
    assert len({t.trajectory_id for t in found}) == 4
    assert {t.task_id for t in found} == {"chat/t"}
    assert [t.attempt for t in found] == [0, 1, None, None]


def test_attempts_at_one_prompt_share_a_task(tmp_path: Path) -> None:
    first, second, other_tools, other_system = (
        t.task_id
        for t in runs(
            tmp_path,
            {"messages": [SYSTEM, ASK, say("a")]},
            {"messages": [SYSTEM, ASK, say("b"), ASK, say("c")]},
            {"messages": [SYSTEM, ASK, say("a")], "tools": [{"name": "f"}]},
            {"messages": [ASK, say("a")]},
        )
    )
    assert first == second
    assert len({first, other_tools, other_system}) == 3


def test_a_task_is_named_after_its_environment(tmp_path: Path) -> None:
    row = {"task_id": 0, "environment": "airline", "messages": [ASK, say("a")]}
    assert [t.task_id for t in runs(tmp_path, row)] == ["airline/0"]


def test_equal_sides_of_a_pair_are_two_runs(tmp_path: Path) -> None:
    row = {"prompt": [ASK], "chosen": [say("a")], "rejected": [say("a")]}
    chosen, rejected = runs(tmp_path, row)
    assert chosen.trajectory_id != rejected.trajectory_id
    assert chosen.task_id == rejected.task_id


def test_the_two_of_a_pair_name_it_and_their_side(tmp_path: Path) -> None:
    row = {"prompt": [ASK], "chosen": [say("a")], "rejected": [say("b")], "margin": 2}
    one, other = (json.loads(t.metadata or "") for t in runs(tmp_path, row))
    assert one["preference"]["pair"] == other["preference"]["pair"]
    assert [m["preference"]["side"] for m in (one, other)] == ["chosen", "rejected"]
    assert one["margin"] == 2


def test_swapping_the_sides_makes_another_pair(tmp_path: Path) -> None:
    sides = [say("a")], [say("b")]
    rows = [{"prompt": [ASK], "chosen": x, "rejected": y} for x, y in (sides, sides[::-1])]
    found = runs(tmp_path, *rows)
    assert len({json.loads(t.metadata or "")["preference"]["pair"] for t in found}) == 2
    assert len({t.trajectory_id for t in found}) == 4


def test_pairs_of_whole_conversations_share_the_task_of_their_prompt(tmp_path: Path) -> None:
    explicit = {"prompt": [SYSTEM, ASK], "chosen": [say("a")], "rejected": [say("b")]}
    implicit = {"chosen": [SYSTEM, ASK, say("c")], "rejected": [SYSTEM, ASK, say("d")]}
    alone = {"messages": [SYSTEM, ASK, say("e")]}
    assert len({t.task_id for t in runs(tmp_path, explicit, implicit, alone)}) == 1


def test_a_pair_without_any_common_prompt_is_a_task_of_its_own(tmp_path: Path) -> None:
    rows = [{"chosen": [say(f"{n}a")], "rejected": [say(f"{n}b")]} for n in range(2)]
    found = runs(tmp_path, *rows)
    assert found[0].task_id == found[1].task_id != found[2].task_id == found[3].task_id


def test_a_side_without_answer_is_a_problem(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    row = {"input": {"messages": [ASK]}, "preferred_output": [], "non_preferred_output": [say("b")]}
    path.write_text(json.dumps(row))
    (problem,) = IMPORTER.read(Source(path), ImportOptions())
    assert isinstance(problem, Problem)
    assert "the chosen side has no answer" in problem.reason


def test_outcome_comes_from_columns_only(tmp_path: Path) -> None:
    found = runs(
        tmp_path,
        {"messages": [ASK, say("a")], "resolved": False, "reward": 0.5},
        {"messages": [ASK, say("b")], "exit_status": "submitted"},
        {"messages": [ASK, say("c")], "reward": 1.0},
    )
    assert [(t.success, t.reward) for t in found] == [(False, 0.5), (None, None), (None, 1.0)]
    assert found[1].termination_reason == "submitted"


def test_a_threshold_of_the_user_decides_where_only_a_reward_is_given(tmp_path: Path) -> None:
    rows = [{"messages": [ASK, say(str(r))], "reward": r} for r in (0.4, 0.9999999)]
    said = {"messages": [ASK, say("x")], "reward": 0.0, "success": True}
    found = runs(tmp_path, *rows, said, success_threshold=1.0)
    assert [t.success for t in found] == [False, True, True]


def test_a_mapping_moves_columns(tmp_path: Path) -> None:
    row = {"log": [ASK, say("a")], "about": "A task", "eval": {"pass": 1}, "prompt": "other"}
    mapping = {"messages": "log", "goal": "about", "success": "eval.pass"}
    (found,) = runs(tmp_path, row, mapping=mapping)
    assert (found.goal, found.success, len(found.steps)) == ("A task", True, 2)
    assert json.loads(found.metadata or "") == {"eval": {"pass": 1}, "prompt": "other"}


def test_an_unknown_column_in_the_mapping_is_one_problem_that_lists_the_real(
    tmp_path: Path,
) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text(f"{json.dumps({'messages': [ASK], 'eval': {'ok': 1}})}\n" * 3)
    (problem,) = IMPORTER.read(Source(path), ImportOptions(mapping={"success": "eval.pass"}))
    assert isinstance(problem, Problem)
    assert problem.reason == "there is no column eval.pass; columns: messages, eval, eval.ok"


def test_a_mapped_value_that_does_not_fit_is_a_problem_of_its_record(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    rows = [{"messages": [ASK, say("a")], "ok": v} for v in (True, "perhaps")]
    path.write_text("\n".join(map(json.dumps, rows)))
    one, problem = IMPORTER.read(Source(path), ImportOptions(mapping={"success": "ok"}))
    assert isinstance(one, Trajectory)
    assert isinstance(problem, Problem)
    assert (problem.line, "'perhaps'" in problem.reason) == (2, True)


@pytest.mark.parametrize(
    ("tools", "kept"),
    [
        ('[{"name": "f"}]', '[{"name": "f"}]'),
        ([{"name": "f"}], '[{"name":"f"}]'),
        ("[]", None),
        ([], None),
        ("no json", '"no json"'),
    ],
)
def test_tools_are_kept_as_json_text(tmp_path: Path, tools: Any, kept: str | None) -> None:
    (found,) = runs(tmp_path, {"messages": [ASK, say("a")], "tools": tools})
    assert found.tools == kept


def test_a_kto_mark_beside_a_pair_of_words_is_a_label_and_a_number_is_not(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    rows = [{"prompt": "Hi", "completion": "a", "label": v} for v in (False, 1)]
    path.write_text("\n".join(map(json.dumps, rows)))
    items = list(IMPORTER.read(Source(path), ImportOptions()))
    assert [(i.name, i.success) for i in items if isinstance(i, Label)] == [("kto", False)]
    numbered = [i for i in items if isinstance(i, Trajectory)][1]
    assert json.loads(numbered.metadata or "") == {"label": 1}


def test_a_line_may_be_a_list_of_messages(tmp_path: Path) -> None:
    found = runs(tmp_path, {"messages": [ASK, say("a")]}, [ASK, say("a")], [ASK, say("b")])
    assert [t.steps[-1].text for t in found] == ["a", "a", "b"]
    assert found[0].trajectory_id == found[1].trajectory_id != found[2].trajectory_id


def test_a_record_that_is_no_object_is_a_problem(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text(f'{json.dumps({"messages": [ASK, say("a")]})}\n"text"\n')
    _, problem = IMPORTER.read(Source(path), ImportOptions())
    assert isinstance(problem, Problem)
    assert (problem.line, "an object or a list" in problem.reason) == (2, True)
