"""Rollouts a second against environments in flight: ``python -m benchmarks.rollouts``.

A policy that takes 40 ms to answer, as a model does, acts in an environment whose tools take 20 ms,
as a web page or a test run does; both wait and do not compute. The plain alternative is a loop: one
attempt after another, one step after another, nothing recorded. The target is five times its rate
with 16 environments in flight. Every side must end with the same answers.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

if __package__ in {None, ""}:  # run as a file: python benchmarks/rollouts.py
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.measure import DisagreementError, Took, environment, time_rounds
from trajstore.rollouts import (
    Action,
    CalculatorEnvironment,
    Limits,
    Response,
    ScriptedPolicy,
    Task,
    Transition,
    calculator_tasks,
    run_rollouts,
)

IN_FLIGHT = (1, 4, 16, 64, 256)
"""Environments at one time."""
LEAST = 5.0
"""Times the loop's rate that the design asks for, with 16 in flight."""

LOOP = "plain loop"
Answers = dict[str, bool | None]


class SlowTools(CalculatorEnvironment):
    """The calculator, whose tools take a while."""

    tool_s = 0.02

    def step(self, action: Action) -> Transition:
        """Wait, then carry it out."""
        time.sleep(self.tool_s)
        return super().step(action)


class SlowPolicy(ScriptedPolicy):
    """The scripted agent, which takes a while to answer."""

    model_s = 0.04

    def act(self, messages: Any, tools: Any, *, seed: int) -> Response:
        """Wait, then answer."""
        time.sleep(self.model_s)
        return super().act(messages, tools, seed=seed)


def by_loop(tasks: Sequence[Task]) -> Answers:
    """Whether each task was solved: one after the other."""
    policy, solved = SlowPolicy(), {}
    for task in tasks:
        place = SlowTools()
        first = place.reset(task)
        messages: list[dict[str, Any]] = [
            {"role": "system", "content": place.system_prompt},
            {"role": "user", "content": first.text or task.goal},
        ]
        for _ in range(Limits().max_steps):
            action = policy.act(messages, place.tools, seed=0).action
            done = place.step(action)
            messages += _turn(action, done)
            if done.terminated or done.truncated:
                break
        solved[task.task_id] = place.outcome().success
    return solved


def _turn(action: Action, done: Transition) -> list[dict[str, Any]]:
    calls = [
        {"id": c.call_id, "function": {"name": c.name, "arguments": c.arguments_raw}}
        for c in action.tool_calls
    ]
    said = {"role": "assistant", "content": action.text, "tool_calls": calls}
    results = done.observation.results
    return [
        said,
        *({"role": "tool", "tool_call_id": r.call_id, "content": r.text} for r in results),
    ]


def by_runner(tasks: Sequence[Task], in_flight: int) -> Answers:
    """The same by ``run_rollouts``, as trajectories that are ready to be stored."""
    limits = Limits(concurrency=in_flight)
    runs = run_rollouts(SlowTools, SlowPolicy(), tasks, limits=limits)
    return {str(run.task_id): run.success for run in runs}


def measure(tasks: int, *, repeats: int, in_flight: Sequence[int]) -> dict[str, tuple[Took, ...]]:
    """What each side took, by its name.

    Raises:
        DisagreementError: two sides solved other tasks.
    """
    work = calculator_tasks(tasks, seed=0)
    jobs: dict[str, Callable[[int], Answers]] = {LOOP: lambda _: by_loop(work)}
    for count in in_flight:
        jobs[_name(count)] = lambda _, count=count: by_runner(work, count)  # type: ignore[misc]
    found: dict[str, Answers] = {}
    return time_rounds(jobs, repeats=repeats, budget_s=900.0, check=partial(_check, found))


def _check(found: dict[str, Answers], name: str, _: int, answers: Answers) -> None:
    found[name] = answers
    if any(other != answers for other in found.values()):
        raise DisagreementError(f"{name} solved other tasks than {', '.join(found)}")


def _name(count: int) -> str:
    return f"{count} in flight"


def gains(took: dict[str, tuple[Took, ...]]) -> dict[str, float]:
    """Times the loop's rate, by name: of medians of the same rounds."""
    loop = _median(took[LOOP])
    return {name: loop / _median(runs) for name, runs in took.items()}


def _median(runs: Sequence[Took]) -> float:
    return sorted(t.wall_s for t in runs)[len(runs) // 2]


def table(took: dict[str, tuple[Took, ...]], tasks: int) -> str:
    """Markdown."""
    times = gains(took)
    lines = [
        "| side | rollouts/s | times the loop | CPU ms a rollout |",
        "| --- | --- | --- | --- |",
    ]
    for name, runs in took.items():
        cpu = 1000 * sorted(t.cpu_s for t in runs)[len(runs) // 2] / tasks
        rate = tasks / _median(runs)
        lines.append(f"| {name} | {rate:.1f} | {times[name]:.1f} | {cpu:.2f} |")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what the command line asks for; 1 if sides disagree or the target is missed."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.rollouts",
        description="Rollouts a second against environments in flight.",
        epilog="Example: python -m benchmarks.rollouts --tasks 64",
    )
    parser.add_argument("--tasks", type=int, default=256, help="attempts of one run")
    parser.add_argument("--repeats", type=int, default=3, help="runs of each side")
    parser.add_argument("--in-flight", type=int, nargs="+", default=IN_FLIGHT, metavar="N")
    given = parser.parse_args(arguments)
    asked = sys.argv[1:] if arguments is None else arguments
    about = environment(["python", "-m", "benchmarks.rollouts", *asked])
    try:
        took = measure(given.tasks, repeats=given.repeats, in_flight=given.in_flight)
    except DisagreementError as error:
        print(f"The sides disagree: {error}", file=sys.stderr)
        return 1
    print("\n".join(f"- {name}: {about[name]}" for name in ("command", "machine", "load before")))
    print(f"\n{table(took, given.tasks)}\n")
    if _name(16) not in took:
        return 0
    gain = gains(took)[_name(16)]
    print(f"16 in flight: {gain:.1f} times the loop, target {LEAST:g}")
    return 0 if gain >= LEAST else 1


if __name__ == "__main__":
    sys.exit(main())
