from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import trajstore
from trajstore import Batch, Label, Observation, Pool, Step, ToolCall, Trajectory
from trajstore.errors import SchemaError
from trajstore.schema import finish, steps_to_arrow, trajectories_to_arrow
from trajstore.testing import generate, sample_trajectories, sample_trajectory


def run(name: str = "a", steps: int = 2, **changes: object) -> Trajectory:
    said = tuple(Step(actor="agent", text=f"step {n}") for n in range(steps))
    base = Trajectory(trajectory_id=name, task_id="t", source="test", steps=said)
    return finish(replace(base, **changes))  # type: ignore[arg-type]


def test_what_was_appended_comes_back_equal_in_every_field(pool: Pool) -> None:
    runs = sample_trajectories(20, seed=3)
    pool.append(runs)
    for stored, given_run in zip(pool.get_many([r.trajectory_id for r in runs]), runs, strict=True):
        assert replace(stored, imported_at=given_run.imported_at) == given_run


def test_the_same_run_twice_is_one_copy(pool: Pool) -> None:
    assert pool.append(run()).added == 1
    again = pool.append(run())
    assert (again.added, again.already) == (0, 1)
    assert pool.sql("select count(*) from steps").fetchall() == [(2,)]


def test_a_longer_version_replaces_the_shorter_one(pool: Pool) -> None:
    pool.append(run(steps=2))
    assert pool.append(run(steps=5)).replaced == 1
    assert pool.sql("select n_steps from trajectories").fetchall() == [(5,)]
    assert pool.sql("select count(*) from steps").fetchall() == [(5,)]


def test_a_shorter_version_changes_nothing(pool: Pool) -> None:
    pool.append(run(steps=5))
    assert pool.append(run(steps=2)).already == 1
    assert len(pool.get_many(["a"])[0].steps) == 5


def test_versions_of_one_run_in_one_batch_leave_the_longest(pool: Pool) -> None:
    report = pool.append([run(steps=1), run(steps=3), run(steps=2)])
    assert (report.added, report.already) == (1, 2)
    assert len(pool.get_many(["a"])[0].steps) == 3


def test_another_outcome_of_a_run_that_is_there_is_a_conflict(pool: Pool) -> None:
    pool.append([run(success=False, reward=0.0), run("b", success=True)])
    later = run(success=True, reward=1.0, source_uri="new.jsonl")
    report = pool.append([later, run("b", success=True), run("c")])
    (found,) = report.conflicts
    assert (found.trajectory_id, found.source_uri, found.reward) == ("a", "new.jsonl", 1.0)
    assert str(found) == "success, reward 1; the stored one (no success, reward 0) stays"
    assert pool.sql("select reward from trajectories order by 1").fetchall()[0] == (0.0,)


def test_another_outcome_in_one_batch_is_a_conflict(pool: Pool) -> None:
    report = pool.append([run(reward=0.0), run(reward=1.0), run(steps=1, reward=2.0)])
    assert [c.reward for c in report.conflicts] == [1.0]


def test_a_reward_that_is_no_number_conflicts_with_one_and_not_with_itself(pool: Pool) -> None:
    nan = float("nan")
    pool.append([run("a", reward=nan), run("b", reward=1.0)])
    report = pool.append([run("a", reward=nan), run("b", reward=nan)])
    assert [c.trajectory_id for c in report.conflicts] == ["b"]


def test_a_run_that_ended_replaces_the_same_run_still_running(pool: Pool) -> None:
    pool.append(run(status="running"))
    assert pool.append(run(status="terminated")).replaced == 1


def test_an_older_snapshot_still_has_the_shorter_version(pool: Pool) -> None:
    before = pool.append(run(steps=2)).snapshot
    pool.append(run(steps=5))
    assert pool.at(before).sql("select count(*) from steps").fetchall() == [(2,)]


def test_the_same_label_twice_is_one_row(pool: Pool) -> None:
    label = Label(trajectory_id="a", evaluator="tests", success=True)
    assert pool.append([run(), label, label]).labels == 1
    again = pool.label([label])
    assert (again.labels, again.labels_already) == (0, 1)


def test_plain_dicts_are_appended_too(pool: Pool) -> None:
    call = {"name": "search", "arguments": {"q": "x"}}
    steps = [{"actor": "user", "text": "go"}, {"actor": "agent", "tool_calls": [call]}]
    pool.append({"task_id": "t", "success": True, "steps": steps})
    rows = pool.sql("select name, arguments from tool_calls").fetchall()
    assert rows == [("search", '{"q":"x"}')]


def test_steps_that_do_not_fit_their_trajectory_are_refused(pool: Pool) -> None:
    good = run(steps=2)
    batch = Batch(
        trajectories=trajectories_to_arrow([good]), steps=steps_to_arrow([good]).slice(0, 1)
    )
    with pytest.raises(SchemaError, match="a says n_steps=2 and comes with 1"):
        pool.append(batch)
    assert pool.sql("select count(*) from trajectories").fetchall() == [(0,)]


