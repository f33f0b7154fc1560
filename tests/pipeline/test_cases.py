"""Cases that only the whole line can show: store, selection and export together."""

from __future__ import annotations

import hashlib
import json
from dataclasses import fields, replace
from pathlib import Path

import pytest

from trajstore import Label, Observation, Pool, Step, ToolCall, Trajectory
from trajstore import open as open_store
from trajstore.exports import SftOptions, SftRow, sft_rows
from trajstore.pipeline.exporting_atif import export_atif_from
from trajstore.schema import finish
from trajstore.testing import generate, sample_trajectory

CRASHED = replace(
    sample_trajectory(3),
    trajectory_id="crashed",
    status="error",
    error="CUDA out of memory",
    success=None,
    reward=None,
    policy_version="17",
    rewards={"format": 0.5, "length": -0.25},
    metadata='{"metrics":{"tokens_per_s":12.5}}',
)


@pytest.fixture
def generated(pool: Pool) -> Pool:
    pool.append([finish(run) for run in generate(60, seed=2)])
    return pool


def test_case_59_the_crashed_rollout_has_a_value_in_every_field_that_ever_got_lost() -> None:
    unset = {f.name for f in fields(Step) if all(not getattr(s, f.name) for s in CRASHED.steps)}
    assert not unset & {"logprobs", "completion_token_ids", "metadata", "reward", "latency_s"}


def test_case_59_a_crashed_rollout_comes_back_from_the_store_whole(pool: Pool) -> None:
    run = finish(CRASHED)
    pool.append(run)
    (back,) = pool.scan()
    ours = {"ingested_at", "size_bytes"}
    for name in {f.name for f in fields(Trajectory)} - ours:
        assert getattr(back, name) == getattr(run, name), name


def test_case_59_a_crashed_rollout_comes_back_from_its_file_whole(
    pool: Pool, tmp_path: Path
) -> None:
    pool.append(finish(CRASHED))
    export_atif_from(pool, tmp_path / "out")
    other = open_store(tmp_path / "other", durable=False)
    other.import_files(tmp_path / "out")
    assert list(other.scan()) == list(pool.scan())


def test_case_60_a_delete_takes_whole_runs_and_never_part_of_one(generated: Pool) -> None:
    first = next(generated.scan()).trajectory_id
    generated.append(Label(trajectory_id=first, name="note", value=1.0, evaluator="e"))
    generated.delete(f"trajectory_id <= '{first}' OR n_steps > 20")
    halves = generated.sql("""
        SELECT count(*) FROM (SELECT trajectory_id, n_steps FROM trajectories) t
        FULL JOIN (SELECT trajectory_id, count(*) AS found FROM steps GROUP BY 1) s
            USING (trajectory_id)
        WHERE n_steps IS DISTINCT FROM found""").fetchall()
    assert halves == [(0,)]
    assert generated.sql("SELECT count(*) FROM labels").fetchall() == [(0,)]
    assert 0 < len(list(generated.scan())) < 59


def test_case_62_every_layout_holds_the_same_messages() -> None:
    compared = 0
    for run in generate(30, seed=4):
        whole = list(sft_rows([run], options=SftOptions(masked_turns="keep")))
        parts = list(sft_rows([run], options=SftOptions(layout="prompt-completion")))
        rows = [row for row in parts if isinstance(row, SftRow)]
        if rows and isinstance(whole[0], SftRow):
            record = rows[-1].record("prompt-completion")
            there = record["prompt"] + record["completion"]
            assert there == whole[0].messages[: len(there)]
            compared += 1
    assert compared > 20


def test_case_64_empty_turns_go_by_a_named_rule_and_trainable_turns_are_marked() -> None:
    """An odd number of turns, two of them empty, as OpenHands wrote them."""
    steps = (
        Step(actor="user", text="Fix it."),
        Step(actor="agent", text=""),
        Step(actor="user", text=""),
        Step(actor="user", text="Well?"),
        Step(actor="agent", text="Done."),
    )
    run = Trajectory(trajectory_id="t", task_id="t", source="s", steps=steps)
    (row,) = sft_rows([run])
    assert isinstance(row, SftRow)
    assert [m["content"] for m in row.messages] == ["Fix it.", "Well?", "Done."]
    assert row.trainable == [False, False, True]
    assert row.applied["empty-turn"] == 2


def test_case_65_a_set_can_be_made_again_from_its_manifest(generated: Pool, tmp_path: Path) -> None:
    generated.export_sft(tmp_path / "a", where="n_steps < 20")
    told = json.loads((tmp_path / "a" / "manifest.json").read_text())
    generated.append(finish(replace(sample_trajectory(1), trajectory_id="later", success=True)))
    refused = {i for ids in told["refused_ids"].values() for i in ids}
    runs = generated.at(told["snapshot"]).scan(told["filter"])
    ids = [r.trajectory_id for r in runs if r.trajectory_id not in refused]
    assert hashlib.sha256("".join(f"{i}\n" for i in ids).encode()).hexdigest() == told["ids_sha256"]
    counts = [(s["in"], s["out"]) for s in told["selection_funnel"]]
    assert counts[0][0] == 60
    assert [out for _, out in counts[:-1]] == [into for into, _ in counts[1:]]


def test_case_70_run_step_and_call_id_join_calls_with_results_and_tell_missing_ones(
    pool: Pool,
) -> None:
    calls = (ToolCall.of("read", {"p": 1}, "c1"), ToolCall.of("read", {"p": 2}, "c2"))
    step = Step(
        actor="agent",
        tool_calls=calls,
        observations=(Observation(call_id="c2", text="two"), Observation(call_id="c9", text="?")),
    )
    ask = Step(actor="user", text="go")
    end = Step(actor="agent", text="end")
    run = Trajectory(trajectory_id="t", task_id="t", source="s", steps=(ask, step, end))
    pool.append(run)
    joined = pool.sql("""
        SELECT trajectory_id, step_index, call_id, observation FROM tool_calls
        ORDER BY call_index""").fetchall()
    assert joined == [("t", 1, "c1", None), ("t", 1, "c2", "two")]
    (row,) = sft_rows([run])
    assert isinstance(row, SftRow)
    assert (row.applied["call-unanswered"], row.applied["orphan-as-user"]) == (1, 1)
