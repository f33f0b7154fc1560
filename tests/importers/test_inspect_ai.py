"""Inspect logs: real logs with their counts, what is recognised, and identity."""

from __future__ import annotations

import json
import zipfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from trajstore.importers.inspect_ai import IMPORTER
from trajstore.importers.items import ImportOptions, Problem
from trajstore.importers.source import Source
from trajstore.schema import Trajectory, finish

POPULARITY = "2025-02-11T15-17-00-05-00_popularity_dPiJifoWeEQBrfWsAopzWr.eval"
BROWSER = "2025-05-12T20-27-36-04-00_browser.json"
NO_SAMPLES = "2025-05-12T20-28-13-04-00_no-samples.json"
GUIDE = "2025-05-12T20-28-26-04-00_security-guide.json"
GUIDE_EVAL = "2025-09-23T08-09-58-04-00_security-guide_LuxZJVwvymC3S3SyoJczxB.eval"

MESSAGES = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "2 + 2?"},
    {"role": "assistant", "content": "4", "id": "m1"},
]


def read(path: Path, **options: Any) -> tuple[list[Trajectory], list[Problem]]:
    items = list(IMPORTER.read(Source(path), ImportOptions(**options)))
    return (
        [finish(i) for i in items if isinstance(i, Trajectory)],
        [i for i in items if isinstance(i, Problem)],
    )


def only(path: Path) -> Trajectory:
    (run,), problems = read(path)
    assert problems == []
    return run


def sample(**more: Any) -> dict[str, Any]:
    base = {"id": 1, "epoch": 1, "input": "2 + 2?", "target": "4", "messages": MESSAGES}
    return {**base, "scores": {"match": {"value": "C"}}, "events": [], **more}


def log(*samples: Any, **more: Any) -> dict[str, Any]:
    spec = {"task": "maths", "model": "p/m", "run_id": "r1", "task_id": "t1", "task_version": 3}
    return {"version": 2, "status": "success", "eval": spec, **more, "samples": list(samples)}


def as_json(path: Path, value: dict[str, Any]) -> Path:
    path.write_text(json.dumps(value))
    return path


