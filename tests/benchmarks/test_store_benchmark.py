"""The benchmark of the store: right answers, equal ones, and a report that says what was seen."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks import flat
from benchmarks.bench import Bench
from benchmarks.measure import (
    DisagreementError,
    Row,
    environment,
    percentile,
    rotated,
    rows_of,
    time_rounds,
)
from benchmarks.memory import measure_memory
from benchmarks.peers import PEERS, Answers, Fetches, FetchesArrow, Ingests, IngestsArrow, Peer
from benchmarks.report import markdown, tables
from benchmarks.store import choose, main, run
from benchmarks.workload import (
    NEEDLE,
    QUESTIONS,
    RightAnswers,
    Workload,
    normal,
    records,
    whole,
    whole_of_record,
)
from trajstore import Observation, Step, ToolCall, Trajectory
from trajstore.schema import finish, steps_to_arrow, trajectories_to_arrow

pytestmark = pytest.mark.filterwarnings("ignore")  # what the peers' packages say is not ours

ROOT = Path(__file__).resolve().parents[2]


def installed(kind: type[Peer]) -> type[Peer]:
    missing = kind.missing()
    if missing:
        pytest.skip(f"needs {' '.join(missing)}")
    return kind


def workload(n: int = 20, batch: int = 12) -> Workload:
    return Workload(n, seed=3, batch=batch, sample=7)


def filled(kind: type[Peer], folder: Path, work: Workload) -> Peer:
    """A settled and opened store with the whole workload in it, in two commits."""
    owner = next(k for k in PEERS if k.name == (kind.shares or kind.name))
    store = installed(owner)(folder)
    assert isinstance(store, Ingests)
    for runs in work.batches():
        store.ingest(records(runs)[: store.sample])
    store.settle()
    store.close()
    found = store if owner is kind else installed(kind)(folder)
    found.open()
    return found


def kinds_that(protocol: type) -> list[Any]:
    return [pytest.param(k, id=k.name) for k in PEERS if issubclass(k, protocol)]


@pytest.mark.parametrize("kind", kinds_that(Answers))
def test_every_store_gives_the_right_answer_to_every_question(
    kind: type[Peer], tmp_path: Path
) -> None:
    work = workload()
    store = filled(kind, tmp_path, work)
    assert isinstance(store, Answers)
    for question in QUESTIONS:
        work.check_answer(kind.name, question, store.answer(question))


@pytest.mark.parametrize("kind", kinds_that(Fetches))
def test_every_store_gives_trajectories_back_whole(kind: type[Peer], tmp_path: Path) -> None:
    work = workload()
    store = filled(kind, tmp_path, work)
    assert isinstance(store, Fetches)
    ids = store.stored() or work.ids
    work.check(kind.name, "one", store.fetched(store.fetch(ids[:1])), ids[:1])
    if store.stored() is None:
        work.check(kind.name, "many", store.fetched(store.fetch(ids)), ids)


@pytest.mark.parametrize("kind", kinds_that(FetchesArrow))
def test_arrow_tables_hold_the_same_trajectories(kind: type[Peer], tmp_path: Path) -> None:
    work = workload()
    store = filled(kind, tmp_path, work)
    assert isinstance(store, FetchesArrow)
    found = store.fetched_arrow(store.fetch_arrow(work.ids))
    work.check(kind.name, "Arrow", found, work.ids)


@pytest.mark.parametrize("kind", kinds_that(IngestsArrow))
def test_arrow_tables_are_stored(kind: type[Peer], tmp_path: Path) -> None:
    runs = workload().first(5)
    store = installed(kind)(tmp_path)
    assert isinstance(store, IngestsArrow)
    before = store.size_bytes()
    store.ingest_arrow(trajectories_to_arrow(runs), steps_to_arrow(runs))
    assert store.size_bytes() > before + 5_000


def test_one_run_measures_every_installed_store(tmp_path: Path) -> None:
    chosen, _ = choose(skip=["mlflow"])
    bench = Bench(
        workload=workload(), peers=chosen, folder=tmp_path, repeats=1, commits=6, quiet=True
    )
    run(bench)
    works = {(row.work, row.store) for row in bench.rows}
    askers = {k.name for k in chosen if issubclass(k, Answers)}
    assert {(q, name) for q in QUESTIONS.values() for name in askers} <= works
    assert ("ingest from Arrow", "zstd level 1, one core") in works
    assert ("small appends, p50", "trajstore") in works


def hand_made() -> list[Trajectory]:
    """Three attempts at one task: two successes of 2 and 1 calls, one unknown; one call fails."""

    def call(tool: str, text: str, *, failed: bool) -> Step:
        return Step(
            actor="agent",
            tool_calls=(ToolCall.of(tool, {"a": 1}, "c"),),
            observations=(Observation(call_id="c", text=text, is_error=failed),),
        )

    good, bad = call("search", "found", failed=False), call("bash", f"{NEEDLE} x", failed=True)
    made = (("t1", True, (good, bad)), ("t2", True, (good,)), ("t3", None, (good,)))
    return [
        finish(
            Trajectory(
                trajectory_id=name,
                task_id="k",
                source="s",
                agent="a",
                model="m",
                success=success,
                steps=steps,
            )
        )
        for name, success, steps in made
    ]


def test_the_right_answers_are_those_counted_by_hand() -> None:
    right = RightAnswers()
    for trajectory in hand_made():
        right.add(trajectory)
    assert right.to("rates") == [("a", "m", 2, 1.0)]
    assert right.to("histogram") == [("bash", 1), ("search", 3)]
    assert right.to("errors") == [("bash", 1, 1.0), ("search", 3, 0.0)]
    assert right.to("search") == [(1,)]
    assert right.to("shortest") == [("k", "t1", 2), ("k", "t2", 1)]


def test_a_wrong_answer_is_a_disagreement() -> None:
    work = workload()
    list(work.batches())
    right = work.answers.to("histogram")
    wrong = [(right[0][0], right[0][1] + 1), *right[1:]]
    work.check_answer("x", "histogram", list(reversed(right)))
    with pytest.raises(DisagreementError, match="x: histogram"):
        work.check_answer("x", "histogram", wrong)


def test_a_trajectory_with_a_changed_or_missing_step_is_a_disagreement() -> None:
    work = workload()
    runs = {r.trajectory_id: r for batch in work.batches() for r in batch}
    found = [whole(runs[i]) for i in work.ids]
    work.check("x", "many", found, work.ids)
    cut = (*found[0][:-1], found[0][-1][:-1])
    with pytest.raises(DisagreementError, match="did not come back whole"):
        work.check("x", "many", [cut, *found[1:]], work.ids)
    with pytest.raises(DisagreementError, match="8 trajectories came back"):
        work.check("x", "many", [*found, found[0]], work.ids)


def test_dicts_and_flat_rows_hold_the_whole_trajectory() -> None:
    for trajectory in workload().first(3):
        record = records([trajectory])[0]
        rows = flat.wholes([flat.trajectory_row(record)], flat.step_rows(record))
        assert rows == [whole_of_record(record)] == [whole(trajectory)]


def test_answers_are_compared_without_order_and_to_nine_places() -> None:
    assert normal([["b", 1 / 3], ("a", 0.1 + 0.2)]) == [("a", 0.3), ("b", 0.333333333)]


def test_a_ratio_above_one_is_good_for_times_and_for_rates() -> None:
    slow = rows_of("w", {"peer": [30.0], "trajstore": [10.0]}, "ms", targets={("w", "peer"): 4})
    fast = rows_of("w", {"peer": [5.0], "trajstore": [10.0]}, "MB/s", targets={("w", "peer"): 2})
    assert [r.store for r in slow] == ["trajstore", "peer"]
    assert (slow[1].ratio, slow[1].met) == (3.0, False)
    assert (fast[1].ratio, fast[1].met) == (2.0, True)


def test_rounds_rotate_check_and_stop_at_the_budget() -> None:
    seen: list[str] = []
    jobs = {name: lambda number: number for name in ("a", "b")}
    times = time_rounds(
        jobs, repeats=3, budget_s=10, check=lambda name, number, _: seen.append(f"{name}{number}")
    )
    assert seen == ["a0", "b0", "b1", "a1", "a2", "b2"]
    assert {name: len(found) for name, found in times.items()} == {"a": 3, "b": 3}
    assert all(len(found) == 0 for found in time_rounds(jobs, repeats=2, budget_s=0).values())


def test_names_rotate_and_percentiles_are_values_that_occur() -> None:
    assert rotated(["a", "b", "c"], 4) == ["b", "c", "a"]
    assert [percentile(range(1, 101), p) for p in (0.5, 0.99, 1.0)] == [50, 99, 100]
    assert percentile([7], 0.99) == 7


def test_a_report_shows_medians_targets_and_what_was_left_out() -> None:
    rows = [
        Row(work="w", store="trajstore", value=2.0, unit="ms", runs=(1.0, 3.0)),
        Row(work="w", store="peer", value=5.0, unit="ms", ratio=2.5, target=3.0),
    ]
    text = markdown({"python": "3.x"}, rows, ["other (pip install other)"])
    assert "| trajstore | 2.00 ms | 1.00 - 3.00" in tables(rows)
    assert "- python: 3.x" in text
    assert "- not measured: other (pip install other)" in text
    assert "0 of 1 targets met.\n- missed: w against peer: 2.50 x, target 3.00 x" in text


def test_a_store_whose_package_is_missing_is_left_out_with_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kind = next(k for k in PEERS if k.name == "jsonl-orjson")
    monkeypatch.setattr(kind, "packages", {"no_such_module": "no-such-package"})
    chosen, lines = choose(only=["jsonl-orjson", "sqlite-steps"])
    assert [k.name for k in chosen] == ["trajstore", "sqlite-steps"]
    assert "jsonl-orjson (pip install no-such-package)" in lines


def test_the_environment_names_machine_versions_and_command() -> None:
    about = environment(["python", "-m", "benchmarks.store"])
    assert about["command"] == "python -m benchmarks.store"
    assert "cores" in about["machine"]
    assert "pyarrow " in about["versions"]


def test_the_command_writes_markdown_and_json(tmp_path: Path) -> None:
    out = tmp_path / "results"
    short = ["--trajectories", "8", "--repeats", "1", "--commits", "3", "-o", str(out)]
    assert main([*short, "--only", "sqlite-steps", "jsonl-std", "--folder", str(tmp_path)]) == 0
    report = json.loads((out / "store.json").read_text())
    stores = {row["store"] for row in report["rows"] if row["work"] == "size on disk"}
    assert stores == {"trajstore", "sqlite-steps", "jsonl-std"}
    assert "--trajectories 8" in report["about"]["command"]
    assert (out / "store.md").read_text().startswith("## Results")
    assert [p.name for p in tmp_path.iterdir()] == ["results"]


def test_a_disagreement_ends_the_command_with_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    kind = next(k for k in PEERS if k.name == "sqlite-steps")
    monkeypatch.setattr(kind, "answer", lambda _self, _question: [("nobody", 0)])
    short = ["--trajectories", "4", "--repeats", "1", "--parts", "read", "--folder", str(tmp_path)]
    assert main([*short, "--only", "sqlite-steps"]) == 1
    assert "The stores disagree: sqlite-steps: rates" in capsys.readouterr().err


def test_it_runs_as_a_file_too() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "benchmarks" / "store.py"), "--help"],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT / "tests",
    )
    assert "--trajectories" in done.stdout


def test_memory_is_watched_while_a_file_is_imported(tmp_path: Path) -> None:
    pytest.importorskip("psutil")
    bench = Bench(workload=workload(), peers=[], folder=tmp_path, quiet=True)
    measure_memory(bench, 0.0005)
    memory, speed = bench.rows
    assert memory.value > 30
    assert (memory.unit, speed.unit) == ("MB", "MB/s")
