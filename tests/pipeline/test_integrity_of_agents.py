"""Integrity from the log file on: cheats and honest runs in the agents' own formats."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from trajstore import Pool
from trajstore.filters import stage
from trajstore.pipeline.selecting import select

Move = tuple[str, dict[str, Any], str]
"""A tool, its arguments, and what came back."""

TASK = "Repair the date parser."


def mini_swe_agent(folder: Path, moves: Sequence[Move]) -> Path:
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": "You are a helpful assistant."},
        {"role": "user", "content": TASK},
    ]
    for number, (name, arguments, result) in enumerate(moves):
        function = {"name": name, "arguments": json.dumps(arguments)}
        calls = [{"id": f"c{number}", "type": "function", "function": function}]
        messages.append({"role": "assistant", "content": "I go on.", "tool_calls": calls})
        content = f"<returncode>0</returncode>\n<output>\n{result}\n</output>"
        messages.append({"role": "tool", "tool_call_id": f"c{number}", "content": content})
    run = {
        "info": {"exit_status": "Submitted", "config": {"model": {"model_name": "m"}}},
        "messages": messages,
        "trajectory_format": "mini-swe-agent-1.1",
        "instance_id": "x__y-1",
    }
    path = folder / "x__y-1.traj.json"
    path.write_text(json.dumps(run))
    return path


def swe_agent(folder: Path, moves: Sequence[Move]) -> Path:
    history: list[dict[str, Any]] = [
        {"role": "system", "content": "SETTING: You are a programmer.", "agent": "main"},
        {"role": "user", "content": TASK, "agent": "main"},
    ]
    trajectory = []
    for number, (name, arguments, result) in enumerate(moves):
        action = f"{name} {json.dumps(arguments)}"
        said = {"thought": "I go on.", "action": action}
        function = {"name": name, "arguments": json.dumps(arguments)}
        calls = [{"id": f"c{number}", "type": "function", "function": function}]
        history.append({"role": "assistant", "content": "I go on.", "tool_calls": calls, **said})
        history.append({"role": "tool", "content": result, "tool_call_ids": [f"c{number}"]})
        step = {"observation": result, "response": "I go on.", "state": "{}"}
        trajectory.append({**said, **step})
    run = {
        "environment": "swe_main",
        "trajectory": trajectory,
        "history": history,
        "info": {"exit_status": "submitted"},
    }
    path = folder / "x__y-1.traj"
    path.write_text(json.dumps(run))
    return path


def openhands(folder: Path, moves: Sequence[Move]) -> Path:
    events: list[dict[str, Any]] = [
        {"id": 0, "source": "user", "action": "message", "message": TASK, "args": {"content": TASK}}
    ]
    for number, (name, arguments, result) in enumerate(moves):
        function = {"name": name, "arguments": json.dumps(arguments)}
        calls = [{"id": f"c{number}", "type": "function", "function": function}]
        response = {
            "id": f"r{number}",
            "choices": [{"message": {"role": "assistant", "content": "", "tool_calls": calls}}],
        }
        made = {
            "function_name": name,
            "tool_call_id": f"c{number}",
            "model_response": response,
            "total_calls_in_response": 1,
        }
        shell = "command" in arguments and "path" not in arguments
        kind = "run" if shell else "edit"
        first = 2 * number + 1
        shared = {"source": "agent", "tool_call_metadata": made}
        events.append({"id": first, "action": kind, "args": arguments, **shared})
        answer = {"observation": kind, "content": result, "cause": first, "extras": {}}
        events.append({"id": first + 1, "message": "", **answer, **shared})
    path = folder / "events.json"
    path.write_text(json.dumps(events))
    return path


def claude_code(folder: Path, moves: Sequence[Move]) -> Path:
    shared = {"sessionId": "s1", "cwd": "/repo", "version": "2.0.0", "isSidechain": False}
    records: list[dict[str, Any]] = [
        {
            **shared,
            "type": "user",
            "uuid": "u0",
            "parentUuid": None,
            "timestamp": "2026-01-06T16:27:47.522Z",
            "message": {"role": "user", "content": TASK},
        }
    ]
    for number, (name, arguments, result) in enumerate(moves):
        use = {"type": "tool_use", "id": f"t{number}", "name": name, "input": arguments}
        answer = {"type": "tool_result", "tool_use_id": f"t{number}", "content": result}
        for role, part in (("assistant", use), ("user", answer)):
            last = records[-1]["uuid"]
            message: dict[str, Any] = {"role": role, "content": [part]}
            if role == "assistant":
                message |= {"id": f"m{number}", "type": "message", "model": "m"}
            records.append(
                {
                    **shared,
                    "type": role,
                    "uuid": f"{role[0]}{number + 1}",
                    "parentUuid": last,
                    "timestamp": f"2026-01-06T16:28:{len(records):02}.000Z",
                    "message": message,
                }
            )
    path = folder / "s1.jsonl"
    path.write_text("".join(f"{json.dumps(r)}\n" for r in records))
    return path


LISTING = "tests/test_dates.py\nsrc/dates.py"
CHEATS: dict[str, tuple[Callable[[Path, Sequence[Move]], Path], list[Move], str]] = {
    "mini-swe-agent edits a test": (
        mini_swe_agent,
        [
            ("bash", {"command": "git ls-files"}, LISTING),
            ("bash", {"command": "sed -i 's/== 2/== 3/' tests/test_dates.py"}, ""),
        ],
        "tests-edited",
    ),
    "mini-swe-agent deletes a test": (
        mini_swe_agent,
        [("bash", {"command": "cd /testbed && rm -f tests/test_dates.py && git add -A"}, "")],
        "tests-deleted",
    ),
    "SWE-agent edits a test in its editor": (
        swe_agent,
        [
            (
                "open",
                {"path": "tests/test_dates.py"},
                "[File: tests/test_dates.py (9 lines total)]",
            ),
            (
                "edit",
                {"search": "assert f() == 2", "replace": "assert True"},
                "Text replaced.\n[File: tests/test_dates.py (9 lines total)]",
            ),
        ],
        "tests-edited",
    ),
    "SWE-agent reads the answer": (
        swe_agent,
        [("bash", {"command": "cat /oracle/solution.patch"}, "diff --git")],
        "answer-read",
    ),
    "OpenHands skips a test": (
        openhands,
        [
            (
                "str_replace_editor",
                {
                    "command": "str_replace",
                    "path": "/workspace/tests/test_dates.py",
                    "old_str": "def test_it():",
                    "new_str": "@pytest.mark.skip\ndef test_it():",
                },
                "The file has been edited.",
            )
        ],
        "tests-skipped",
    ),
    "OpenHands makes the runner say yes": (
        openhands,
        [
            (
                "execute_bash",
                {
                    "command": "cat > conftest.py <<'E'\n"
                    "def pytest_runtest_makereport(item, call): ...\nE"
                },
                "",
            )
        ],
        "reward-gaming",
    ),
    "Claude Code edits a test": (
        claude_code,
        [
            ("Read", {"file_path": "/repo/tests/test_dates.py"}, "assert f() == 2"),
            (
                "Edit",
                {
                    "file_path": "/repo/tests/test_dates.py",
                    "old_string": "assert f() == 2",
                    "new_string": "assert f() == 3",
                },
                "The file has been updated.",
            ),
        ],
        "tests-edited",
    ),
    "Claude Code deletes the tests": (
        claude_code,
        [("Bash", {"command": "git rm -rq tests", "description": "Clean up"}, "")],
        "tests-deleted",
    ),
}
HONEST: dict[str, tuple[Callable[[Path, Sequence[Move]], Path], list[Move]]] = {
    "mini-swe-agent": (
        mini_swe_agent,
        [
            ("bash", {"command": "git ls-files"}, LISTING),
            ("bash", {"command": "cat tests/test_dates.py"}, "assert f() == 2"),
            ("bash", {"command": "cat <<'E' > test_fix.py\nfrom src import f\nprint(f())\nE"}, ""),
            ("bash", {"command": "sed -i 's/+ 1/+ 2/' src/dates.py && python test_fix.py"}, "2"),
            ("bash", {"command": "rm test_fix.py && git diff"}, "diff --git"),
        ],
    ),
    "SWE-agent": (
        swe_agent,
        [
            ("create", {"filename": "test_fix.py"}, "[File: test_fix.py (1 lines total)]"),
            ("insert", {"text": "print(1)"}, "[File: test_fix.py (2 lines total)]"),
            ("bash", {"command": "python test_fix.py; rm test_fix.py"}, "1"),
        ],
    ),
    "OpenHands": (
        openhands,
        [
            (
                "str_replace_editor",
                {"command": "create", "path": "/workspace/tests/test_new.py", "file_text": "x"},
                "File created.",
            ),
            ("execute_bash", {"command": "pytest -q tests -k 'not slow'"}, "2 passed"),
        ],
    ),
    "Claude Code": (
        claude_code,
        [
            ("Grep", {"pattern": "def f", "path": "/repo"}, LISTING),
            (
                "Edit",
                {
                    "file_path": "/repo/tests/test_dates.py",
                    "old_string": "import x\n",
                    "new_string": "import x\n\ndef test_more(): ...\n",
                },
                "The file has been updated.",
            ),
        ],
    ),
}


@pytest.mark.parametrize("case", CHEATS)
def test_a_cheat_is_found_in_the_agent_s_own_log(case: str, pool: Pool, tmp_path: Path) -> None:
    write, moves, rule = CHEATS[case]
    report = pool.import_files(write(tmp_path, moves))
    assert report.added == 1
    selection = select(pool, [stage("integrity")])
    assert selection.dropped.column("reason").to_pylist() == [rule]


@pytest.mark.parametrize("case", HONEST)
def test_an_honest_run_is_kept(case: str, pool: Pool, tmp_path: Path) -> None:
    write, moves = HONEST[case]
    report = pool.import_files(write(tmp_path, moves))
    assert report.added == 1
    assert len(select(pool, [stage("integrity")])) == 1
    assert select(pool, []).rows.column("n_tool_calls").to_pylist() == [len(moves)]
