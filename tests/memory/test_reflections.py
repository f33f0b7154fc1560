"""Reflections: kept once, shown by trial or by confidence, and taken out when they do not help."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from trajstore import Label, Pool, Reflection, Store, Trajectory
from trajstore.errors import EndpointError, MemoryItemError
from trajstore.memory import (
    Learning,
    Reflections,
    expire,
    record_uses,
    retract,
    write_reflections,
)
from trajstore.memory.utility import confidences
from trajstore.schema import Step, reflection_id

DAY = datetime(2026, 1, 1, tzinfo=UTC)


def run(
    name: str, *, success: bool | None, task: str = "t", attempt: int | None = None
) -> Trajectory:
    step = Step(actor="agent", text=f"I try {name}.")
    return Trajectory(
        trajectory_id=name,
        task_id=task,
        goal=f"solve {task}",
        source="x",
        attempt=attempt,
        success=success,
        environment="shop",
        steps=(step,),
        n_steps=1,
    )


def used(store: Store, item: str, *outcomes: bool | None) -> None:
    """Runs that were given an item, one after another."""
    before = store.memory("uses").num_rows
    for number, success in enumerate(outcomes, start=before):
        store.append(run(f"use{number}", success=success, task="other"))
        at = DAY + timedelta(minutes=number)
        record_uses(store, f"use{number}", [item], "reflection", given_at=at)


@pytest.fixture
def memory(store: Pool) -> Reflections:
    return Reflections(store)


def test_a_reflection_takes_task_and_trial_from_its_run(memory: Reflections) -> None:
    memory.store.append(run("r", success=False, attempt=2))
    kept = memory.add(" Look first. ", trajectory_id="r", model="m")
    assert (kept.task_id, kept.trial, kept.environment, kept.text) == (
        "t", 2, "shop", "Look first.",
    )  # fmt: skip
    assert kept.reflection_id == reflection_id(
        Reflection(task_id="t", trial=2, text="Look first.", source="x")
    )


def test_the_same_reflection_is_kept_once(memory: Reflections) -> None:
    first, again = (memory.add("Look.", task_id="t", trial=0) for _ in range(2))
    assert first == again
    assert len(memory.all()) == 1


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"text": " ", "task_id": "t"}, "needs a text"),
        ({"text": "x"}, "which task or which run"),
        ({"text": "x", "trajectory_id": "nobody"}, "no trajectory 'nobody'"),
        ({"text": "x", "trajectory_id": "won"}, "won succeeded"),
    ],
    ids=["empty", "nothing", "unknown run", "success"],
)
def test_what_is_no_reflection_on_a_failure_is_refused(
    given: dict[str, str], why: str, memory: Reflections
) -> None:
    memory.store.append(run("won", success=True))
    with pytest.raises(MemoryItemError, match=why):
        memory.add(**given)  # type: ignore[arg-type]
    assert memory.all() == []


def test_the_window_is_the_three_newest_trials_in_order(memory: Reflections) -> None:
    for trial in (4, 0, 3, 1, 2):
        memory.add(f"after {trial}", task_id="t", trial=trial)
    memory.add("of another task", task_id="u", trial=9)
    assert [r.trial for r in memory.window("t")] == [2, 3, 4]
    assert [r.trial for r in memory.window("t", m=1)] == [4]
    assert memory.window("t", m=0) == []


def test_recall_gives_three_by_confidence_and_then_the_newest(memory: Reflections) -> None:
    ids = [memory.add(f"note {n}", task_id="t", trial=n).reflection_id for n in range(5)]
    used(memory.store, ids[1], True)
    used(memory.store, ids[4], False)
    assert [r.trial for r in memory.recall("t")] == [1, 3, 2]
    assert [r.trial for r in memory.recall("t", limit=9)] == [1, 3, 2, 0, 4]
    assert memory.recall("t", environment="elsewhere") == []


def test_a_success_adds_little_and_a_failure_takes_more(memory: Reflections) -> None:
    # 0.5 + 0.05 - 0.15 = 0.4; the run whose outcome is unknown moves nothing.
    item = memory.add("note", task_id="t").reflection_id
    used(memory.store, item, True, False, None)
    (found,) = memory.recall("t")
    assert found.confidence == pytest.approx(0.4)
    assert (found.uses, found.successes, found.failures) == (3, 1, 1)


def test_confidence_stays_between_0_and_1_at_every_use(memory: Reflections) -> None:
    # From 0.9: 1.0 (not 1.05), then 0.85.
    item = memory.add("note", task_id="t").reflection_id
    used(memory.store, item, True, False)
    steep = Learning(start=0.9, gain=0.15, loss=0.15)
    assert confidences(memory.store, "reflection", steep) == {item: pytest.approx(0.85)}


def test_below_the_floor_it_is_not_recalled_and_pruning_says_so(memory: Reflections) -> None:
    # 0.5 - 2 * 0.15 = 0.2 is on the floor and stays; a third failure is below it.
    item = memory.add("note", task_id="t").reflection_id
    used(memory.store, item, False, False)
    assert len(memory.recall("t")) == 1
    used(memory.store, item, False)
    assert memory.recall("t") == []
    assert memory.prune(dry_run=True).retired == (item,)
    assert [r.state for r in memory.all()] == [None]
    assert memory.prune().retired == (item,)
    assert memory.window("t") == []
    assert [(r.state, r.because) for r in memory.all(every=True)] == [("retired", "confidence")]


def test_a_verdict_that_is_taken_back_brings_it_back(memory: Reflections) -> None:
    item = memory.add("note", task_id="t").reflection_id
    used(memory.store, item, False, False, False)
    memory.prune()
    memory.store.label(
        [Label(trajectory_id="use2", name="outcome", success=True, evaluator="human")]
    )
    assert memory.prune().returned == (item,)
    assert [r.reflection_id for r in memory.recall("t")] == [item]


def test_what_was_taken_out_by_hand_stays_out(memory: Reflections) -> None:
    item = memory.add("note", task_id="t").reflection_id
    assert memory.retire([item[:8]], because="wrong") == 1
    assert memory.prune() == memory.prune()
    assert memory.recall("t") == []
    assert memory.get(item).because == "wrong"


def test_expired_ones_come_only_on_request(memory: Reflections) -> None:
    # Exactly as old as its time to live (604,800 s) is served, one second more is not.
    created = memory.add("note", task_id="t").created_at
    assert created is not None
    week = timedelta(days=7)
    assert expire(memory.store, "reflections", week, now=created + week) == 0
    assert len(memory.recall("t", max_age=week, now=created + week)) == 1
    late = created + week + timedelta(seconds=1)
    assert memory.recall("t", max_age=week, now=late) == []
    assert expire(memory.store, "reflections", week, now=late) == 1
    assert memory.recall("t") == []
    assert [r.state for r in memory.recall("t", include_expired=True)] == ["expired"]


def test_taking_a_run_back_takes_its_reflection_out(memory: Reflections) -> None:
    memory.store.append([run("a", success=False), run("b", success=False)])
    memory.add("of a", trajectory_id="a")
    memory.add("of b", trajectory_id="b")
    done = retract(memory.store, ["a"], because="it cheated")
    assert done.retired["reflections"] == 1
    assert [r.text for r in memory.all()] == ["of b"]


def test_similar_tasks_share_what_was_learnt_but_not_with_themselves(memory: Reflections) -> None:
    memory.add("To heat an apple, open the microwave first.", task_id="heat/1")
    memory.add("To heat an egg, open the microwave first.", task_id="heat/2")
    gone = memory.add("Heat nothing.", task_id="heat/3")
    memory.retire([gone.reflection_id], because="wrong")
    found = memory.search("heat an apple in the microwave", task_id="heat/1")
    assert [h.task_id for h in found] == ["heat/2"]


def test_what_lost_its_confidence_is_not_found(memory: Reflections) -> None:
    item = memory.add("Open the microwave first.", task_id="u").reflection_id
    used(memory.store, item, False, False, False)
    assert len(memory.search("microwave")) == 0


@pytest.mark.parametrize("reference", ["", "zz"])
def test_an_unknown_id_is_said(reference: str, memory: Reflections) -> None:
    memory.add("a", task_id="t")
    with pytest.raises(MemoryItemError, match="no reflection"):
        memory.get(reference)


def test_a_model_reflects_on_failures_alone(memory: Reflections) -> None:
    outcomes = {"a": False, "b": True, "c": None, "d": False}
    memory.store.append(run(n, success=s, attempt=i) for i, (n, s) in enumerate(outcomes.items()))
    memory.store.append(Trajectory(trajectory_id="e", task_id="t", source="x", success=False))
    memory.add("by hand", trajectory_id="d")
    done = write_reflections(memory.store, lambda _: "Look first.", model="m")
    (written,) = done.written
    assert memory.get(written).trajectory_id == "a"
    assert (done.already, done.without_steps, done.unknown, done.left) == (1, 1, 1, 0)
    assert write_reflections(memory.store, lambda _: "Again.").written == ()


def test_a_late_verdict_makes_a_failure(memory: Reflections) -> None:
    memory.store.append(run("a", success=None))
    memory.store.label([Label(trajectory_id="a", name="outcome", success=False, evaluator="e")])
    assert len(write_reflections(memory.store, lambda _: "Look.").written) == 1


def test_the_model_sees_the_run_and_what_was_noted_before(memory: Reflections) -> None:
    memory.store.append([run("a", success=False, attempt=0), run("b", success=False, attempt=1)])
    seen: list[str] = []

    def chat(messages: object) -> str:
        seen.append(str(messages))
        return f"Plan {len(seen)}."

    write_reflections(memory.store, chat)
    assert "I try a." in seen[0]
    assert "Plan 1." not in seen[0]
    assert "After attempt 1: Plan 1." in seen[1]
    assert [r.text for r in memory.window("t")] == ["Plan 1.", "Plan 2."]


def test_a_model_that_fails_is_given_up_and_nothing_written_is_lost(memory: Reflections) -> None:
    memory.store.append(run(f"r{n}", success=False, attempt=n) for n in range(6))
    answers = iter(["Plan.", " "])

    def chat(_: object) -> str:
        answer = next(answers, None)
        if answer is None:
            raise EndpointError("down")
        return answer

    done = write_reflections(memory.store, chat)
    assert len(done.written) == 1
    assert done.problems == (
        "r1: the model's answer is empty", "r2: down", "r3: down", "r4: down",
    )  # fmt: skip
    assert done.left == 1
    assert len(memory.all()) == 1


def test_recorded_reflexion_runs_bring_their_reflections(store: Pool, real_data: Path) -> None:
    # PROVENANCE.md: 265 memory items after the last trial of WebShop.
    store.import_files(real_data / "reflexion" / "webshop")
    memory = Reflections(store)
    found = memory.all()
    assert len(found) == 265
    assert {r.environment for r in found} == {"webshop"}
    tasks = {r.task_id for r in found}
    assert len(tasks) == 67
    windows = [[r.trial for r in memory.window(t)] for t in sorted(tasks)[:5]]
    assert all(w == sorted(w) and w[-1] == 3 and len(w) == 3 for w in windows)  # type: ignore[type-var]


def test_a_table_from_before_there_were_states_is_read_and_written(
    store: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    side = store._side["reflections"]
    whole = side.schema
    with monkeypatch.context() as before:
        before.setattr("trajstore.store.side.SCHEMAS", {})
        side.schema = whole.remove(whole.get_field_index("state"))
        row = {"reflection_id": "old", "task_id": "t", "text": "Look.", "source": "x"}
        rows = side.schema.empty_table().from_pylist([row], schema=side.schema)
        side.append(rows, durable=False)
        side.schema = whole
    memory = Reflections(store)
    assert [r.text for r in memory.window("t")] == ["Look."]
    memory.retire(["old"], because="wrong")
    memory.add("Look again.", task_id="t")
    assert [r.text for r in memory.window("t")] == ["Look again."]
