from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from trajstore.importers.adp import adp_identity
from trajstore.importers.atif import IMPORTER, identify
from trajstore.importers.items import ImportOptions, Item, Problem
from trajstore.importers.source import Source
from trajstore.schema import Label, Trajectory, finish, trajectories_to_arrow, validate

GOLDEN = "atif/harbor_golden"
TERMINUS = f"{GOLDEN}/terminus_2/hello-world"
LINEAR = f"{TERMINUS}-context-summarization-linear-history.trajectory"
COPY = (
    "atif/harbor_golden_v17/terminus_2_hello-world-context-summarization-linear-history.trajectory"
)
SUMMARIZED = f"{TERMINUS}-context-summarization.trajectory"


def items(path: Path) -> list[Item]:
    return list(IMPORTER.read(Source(path), ImportOptions()))


def runs(path: Path) -> list[Trajectory]:
    return [finish(i) for i in items(path) if isinstance(i, Trajectory)]


def problems(path: Path) -> list[Problem]:
    return [i for i in items(path) if isinstance(i, Problem)]


def write(path: Path, value: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value))
    return path


def step(number: int, source: str, message: Any = "hi", **fields: Any) -> dict[str, Any]:
    return {"step_id": number, "source": source, "message": message, **fields}


def document(*steps: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {
        "schema_version": "ATIF-v1.5",
        "session_id": "s-1",
        "agent": {"name": "demo", "version": "1"},
        "steps": list(steps) or [step(1, "user", "Do it."), step(2, "agent", "Done.")],
        **fields,
    }


def meta(run: Trajectory) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(run.metadata or "{}")
    return found


# Oracle: the table of expected counts. Own agent steps leave copied context out.
COUNTS = [
    (f"{GOLDEN}/openhands/hello-world.trajectory.json", 6, 2, 2, 1, 220, 80, 0),
    (f"{SUMMARIZED}.json", 10, 7, 7, 8, 6502, 690, 690),
    (f"{SUMMARIZED}.summarization-1-answers.json", 7, 1, 0, 2, 700, 120, 120),
    (f"{SUMMARIZED}.summarization-1-questions.json", 2, 1, 0, 0, 100, 20, 20),
    (f"{SUMMARIZED}.summarization-1-summary.json", 5, 1, 0, 2, 500, 200, 200),
    (f"{TERMINUS}-invalid-json.trajectory.json", 5, 4, 3, 4, 2417, 200, 0),
    (f"{TERMINUS}-timeout.trajectory.json", 4, 3, 3, 3, 882, 115, 115),
    (f"{LINEAR}.json", 13, 7, 0, 8, 2252 + 4250, 160 + 530, 0),
    (f"{COPY}.json", 13, 7, 0, 8, 2252 + 4250, 160 + 530, 0),
]


@pytest.mark.parametrize("expected", COUNTS, ids=lambda row: Path(row[0]).stem)
def test_goldens_have_the_counts_of_provenance(
    real_data: Path, expected: tuple[str, int, int, int, int, int, int, int]
) -> None:
    name, steps, agent, calls, results, prompt, completion, ids = expected
    run = runs(real_data / name)[0]
    assert (run.n_steps, run.n_agent_steps, run.n_tool_calls) == (steps, agent, calls)
    assert sum(len(s.observations) for s in run.steps) == results
    assert (run.prompt_tokens, run.completion_tokens) == (prompt, completion)
    assert sum(len(s.completion_token_ids or ()) for s in run.steps) == ids
    assert sum(len(s.logprobs or ()) for s in run.steps) == ids


def test_goldens_fit_the_schema(real_data: Path) -> None:
    for path in sorted((real_data / "atif").rglob("*.json")):
        table = trajectories_to_arrow(runs(path))
        assert validate(table, "trajectories") == []


def test_copied_context_is_kept_and_not_counted(real_data: Path) -> None:
    run = runs(real_data / f"{LINEAR}.json")[0]
    copied = [s for s in run.steps if s.is_copied]
    assert [s.actor for s in copied] == ["user", "user", "agent", "user"]
    assert run.n_agent_steps == sum(s.actor == "agent" for s in run.steps) - 1


def test_totals_that_include_sub_agents_do_not_become_the_runs_own(real_data: Path) -> None:
    run = runs(real_data / f"{SUMMARIZED}.json")[0]
    assert meta(run)["final_metrics"]["total_prompt_tokens"] == 7802
    assert run.prompt_tokens == 6502
    assert run.cost_usd == pytest.approx(0.029805 - 0.00325 - 0.00045 - 0.00295)


def test_two_files_of_one_run_are_one_trajectory(real_data: Path) -> None:
    (run,) = runs(real_data / f"{LINEAR}.json")
    assert [s.actor for s in run.steps[:5]] == ["user", "agent", "agent", "agent", "environment"]
    assert run.steps[5].is_copied
    assert runs(real_data / f"{LINEAR}.cont-1.json") == []
    (note,) = problems(real_data / f"{LINEAR}.cont-1.json")
    assert note.kind == "ignored"
    assert "linear-history.trajectory.json and is read with it" in note.reason


def test_a_golden_and_its_copy_in_a_later_version_are_one_run(real_data: Path) -> None:
    old, new = (runs(real_data / f"{name}.json")[0] for name in (LINEAR, COPY))
    assert meta(old)["schema_version"] != meta(new)["schema_version"]
    assert old.trajectory_id == new.trajectory_id
    assert old.task_id == new.task_id


def test_runs_that_share_a_placeholder_session_stay_apart(real_data: Path) -> None:
    found = [runs(real_data / row[0])[0] for row in COUNTS[:-1]]
    sessions = [meta(run)["session_id"] for run in found]
    assert sessions.count("NORMALIZED_SESSION_ID") == 5
    assert len({run.trajectory_id for run in found}) == len(found)


def test_reading_twice_gives_the_same(real_data: Path) -> None:
    path = real_data / f"{SUMMARIZED}.json"
    assert items(path) == items(path)


def test_sub_agents_in_files_hang_on_the_step_that_called_them(real_data: Path) -> None:
    parent, *children = runs(real_data / f"{SUMMARIZED}.json")
    assert [c.agent for c in children] == [
        f"terminus-2-summarization-{n}" for n in ("summary", "questions", "answers")
    ]
    assert {(c.parent_id, c.parent_step, c.relation) for c in children} == {
        (parent.trajectory_id, 4, "sub-agent")
    }
    assert parent.steps[4].actor == "environment"
    assert parent.parent_id is None


@pytest.mark.parametrize("name", ["answers", "questions", "summary"])
def test_a_sub_agent_file_alone_gives_the_same_trajectory(real_data: Path, name: str) -> None:
    with_parent = runs(real_data / f"{SUMMARIZED}.json")
    (alone,) = runs(real_data / f"{SUMMARIZED}.summarization-1-{name}.json")
    assert alone in with_parent


def test_an_answer_that_could_not_be_parsed_is_a_format_error(real_data: Path) -> None:
    run = runs(real_data / f"{TERMINUS}-invalid-json.trajectory.json")[0]
    assert (run.n_format_errors, run.n_tool_errors) == (1, 1)
    assert run.steps[1].tool_calls == ()
    assert run.steps[1].observations[0].text is not None
    assert run.steps[1].observations[0].text.startswith("Previous response had parsing errors")


def test_the_task_is_taken_out_of_the_prompt_that_frames_it(real_data: Path) -> None:
    found = [runs(real_data / row[0])[0] for row in COUNTS if "summarization-1" not in row[0]]
    asked = 'Create a file called hello.txt with "Hello, world!" as the content.'
    assert {(run.goal or "").strip() for run in found} == {asked}
    assert len({run.task_id for run in found}) == 1


def test_a_traces_export_is_the_same_run_again_and_ignored(real_data: Path) -> None:
    found = items(real_data / f"{TERMINUS}-invalid-json.traces.json")
    assert len(found) == 1
    assert isinstance(found[0], Problem)
    assert found[0].kind == "ignored"
    assert "trajectory.json" in found[0].reason


def test_tool_definitions_and_sampling_are_kept(real_data: Path) -> None:
    (openhands,) = runs(real_data / f"{GOLDEN}/openhands/hello-world.trajectory.json")
    assert [t["function"]["name"] for t in json.loads(openhands.tools or "")][:2] == [
        "execute_bash",
        "think",
    ]
    run = runs(real_data / f"{TERMINUS}-timeout.trajectory.json")[0]
    assert {s.sampling for s in run.steps if s.actor == "agent"} == {'{"temperature":0.7}'}


def test_no_outcome_is_guessed_from_a_trajectory(real_data: Path) -> None:
    for row in COUNTS:
        for run in runs(real_data / row[0]):
            assert (run.success, run.reward, run.status) == (None, None, None)
        assert not any(isinstance(i, Label) for i in items(real_data / row[0]))


def test_exactly_the_files_of_this_format_are_detected(real_data: Path) -> None:
    found = {
        path.relative_to(real_data).parts[0]
        for path in real_data.rglob("*")
        if path.is_file() and IMPORTER.detect(Source(path)) > 0
    }
    assert found == {"atif"}
    files = [p for p in (real_data / "atif").rglob("*") if p.is_file()]
    assert all(IMPORTER.detect(Source(p)) >= 0.9 for p in files)


def test_detection_does_not_look_at_the_name(real_data: Path, tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    shutil.copy(real_data / f"{TERMINUS}-timeout.trajectory.json", path)
    assert IMPORTER.detect(Source(path)) == 0.95


@pytest.mark.parametrize("version", range(9))
def test_every_version_is_read(tmp_path: Path, version: int) -> None:
    tag = f"ATIF-v1.{version}"
    path = write(tmp_path / "t.json", document(schema_version=tag))
    assert IMPORTER.detect(Source(path)) == 0.95
    (run,) = runs(path)
    assert [s.text for s in run.steps] == ["Do it.", "Done."]
    assert meta(run)["schema_version"] == tag


def test_a_longer_snapshot_is_the_same_run(tmp_path: Path) -> None:
    steps = [step(1, "user", "Go."), step(2, "agent", "One."), step(3, "agent", "Two.")]
    (short,) = runs(write(tmp_path / "a.json", document(*steps[:2])))
    (long,) = runs(write(tmp_path / "elsewhere" / "b.json", document(*steps)))
    assert short.trajectory_id == long.trajectory_id
    assert short.n_steps < long.n_steps


def test_attempts_that_share_a_session_are_told_apart_by_their_first_call() -> None:
    first, second = (
        document(step(1, "user", "Go."), step(2, "agent", said), session_id="unknown")
        for said in ("One way.", "Another way.")
    )
    assert identify(first) != identify(second)


def test_attempts_that_say_the_same_are_told_apart_by_their_time() -> None:
    first, second = (
        document(step(1, "user"), step(2, "agent", timestamp=f"2026-01-0{day}T00:00:00Z"))
        for day in (1, 2)
    )
    assert identify(first) != identify(second)


def test_the_id_begins_with_the_start_of_the_run() -> None:
    def started(day: int) -> str:
        when = f"2026-01-0{day}T00:00:00Z"
        return identify(document(step(1, "user", timestamp=when), step(2, "agent")))

    assert started(1) < started(2)


def test_the_same_moment_written_otherwise_is_the_same_run() -> None:
    zulu, offset = (
        document(step(1, "user", timestamp=when), step(2, "agent", timestamp=when))
        for when in ("2026-01-01T10:00:00Z", "2026-01-01T11:00:00+01:00")
    )
    assert identify(zulu) == identify(offset)


def test_the_atif_form_of_an_adp_record_is_that_record() -> None:
    own = "arrow-py__arrow.1d70d009.lm_rewrite__nuzjfyur.l13ggwmx_1"
    form = document(agent={"name": "adp", "version": "1.3"}, session_id=own, trajectory_id=own)
    assert identify(form) == adp_identity(own)


def test_a_placeholder_time_is_no_date_and_stays_readable(tmp_path: Path) -> None:
    path = write(tmp_path / "t.json", document(step(1, "user", timestamp="NORMALIZED_TIMESTAMP")))
    (run,) = runs(path)
    assert run.started_at is None
    assert json.loads(run.steps[0].metadata or "")["timestamp"] == "NORMALIZED_TIMESTAMP"


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ({"schema_version": "ATIF-v1.5", "steps": []}, "'steps' is empty"),
        ({"schema_version": "ATIF-v1.5", "steps": ["oops"]}, "no atif record"),
        ({"schema_version": "ATIF-v1.5", "steps": [{"message": "x"}]}, "'source' is missing"),
    ],
)
def test_a_document_without_steps_is_a_problem(tmp_path: Path, value: Any, reason: str) -> None:
    path = write(tmp_path / "t.json", value)
    assert runs(path) == []
    assert [reason in p.reason for p in problems(path)] == [True]


