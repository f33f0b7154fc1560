"""OpenHands V0: what is recognised, which files make one run, and when two are the same run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from trajstore.importers.items import ImportOptions, Problem
from trajstore.importers.openhands import IMPORTER
from trajstore.importers.source import Source
from trajstore.schema import Label, Trajectory, finish

TRAJS = ("basic.json", "wrong_initial_state.json", "openhands_0.58_trajectory.json")


def read(source: Source | Path) -> tuple[list[Trajectory], list[Label], list[Problem]]:
    found = source if isinstance(source, Source) else Source(source)
    items = list(IMPORTER.read(found, ImportOptions()))
    return (
        [finish(i) for i in items if isinstance(i, Trajectory)],
        [i for i in items if isinstance(i, Label)],
        [i for i in items if isinstance(i, Problem)],
    )


def only(source: Source | Path) -> Trajectory:
    runs, _, problems = read(source)
    assert problems == []
    (run,) = runs
    return run


def write(path: Path, *values: Any) -> Path:
    """A JSON file of one value, or JSON lines of several."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(json.dumps(value) for value in values))
    return path


def session(folder: Path, events: list[Any], **metadata: Any) -> Source:
    """A stored session as the walk would find it."""
    for event in events:
        write(folder / "events" / f"{event['id']}.json", event)
    if metadata:
        write(folder / "metadata.json", metadata)
    return claimed(folder)


def claimed(folder: Path) -> Source:
    (group,) = IMPORTER.claims(folder, frozenset(p.name for p in folder.iterdir()))
    files = tuple(folder / name for name in group)
    return Source(folder, uri=files[0].as_posix(), files=files)


def asked(text: str = "Fix it.", at: str | None = "2025-01-02T03:04:05.000006") -> dict[str, Any]:
    event = {"id": 1, "source": "user", "action": "message", "args": {"content": text}}
    return event if at is None else {**event, "timestamp": at}


def did(number: int, command: str = "ls") -> dict[str, Any]:
    return {
        "id": number,
        "timestamp": f"2025-01-02T03:05:{number:02}",
        "source": "agent",
        "action": "run",
        "args": {"command": command, "thought": ""},
    }


def output(instance: str = "a__b-1", **more: Any) -> dict[str, Any]:
    history = [asked(f"Fix {instance}."), did(2)]
    return {"instance_id": instance, "test_result": {}, "history": history, **more}


def test_only_files_of_the_format_are_recognised(real_data: Path) -> None:
    sure = {
        path.relative_to(real_data).as_posix()
        for path in real_data.rglob("*")
        if path.is_file() and IMPORTER.detect(Source(path)) > 0
    }
    assert sure == {
        "openhands/eval_output/multi_swe_bench_output.first2.jsonl",
        "openhands/resolver/output.jsonl",
        *(f"openhands/trajs/{name}" for name in TRAJS),
    }


def test_no_folder_of_other_formats_is_claimed(real_data: Path) -> None:
    for folder in [real_data, *(p for p in real_data.rglob("*") if p.is_dir())]:
        names = frozenset(p.name for p in folder.iterdir())
        assert list(IMPORTER.claims(folder, names)) == []


@pytest.mark.parametrize(
    ("name", "counts"),
    [  # steps, agent steps, calls, results: events of PROVENANCE, a call with its result one step
        ("basic.json", (3, 2, 2, 1)),
        ("wrong_initial_state.json", (5, 4, 4, 3)),
        ("openhands_0.58_trajectory.json", (6, 2, 2, 1)),
    ],
)
def test_exported_trajectories_have_their_events(
    real_data: Path, name: str, counts: tuple[int, ...]
) -> None:
    run = only(real_data / "openhands" / "trajs" / name)
    results = sum(len(s.observations) for s in run.steps)
    assert (run.n_steps, run.n_agent_steps, run.n_tool_calls, results) == counts
    assert (run.status, run.termination_reason, run.success) == ("terminated", "finish", None)


def test_evaluation_output_has_its_counts(real_data: Path) -> None:
    runs, labels, problems = read(
        real_data / "openhands/eval_output/multi_swe_bench_output.first2.jsonl"
    )
    assert (labels, problems) == ([], [])
    assert [r.n_tool_calls for r in runs] == [23, 33]  # all actions but system, message, recall
    assert [sum(len(s.observations) for s in r.steps) for r in runs] == [22, 32]
    assert [(r.prompt_tokens, r.completion_tokens) for r in runs] == [
        (565158, 2558),
        (410169, 5156),
    ]
    assert [r.success for r in runs] == [None, None]  # a patch is no verdict


