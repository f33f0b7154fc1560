from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from trajstore.filters import redact_trajectory
from trajstore.rollouts import (
    Action,
    CalculatorEnvironment,
    Limits,
    Observed,
    Response,
    ScriptedPolicy,
    Task,
    Transition,
    calculator_tasks,
    run_rollouts,
)
from trajstore.schema import (
    Trajectory,
    steps_to_arrow,
    trajectories_from_arrow,
    trajectories_to_arrow,
    validate,
)

TASKS = calculator_tasks(12, seed=4)


class Talker:
    """A policy that says how many turns it had, after a pause."""

    agent, model, version = "talker", "none", "1"

    def __init__(self, pause_s: float = 0.0) -> None:
        self.pause_s = pause_s

    def act(self, messages: Any, tools: Any, *, seed: int) -> Response:
        del tools, seed
        time.sleep(self.pause_s)
        return Response(
            action=Action(text=f"turn {sum(m['role'] == 'assistant' for m in messages)}")
        )


class Rooms(CalculatorEnvironment):
    """Opens for four at a time, ends after three steps and counts how many are in use at once."""

    used, most_used = 0, 0
    lock = threading.Lock()
    four = threading.Barrier(4, timeout=60)

    def reset(self, task: Task) -> Observed:
        with self.lock:
            Rooms.used += 1
            Rooms.most_used = max(Rooms.most_used, Rooms.used)
        self.left = 3
        self.four.wait()
        return super().reset(task)

    def step(self, action: Action) -> Transition:
        del action
        self.left -= 1
        time.sleep(0.01)
        return Transition(observation=Observed(text=f"{self.left} left"), terminated=not self.left)

    def close(self) -> None:
        with self.lock:
            Rooms.used -= hasattr(self, "left")


def stable(run: Trajectory) -> tuple[Any, ...]:
    """What does not depend on the clock."""
    return run.trajectory_id, run.task_id, run.attempt, run.source_digest, run.success


def test_every_policy_attempts_every_task_so_many_times() -> None:
    policies = [ScriptedPolicy("careful"), ScriptedPolicy("hasty")]
    runs = list(run_rollouts(CalculatorEnvironment, policies, TASKS, attempts=3))
    found = {(t.task_id, t.policy_version, t.attempt) for t in runs}
    wanted = itertools.product([t.task_id for t in TASKS], ["careful", "hasty"], range(3))
    assert found == set(wanted)
    assert len({t.trajectory_id for t in runs}) == len(runs) == 72


def test_trajectories_fit_the_schema() -> None:
    runs = list(run_rollouts(CalculatorEnvironment, ScriptedPolicy("clumsy"), TASKS))
    assert validate(trajectories_to_arrow(runs), "trajectories") == []
    assert validate(steps_to_arrow(runs), "steps") == []


def test_trajectories_survive_arrow_as_they_are() -> None:
    runs = list(run_rollouts(CalculatorEnvironment, ScriptedPolicy("stubborn"), TASKS))
    back = trajectories_from_arrow(trajectories_to_arrow(runs), steps_to_arrow(runs))
    assert back == runs


def test_attempts_at_one_task_start_in_the_same_state() -> None:
    policies = [ScriptedPolicy(name) for name in ("careful", "hasty", "clumsy")]
    runs = list(run_rollouts(CalculatorEnvironment, policies, TASKS, attempts=2))
    first = {(t.task_id, t.steps[2].state_key) for t in runs}
    assert len(first) == len(TASKS)


def test_rollouts_hold_no_secrets() -> None:
    for run in run_rollouts(CalculatorEnvironment, ScriptedPolicy("clumsy"), TASKS):
        assert redact_trajectory(run)[0] is run


def test_running_again_gives_the_same_ids_and_the_same_content() -> None:
    def run(concurrency: int) -> list[tuple[Any, ...]]:
        limits = Limits(concurrency=concurrency)
        runs = run_rollouts(
            CalculatorEnvironment, ScriptedPolicy("hasty"), TASKS, attempts=3, limits=limits
        )
        return sorted(map(stable, runs))

    assert run(1) == run(8)


def test_seed_policy_task_and_attempt_each_change_the_id() -> None:
    def ids(profile: str, seed: int) -> set[str]:
        runs = run_rollouts(
            CalculatorEnvironment, ScriptedPolicy(profile), TASKS, attempts=2, seed=seed
        )
        return {t.trajectory_id for t in runs}

    groups = [ids("careful", 0), ids("careful", 1), ids("hasty", 0)]
    assert [len(g) for g in groups] == [24] * 3
    assert len(set.union(*groups)) == 72


