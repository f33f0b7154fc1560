from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from trajstore.importers.swe_bench import (
    benchmark_of,
    is_predictions,
    is_report,
    issue_of,
    outcome,
    report_paths,
    run_paths,
    stem_of,
    task_id,
    verdicts,
)

ISSUE = "astropy__astropy-12907"
REPORT = {
    ISSUE: {
        "patch_is_None": False,
        "patch_exists": True,
        "patch_successfully_applied": True,
        "resolved": False,
        "tests_status": {
            "FAIL_TO_PASS": {"success": ["a"], "failure": []},
            "PASS_TO_PASS": {"success": ["b"], "failure": ["c", "d"]},
            "FAIL_TO_FAIL": {"success": [], "failure": []},
        },
    }
}
RUN_REPORT = {
    "total_instances": 5,
    "resolved_ids": ["a__b-1"],
    "unresolved_ids": ["a__b-2"],
    "empty_patch_ids": ["a__b-3"],
    "error_ids": ["a__b-4"],
    "incomplete_ids": ["a__b-5"],
}
OLD_REPORT = {"resolved": ["a__b-1"], "applied": ["a__b-1", "a__b-2"], "no_generation": ["a__b-3"]}


@pytest.mark.parametrize(
    ("instance", "benchmark"),
    [
        (ISSUE, "swe-bench"),
        ("Project-MONAI__MONAI-5686", "swe-bench"),
        ("pylint-dev__astroid-1978", "swe-bench"),
        ("arrow-py__arrow.1d70d009.lm_rewrite__nuzjfyur", "swe-smith"),
        ("pyutils__line_profiler.a646bf0f.100", "swe-smith"),
        ("swe-agent__test-repo-i1", None),
        ("function_calling_simple", None),
        ("", None),
    ],
)
def test_an_instance_id_tells_its_benchmark(instance: str, benchmark: str | None) -> None:
    assert benchmark_of(instance) == benchmark


def test_the_task_of_an_instance_is_the_same_for_every_agent() -> None:
    assert task_id(ISSUE, "swe-agent") == task_id(ISSUE, "mini-swe-agent") == f"swe-bench/{ISSUE}"
    assert task_id("katy", "swe-agent") == "swe-agent/katy"


@pytest.mark.parametrize(
    ("prompt", "issue"),
    [
        ("Here's the issue text:\nISSUE:\nIt\nfails.\n\nINSTRUCTIONS:\nNow", "It\nfails."),
        ("<pr_description>\nIt fails.\n</pr_description>\nHelp", "It fails."),
        (
            "<pr_description>\nConsider the following PR description:\nFails.\n</pr_description>",
            "Fails.",
        ),
        ("Please solve this issue: It fails.\n\nYou can execute bash commands and", "It fails."),
        ("Just do it.", "Just do it."),
        ("", ""),
        (None, None),
    ],
)
def test_the_issue_is_taken_out_of_known_prompts(prompt: str | None, issue: str | None) -> None:
    assert issue_of(prompt) == issue


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"instance_id": "x", "model_patch": "d", "model_name_or_path": "m"}, True),
        ({"x": {"instance_id": "x", "model_patch": "d"}}, True),
        ({"instance_id": "x", "messages": []}, False),
        ({"x": {"resolved": True}}, False),
        ({}, False),
        ([], False),
    ],
)
def test_predictions_are_known_by_their_patches(value: Any, *, expected: bool) -> None:
    assert is_predictions(value) is expected


@pytest.mark.parametrize("value", [REPORT, RUN_REPORT, OLD_REPORT])
def test_reports_of_all_shapes_are_known(value: Any) -> None:
    assert is_report(value)


@pytest.mark.parametrize(
    "value", [None, {}, [], {"resolved": True}, {"x": {"resolved": True}}, {"resolved": ["a"]}]
)
def test_other_objects_are_no_reports(value: Any) -> None:
    assert not is_report(value)


def test_one_instance_has_one_verdict() -> None:
    assert verdicts(REPORT) == {ISSUE: False}


def test_an_instance_whose_evaluation_failed_has_no_verdict() -> None:
    assert verdicts(RUN_REPORT) == {"a__b-1": True, "a__b-2": False, "a__b-3": False}


def test_what_applied_and_did_not_resolve_failed() -> None:
    assert verdicts(OLD_REPORT) == {"a__b-1": True, "a__b-2": False, "a__b-3": False}


def test_the_label_says_the_verdict_and_counts_the_tests() -> None:
    label = outcome(REPORT, ISSUE, "id")
    assert (label.name, label.evaluator) == ("outcome", "swe-bench")
    assert (label.success, label.value) == (False, 0.0)
    assert label.rationale == "FAIL_TO_PASS 1/1, PASS_TO_PASS 1/3"


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ({"patch_is_None": True, "patch_exists": False}, "there was no patch"),
        ({"patch_successfully_applied": False}, "the patch did not apply"),
        ({"resolved": True}, None),
    ],
)
def test_the_label_says_what_became_of_the_patch(flags: dict[str, bool], words: str | None) -> None:
    entry = {"patch_is_None": False, "patch_exists": True, "resolved": False, **flags}
    assert outcome({ISSUE: entry}, ISSUE, "id").rationale == words


def test_a_report_of_a_run_gives_no_reason() -> None:
    label = outcome(RUN_REPORT, "a__b-1", "id")
    assert (label.success, label.rationale) == (True, None)


@pytest.mark.parametrize(
    ("name", "ending", "stem"),
    [
        ("a__b-1.traj", ".traj", "a__b-1"),
        ("a__b-1.traj.json", ".traj.json", "a__b-1"),
        ("a__b-1.traj.json.gz", ".traj.json", "a__b-1"),
        ("run.json", ".traj.json", "run"),
    ],
)
def test_the_stem_is_the_name_without_its_endings(name: str, ending: str, stem: str) -> None:
    assert stem_of(Path(name), ending) == stem


def touch(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({}))
    return path


@pytest.mark.parametrize("name", [f"{ISSUE}.report.json", "report.json"])
def test_reports_are_found_beside_a_run(tmp_path: Path, name: str) -> None:
    report, run = touch(tmp_path / name), touch(tmp_path / f"{ISSUE}.traj")
    assert list(report_paths(run, ISSUE, ".traj")) == [report]


@pytest.mark.parametrize("name", [f"{ISSUE}.traj", f"{ISSUE}/{ISSUE}.traj"])
def test_runs_are_found_beside_a_report(tmp_path: Path, name: str) -> None:
    run = touch(tmp_path / name)
    assert run_paths(tmp_path / "report.json", [ISSUE, "a__b-1"], ".traj") == {ISSUE: run}


def test_a_run_may_be_named_like_its_report(tmp_path: Path) -> None:
    run = touch(tmp_path / "mine.traj")
    assert run_paths(tmp_path / "mine.report.json", [ISSUE], ".traj") == {ISSUE: run}


def test_an_instance_id_never_leads_out_of_the_folder(tmp_path: Path) -> None:
    touch(tmp_path / "secret.traj")
    report = tmp_path / "run" / "report.json"
    assert run_paths(report, ["../secret", "/etc/passwd"], ".traj") == {}