def test_tokens_of_the_calls_add_up_to_those_of_the_run(real_data: Path) -> None:
    runs, _, _ = read(real_data / "openhands/eval_output/multi_swe_bench_output.first2.jsonl")
    for run in runs:
        assert sum(s.prompt_tokens or 0 for s in run.steps) == run.prompt_tokens
        assert sum(s.completion_tokens or 0 for s in run.steps) == run.completion_tokens


def test_resolver_output_says_solved(real_data: Path) -> None:
    runs, _, problems = read(real_data / "openhands/resolver/output.jsonl")
    assert problems == []
    assert [r.success for r in runs] == [True, True]
    assert [r.n_tool_calls for r in runs] == [4, 22]  # 3 + 21 run, 2 finish, of both together 26
    assert [r.task_id for r in runs] == ["github/neubig/pr-viewer/5", "github/neubig/pr-viewer/1"]
    assert [sum(len(s.observations) for s in r.steps) for r in runs] == [3, 21]
    assert [r.cost_usd for r in runs] == [0.070713, 1.152933]


def test_reading_twice_gives_the_same_run(real_data: Path) -> None:
    for name in ("trajs/basic.json", "resolver/output.jsonl"):
        first, _, _ = read(real_data / "openhands" / name)
        second, _, _ = read(real_data / "openhands" / name)
        assert first == second


def test_export_session_and_evaluation_are_the_same_run(tmp_path: Path) -> None:
    events = [asked(), did(2)]
    export = only(write(tmp_path / "run.json", events))
    stored = only(session(tmp_path / "s1", events))
    line = {**output(), "history": events}
    evaluated = only(write(tmp_path / "output.jsonl", line))
    assert export.trajectory_id == stored.trajectory_id == evaluated.trajectory_id


def test_a_run_downloaded_from_the_web_interface_is_the_same_run(tmp_path: Path) -> None:
    path = write(tmp_path / "download.json", {"trajectory": [asked(), did(2)]})
    assert IMPORTER.detect(Source(path)) == 0.9
    export = only(write(tmp_path / "run.json", [asked(), did(2)]))
    assert only(path).steps == export.steps
    assert only(path).trajectory_id == export.trajectory_id


def test_a_longer_snapshot_is_the_same_run(tmp_path: Path) -> None:
    short = only(write(tmp_path / "a.json", [asked()]))
    long = only(write(tmp_path / "b.json", [asked(), did(2), did(3)]))
    assert short.trajectory_id == long.trajectory_id
    assert long.n_steps > short.n_steps


def test_the_same_task_at_another_time_is_another_run(tmp_path: Path) -> None:
    first = only(write(tmp_path / "a.json", [asked()]))
    again = only(write(tmp_path / "b.json", [asked(at="2025-01-02T03:04:05.000007")]))
    assert first.trajectory_id != again.trajectory_id
    assert first.task_id == again.task_id


def test_runs_without_times_differ_by_what_was_done(tmp_path: Path) -> None:
    flat = {"action": "message", "content": "Fix it.", "wait_for_response": False}
    paths = [
        write(tmp_path / f"{name}.json", [flat, {"action": "run", "command": name, "thought": ""}])
        for name in ("ls", "pwd")
    ]
    assert len({only(p).trajectory_id for p in paths}) == 2


def test_a_session_is_read_in_the_order_of_its_numbers(tmp_path: Path) -> None:
    source = session(tmp_path / "s", [asked(), *(did(n, f"c{n}") for n in (2, 10, 9))])
    assert IMPORTER.detect(source) == 0.9
    run = only(source)
    calls = [json.loads(c.arguments or "")["command"] for s in run.steps for c in s.tool_calls]
    assert calls == ["c2", "c9", "c10"]
    assert run.source_uri == (tmp_path / "s/events/1.json").as_posix()


def test_a_session_keeps_its_metadata_and_leaves_out_its_page_cache(tmp_path: Path) -> None:
    write(tmp_path / "s" / "event_cache" / "0-25.json", [asked(), did(2)])
    source = session(tmp_path / "s", [asked(), did(2)], title="T", selected_branch="main")
    run = only(source)
    assert run.n_steps == 2
    assert json.loads(run.metadata or "")["session"] == {"title": "T", "selected_branch": "main"}


