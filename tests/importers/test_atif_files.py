from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from trajstore.importers.atif import IMPORTER
from trajstore.importers.atif_files import (
    Segment,
    chain,
    head,
    is_atif,
    references,
    referrer,
    resolve,
)
from trajstore.importers.items import ImportOptions, Item, Problem
from trajstore.importers.source import Source
from trajstore.schema import Trajectory, finish


def write(path: Path, value: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value))
    return path


def document(said: str, *, calls: str | None = None, **fields: Any) -> dict[str, Any]:
    """One user step, one agent step, and where asked a hand-over to the file ``calls``."""
    steps: list[dict[str, Any]] = [
        {"step_id": 1, "source": "user", "message": "Go."},
        {"step_id": 2, "source": "agent", "message": said},
    ]
    if calls is not None:
        result = {"subagent_trajectory_ref": [{"trajectory_path": calls}]}
        observation = {"results": [result]}
        steps.append({"step_id": 3, "source": "system", "message": "", "observation": observation})
    return {
        "schema_version": "ATIF-v1.6",
        "session_id": "s",
        "agent": {"name": "demo", "version": "1"},
        "steps": steps,
        **fields,
    }


def items(path: Path) -> list[Item]:
    return list(IMPORTER.read(Source(path), ImportOptions()))


def runs(path: Path) -> list[Trajectory]:
    return [finish(i) for i in items(path) if isinstance(i, Trajectory)]


def problems(path: Path) -> list[Problem]:
    return [i for i in items(path) if isinstance(i, Problem)]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"schema_version": "ATIF-v1.8", "steps": []}, True),
        ({"schema_version": "ATIF-v1.8"}, False),
        ({"schema_version": "1.2.0", "steps": []}, False),
        ({"schema_version": 3, "steps": []}, False),
        (["ATIF-v1.8"], False),
        (None, False),
    ],
)
def test_only_tagged_documents_with_steps_are_atif(value: Any, *, expected: bool) -> None:
    assert is_atif(value) is expected


def test_a_reference_means_the_file_of_that_name(tmp_path: Path) -> None:
    main, part = write(tmp_path / "trajectory.json", {}), write(tmp_path / "sub" / "a.json", {})
    assert resolve(main, "sub/a.json") == part


def test_a_reference_means_the_file_with_the_same_prefix(tmp_path: Path) -> None:
    main = write(tmp_path / "x-long.trajectory.json", {})
    write(tmp_path / "x.trajectory.cont-1.json", {})
    mine = write(tmp_path / "x-long.trajectory.cont-1.json", {})
    assert resolve(main, "trajectory.cont-1.json") == mine


@pytest.mark.parametrize(
    "reference",
    ["../secret.json", "/etc/hosts", "s3://bucket/a.json", "", None, 7, "sub/../../secret.json"],
)
def test_a_reference_never_leaves_the_folder(tmp_path: Path, reference: Any) -> None:
    write(tmp_path / "secret.json", {})
    assert resolve(write(tmp_path / "run" / "trajectory.json", {}), reference) is None


def test_references_come_with_the_position_of_their_step() -> None:
    found = list(references(document("x", calls="a.json")))
    assert found == [(2, {"trajectory_path": "a.json"})]


def test_a_chain_of_three_files_is_one_run(tmp_path: Path) -> None:
    names = ["trajectory.json", "trajectory.cont-1.json", "trajectory.cont-2.json"]
    for n, name in enumerate(names):
        further = {"continued_trajectory_ref": names[n + 1]} if n < 2 else {}
        write(tmp_path / name, document(f"part {n}", **further))
    (run,) = runs(tmp_path / names[0])
    assert [s.text for s in run.steps if s.actor == "agent"] == ["part 0", "part 1", "part 2"]
    assert len(json.loads(run.metadata or "")["continuations"]) == 2
    for name in names[1:]:
        assert [p.kind for p in problems(tmp_path / name)] == ["ignored"]
        assert "continues trajectory.json" in problems(tmp_path / name)[0].reason


def test_a_continuation_with_any_name_is_found(tmp_path: Path) -> None:
    write(tmp_path / "one.json", document("first", continued_trajectory_ref="another.json"))
    later = write(tmp_path / "another.json", document("second"))
    assert runs(later) == []
    assert len(runs(tmp_path / "one.json")[0].steps) == 4


def test_a_missing_continuation_is_said_and_the_first_part_kept(tmp_path: Path) -> None:
    path = write(tmp_path / "t.json", document("first", continued_trajectory_ref="gone.json"))
    assert len(runs(path)) == 1
    (problem,) = problems(path)
    assert problem.kind == "bad"
    assert "'gone.json' does not lie beside it" in problem.reason


def test_a_continuation_without_its_first_part_is_a_run_of_its_own(tmp_path: Path) -> None:
    (run,) = runs(write(tmp_path / "trajectory.cont-1.json", document("second")))
    assert run.n_agent_steps == 1


