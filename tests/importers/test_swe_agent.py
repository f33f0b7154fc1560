from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from trajstore.importers.items import ImportOptions, Item, Problem
from trajstore.importers.source import Source
from trajstore.importers.swe_agent import IMPORTER, exit_state, identify
from trajstore.importers.swe_agent_steps import command_call, run_steps
from trajstore.schema import Label, Trajectory, finish, trajectories_to_arrow, validate

REPLAY = "swe_agent/demos/replay__marshmallow-code__marshmallow-1867__"
ISSUE_FILE = "marshmallow-code__marshmallow-1867.traj"
FOLDERS = {
    "default": f"{REPLAY}default__t-0.20__p-0.95__c-2.00__install-1___install_from_source",
    "window": f"{REPLAY}default_sys-env_window100__t-0.20__p-0.95__c-2.00__install-1",
    "calling": f"{REPLAY}function_calling__install-1",
    "replace": f"{REPLAY}function_calling_replace__install-1",
    "xml": f"{REPLAY}xml_sys-env_window100__t-0.20__p-0.95__c-2.00__install-1",
}
TEST_REPO = (
    "swe_agent/gpt4__swe-agent__test-repo__default_from_url__t-0.00__p-0.95__c-3.00__install-1"
    "/swe-agent__test-repo-i1.traj"
)
DEV = (
    "swe_agent/gpt4__swe-bench-dev-easy_first_only__default__t-0.00__p-0.95__c-3.00__install-1"
    "/pydicom__pydicom-1458.traj"
)


def items(path: Path) -> list[Item]:
    return list(IMPORTER.read(Source(path), ImportOptions()))


def run_of(path: Path) -> Trajectory:
    return finish(next(i for i in items(path) if isinstance(i, Trajectory)))


def write(path: Path, value: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value))
    return path


def meta(run: Trajectory) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(run.metadata or "{}")
    return found


def turn(action: str, observation: str = "ok", **fields: Any) -> dict[str, Any]:
    said = f"I will.\n```\n{action}\n```"
    return {
        "action": action,
        "observation": observation,
        "response": said,
        "thought": "I will.\n",
    } | {
        "state": '{"open_file": "n/a", "working_dir": "/repo"}\n',
        **fields,
    }


def run(*turns: dict[str, Any], **fields: Any) -> dict[str, Any]:
    history = [
        {"role": "system", "content": "S", "agent": "main", "message_type": "system_prompt"},
        {"role": "user", "content": "Fix it.", "agent": "main", "message_type": "observation"},
    ]
    for t in turns:
        history.append({"role": "assistant", "content": t["response"], "action": t["action"]})
        history.append({"role": "user", "content": f"{t['observation']}\nbash-$"})
    info = {"exit_status": "submitted", "submission": "diff"}
    return {
        "environment": "e",
        "trajectory": list(turns),
        "history": history,
        "info": info,
    } | fields


# Oracle: the table of expected counts (trajectory_steps, tool_calls of the history, roles).
COUNTS = [
    ("swe_agent/demos/ctf_crypto_katy.traj", 18, "swe-agent/ctf_crypto_katy"),
    ("swe_agent/demos/function_calling_simple.traj", 5, "swe-agent/function_calling_simple"),
    ("swe_agent/demos/humanevalfix-python-0.traj", 5, "swe-agent/humanevalfix-python-0"),
    (f"{FOLDERS['default']}/{ISSUE_FILE}", 14, "swe-bench/marshmallow-code__marshmallow-1867"),
    (f"{FOLDERS['window']}/{ISSUE_FILE}", 11, "swe-bench/marshmallow-code__marshmallow-1867"),
    (f"{FOLDERS['calling']}/{ISSUE_FILE}", 11, "swe-bench/marshmallow-code__marshmallow-1867"),
    (f"{FOLDERS['replace']}/{ISSUE_FILE}", 11, "swe-bench/marshmallow-code__marshmallow-1867"),
    (f"{FOLDERS['xml']}/{ISSUE_FILE}", 11, "swe-bench/marshmallow-code__marshmallow-1867"),
    (TEST_REPO, 5, "swe-agent/swe-agent__test-repo-i1"),
    (DEV, 12, "swe-bench/pydicom__pydicom-1458"),
]


