from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from trajstore.importers.adp import IMPORTER, adp_identity, kind_of
from trajstore.importers.items import ImportOptions, Item, Problem
from trajstore.importers.source import Source
from trajstore.schema import Trajectory, finish, trajectories_to_arrow, trajectory_id, validate

SETS = {
    "code": "adp/codeactinstruct",
    "nebius": "adp/nebius_SWE-agent-trajectories",
    "gym": "adp/swe-gym_openhands_sampled_trajectories",
    "smith": "adp/swe-smith",
    "toucan": "adp/toucan_1_5m",
}
OPTIONS = ImportOptions()


def items(path: Path, options: ImportOptions = OPTIONS) -> list[Item]:
    return list(IMPORTER.read(Source(path), options))


def runs(path: Path, options: ImportOptions = OPTIONS) -> list[Trajectory]:
    return [finish(i) for i in items(path, options) if isinstance(i, Trajectory)]


def raw(real_data: Path, name: str) -> list[Trajectory]:
    return runs(real_data / SETS[name] / "sample_raw.json")


def std(real_data: Path, name: str) -> list[Trajectory]:
    return runs(real_data / SETS[name] / "sample_std.json")


def write(path: Path, *records: Any) -> Path:
    path.write_text(json.dumps(list(records)))
    return path


def meta(run: Trajectory) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(run.metadata or "{}")
    return found


def version(run: Trajectory) -> tuple[int, int, int, int]:
    """What the store compares to keep the longest version of a run."""
    return run.n_agent_steps, run.n_steps, run.n_tool_calls, run.size_bytes


# Oracle: the samples read with plain json: records, and answers of the model a record.
RAW_ANSWERS = {
    "code": [4, 5, 3, 3, 3],
    "nebius": [6, 14, 5, 8, 16],
    "gym": [17, 11, 12, 18, 30],
    "smith": [15, 23, 18, 22, 38],
    "toucan": [2],
}


@pytest.mark.parametrize("name", SETS)
def test_raw_samples_have_one_step_a_model_call(real_data: Path, name: str) -> None:
    found = raw(real_data, name)
    assert [r.n_agent_steps for r in found] == RAW_ANSWERS[name]
    assert [r.steps[0].actor for r in found] == ["system"] * len(found)
    assert validate(trajectories_to_arrow(found), "trajectories") == []


# Oracle: the table of expected counts (api_action + code_action over all records of a file).
@pytest.mark.parametrize(
    ("name", "actions"),
    [("code", 11), ("nebius", 32 + 17), ("gym", 61 + 22), ("smith", 72 + 44), ("toucan", 1)],
)
def test_standard_samples_have_the_actions_of_provenance(
    real_data: Path, name: str, actions: int
) -> None:
    found = std(real_data, name)
    assert sum(r.n_tool_calls for r in found) == actions
    assert validate(trajectories_to_arrow(found), "trajectories") == []


# Oracle: the table of expected counts: text_observation over all records of a file, less the first
# of each record (the task), less praise that ADP added, less what answers no action.
@pytest.mark.parametrize(
    ("name", "results"),
    [("nebius", 54 - 5 - 5), ("smith", 121 - 5 - 5), ("toucan", 1), ("code", 11)],
)
def test_standard_samples_link_each_result_to_its_action(
    real_data: Path, name: str, results: int
) -> None:
    found = std(real_data, name)
    assert sum(len(s.observations) for r in found for s in r.steps) == results


@pytest.mark.parametrize("name", SETS)
def test_raw_and_standard_form_are_one_trajectory(real_data: Path, name: str) -> None:
    first, second = raw(real_data, name), std(real_data, name)
    assert [r.trajectory_id for r in first] == [r.trajectory_id for r in second]
    assert [r.task_id for r in first] == [r.task_id for r in second]
    assert [r.attempt for r in first] == [r.attempt for r in second]
    assert len({r.trajectory_id for r in first}) == len(first)


@pytest.mark.parametrize("name", ["code", "nebius", "smith", "toucan"])
def test_the_raw_form_is_the_version_that_stays(real_data: Path, name: str) -> None:
    pairs = zip(raw(real_data, name), std(real_data, name), strict=True)
    assert all(version(r) > version(s) for r, s in pairs)


@pytest.mark.parametrize("name", ["code", "toucan"])
def test_the_form_for_training_has_the_same_identity(real_data: Path, name: str) -> None:
    (path,) = (real_data / SETS[name]).glob("sample_sft_*.json")
    ids = [adp_identity(r["id"]) for r in json.loads(path.read_text())]
    assert ids == [r.trajectory_id for r in raw(real_data, name)]
    assert IMPORTER.detect(Source(path)) == 0


def test_exactly_the_files_of_this_format_are_detected(real_data: Path) -> None:
    found = [
        path
        for path in real_data.rglob("*")
        if path.is_file() and IMPORTER.detect(Source(path)) > 0
    ]
    expected = (real_data / "adp").rglob("*.json")
    assert sorted(found) == sorted(p for p in expected if "sft" not in p.name)


