"""The demo's data: scripted agents that really run in the calculator environment."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from trajstore.rollouts import (
    PROFILES,
    CalculatorEnvironment,
    ScriptedPolicy,
    calculator_tasks,
    run_rollouts,
)
from trajstore.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoReport:
    """What was run and stored."""

    tasks: int
    """Tasks attempted."""
    policies: tuple[str, ...]
    """Names of the scripted agents."""
    attempts: int
    """Attempts run."""
    successes: int
    """Those that the environment's evaluator accepted."""
    added: int
    """Attempts that were not in the store yet."""


def run_demo(store: Store, *, tasks: int = 40, attempts: int = 2, seed: int = 0) -> DemoReport:
    """Let every scripted agent attempt tasks of the calculator environment, and store the runs.

    The agents look things up and calculate with real tools; their faults (wrong precedence, broken
    JSON, loops, giving up early, ...) are real too. The same seed gives the same runs, so a second
    call adds nothing.

    Args:
        store: where to.
        tasks: number of tasks.
        attempts: attempts of each agent at each task.
        seed: seed of tasks and agents.
    """
    policies = [ScriptedPolicy(name) for name in sorted(PROFILES)]
    outcomes: Counter[bool | None] = Counter()
    writer = store.writer()
    with writer:
        for run in run_rollouts(
            CalculatorEnvironment,
            policies,
            calculator_tasks(tasks, seed=seed),
            attempts=attempts,
            seed=seed,
        ):
            outcomes[run.success] += 1
            writer.append(run)
    return DemoReport(
        tasks=tasks,
        policies=tuple(p.version for p in policies),
        attempts=sum(outcomes.values()),
        successes=outcomes[True],
        added=sum(r.added for r in writer.reports),
    )