@pytest.mark.parametrize(("name", "turns", "task"), COUNTS)
def test_recorded_runs_have_the_counts_of_provenance(
    real_data: Path, name: str, turns: int, task: str
) -> None:
    found = run_of(real_data / name)
    assert [s.actor for s in found.steps] == ["system", "user"] + ["agent"] * turns
    assert (found.n_agent_steps, found.n_tool_calls) == (turns, turns)
    assert sum(len(s.observations) for s in found.steps) == turns
    assert found.task_id == task
    assert validate(trajectories_to_arrow([found]), "trajectories") == []


def test_submitted_is_not_success(real_data: Path) -> None:
    for name, _, _ in COUNTS:
        found = run_of(real_data / name)
        assert (found.success, found.reward) == (None, None)
    assert run_of(real_data / DEV).termination_reason == "submitted"
    assert run_of(real_data / DEV).status == "terminated"


def test_a_demo_of_history_only_has_no_status(real_data: Path) -> None:
    found = run_of(real_data / COUNTS[1][0])
    assert (found.status, found.termination_reason, found.cost_usd) == (None, None, None)
    assert [c.name for s in found.steps for c in s.tool_calls] == [
        "find_file",
        "open",
        "edit",
        "bash",
        "submit",
    ]


def test_five_replays_of_one_issue_are_five_attempts_of_one_task(real_data: Path) -> None:
    found = [run_of(real_data / folder / ISSUE_FILE) for folder in FOLDERS.values()]
    assert len({r.trajectory_id for r in found}) == 5
    assert len({r.task_id for r in found}) == 1
    assert len({r.goal for r in found}) == 1
    assert (found[0].goal or "").startswith("TimeDelta serialization precision")


def test_totals_of_tokens_and_cost_are_those_of_the_run(real_data: Path) -> None:
    found = run_of(real_data / DEV)
    assert (found.prompt_tokens, found.completion_tokens) == (122612, 1369)
    assert found.cost_usd == 1.26719
    replay = run_of(real_data / FOLDERS["calling"] / ISSUE_FILE)
    assert (replay.prompt_tokens, replay.completion_tokens) == (None, None)


def test_the_run_folder_names_model_and_sampling(real_data: Path) -> None:
    found = run_of(real_data / DEV)
    assert (found.model, found.agent) == ("gpt4", "SWE-agent")
    assert {s.sampling for s in found.steps if s.actor == "agent"} == {
        '{"temperature":0.0,"top_p":0.95}'
    }
    assert run_of(real_data / FOLDERS["calling"] / ISSUE_FILE).model is None


def test_a_demonstration_is_context_and_no_step(real_data: Path) -> None:
    found = run_of(real_data / DEV)
    (demo,) = meta(found)["demonstrations"]
    assert demo.startswith("Here is a demonstration")
    assert not any("Here is a demonstration" in (s.text or "") for s in found.steps)


def test_a_turn_keeps_response_thought_action_and_state(real_data: Path) -> None:
    path = real_data / DEV
    recorded = json.loads(path.read_text())["trajectory"][1]
    step = run_of(path).steps[3]
    assert (step.text, step.reasoning) == (recorded["response"], recorded["thought"])
    assert step.tool_calls[0].name == "edit"
    assert json.loads(step.tool_calls[0].arguments or "") == {"command": recorded["action"]}
    assert step.observations[0].text == recorded["observation"]
    assert json.loads(step.state or "") == json.loads(recorded["state"])


def test_native_calls_come_from_the_history_linked_by_id(real_data: Path) -> None:
    path = real_data / FOLDERS["calling"] / ISSUE_FILE
    recorded = json.loads(path.read_text())["history"]
    step = run_of(path).steps[2]
    call = recorded[2]["tool_calls"][0]
    assert step.tool_calls[0].arguments_raw == call["function"]["arguments"]
    assert step.tool_calls[0].call_id == step.observations[0].call_id == call["id"]
    assert step.observations[0].text == recorded[3]["content"]


def test_a_state_taken_after_the_action_is_what_the_next_turn_sees(real_data: Path) -> None:
    path = real_data / FOLDERS["calling"] / ISSUE_FILE
    turns, steps = json.loads(path.read_text())["trajectory"], run_of(path).steps[2:]
    assert steps[0].state is None
    assert [json.loads(s.state or "") for s in steps[1:]] == [t["state"] for t in turns[:-1]]
    took = [json.loads(s.metadata or "")["execution_time"] for s in steps]
    assert took == [t["execution_time"] for t in turns]