def test_reading_twice_gives_the_same(real_data: Path) -> None:
    path = real_data / SETS["nebius"] / "sample_raw.json"
    assert items(path) == items(path)


@pytest.mark.parametrize(("name", "success"), [("nebius", True), ("smith", True), ("gym", True)])
def test_success_is_the_verdict_of_the_data_set(
    real_data: Path, name: str, *, success: bool
) -> None:
    assert [r.success for r in raw(real_data, name)] == [success] * 5


@pytest.mark.parametrize(("name", "success"), [("gym", True), ("nebius", None), ("smith", None)])
def test_the_standard_form_says_success_only_where_it_kept_it(
    real_data: Path, name: str, *, success: bool | None
) -> None:
    assert [r.success for r in std(real_data, name)] == [success] * 5


@pytest.mark.parametrize("name", ["code", "toucan"])
def test_where_nobody_judged_the_outcome_is_unknown(real_data: Path, name: str) -> None:
    assert {r.success for r in raw(real_data, name) + std(real_data, name)} == {None}


def test_attempts_of_one_instance_share_its_task(real_data: Path) -> None:
    found = raw(real_data, "gym")
    assert [(r.task_id, r.attempt) for r in found[:3]] == [
        ("swe-bench/python__mypy-15976", 0),
        ("swe-bench/Project-MONAI__MONAI-5686", 4),
        ("swe-bench/Project-MONAI__MONAI-6849", 1),
    ]
    assert {r.model for r in found} == {"gpt-4o-2024-08-06"}
    assert {r.agent for r in found} == {"OpenHands"}


def test_the_renderings_of_one_smith_run_are_one_trajectory(real_data: Path) -> None:
    run = raw(real_data, "smith")[0]
    own = "arrow-py__arrow.1d70d009.lm_rewrite__nuzjfyur.l13ggwmx"
    assert {adp_identity(own), adp_identity(f"{own}_0"), adp_identity(f"{own}_1")} == {
        run.trajectory_id
    }
    assert run.task_id == "swe-smith/arrow-py__arrow.1d70d009.lm_rewrite__nuzjfyur"
    assert (run.attempt, run.model) == (None, "claude-3-7-sonnet-20250219")


def test_a_code_act_id_tells_task_and_model(real_data: Path) -> None:
    run = std(real_data, "code")[0]
    assert run.task_id == "codeact/reasoning/intermediate_algebra/3078"
    assert (run.agent, run.model) == ("CodeAct", "gpt-3.5-turbo-0613")


def test_the_closing_that_adp_made_up_is_no_step(real_data: Path) -> None:
    for run in std(real_data, "nebius") + std(real_data, "smith"):
        assert [c.name for c in run.steps[-1].tool_calls] == ["submit"]
        assert run.steps[-1].observations == ()
        assert len(meta(run)["added_by_adp"]) == 2
    assert "added_by_adp" not in meta(std(real_data, "code")[0])


def test_the_system_text_of_nebius_stands_in_a_field_of_its_own(real_data: Path) -> None:
    first = raw(real_data, "nebius")[0].steps[0]
    assert (first.text or "").startswith("SETTING: You are an autonomous programmer")
    assert json.loads(first.metadata or "") == {"cutoff_date": "01.01.2023"}


def test_the_same_commands_come_out_of_both_forms(real_data: Path) -> None:
    first, second = raw(real_data, "nebius")[0], std(real_data, "nebius")[0]
    names = [[c.name for s in r.steps for c in s.tool_calls] for r in (first, second)]
    assert names[0] == names[1] == ["bash", "find_file", "open", "edit", "bash", "submit"]


def test_parallel_calls_of_the_raw_form_are_one_step(real_data: Path) -> None:
    steps = raw(real_data, "gym")[0].steps
    assert max(len(s.tool_calls) for s in steps) == 4
    parallel = [s.tool_calls[0].name for s in steps if len(s.tool_calls) > 1]
    assert parallel[0] == "str_replace_editor"
    assert steps[-1].tool_calls[0].name == "finish"
    assert steps[-1].observations == ()


def test_tools_and_test_results_are_kept_in_both_forms(real_data: Path) -> None:
    first, second = raw(real_data, "gym")[0], std(real_data, "gym")[0]
    assert first.tools == second.tools
    assert meta(first)["test_result"] == meta(second)["test_result"]
    assert meta(first)["test_result"]["report"]["resolved"] is True
    assert "tools" not in meta(second)


def test_the_exit_status_is_not_the_outcome(real_data: Path) -> None:
    run = std(real_data, "nebius")[0]
    assert (run.status, run.termination_reason, run.success) == ("terminated", "submitted", None)


def test_the_goal_is_the_issue_alone(real_data: Path) -> None:
    for form in (raw, std):
        assert (form(real_data, "smith")[0].goal or "").startswith("# f-string formatting")
        assert (form(real_data, "nebius")[0].goal or "").startswith("SyntaxError in plumbum")