def test_no_more_attempts_run_at_once_than_allowed_and_all_are_closed() -> None:
    runs = list(run_rollouts(Rooms, Talker(), TASKS, attempts=2, limits=Limits(concurrency=4)))
    assert [t.n_agent_steps for t in runs] == [3] * 24
    assert Rooms.most_used == 4
    assert Rooms.used == 0


def test_waiting_attempts_run_side_by_side() -> None:
    """Every policy waits for the eleven others, in both of its turns."""
    meeting = threading.Barrier(12, timeout=60)

    class Meets(Talker):
        def act(self, messages: Any, tools: Any, *, seed: int) -> Response:
            meeting.wait()
            return super().act(messages, tools, seed=seed)

    limits = Limits(concurrency=12, max_steps=2)
    runs = list(run_rollouts(CalculatorEnvironment, Meets(), TASKS, limits=limits))
    assert [run.error for run in runs] == [None] * 12
    assert [run.n_agent_steps for run in runs] == [2] * 12


def test_trajectories_come_as_they_end_and_not_in_the_order_of_the_tasks() -> None:
    others = threading.Event()

    class Last(CalculatorEnvironment):
        def reset(self, task: Task) -> Observed:
            if task.task_id == TASKS[0].task_id:
                others.wait(60)
            return super().reset(task)

    runs = run_rollouts(Last, ScriptedPolicy(), TASKS[:3])
    early = {next(runs).task_id for _ in range(2)}
    others.set()
    assert early == {t.task_id for t in TASKS[1:3]}
    assert [t.task_id for t in runs] == [TASKS[0].task_id]


def test_tasks_are_read_only_as_they_are_needed() -> None:
    read = 0

    def endless() -> Iterator[Task]:
        nonlocal read
        for read in itertools.count(1):  # noqa: B007 - the count is what is tested
            yield TASKS[0]

    limits = Limits(concurrency=2)
    runs = run_rollouts(CalculatorEnvironment, ScriptedPolicy(), endless(), limits=limits)
    assert len(list(itertools.islice(runs, 5))) == 5
    assert read <= 5 + 2


def test_an_attempt_that_hangs_is_cut_off_and_hurts_no_other() -> None:
    release = threading.Event()

    class Stuck(CalculatorEnvironment):
        def step(self, action: Action) -> Transition:
            if "7" in str(action.tool_calls[0].arguments):
                release.wait(120)
            return super().step(action)

    tasks = [
        Task(
            task_id=f"t/{n}",
            goal=f"A shop sells {n} red and 1 blue shirts at 2 euros each.",
            answer=str((n + 1) * 2),
        )
        for n in (1, 7, 3, 4)
    ]
    start = time.monotonic()
    limits = Limits(timeout_s=2.0, concurrency=2)
    runs = {t.task_id: t for t in run_rollouts(Stuck, ScriptedPolicy(), tasks, limits=limits)}
    assert time.monotonic() - start < 100
    release.set()
    hung = runs.pop("t/7")
    assert (hung.status, hung.termination_reason, hung.success) == ("truncated", "timeout", None)
    assert [s.actor for s in hung.steps] == ["system", "user", "agent"]
    assert hung.duration_s is not None
    assert hung.duration_s >= 2.0
    assert [t.success for t in runs.values()] == [True] * 3


def test_an_attempt_that_was_given_up_is_not_handed_out_a_second_time() -> None:
    """It ends after all while the second attempt is under way."""
    given_up, ended = threading.Event(), threading.Event()

    class Late(CalculatorEnvironment):
        late = False

        def reset(self, task: Task) -> Observed:
            self.late = task.task_id == TASKS[0].task_id
            if self.late:
                given_up.wait(120)
            return super().reset(task)

        def close(self) -> None:
            if self.late:
                ended.set()

    limits = Limits(timeout_s=1.5, concurrency=1)
    runs = run_rollouts(Late, ScriptedPolicy(), TASKS[:4], limits=limits)
    first = next(runs)
    given_up.set()
    assert ended.wait(60)
    rest = list(runs)
    assert (first.task_id, first.termination_reason) == (TASKS[0].task_id, "timeout")
    assert [t.task_id for t in rest] == [t.task_id for t in TASKS[1:4]]
    assert [t.termination_reason for t in rest] == ["environment"] * 3