def test_predictions_are_ignored_on_purpose(real_data: Path) -> None:
    path = real_data / DEV
    (note,) = items(path.with_name("all_preds.jsonl"))
    assert isinstance(note, Problem)
    assert note.kind == "ignored"


def test_exactly_the_files_of_this_format_are_detected(real_data: Path) -> None:
    found = [
        path.relative_to(real_data).as_posix()
        for path in sorted(real_data.rglob("*"))
        if path.is_file() and IMPORTER.detect(Source(path)) > 0
    ]
    preds = Path(DEV).with_name("all_preds.jsonl").as_posix()
    assert sorted(found) == sorted([name for name, _, _ in COUNTS] + [preds])


def test_reading_twice_and_elsewhere_gives_the_same_run(real_data: Path, tmp_path: Path) -> None:
    copy = tmp_path / "other" / "name.traj"
    copy.parent.mkdir()
    shutil.copy(real_data / DEV, copy)
    assert items(real_data / DEV) == items(real_data / DEV)
    assert run_of(copy).trajectory_id == run_of(real_data / DEV).trajectory_id


def test_a_longer_snapshot_of_a_timed_run_is_the_same_run() -> None:
    turns = [turn("ls", execution_time=0.2396368), turn("submit", execution_time=0.1)]
    assert identify(run(turns[0])) == identify(run(*turns))


def test_attempts_that_begin_alike_are_two_runs() -> None:
    first, second = (run(turn("ls", execution_time=t), turn("submit")) for t in (0.21, 0.22))
    assert identify(first) != identify(second)
    untimed = [run(turn("ls"), turn(last)) for last in ("submit", "exit_forfeit")]
    assert identify(untimed[0]) != identify(untimed[1])


@pytest.mark.parametrize(
    ("status", "state"),
    [
        ("submitted", "terminated"),
        ("submitted (exit_cost)", "truncated"),
        ("exit_context", "truncated"),
        ("exit_format", "truncated"),
        ("submitted (exit_command_timeout)", "truncated"),
        ("exit_environment_error", "error"),
        ("early_exit", "error"),
        ("exit_forfeit", "terminated"),
        (None, None),
    ],
)
def test_exit_states(status: str | None, state: str | None) -> None:
    assert exit_state(status) == state


def test_a_run_without_exit_status_still_runs(tmp_path: Path) -> None:
    path = write(tmp_path / "a__b-1.traj", run(turn("ls"), info={"exit_status": None}))
    assert run_of(path).status == "running"


def test_the_report_beside_a_run_is_its_outcome_from_either_side(tmp_path: Path) -> None:
    path = write(tmp_path / "a__b-1.traj", run(turn("submit")))
    entry = {"patch_is_None": False, "patch_exists": True, "resolved": True}
    report = write(tmp_path / "report.json", {"a__b-1": entry})
    found, label = items(path)
    assert isinstance(found, Trajectory)
    assert isinstance(label, Label)
    assert (label.trajectory_id, label.success) == (found.trajectory_id, True)
    assert IMPORTER.detect(Source(report)) == 0.9
    assert items(report) == [label]


def test_a_report_of_another_instance_says_nothing_of_this_run(tmp_path: Path) -> None:
    path = write(tmp_path / "a__b-1.traj", run(turn("submit")))
    write(tmp_path / "report.json", {"c__d-2": {"patch_is_None": False, "resolved": True}})
    assert [type(i) for i in items(path)] == [Trajectory]


def test_the_report_of_a_whole_run_labels_each_instance_that_is_there(tmp_path: Path) -> None:
    for n in (1, 2):
        write(tmp_path / f"a__b-{n}" / f"a__b-{n}.traj", run(turn("ls", str(n)), turn("submit")))
    report = {"resolved_ids": ["a__b-1"], "unresolved_ids": ["a__b-2", "a__b-3"]}
    labels = [i for i in items(write(tmp_path / "results.json", report)) if isinstance(i, Label)]
    assert [label.success for label in labels] == [False, True] or [
        label.success for label in labels
    ] == [True, False]
    assert len({label.trajectory_id for label in labels}) == 2