def as_eval(path: Path, value: dict[str, Any]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for one in value["samples"]:
            name = f"samples/{one['id']}_epoch_{one['epoch']}.json"
            archive.writestr(name, json.dumps(one))
        header = {k: v for k, v in value.items() if k != "samples"}
        archive.writestr("header.json", json.dumps(header))
    return path


def test_only_logs_are_recognised(real_data: Path) -> None:
    sure = {
        path.relative_to(real_data).parts[0]
        for path in real_data.rglob("*")
        if path.is_file() and IMPORTER.detect(Source(path)) > 0
    }
    assert sure == {"inspect_ai"}


def test_every_real_log_is_recognised(real_data: Path) -> None:
    paths = sorted((real_data / "inspect_ai").iterdir())
    assert len(paths) == 10
    for path in paths:
        assert IMPORTER.detect(Source(path)) == (0.95 if path.suffix == ".eval" else 0.9)


@pytest.mark.parametrize(
    ("name", "epochs", "values", "messages"),
    [  # PROVENANCE: samples by epoch, scores, mean_messages
        (POPULARITY, {1: 10}, {None: 10}, 3),
        (BROWSER, {1: 1}, {"includes C": 1}, 10),
        (GUIDE, {1: 3}, {"model_graded_fact C": 3}, 3),
        (GUIDE_EVAL, {1: 16}, {"model_graded_fact C": 11, "model_graded_fact I": 5}, 3),
        ("log_formats.eval", {1: 1}, {"match I": 1}, 3),
        ("log_formats.json", {1: 1}, {"match I": 1}, 3),
        ("log_message_deduplication.eval", {1: 1}, {"closeness_log 0.0": 1}, 12),
        ("log_streaming.eval", {1: 2, 2: 2}, {"match C": 3, "match I": 1}, 3),
        ("log_tool_call_error.json", {4: 1}, {None: 1}, 11),
    ],
)
def test_real_logs_have_their_counts(
    real_data: Path,
    name: str,
    epochs: dict[int, int],
    values: dict[str | None, int],
    messages: int,
) -> None:
    runs, problems = read(real_data / "inspect_ai" / name)
    assert problems == []
    assert Counter(r.attempt for r in runs) == epochs
    scores = [json.loads(r.metadata or "").get("scores") or {} for r in runs]
    said = [next((f"{k} {v['value']}" for k, v in s.items()), None) for s in scores]
    assert Counter(said) == values
    for run in runs:
        spoken = sum(s.actor != "environment" for s in run.steps)
        assert spoken + sum(len(s.observations) for s in run.steps) == messages


@pytest.mark.parametrize(
    ("name", "successes"),
    [
        (POPULARITY, {None: 10}),
        (GUIDE_EVAL, {True: 11, False: 5}),
        ("log_streaming.eval", {True: 3, False: 1}),
        ("log_formats.json", {False: 1}),
    ],
)
def test_real_outcomes(real_data: Path, name: str, successes: dict[Any, int]) -> None:
    runs, _ = read(real_data / "inspect_ai" / name)
    assert Counter(r.success for r in runs) == successes
    expected = {None: None, True: 1.0, False: 0.0}
    assert all(r.reward == expected[r.success] for r in runs)


def test_real_tokens_are_the_agents_and_not_the_graders(real_data: Path) -> None:
    runs, _ = read(real_data / "inspect_ai" / GUIDE)
    assert [(r.prompt_tokens, r.completion_tokens) for r in runs] == [(61, 17), (60, 9), (61, 23)]
    used = [json.loads(r.metadata or "")["model_usage"]["openai/gpt-4o-mini"] for r in runs]
    assert used[0]["input_tokens"] == 320  # with the grader's 259


def test_real_tokens_without_a_grader_are_those_of_the_log(real_data: Path) -> None:
    run = only(real_data / "inspect_ai" / BROWSER)
    assert (run.prompt_tokens, run.completion_tokens, run.cached_tokens) == (15235, 281, 9088)
    runs, _ = read(real_data / "inspect_ai" / "log_streaming.eval")
    assert sum(r.prompt_tokens or 0 for r in runs) == 252
    assert sum(r.completion_tokens or 0 for r in runs) == 6


def test_a_real_tool_run_links_each_result(real_data: Path) -> None:
    run = only(real_data / "inspect_ai" / BROWSER)
    assert (run.n_agent_steps, run.n_tool_calls, run.n_tool_errors) == (5, 4, 0)
    assert [[c.call_id for c in s.tool_calls] for s in run.steps] == [
        [o.call_id for o in s.observations] for s in run.steps
    ]
    assert len(json.loads(run.tools or "")) == 8


def test_real_tool_errors_are_all_kept(real_data: Path) -> None:
    run = only(real_data / "inspect_ai" / "log_tool_call_error.json")
    assert [o.is_error for s in run.steps for o in s.observations] == [True] * 11
    assert run.n_tool_errors == 0  # none of the agent's own: it has no step here


def test_no_real_log_has_a_reference_left(real_data: Path) -> None:
    for path in (real_data / "inspect_ai").iterdir():
        for run in read(path)[0]:
            texts = [run.goal, run.tools, run.metadata]
            for step in run.steps:
                texts += [step.text, step.metadata, *(o.text for o in step.observations)]
            assert not any("attachment://" in t or "tc://" in t for t in texts if t)


def test_a_cancelled_log_without_samples_is_left_out(real_data: Path) -> None:
    runs, (problem,) = read(real_data / "inspect_ai" / NO_SAMPLES)
    assert runs == []
    assert (problem.kind, "cancelled" in problem.reason) == ("ignored", True)


def test_a_header_alone_is_left_out(tmp_path: Path) -> None:
    for path in (as_json(tmp_path / "a.json", log()), as_eval(tmp_path / "b.eval", log())):
        runs, (problem,) = read(path)
        assert (runs, problem.kind) == ([], "ignored")


def test_real_json_and_eval_are_the_same_run(real_data: Path) -> None:
    one = only(real_data / "inspect_ai" / "log_formats.json")
    other = only(real_data / "inspect_ai" / "log_formats.eval")
    assert one.trajectory_id == other.trajectory_id
    assert one.source_digest == other.source_digest
    assert [s.text for s in one.steps] == [s.text for s in other.steps]


def test_reading_twice_gives_the_same_runs(real_data: Path) -> None:
    path = real_data / "inspect_ai" / "log_streaming.eval"
    assert read(path) == read(path)


def test_every_epoch_is_an_attempt_of_its_task(real_data: Path) -> None:
    runs, _ = read(real_data / "inspect_ai" / "log_streaming.eval")
    assert {(r.task_id, r.attempt) for r in runs} == {
        (f"popularity/{n}", epoch) for n in (1, 2) for epoch in (1, 2)
    }
    assert len({r.trajectory_id for r in runs}) == 4


def test_a_sample_keeps_its_id_in_the_log_of_a_retry(tmp_path: Path) -> None:
    first = log(sample(uuid="u1"))
    retried = {**first, "eval": {**first["eval"], "run_id": "r2"}}
    ids = {
        only(as_json(tmp_path / f"{n}.json", v)).trajectory_id
        for n, v in enumerate((first, retried))
    }
    assert len(ids) == 1


def test_without_uuid_run_task_sample_and_epoch_tell_runs_apart(tmp_path: Path) -> None:
    spec = log()["eval"]
    variants = [
        log(sample()),
        log(sample(id=2)),
        log(sample(epoch=2)),
        {**log(sample()), "eval": {**spec, "run_id": "r2"}},
        {**log(sample()), "eval": {**spec, "task_id": "t2"}},
        {**log(sample()), "eval": {**spec, "eval_id": "added when it was saved again"}},
    ]
    ids = [only(as_json(tmp_path / f"{n}.json", v)).trajectory_id for n, v in enumerate(variants)]
    assert len(set(ids)) == 5
    assert ids[5] == ids[0]


def test_fields_of_a_sample(tmp_path: Path) -> None:
    plan = {"steps": [{"solver": "system_message"}, {"solver": "generate"}]}
    times = {"started_at": "2025-01-02T03:04:05+00:00", "completed_at": "2025-01-02T04:04:07+01:00"}
    run = only(as_eval(tmp_path / "x.eval", log(sample(**times, total_time=2.5), plan=plan)))
    assert (run.task_id, run.goal, run.model) == ("maths/1", "2 + 2?", "p/m")
    assert (run.environment, run.environment_version) == ("maths", "3")
    assert (run.agent, run.status) == ("system_message+generate", "terminated")
    assert run.duration_s == 2.5
    assert run.started_at is not None
    assert run.ended_at is not None
    assert (run.ended_at - run.started_at).total_seconds() == 2.0
    assert run.source_uri == f"{(tmp_path / 'x.eval').as_posix()}#1_epoch_1"


def test_an_error_or_a_limit_ends_a_run(tmp_path: Path) -> None:
    error = {"message": "boom", "traceback": "t", "traceback_ansi": "t"}
    limit = {"type": "token", "limit": 1000}
    samples = [sample(error=error, scores={}), sample(id=2, limit=limit)]
    failed, cut = read(as_json(tmp_path / "x.json", log(*samples)))[0]
    assert (failed.status, failed.error, failed.success) == ("error", "boom", None)
    assert (cut.status, cut.termination_reason, cut.success) == ("truncated", "token", True)


def test_the_threshold_of_the_user_counts(tmp_path: Path) -> None:
    path = as_json(tmp_path / "x.json", log(sample(scores={"f1": {"value": 0.6}})))
    assert [read(path)[0][0].success, read(path, success_threshold=0.5)[0][0].success] == [
        False,
        True,
    ]


def test_a_talk_as_input_has_its_last_question_as_goal(tmp_path: Path) -> None:
    given = [{"role": "user", "content": c} for c in ("First?", "And now?")]
    run = only(as_json(tmp_path / "x.json", log(sample(input=given, messages=[]))))
    assert run.goal == "And now?"
    assert [s.text for s in run.steps] == ["First?", "And now?"]


def test_without_model_events_the_only_answer_has_the_tokens_of_the_output(tmp_path: Path) -> None:
    usage = {"input_tokens": 5, "output_tokens": 1, "total_tokens": 6}
    more = {"p/m": {"input_tokens": 50, "output_tokens": 10, "total_tokens": 60}}
    one = sample(output={"usage": usage, "choices": []}, model_usage=more)
    two = {**one, "id": 2, "messages": [*MESSAGES, MESSAGES[2]]}
    runs, _ = read(as_json(tmp_path / "x.json", log(one, two)))
    assert [(r.prompt_tokens, r.completion_tokens) for r in runs] == [(5, 1), (50, 10)]


def test_costs_are_those_of_the_agents_calls(tmp_path: Path) -> None:
    def call(message: dict[str, Any], cost: float) -> dict[str, Any]:
        output = {"choices": [{"message": message}], "usage": {"total_cost": cost}}
        return {"event": "model", "input": [], "output": output}

    grader = call({"role": "assistant", "content": "C", "id": "g"}, 0.5)
    events = [call(MESSAGES[2], 0.25), grader]
    assert only(as_json(tmp_path / "x.json", log(sample(events=events)))).cost_usd == 0.25


def test_an_invalidated_sample_is_tagged(tmp_path: Path) -> None:
    bad = sample(invalidation={"author": "a", "reason": "leak"})
    run = only(as_json(tmp_path / "x.json", log(bad)))
    assert run.tags == ("invalidated",)
    assert json.loads(run.metadata or "")["invalidation"]["reason"] == "leak"


@pytest.mark.parametrize("build", [as_json, as_eval])
def test_a_broken_sample_is_named_and_the_rest_goes_in(tmp_path: Path, build: Any) -> None:
    broken = {"id": 2, "epoch": 1, "input": "x", "messages": [{"content": "no role"}]}
    runs, (problem,) = read(build(tmp_path / "x", log(sample(), broken, sample(id=3))))
    assert [r.task_id for r in runs] == ["maths/1", "maths/3"]
    assert (problem.kind, problem.record) == ("bad", "1")
    assert "role" in problem.reason


def test_an_archive_that_was_cut_off_is_recognised_and_explained(tmp_path: Path) -> None:
    path = tmp_path / "x.eval"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("_journal/start.json", json.dumps(log()))
        archive.writestr("samples/1_epoch_1.json", json.dumps(sample()))
    path.write_bytes(path.read_bytes()[:-60])
    assert IMPORTER.detect(Source(path)) == 0.95
    runs, (problem,) = read(path)
    assert (runs, problem.kind) == ([], "bad")
    assert "cut off" in problem.reason


def test_other_zips_and_objects_are_not_recognised(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("header.json", '{"title": "x"}')
    (tmp_path / "b.json").write_text('{"version": 2, "eval": "pass", "status": "success"}')
    assert [IMPORTER.detect(Source(tmp_path / n)) for n in ("a.zip", "b.json")] == [0.0, 0.0]


def test_logs_with_their_fields_in_another_order_are_recognised(tmp_path: Path) -> None:
    path = as_json(tmp_path / "x.json", dict(reversed(log(sample()).items())))
    assert IMPORTER.detect(Source(path)) == 0.9
    assert only(path).task_id == "maths/1"


@pytest.mark.parametrize("samples", [(), (sample(),)], ids=["no samples", "a sample"])
def test_text_behind_a_log_is_named_and_costs_no_sample(tmp_path: Path, samples: Any) -> None:
    path = tmp_path / "log.json"
    path.write_text(json.dumps(log(*samples)) + "}")
    runs, (problem,) = read(path)
    assert len(runs) == len(samples)
    assert "more text behind the end of the log" in problem.reason


def test_a_log_without_samples_that_is_no_strict_json_is_noted(tmp_path: Path) -> None:
    path = tmp_path / "log.json"
    path.write_text('{"status": "success" "eval": {"task": "t", "model": "m"}}')
    runs, (problem,) = read(path)
    assert (runs, problem.kind) == ([], "ignored")