def test_without_a_time_limit_an_attempt_takes_as_long_as_it_takes() -> None:
    limits = Limits(timeout_s=None, max_steps=3)
    (run,) = run_rollouts(CalculatorEnvironment, Talker(0.05), TASKS[:1], limits=limits)
    assert (run.termination_reason, run.n_agent_steps) == ("step limit", 3)


def test_a_slow_attempt_stops_at_its_next_step_and_is_judged() -> None:
    limits = Limits(timeout_s=2.0, max_steps=100)
    (run,) = run_rollouts(CalculatorEnvironment, Talker(0.4), TASKS[:1], limits=limits)
    assert (run.status, run.termination_reason, run.success) == ("truncated", "timeout", False)
    assert 1 <= run.n_agent_steps <= 5


def test_an_end_that_nobody_fetched_in_time_is_still_an_end() -> None:
    limits = Limits(timeout_s=1.0, concurrency=4)
    runs = run_rollouts(CalculatorEnvironment, ScriptedPolicy(), TASKS[:4], limits=limits)
    first = next(runs)
    time.sleep(2.1)
    assert [t.success for t in [first, *runs]] == [True] * 4


def test_closing_the_iterator_stops_what_is_under_way() -> None:
    closed: list[int] = []

    class Watched(CalculatorEnvironment):
        steps = 0

        def step(self, action: Action) -> Transition:
            self.steps += 1
            return super().step(action)

        def close(self) -> None:
            closed.append(self.steps)

    limits = Limits(concurrency=2, max_steps=10_000)
    runs = run_rollouts(Watched, [ScriptedPolicy(), Talker(0.01)], TASKS[:1], limits=limits)
    assert next(runs).agent == "scripted"
    runs.close()  # type: ignore[attr-defined]
    deadline = time.monotonic() + 60
    while len(closed) < 3 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert len(closed) == 3  # the probe, the one that ended, the one that was stopped
    assert closed[2] < 5_000


def test_what_cannot_be_recorded_reaches_the_caller_instead_of_hanging() -> None:
    unfit = Task(task_id="t", goal="x", answer="1", metadata=["no mapping"])  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="dictionary update sequence"):
        list(run_rollouts(CalculatorEnvironment, Talker(), [unfit]))


@pytest.mark.parametrize(
    "bad", [{"attempts": 0}, {"limits": Limits(max_steps=0)}, {"limits": Limits(concurrency=0)}]
)
def test_limits_out_of_range_are_refused_before_anything_runs(bad: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="start at 1"):
        run_rollouts(CalculatorEnvironment, ScriptedPolicy(), TASKS, **bad)


def test_no_tasks_give_no_trajectories() -> None:
    assert list(run_rollouts(CalculatorEnvironment, ScriptedPolicy(), [])) == []


def test_300_attempts_are_under_way_at_one_time_and_the_failing_ones_hurt_no_other() -> None:
    """Each waits for all others, so all 300 must be there together; every tenth then fails."""
    meeting = threading.Barrier(300)
    tasks = calculator_tasks(300, seed=1)
    doomed = {t.task_id for t in tasks[::10]}

    class Crowd(CalculatorEnvironment):
        def reset(self, task: Task) -> Observed:
            self.task_id = task.task_id
            return super().reset(task)

        def step(self, action: Action) -> Transition:
            if not meeting.broken and "started" not in vars(self):
                self.started = meeting.wait(120) >= 0
                if self.task_id in doomed:
                    raise OSError("the tool is down")
            return super().step(action)

    limits = Limits(concurrency=300)
    runs = list(run_rollouts(Crowd, ScriptedPolicy(), tasks, limits=limits))
    assert {t.task_id for t in runs if t.status == "error"} == doomed
    assert [t.success for t in runs if t.task_id not in doomed] == [True] * 270


def test_attempts_that_are_skipped_are_not_begun() -> None:
    everything = [t.trajectory_id for t in run_rollouts(CalculatorEnvironment, Talker(), TASKS[:4])]
    done = set(everything[:3])
    rest = run_rollouts(CalculatorEnvironment, Talker(), TASKS[:4], skip=done.__contains__)
    assert [t.trajectory_id for t in rest] == everything[3:]