def test_a_text_and_a_call_with_nothing_between_are_one_call(real_data: Path) -> None:
    for form in (raw, std):
        run = form(real_data, "toucan")[0]
        step = run.steps[2]
        assert (step.text or "").startswith("I'll help you conduct")
        assert len(step.tool_calls) == len(step.observations) == 1
    assert json.loads(raw(real_data, "toucan")[0].tools or "")[0]["type"] == "function"


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ({"id": "x", "content": [{"class_": "text_observation"}]}, "standard"),
        ({"id": "x", "content": []}, None),
        ({"id": "x", "content": "text"}, None),
        ({"instance_id": "x", "messages": [], "resolved": True}, None),
        ({"id": "x", "conversations": [{"role": "user", "content": "hi"}]}, None),
        ({"id": "x", "conversations": [{"from": "gpt", "value": "<execute>"}]}, None),
        ({"messages": [{"role": "user", "content": "hi"}]}, None),
        (None, None),
        ([], None),
    ],
)
def test_only_known_field_sets_are_taken(value: Any, kind: str | None) -> None:
    assert kind_of(value) == kind


def test_bare_numbers_are_no_identity() -> None:
    assert adp_identity("7", "a") != adp_identity("7", "b")
    assert adp_identity("os_7", "a") == adp_identity("os_7", "b") == trajectory_id("adp", "os_7")


def nebius(**fields: Any) -> dict[str, Any]:
    answer = {"role": "ai", "text": "Go.\n```\nls\n```", "mask": True}
    return {
        "instance_id": "a__b-1",
        "model_name": "m",
        "target": False,
        "trajectory": [{"role": "user", "text": "Fix."}, answer],
        "exit_status": "submitted (exit_cost)",
        "generated_patch": "",
        **fields,
    }


def test_attempts_that_were_not_numbered_yet_are_told_apart(tmp_path: Path) -> None:
    found = runs(write(tmp_path / "x.json", nebius(), nebius(model_name="n")))
    assert len({r.trajectory_id for r in found}) == 2
    assert {(r.task_id, r.attempt) for r in found} == {("swe-bench/a__b-1", None)}
    assert [(r.success, r.status) for r in found] == [(False, "truncated")] * 2


@pytest.mark.parametrize(
    ("word", "success"), [("True", True), ("False", False), ("maybe", None), (None, None)]
)
def test_verdicts_in_words(tmp_path: Path, word: str | None, *, success: bool | None) -> None:
    item = {"class_": "message_action", "content": "Hi."}
    record = {"id": "a_1", "content": [item], "details": {"resolved": word}}
    assert [r.success for r in runs(write(tmp_path / "x.json", record))] == [success]


def test_a_reward_is_kept_and_judged_only_by_the_users_threshold(tmp_path: Path) -> None:
    item = {"class_": "message_action", "content": "Hi."}
    path = write(tmp_path / "x.json", {"id": "a_1", "content": [item], "details": {"reward": 0.7}})
    assert [(r.reward, r.success) for r in runs(path)] == [(0.7, None)]
    judged = runs(path, ImportOptions(success_threshold=0.5))
    assert [r.success for r in judged] == [True]


def test_messages_stored_as_json_text_are_read(tmp_path: Path) -> None:
    messages = [
        {"role": "user", "content": "Fix."},
        [{"role": "assistant", "content": "<function=submit>\n</function>"}],
    ]
    record = {
        "messages": json.dumps(messages),
        "instance_id": "a__b.0a0a0a0a.x",
        "traj_id": "a__b.0a0a0a0a.x.abcdefgh",
        "resolved": False,
    }
    (run,) = runs(write(tmp_path / "x.json", record))
    assert [c.name for c in run.steps[1].tool_calls] == ["submit"]
    assert (run.success, run.task_id) == (False, "swe-smith/a__b.0a0a0a0a.x")


def test_a_broken_record_among_good_ones_is_named(tmp_path: Path) -> None:
    item = {"class_": "message_action", "content": "Hi."}
    good = [{"id": f"r_{n}", "content": [item]} for n in range(2)]
    bad = [{"id": "bad", "content": [{"class_": "dream"}]}, {"id": "empty", "content": []}]
    path = tmp_path / "x.jsonl"
    path.write_text("\n".join(json.dumps(r) for r in [good[0], *bad, good[1]]))
    found = items(path)
    assert [type(i) for i in found] == [Trajectory, Problem, Problem, Trajectory]
    assert [i.line for i in found if isinstance(i, Problem)] == [2, 3]


@pytest.mark.parametrize(
    "content",
    [b"", b"hello\n", b"{", b"[", b"null", b"[[1]]", b'{"a": \xff}', b"PK\x03\x04", b"\0\1"],
)
def test_detection_raises_on_nothing(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x"
    path.write_bytes(content)
    assert IMPORTER.detect(Source(path)) == 0
