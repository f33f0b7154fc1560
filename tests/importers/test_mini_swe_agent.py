from __future__ import annotations

import json
import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from trajstore.importers.items import ImportOptions, Item, Problem
from trajstore.importers.mini_swe_agent import IMPORTER, exit_state, identify
from trajstore.importers.source import Source
from trajstore.schema import Label, Trajectory, finish, trajectories_to_arrow, validate

ROOT = "mini_swe_agent"
V1 = f"{ROOT}/v1_wrapped/mini-swe-agent-trajectory.json"
LOCAL = f"{ROOT}/v1_messages_only/local.traj.json"
ISSUE = f"{ROOT}/v1_messages_only/github_issue.traj.json"
FENCE = "```bash\n{}\n```"


def items(path: Path) -> list[Item]:
    return list(IMPORTER.read(Source(path), ImportOptions()))


def run_of(path: Path) -> Trajectory:
    return finish(next(i for i in items(path) if isinstance(i, Trajectory)))


def write(path: Path, value: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value))
    return path


def chat(*commands: str) -> list[dict[str, Any]]:
    """A bare run of 1.x: system, task, then a command and its result each."""
    found = [
        {"role": "system", "content": "Answer with exactly ONE bash code block."},
        {
            "role": "user",
            "content": "Please solve this issue: It fails.\n\nYou can execute bash commands.",
        },
    ]
    for command in commands:
        found += [
            {"role": "assistant", "content": f"I go.\n\n{FENCE.format(command)}"},
            {"role": "user", "content": "<returncode>0</returncode>\n<output>\nok\n</output>"},
        ]
    return found


def answered(response_id: str, created: int = 1_760_078_127) -> list[dict[str, Any]]:
    """The same with the id of the API's first answer."""
    messages = chat("ls")
    messages[2]["extra"] = {"response": {"id": response_id, "created": created}}
    return messages


def wrapped(messages: list[dict[str, Any]], **fields: Any) -> dict[str, Any]:
    info = {"exit_status": "Submitted", "submission": "", "mini_version": "2.2.7"}
    tag = {"trajectory_format": "mini-swe-agent-1.1"}
    return {"info": info, "messages": messages, **tag, **fields}


# Oracle: the table of expected counts (assistant messages, calls, tool messages, cost).
COUNTS = [
    ("deepseek_bench1/astropy__astropy-12907", 36, 35, 0.0249, True),
    ("deepseek_bench1/django__django-13660", 46, 45, 0.0202, False),
    ("deepseek_bench1/django__django-14411", 51, 50, 0.0246, False),
    ("deepseek_bench1/django__django-14752", 31, 30, 0.0136, True),
    ("deepseek_bench_dev/pydicom__pydicom-901", 61, 60, 0.0363, False),
    ("deepseek_bench_dev/pylint-dev__astroid-1978", 65, 64, 0.0293, False),
    ("deepseek_bench_dev/sqlfluff__sqlfluff-2419", 48, 47, 0.0194, True),
    ("deepseek_lite_dev/pydicom__pydicom-901", 63, 62, 0.0295, None),
    ("deepseek_lite_dev/pylint-dev__astroid-1978", 58, 57, 0.0245, None),
    ("deepseek_lite_dev/sqlfluff__sqlfluff-2419", 41, 40, 0.0142, None),
]


@pytest.mark.parametrize(("name", "calls", "results", "cost", "resolved"), COUNTS)
def test_recorded_runs_have_the_counts_of_provenance(
    real_data: Path, name: str, calls: int, results: int, cost: float, *, resolved: bool | None
) -> None:
    path = real_data / ROOT / f"{name}.traj.json"
    run, *labels = items(path)
    assert isinstance(run, Trajectory)
    run = finish(run)
    assert (run.n_agent_steps, run.n_tool_calls) == (calls, calls)
    assert sum(len(s.observations) for s in run.steps) == results
    assert round(run.cost_usd or 0, 4) == cost
    assert (run.success, run.status, run.termination_reason) == (None, "terminated", "Submitted")
    assert [i.success for i in labels if isinstance(i, Label)] == (
        [] if resolved is None else [resolved]
    )
    assert validate(trajectories_to_arrow([run]), "trajectories") == []


@pytest.mark.parametrize("name", [name for name, *_, resolved in COUNTS if resolved is not None])
def test_the_report_alone_gives_the_same_label(real_data: Path, name: str) -> None:
    report = real_data / ROOT / f"{name}.report.json"
    _, label = items(real_data / ROOT / f"{name}.traj.json")
    assert IMPORTER.detect(Source(report)) == 0.9
    assert items(report) == [label]


def test_tokens_are_the_sum_over_the_answers(real_data: Path) -> None:
    path = real_data / ROOT / f"{COUNTS[0][0]}.traj.json"
    usages = [
        m["extra"]["response"]["usage"]
        for m in json.loads(path.read_text())["messages"]
        if m["role"] == "assistant"
    ]
    run = run_of(path)
    assert run.prompt_tokens == sum(u["prompt_tokens"] for u in usages)
    assert run.completion_tokens == sum(u["completion_tokens"] for u in usages)
    assert run.cached_tokens == sum(u["prompt_tokens_details"]["cached_tokens"] for u in usages)