def test_attempts_of_a_retrying_agent_are_attempts_of_one_task(tmp_path: Path) -> None:
    attempts = [run(turn("ls", execution_time=t), turn("submit")) for t in (0.5, 0.6)]
    found = [
        i
        for i in items(write(tmp_path / "a__b-1.traj", {**attempts[1], "attempts": attempts}))
        if isinstance(i, Trajectory)
    ]
    assert [r.attempt for r in found] == [0, 1]
    assert found[1].trajectory_id == identify(attempts[1])
    assert {r.task_id for r in found} == {"swe-bench/a__b-1"}


def test_prompts_saved_a_turn_are_left_out(tmp_path: Path) -> None:
    path = write(
        tmp_path / "x.traj", run(turn("ls", query=[{"role": "user"}], messages=[1], odd=1))
    )
    assert json.loads(run_of(path).steps[2].metadata or "") == {"odd": 1}


def test_the_issue_is_the_goal_where_the_configuration_has_it(tmp_path: Path) -> None:
    problem = {"problem_statement": {"id": "a__b-7", "text": "It fails."}}
    found = run_of(write(tmp_path / "x.traj", run(turn("ls"), replay_config=problem)))
    assert (found.goal, found.task_id) == ("It fails.", "swe-bench/a__b-7")


@pytest.mark.parametrize(
    ("action", "name"),
    [
        ("open setup.py\n", "open"),
        ("edit 1:1\nx\nend_of_edit", "edit"),
        ("ls -F", "bash"),
        ("python open.py", "bash"),
        ("", "bash"),
    ],
)
def test_a_command_line_is_a_tool_of_the_agent_or_the_shell(action: str, name: str) -> None:
    call = command_call(action)
    assert (call.name, call.arguments) == (
        name,
        json.dumps({"command": action}, separators=(",", ":")),
    )


def test_history_without_native_calls_pairs_actions_and_answers() -> None:
    history = run(turn("ls", "files"))["history"]
    steps = run_steps(history, [])
    assert [c.name for c in steps[2].tool_calls] == ["bash"]
    assert [o.text for o in steps[2].observations] == ["files\nbash-$"]


def test_content_in_parts_is_read(tmp_path: Path) -> None:
    value = run(turn("ls"))
    value["history"][1]["content"] = [{"type": "text", "text": "Fix it.", "cache_control": {}}]
    assert run_of(write(tmp_path / "x.traj", value)).goal == "Fix it."


def test_a_state_that_is_no_json_is_kept() -> None:
    steps = run_steps(run()["history"], [turn("ls", state="weird")])
    assert json.loads(steps[-1].state or "") == "weird"


@pytest.mark.parametrize(
    "value",
    [
        {"trajectory": [], "history": [], "info": {}},
        {"trajectory": [{"action": "a", "observation": "o", "response": "r"}], "history": ["x"]}
        | {"info": {}},
    ],
)
def test_a_file_without_messages_is_a_problem(tmp_path: Path, value: Any) -> None:
    (problem,) = items(write(tmp_path / "x.traj", value))
    assert isinstance(problem, Problem)
    assert problem.kind == "bad"


def test_a_broken_record_among_good_ones_is_named_by_line(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    good = [json.dumps(run(turn("ls", str(n)))) for n in range(2)]
    path.write_text("\n".join([good[0], '{"history": 1}', good[1]]))
    found = items(path)
    assert [type(i) for i in found] == [Trajectory, Problem, Trajectory]
    assert isinstance(found[1], Problem)
    assert found[1].line == 2


@pytest.mark.parametrize(
    "content",
    [b"", b"hello\n", b"{", b"[", b"null", b"[[1]]", b'{"a": \xff}', b"PK\x03\x04", b"\0\1"],
)
def test_detection_raises_on_nothing(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x"
    path.write_bytes(content)
    assert IMPORTER.detect(Source(path)) == 0


def test_values_of_the_wrong_type_become_text() -> None:
    odd = {"action": 1, "observation": {"a": 1}, "response": [2], "thought": None}
    step = run_steps(run()["history"], [odd])[-1]
    assert (step.text, step.observations[0].text) == ("[2]", '{"a":1}')
    assert step.tool_calls[0].arguments == '{"command":"1"}'