def test_files_that_continue_each_other_end(tmp_path: Path) -> None:
    write(tmp_path / "a.json", document("a", continued_trajectory_ref="b.json"))
    write(tmp_path / "b.json", document("b", continued_trajectory_ref="a.json"))
    first = Segment(
        document=document("a", continued_trajectory_ref="b.json"), path=tmp_path / "a.json"
    )
    segments, missing = chain(first)
    assert [s.path for s in segments] == [tmp_path / "a.json", tmp_path / "b.json"]
    assert missing == "a.json"
    assert len(head(first)) == 2


def test_sub_agents_that_call_each_other_end(tmp_path: Path) -> None:
    write(tmp_path / "a.json", document("a", calls="b.json"))
    write(tmp_path / "b.json", document("b", calls="a.json"))
    assert {run.n_agent_steps for run in runs(tmp_path / "a.json")} == {1}


def test_a_sub_agent_of_a_continuation_hangs_on_the_whole_run(tmp_path: Path) -> None:
    write(tmp_path / "t.json", document("one", continued_trajectory_ref="t.cont-1.json"))
    write(tmp_path / "t.cont-1.json", document("two", calls="sub.json"))
    alone = write(tmp_path / "sub.json", document("three"))
    parent, child = runs(tmp_path / "t.json")
    assert (child.parent_id, child.parent_step) == (parent.trajectory_id, 4)
    assert runs(alone) == [child]


def test_a_sub_agent_of_a_sub_agent_has_its_place_below_both(tmp_path: Path) -> None:
    main = document("one", calls="sub.json")
    write(tmp_path / "t.json", main)
    write(tmp_path / "sub.json", document("two", calls="deep.json", agent={"name": "middle"}))
    write(tmp_path / "deep.json", document("three", agent={"name": "low"}))
    top, middle, low = runs(tmp_path / "t.json")
    assert [middle.parent_id, low.parent_id] == [top.trajectory_id, middle.trajectory_id]
    assert low.task_id == f"{top.task_id}/middle/low"
    assert runs(tmp_path / "deep.json") == [low]


def test_a_sub_agent_in_a_folder_below_is_found(tmp_path: Path) -> None:
    write(tmp_path / "t.json", document("one", calls="subs/a.json"))
    alone = write(tmp_path / "subs" / "a.json", document("two"))
    parent, child = runs(tmp_path / "t.json")
    assert child.parent_id == parent.trajectory_id
    assert runs(alone) == [child]


def test_a_sub_agent_file_that_is_not_there_stays_a_reference(tmp_path: Path) -> None:
    path = write(tmp_path / "t.json", document("one", calls="gone.json"))
    (run,) = runs(path)
    kept = json.loads(run.steps[2].metadata or "")["results"]
    assert kept == [{"subagent_trajectory_ref": [{"trajectory_path": "gone.json"}]}]


def test_embedded_sub_agents_are_trajectories_with_a_parent(tmp_path: Path) -> None:
    handed = {
        "results": [{"source_call_id": "c1", "subagent_trajectory_ref": [{"trajectory_id": "w"}]}]
    }
    call = {"tool_call_id": "c1", "function_name": "task", "arguments": {}}
    main = document("x", schema_version="ATIF-v1.7")
    main["steps"][1] |= {"tool_calls": [call], "observation": handed}
    main["subagent_trajectories"] = [document("y", trajectory_id="w", agent={"name": "worker"})]
    parent, child = runs(write(tmp_path / "t.json", main))
    assert (child.parent_id, child.parent_step, child.relation) == (
        parent.trajectory_id,
        1,
        "sub-agent",
    )
    assert child.task_id == f"{parent.task_id}/worker"
    assert parent.steps[1].observations[0].call_id == "c1"
    assert "subagent_trajectories" not in (parent.metadata or "")


def test_embedded_ids_that_repeat_in_another_parent_do_not_meet(tmp_path: Path) -> None:
    parents = [
        document(
            said, session_id=said, subagent_trajectories=[document("y", trajectory_id="sub-1")]
        )
        for said in ("a", "b")
    ]
    children = [runs(write(tmp_path / f"{n}.json", p))[1] for n, p in enumerate(parents)]
    assert children[0].trajectory_id != children[1].trajectory_id


def test_in_a_large_folder_files_named_alike_are_still_found(tmp_path: Path) -> None:
    for n in range(70):
        write(tmp_path / f"other-{n}.json", {})
    write(tmp_path / "t.json", document("one", continued_trajectory_ref="t.cont-1.json"))
    later = write(tmp_path / "t.cont-1.json", document("two"))
    found = referrer(later)
    assert found is not None
    assert found.segment.path == tmp_path / "t.json"


def test_neighbours_that_are_no_json_do_no_harm(tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text('{"continued_trajectory_ref": ')
    (tmp_path / "list.json").write_text('["trajectory_path"]')
    assert referrer(write(tmp_path / "t.json", document("one"))) is None


def test_documents_in_a_list_have_no_neighbours(tmp_path: Path) -> None:
    write(tmp_path / "b.json", document("second"))
    path = write(tmp_path / "a.json", [document("one", continued_trajectory_ref="b.json")])
    assert [len(run.steps) for run in runs(path)] == [2]
    assert len(problems(path)) == 1