def test_seven_tasks_have_ten_attempts(real_data: Path) -> None:
    found = [run_of(real_data / ROOT / f"{name}.traj.json") for name, *_ in COUNTS]
    assert len({r.trajectory_id for r in found}) == 10
    assert len({r.task_id for r in found}) == 7
    assert {r.task_id.split("/")[0] for r in found} == {"swe-bench"}
    assert {r.model for r in found} == {"deepseek/deepseek-chat"}


def test_calls_and_results_are_linked_by_id(real_data: Path) -> None:
    run = run_of(real_data / ROOT / f"{COUNTS[0][0]}.traj.json")
    agents = [s for s in run.steps if s.actor == "agent"]
    assert all(
        [c.call_id for c in s.tool_calls] == [o.call_id for o in s.observations]
        for s in agents[:-1]
    )
    assert agents[-1].observations == ()


def test_a_failed_command_is_an_error_by_its_return_code(real_data: Path) -> None:
    path = real_data / ROOT / f"{COUNTS[0][0]}.traj.json"
    codes = [
        m["extra"]["returncode"]
        for m in json.loads(path.read_text())["messages"]
        if m["role"] == "tool"
    ]
    assert run_of(path).n_tool_errors == sum(code != 0 for code in codes)


def test_the_exit_message_is_an_event(real_data: Path) -> None:
    run = run_of(real_data / ROOT / f"{COUNTS[0][0]}.traj.json")
    last = run.steps[-1]
    assert last.actor == "environment"
    assert (last.text or "").startswith("diff --git")
    assert json.loads(last.metadata or "") == {"exit_status": "Submitted", "role": "exit"}


@pytest.mark.parametrize(("name", "agent", "errors"), [(ISSUE, 10, 2), (LOCAL, 2, 0), (V1, 3, 0)])
def test_runs_of_the_first_version_act_in_text(
    real_data: Path, name: str, agent: int, errors: int
) -> None:
    run = run_of(real_data / name)
    assert [s.actor for s in run.steps] == ["system", "user"] + ["agent"] * agent
    assert run.n_tool_calls == sum(len(s.observations) for s in run.steps) == agent
    assert (run.n_tool_errors, run.n_format_errors) == (errors, 0)
    assert {c.name for s in run.steps for c in s.tool_calls} == {"bash"}


def test_the_wrapped_first_version_has_model_usage_and_cost(real_data: Path) -> None:
    run = run_of(real_data / V1)
    assert run.model == "anthropic/claude-3-5-sonnet-20241022"
    assert (run.prompt_tokens, run.completion_tokens) == (752 + 841 + 919, 69 + 53 + 77)
    assert round(run.cost_usd or 0, 4) == 0.0105
    assert run.started_at == datetime.fromtimestamp(1760078127, tz=UTC)
    assert run.steps[2].sampling == '{"temperature":0.0}'


def test_the_task_is_taken_out_of_the_prompt(real_data: Path) -> None:
    hello = 'Create a file called hello.txt with "Hello, world!" as the content.'
    assert run_of(real_data / V1).goal == hello
    assert run_of(real_data / LOCAL).goal == "Blah blah blah"
    goal = run_of(real_data / ROOT / f"{COUNTS[0][0]}.traj.json").goal or ""
    assert goal.startswith("Modeling's `separability_matrix` does not compute")
    assert "<instructions>" not in goal


def test_exactly_the_files_of_this_format_are_detected(real_data: Path) -> None:
    found = [
        path
        for path in real_data.rglob("*")
        if path.is_file() and IMPORTER.detect(Source(path)) > 0
    ]
    assert sorted(found) == sorted(p for p in (real_data / ROOT).rglob("*") if p.is_file())


def test_neither_name_nor_folder_tells_which_run_it_is(real_data: Path, tmp_path: Path) -> None:
    original = real_data / ROOT / f"{COUNTS[0][0]}.traj.json"
    copy = tmp_path / "elsewhere.json"
    shutil.copy(original, copy)
    assert run_of(copy).trajectory_id == run_of(original).trajectory_id
    assert items(original) == items(original)


def test_a_longer_snapshot_is_the_same_run(real_data: Path, tmp_path: Path) -> None:
    value = json.loads((real_data / ROOT / f"{COUNTS[0][0]}.traj.json").read_text())
    short = {**value, "messages": value["messages"][:9], "info": {**value["info"]}}
    run = run_of(write(tmp_path / "astropy__astropy-12907.traj.json", short))
    assert run.trajectory_id == identify(value["messages"])
    assert run.n_agent_steps < 36


