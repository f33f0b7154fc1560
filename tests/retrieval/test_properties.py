"""What holds for any store, any filter and any query, against a brute-force search."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.retrieval.conftest import run
from trajstore import Pool
from trajstore import open as open_store
from trajstore.retrieval import LEVELS, Hit, Level, Weights, embedder
from trajstore.schema import Insight, Reflection, Skill, Workflow

WORDS = ["fix", "cancel", "craft", "book", "date", "flight", "table", "room", "test", "plan"]
NOW = datetime(2026, 11, 30, tzinfo=UTC)
SIZE = 120
ONLY_SIMILARITY = Weights(similarity=1, success=0, recency=0, efficiency=0)
FAST = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def goal(n: int) -> str:
    return f"{WORDS[n % 10]} {WORDS[n * 7 % 9]} {WORDS[n * 3 % 8]} {n % 5}"


RUNS = [
    run(
        f"r{n:03}",
        goal(n),
        task_id=f"t{n % 30}",
        success=(True, False, None)[n % 3],
        environment=f"env{n % 4}" if n % 5 else None,
    )
    for n in range(SIZE)
]


@pytest.fixture(scope="module")
def pool() -> Iterator[Pool]:
    with tempfile.TemporaryDirectory() as folder:
        store = open_store(Path(folder) / "pool", durable=False)
        store.append(RUNS)
        learn(store)
        store.index(embedder="hashing", levels=LEVELS)
        yield store


def learn(store: Pool) -> None:
    """Memory drawn from one to three runs each, which are named in its text."""
    for n in range(0, SIZE, 3):
        names = tuple(f"r{m % SIZE:03}" for m in range(n, n + 1 + n % 3 * 7, 7))
        text = f"{goal(n)} from {' '.join(names)}"
        about = {"source": "test", "trajectory_ids": names}
        skill = {"language": "python", "description": text, "verified_at": NOW}
        store.add_skills([Skill(name=f"s{n}", code=f"{n}", **skill, **about)])
        store.add_workflows([Workflow(name=text, steps="[]", **about)])
        store.add_insights([Insight(text=text, kind="rule", **about)])
        store.add_reflections(
            [Reflection(task_id="x", text=text, source="test", trajectory_id=n) for n in names]
        )


def tasks_of(hit: Hit) -> set[str | None]:
    """The tasks of the runs that a hit is, or is drawn from."""
    if hit.level in {"trajectory", "step"}:
        return {hit.task_id}
    names = hit.text.partition(" from ")[2].split()
    own = [str(hit.trajectory_id)] if hit.level == "reflection" else names
    return {f"t{int(name[1:]) % 30}" for name in own}


queries = st.lists(st.sampled_from(WORDS), min_size=1, max_size=5).map(" ".join)
modes = st.sampled_from(["text", "vector", "hybrid"])
environments = st.none() | st.sampled_from(["env0", "env1", "env2", "env3", "none"])
ids = st.integers(0, SIZE - 1).map(lambda n: f"t{n % 30}")


@FAST
@given(queries, modes, ids, st.integers(1, 200), st.sampled_from(LEVELS))
def test_the_asking_task_is_never_found_unless_allowed(
    pool: Pool, text: str, mode: str, task: str, k: int, level: Level
) -> None:
    hits = pool.search(text, mode=mode, task_id=task, k=k, level=level)
    assert task not in set().union(*(tasks_of(h) for h in hits))
    asked = {"mode": "vector", "k": 3 * SIZE, "level": level, "now": NOW}
    allowed = pool.search(text, task_id=task, allow_same_task=True, **asked)
    everything = pool.search(text, **asked)
    assert allowed.hits == everything.hits


@FAST
@given(ids, st.integers(0, SIZE - 1), st.sampled_from(LEVELS), modes)
def test_nothing_of_a_near_duplicate_is_found_though_the_task_is_not_in_the_store(
    pool: Pool, unknown: str, n: int, level: Level, mode: str
) -> None:
    """By its goal alone, a new task is kept from all tasks that have a run with that goal."""
    twins = {r.task_id for r in RUNS if r.goal == goal(n)}
    hits = pool.search(
        "plan", mode=mode, k=SIZE, level=level, task_id=f"new/{unknown}", goal=goal(n)
    )
    assert not twins & set().union(*(tasks_of(h) for h in hits))


@FAST
@given(queries, st.integers(1, 130), environments, st.booleans(), st.integers(0, SIZE))
def test_k_come_back_whenever_k_fit(
    pool: Pool,
    text: str,
    k: int,
    environment: str | None,
    success: bool,  # noqa: FBT001
    least: int,
) -> None:
    fits = [
        r
        for r in RUNS
        if (environment is None or r.environment == environment)
        and (not success or r.success)
        and r.trajectory_id >= f"r{least:03}"
    ]
    asked = {"k": k, "environment": environment, "success_only": success}
    where = f"trajectory_id >= 'r{least:03}'"
    for mode in ("vector", "hybrid"):
        hits = pool.search(text, mode=mode, where=where, **asked)
        assert len(hits) == min(k, len(fits))
        assert {h.item_id for h in hits} <= {r.trajectory_id for r in fits}
        assert len({h.item_id for h in hits}) == len(hits)
    shared = [r for r in fits if set(text.split()) & set((r.goal or "").split())]
    hits = pool.search(text, mode="text", where=where, **asked)
    assert len(hits) == min(k, len(shared))


@FAST
@given(queries, st.integers(1, 130))
def test_vector_search_is_the_brute_force_order(pool: Pool, text: str, k: int) -> None:
    model = embedder("hashing")
    cosines = model.embed([r.goal or "" for r in RUNS]) @ model.embed([text], kind="query")[0]
    hits = pool.search(text, mode="vector", k=k, now=NOW)
    assert [h.score for h in hits] == sorted((h.score for h in hits), reverse=True)
    for hit in hits:
        assert hit.parts["cosine"] == pytest.approx(cosines[int(hit.item_id[1:])], abs=2e-6)
    nearest = np.sort(cosines)[::-1][:k].clip(0, 1)
    best = pool.search(text, mode="vector", k=k, now=NOW, weights=ONLY_SIMILARITY)
    assert [h.score for h in best] == pytest.approx(nearest.tolist(), abs=2e-6)


@FAST
@given(queries, modes, st.sampled_from(["trajectory", "step"]), st.integers(1, 30))
def test_every_id_that_is_found_can_be_read(
    pool: Pool, text: str, mode: str, level: str, k: int
) -> None:
    hits = pool.search(text, mode=mode, level=level, k=k)
    for hit in hits:
        read = pool.get(str(hit.trajectory_id))
        assert read is not None
        assert (read.success, read.task_id) == (hit.success, hit.task_id)
        if hit.step_index is not None:
            assert read.steps[hit.step_index].actor == "agent"


@FAST
@given(queries, modes, st.integers(1, 60))
def test_the_same_search_gives_the_same_hits(pool: Pool, text: str, mode: str, k: int) -> None:
    one, other = (pool.search(text, mode=mode, k=k, now=NOW).hits for _ in range(2))
    assert one == other


@FAST
@given(queries, modes, st.integers(1, 200), st.floats(-1, 2), st.none() | st.integers(0, 500))
def test_the_cuts_add_up(
    pool: Pool, text: str, mode: str, k: int, least: float, budget: int | None
) -> None:
    hits = pool.search(text, mode=mode, k=k, min_score=least, token_budget=budget)
    assert len(hits) + sum(hits.cuts.values()) == SIZE
    assert all(h.score >= least for h in hits)


@FAST
@given(
    queries, modes, st.integers(1, 130), st.none() | st.integers(1, 5), st.sampled_from([None, 1.0])
)
def test_repeats_take_no_place_and_k_come_back_whenever_k_others_fit(
    pool: Pool, text: str, mode: str, k: int, per_task: int | None, distinct: float | None
) -> None:
    """The hits are the first of the whole ranking that are no repeats, counted one by one."""
    asked = {"mode": mode, "now": NOW}
    expected: list[str] = []
    tasks: dict[str | None, int] = {}
    texts: set[str] = set()
    for hit in pool.search(text, k=SIZE, **asked):
        if per_task is not None and tasks.get(hit.task_id, 0) >= per_task:
            continue
        tasks[hit.task_id] = tasks.get(hit.task_id, 0) + 1
        if distinct is None or hit.text not in texts:
            expected.append(hit.item_id)
        texts.add(hit.text)
    hits = pool.search(text, k=k, per_task=per_task, distinct=distinct, **asked)
    assert [h.item_id for h in hits] == expected[:k]
    assert len(hits) + sum(hits.cuts.values()) == SIZE
