"""Ranking and sampling over 200 real runs, beside numbers counted from the file itself."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.filters.frames import why
from trajstore import Pool
from trajstore import open as open_store
from trajstore.filters import stage
from trajstore.filters.efficiency import ranked, spl
from trajstore.filters.profiles import pass_at_k, profile
from trajstore.pipeline.selecting import select, summary_frame


@dataclass(frozen=True)
class Attempt:
    """One record of the file: its task, whether it passed, and its tool calls."""

    task: str
    passed: bool
    tools: tuple[str, ...]


@pytest.fixture(scope="module")
def attempts(real_data: Path) -> list[Attempt]:
    records = json.loads((real_data / "tau_bench" / "gpt-4o-airline.json").read_text())
    return [
        Attempt(
            task=f"tau-bench/airline/{r['task_id']}",
            passed=r["reward"] == 1,
            tools=tuple(
                c["function"]["name"] for m in r["traj"] for c in m.get("tool_calls") or ()
            ),
        )
        for r in records
    ]


@pytest.fixture(scope="module")
def airline(real_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Pool:
    pool = open_store(tmp_path_factory.mktemp("airline") / "pool", durable=False)
    pool.import_files(real_data / "tau_bench")
    return pool


def by_task(attempts: list[Attempt]) -> dict[str, list[Attempt]]:
    tasks: dict[str, list[Attempt]] = defaultdict(list)
    for attempt in attempts:
        tasks[attempt.task].append(attempt)
    return tasks


def efficiencies(attempts: list[Attempt]) -> list[float]:
    found: list[float] = []
    for group in by_task(attempts).values():
        best = max(1, min((len(a.tools) for a in group if a.passed), default=1))
        found += [float(a.passed) * best / max(len(a.tools), best) for a in group]
    return found


def test_spl_is_what_the_file_gives(airline: Pool, attempts: list[Attempt]) -> None:
    rows = summary_frame(airline.reader()).rows
    expected = efficiencies(attempts)
    assert sorted(ranked(rows).column("efficiency").to_pylist()) == pytest.approx(sorted(expected))
    assert spl(rows) == pytest.approx(sum(expected) / 200)
    assert spl(rows) == pytest.approx(0.3499255)


def test_the_best_run_of_each_solved_task_is_a_shortest_success(
    airline: Pool, attempts: list[Attempt]
) -> None:
    rows = select(airline, [stage("top-n", n=1)]).rows
    found = dict(
        zip(rows.column("task_id").to_pylist(), rows.column("cost").to_pylist(), strict=True)
    )
    shortest = {
        task: min(len(a.tools) for a in group if a.passed)
        for task, group in by_task(attempts).items()
        if any(a.passed for a in group)
    }
    assert found == shortest
    assert len(found) == 36


def test_tokens_that_nobody_recorded_give_no_efficiency(airline: Pool) -> None:
    assert spl(summary_frame(airline.reader()).rows, "tokens") is None
    dropped = why(select(airline, [stage("efficient", cost="tokens")]))
    assert Counter(dropped.values()) == {"failure": 116, "unknown-cost": 84}


def test_best_of_4_keeps_at_most_two_strategies_a_task(
    airline: Pool, attempts: list[Attempt]
) -> None:
    """Strategies counted here as sets of neighbouring calls."""
    selection = select(airline, [stage("best-of-n", attempts=4, words="tools")])
    kept = Counter(selection.rows.column("task_id").to_pylist())
    marked = {
        task: {
            frozenset(zip(("^", *a.tools), (*a.tools, "$"), strict=True)) for a in group if a.passed
        }
        for task, group in by_task(attempts).items()
    }
    assert kept == {task: min(2, len(s)) for task, s in marked.items() if s}
    assert len(selection) == 53


def test_dapo_keeps_the_26_mixed_tasks(airline: Pool) -> None:
    selection = select(airline, [stage("pass-rate")])
    assert len(set(selection.rows.column("task_id").to_pylist())) == 26
    assert Counter(why(selection).values()) == {"all-fail": 14 * 4, "all-pass": 10 * 4}


def test_pass_at_4_is_the_share_of_tasks_that_were_solved(airline: Pool) -> None:
    """36 of 50 tasks were solved at least once; pass@1 is the success rate, 84 of 200."""
    table = profile(summary_frame(airline.reader()).rows)
    counts = list(zip(table["attempts"].to_pylist(), table["passes"].to_pylist(), strict=True))
    assert sum(pass_at_k(n, c, 4) for n, c in counts) == pytest.approx(36)
    assert sum(pass_at_k(n, c, 1) for n, c in counts) / 50 == pytest.approx(84 / 200)


def test_balanced_takes_every_success_and_as_many_failures(airline: Pool) -> None:
    rows = select(airline, [stage("balanced")]).rows
    assert Counter(rows.column("success").to_pylist()) == {True: 84, False: 84}