def test_attempts_are_told_apart_by_the_first_answer() -> None:
    assert identify(answered("a")) != identify(answered("b"))
    assert identify(answered("a", 1)) != identify(answered("a", 2))


def test_without_answers_the_first_time_tells_attempts_apart() -> None:
    early, late = chat("ls"), chat("ls")
    early[2]["extra"], late[2]["extra"] = {"timestamp": 1.75e9}, {"timestamp": 1.76e9}
    assert identify(early) < identify(late)
    assert identify(early) == identify(early + chat("ls")[2:])


def test_without_any_clock_the_whole_talk_tells_attempts_apart() -> None:
    assert identify(chat("ls", "pwd")) != identify(chat("ls", "id"))


@pytest.mark.parametrize(
    "messages",
    [
        [{"role": "user", "content": "hi"}, {"role": "assistant", "content": FENCE.format("ls")}],
        [
            {"role": "system", "content": "exactly ONE bash code block"},
            {"role": "user", "content": "x"},
        ],
        [{"from": "human", "value": "x"}],
        ["x"],
        [],
    ],
)
def test_other_lists_of_messages_are_left_to_others(tmp_path: Path, messages: Any) -> None:
    assert IMPORTER.detect(Source(write(tmp_path / "x.traj.json", messages))) == 0


def test_a_bare_list_is_known_by_what_it_says(tmp_path: Path) -> None:
    assert IMPORTER.detect(Source(write(tmp_path / "notes.json", chat("ls")))) == 0.9


@pytest.mark.parametrize(
    ("status", "state"),
    [
        ("Submitted", "terminated"),
        ("LimitsExceeded", "truncated"),
        ("RepeatedFormatError", "truncated"),
        ("APIConnectionError", "error"),
        ("", "running"),
        (None, None),
    ],
)
def test_exit_states(status: str | None, state: str | None) -> None:
    assert exit_state(status) == state


def test_an_uncaught_exception_is_told(tmp_path: Path) -> None:
    value = wrapped(chat("ls"))
    value["info"] |= {"exit_status": "RuntimeError", "exception_str": "no docker"}
    run = run_of(write(tmp_path / "x.json", value))
    assert (run.status, run.termination_reason, run.error) == ("error", "RuntimeError", "no docker")


def test_an_instance_may_be_told_by_the_file_name_only(tmp_path: Path) -> None:
    named = run_of(write(tmp_path / "django__django-1.traj.json", wrapped(chat("ls"))))
    assert named.task_id == "swe-bench/django__django-1"
    plain = run_of(write(tmp_path / "last_run.traj.json", wrapped(chat("ls"))))
    assert plain.task_id.startswith("mini-swe-agent/")


def test_the_template_of_the_run_frames_its_task(tmp_path: Path) -> None:
    messages = chat("ls")
    messages[1]["content"] = "Hi! Task >> Count {{ to 3 << on Linux. Bye"
    config = {
        "agent": {
            "instance_template": "{% if x %}Hi!{% endif %} Task >> {{ task }} << on {{system}}"
        }
    }
    value = wrapped(messages)
    value["info"]["config"] = config
    assert run_of(write(tmp_path / "x.json", value)).goal == "Count {{ to 3"


def test_a_report_without_its_runs_is_a_problem(tmp_path: Path) -> None:
    report = write(tmp_path / "report.json", {"a__b-1": {"patch_is_None": False, "resolved": True}})
    assert IMPORTER.detect(Source(report)) == 0.85
    (problem,) = items(report)
    assert isinstance(problem, Problem)
    assert problem.kind == "bad"


def test_several_wrapped_runs_in_one_array_are_read_one_by_one(tmp_path: Path) -> None:
    path = write(tmp_path / "all.json", [wrapped(answered("a")), {"x": 1}, wrapped(answered("b"))])
    found = items(path)
    assert [type(i) for i in found] == [Trajectory, Problem, Trajectory]
    assert isinstance(found[1], Problem)
    assert found[1].record == "1"


def test_a_broken_line_among_good_ones_is_named(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    good = [json.dumps(wrapped(answered(i))) for i in ("a", "b")]
    path.write_text("\n".join([good[0], '{"messages": ', good[1]]))
    found = items(path)
    assert [type(i) for i in found] == [Trajectory, Problem, Trajectory]
    assert isinstance(found[1], Problem)
    assert found[1].line == 2


@pytest.mark.parametrize("messages", [[], "none", [1], [{"content": "x"}]])
def test_a_run_without_messages_is_a_problem(tmp_path: Path, messages: Any) -> None:
    (problem,) = items(write(tmp_path / "x.json", wrapped(messages)))
    assert isinstance(problem, Problem)


@pytest.mark.parametrize(
    "content",
    [b"", b"hello\n", b"{", b"[", b"null", b"[[1]]", b'{"a": \xff}', b"PK\x03\x04", b"\0\1"],
)
def test_detection_raises_on_nothing(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x"
    path.write_bytes(content)
    assert IMPORTER.detect(Source(path)) == 0