def test_steps_without_their_trajectory_are_refused(pool: Pool) -> None:
    with pytest.raises(SchemaError, match="steps of a come without their trajectory"):
        pool.append(Batch(steps=steps_to_arrow([run()])))


def test_a_wrong_type_is_refused_with_table_and_column(pool: Pool) -> None:
    table = trajectories_to_arrow([run(steps=0)])
    at = table.schema.get_field_index("reward")
    with pytest.raises(SchemaError, match="trajectories: column 'reward': type string"):
        pool.append(Batch(trajectories=table.set_column(at, "reward", pa.array(["high"]))))


def test_something_else_is_refused_by_name(pool: Pool) -> None:
    with pytest.raises(SchemaError, match="Cannot append a int"):
        pool.append([3])  # type: ignore[list-item]


def test_half_a_surrogate_pair_is_kept_as_its_escape(pool: Pool) -> None:
    pool.append(replace(run(steps=0), steps=(Step(actor="user", text="a\ud83d"),)))
    assert pool.get_many(["a"])[0].steps[0].text == "a\\ud83d"


def test_null_and_empty_text_stay_different(pool: Pool) -> None:
    steps = (Step(actor="agent", text=None), Step(actor="agent", text=""))
    pool.append(finish(replace(run(), steps=steps)))
    assert [s.text for s in pool.get_many(["a"])[0].steps] == [None, ""]


def test_rows_lie_sorted_whatever_order_they_came_in(pool: Pool) -> None:
    runs = [run(name) for name in ("c", "a", "b")]
    pool.append(Batch(trajectories=trajectories_to_arrow(runs), steps=steps_to_arrow(runs)))
    rows = pool.sql("select trajectory_id, step_index from steps").fetchall()
    assert rows == sorted(rows)


def test_a_batch_larger_than_a_row_group_comes_back_whole(pool: Pool) -> None:
    runs = list(generate(400, seed=5))
    pool.append(runs)
    n_steps = sum(len(r.steps) for r in runs)
    assert pool.sql("select count(*), sum(n_steps) from trajectories").fetchall() == [
        (400, n_steps)
    ]
    assert pool.sql("select count(*) from steps").fetchall() == [(n_steps,)]


_TEXT = st.text(max_size=20)
_CALLS = st.builds(
    ToolCall.of, _TEXT, st.one_of(st.none(), _TEXT, st.dictionaries(_TEXT, _TEXT)), _TEXT
)
_RESULTS = st.builds(
    Observation,
    text=st.none() | _TEXT,
    call_id=st.none() | _TEXT,
    is_error=st.none() | st.booleans(),
)
_STEPS = st.builds(
    Step,
    actor=st.sampled_from(["system", "user", "agent", "environment"]),
    text=st.none() | _TEXT,
    reasoning=st.none() | _TEXT,
    tool_calls=st.lists(_CALLS, max_size=3).map(tuple),
    observations=st.lists(_RESULTS, max_size=3).map(tuple),
    reward=st.none() | st.floats(allow_nan=False),
    is_copied=st.booleans(),
    prompt_tokens=st.none() | st.integers(0, 2**40),
    completion_token_ids=st.none() | st.lists(st.integers(0, 2**31 - 1), max_size=4).map(tuple),
)


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(steps=st.lists(_STEPS, max_size=4), success=st.none() | st.booleans())
def test_any_steps_come_back_equal(
    tmp_path_factory: pytest.TempPathFactory, steps: list[Step], *, success: bool | None
) -> None:
    store = trajstore.open(tmp_path_factory.mktemp("pool"), durable=False)
    given_run = run(steps=0, success=success)
    given_run = finish(replace(given_run, steps=tuple(steps), source_digest=None))
    store.append(given_run)
    stored = store.get("a")
    assert stored is not None
    assert replace(stored, imported_at=None) == given_run


def test_a_store_in_a_folder_with_a_space_and_an_accent_works(tmp_path: Path) -> None:
    store = trajstore.open(tmp_path / "my pööl", durable=False)
    store.append(sample_trajectory())
    assert store.sql("select count(*) from trajectories").fetchall() == [(1,)]


def test_parts_go_in_as_one_commit(pool: Pool) -> None:
    parts = (Batch(**tables([run(name, steps=n)])) for n, name in ((2, "a"), (3, "b")))
    report = pool.append_parts(parts)
    assert (report.added, report.steps, report.snapshot) == (2, 5, 1)


def test_a_run_in_two_parts_is_refused_and_leaves_nothing(pool: Pool) -> None:
    part = Batch(**tables([run("a")]))
    with pytest.raises(SchemaError, match="Trajectory a is in two parts"):
        pool.append_parts([part, part])
    assert list(Path(pool.root.uri).rglob("*.parquet")) == []


def tables(runs: list[Trajectory]) -> dict[str, pa.Table]:
    at = [replace(r, imported_at=datetime.now(UTC)) for r in runs]
    return {"trajectories": trajectories_to_arrow(at), "steps": steps_to_arrow(at)}