def test_a_broken_record_among_good_ones_is_named_by_line(tmp_path: Path) -> None:
    good = [json.dumps(document(session_id=f"s-{n}")) for n in range(2)]
    path = tmp_path / "runs.jsonl"
    path.write_text("\n".join([good[0], '{"schema_version": "ATIF', '{"a": 1}', good[1]]))
    assert len({run.trajectory_id for run in runs(path)}) == 2
    assert [p.line for p in problems(path)] == [2, 3]
    assert [run.source_uri for run in runs(path)] == [f"{path}#L1", f"{path}#L4"]


def test_totals_serve_where_no_step_tells_its_tokens(tmp_path: Path) -> None:
    totals = {"total_prompt_tokens": 70, "total_completion_tokens": 7, "total_cost_usd": 0.5}
    (run,) = runs(write(tmp_path / "t.json", document(final_metrics=totals)))
    assert (run.prompt_tokens, run.completion_tokens, run.cost_usd) == (70, 7, 0.5)


def test_custom_fields_are_kept(tmp_path: Path) -> None:
    (run,) = runs(
        write(tmp_path / "t.json", document(extra={"a": 1}, notes="by hand", trajectory_id="t-1"))
    )
    kept = meta(run)
    assert (kept["extra"], kept["notes"], kept["trajectory_id"]) == ({"a": 1}, "by hand", "t-1")


@pytest.mark.parametrize(
    "content",
    [b"", b"hello\n", b"{", b"[", b"null", b"[[1]]", b'{"a": \xff}', b"PK\x03\x04", b"\0\1"],
)
def test_detection_raises_on_nothing(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x"
    path.write_bytes(content)
    assert IMPORTER.detect(Source(path)) == 0