def test_a_broken_event_costs_only_itself(tmp_path: Path) -> None:
    session(tmp_path / "s", [asked(), did(2), did(3)])
    (tmp_path / "s/events/2.json").write_text('{"id": 2, "acti')
    (run,), _, (problem,) = read(claimed(tmp_path / "s"))
    assert run.n_tool_calls == 1
    assert problem.source.endswith("events/2.json")
    assert problem.kind == "bad"


def test_folders_of_other_events_are_not_claimed(tmp_path: Path) -> None:
    write(tmp_path / "x" / "events" / "0.json", {"type": "click"})
    write(tmp_path / "y" / "events" / "start.json", asked())
    for folder in (tmp_path / "x", tmp_path / "y"):
        assert list(IMPORTER.claims(folder, frozenset({"events"}))) == []


def test_a_lone_event_is_pointed_to_its_session(tmp_path: Path) -> None:
    path = write(tmp_path / "7.json", asked())
    assert 0 < IMPORTER.detect(Source(path)) < 0.9
    runs, _, (problem,) = read(path)
    assert runs == []
    assert (problem.kind, "folder that holds 'events'" in problem.reason) == ("ignored", True)


def test_metadata_of_an_evaluation_is_left_out(tmp_path: Path) -> None:
    setup = {"agent_class": "C", "llm_config": {}, "max_iterations": 9, "eval_output_dir": "d"}
    path = write(tmp_path / "metadata.json", setup)
    assert IMPORTER.detect(Source(path)) == 0.9
    runs, _, (problem,) = read(path)
    assert (runs, problem.kind) == ([], "ignored")


def test_a_bad_line_is_named_and_the_rest_goes_in(tmp_path: Path) -> None:
    path = tmp_path / "output.jsonl"
    lines = [json.dumps(output("a__b-1")), '{"instance_id": ', json.dumps({"history": []})]
    lines += [json.dumps(output("a__b-2"))]
    path.write_text("\n".join(lines))
    runs, _, problems = read(path)
    assert [r.task_id for r in runs] == ["swe-bench/a__b-1", "swe-bench/a__b-2"]
    assert [p.line for p in problems] == [2, 3]
    assert "instance_id" in problems[1].reason


def test_an_entry_that_is_no_event_makes_its_line_bad(tmp_path: Path) -> None:
    bad = output("a__b-1", history=[asked(), {"role": "user", "content": "x"}])
    runs, _, (problem,) = read(write(tmp_path / "output.jsonl", bad, output("a__b-2")))
    assert [r.task_id for r in runs] == ["swe-bench/a__b-2"]
    assert (problem.line, "no event" in problem.reason) == (1, True)


def test_an_empty_list_is_no_run(tmp_path: Path) -> None:
    runs, _, (problem,) = read(write(tmp_path / "run.json", []))
    assert runs == []
    assert "empty" in problem.reason


def test_a_report_beside_the_output_gives_outcomes_from_both_sides(tmp_path: Path) -> None:
    path = write(tmp_path / "output.jsonl", output("a__b-1"), output("a__b-2"))
    report = write(
        tmp_path / "report.json", {"resolved_ids": ["a__b-2"], "unresolved_ids": ["a__b-1"]}
    )
    runs, with_run, _ = read(path)
    assert IMPORTER.detect(Source(report)) == 0.95
    _, alone, problems = read(report)
    assert with_run == alone
    assert {x.trajectory_id: x.success for x in alone} == {
        runs[0].trajectory_id: False,
        runs[1].trajectory_id: True,
    }
    assert problems == []


def test_a_report_of_one_instance_lies_two_folders_below_the_output(tmp_path: Path) -> None:
    path = write(tmp_path / "output.jsonl", output("a__b-1"))
    entry = {"a__b-1": {"patch_is_None": False, "resolved": True}}
    report = write(tmp_path / "eval_outputs" / "a__b-1" / "report.json", entry)
    _, with_run, _ = read(path)
    _, alone, _ = read(report)
    assert with_run == alone
    assert [x.success for x in alone] == [True]


def test_a_report_names_the_instances_without_a_run(tmp_path: Path) -> None:
    write(tmp_path / "output.jsonl", output("a__b-1"))
    report = write(tmp_path / "report.json", {"resolved_ids": ["a__b-1", "c__d-9"]})
    _, labels, (problem,) = read(report)
    assert len(labels) == 1
    assert "c__d-9" in problem.reason


def test_a_report_without_an_output_is_left_to_others(tmp_path: Path) -> None:
    report = write(tmp_path / "report.json", {"resolved_ids": ["a__b-1"]})
    assert IMPORTER.detect(Source(report)) == 0.0
