"""``trajstore rollout --search``: its options, and what is told of searches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from trajstore_cli._cells import table
from trajstore_cli._output import out, report, say
from trajstore_cli._progress import count_progress

if TYPE_CHECKING:
    from trajstore import Pool
    from trajstore.rollouts import EnvironmentFactory, Limits, Policy, SearchReport, Task


class Search(StrEnum):
    """How to search."""

    LATS = "lats"


SearchOption = Annotated[
    Search | None,
    typer.Option(
        help="Search at each task instead of attempting it: lats is Language Agent Tree Search. "
        "The whole tree is stored; the run that is handed in is tagged lats-best."
    ),
]
IterationsOption = Annotated[
    int, typer.Option(metavar="N", min=1, help="With --search: runs to the end at most.")
]
ExpandOption = Annotated[
    int, typer.Option(metavar="K", min=1, help="With --search: samples drawn at a node.")
]
DepthOption = Annotated[
    int, typer.Option(metavar="D", min=1, help="With --search: actions of one run at most.")
]
CallsOption = Annotated[
    int | None,
    typer.Option(metavar="N", min=1, help="With --search: calls of the policy a task at most."),
]
ReflectOption = Annotated[
    bool,
    typer.Option(
        "--reflect",
        help="With --search: give up what follows the first action of a failed run that brought an "
        "error or nothing new, and tell the policy.",
    ),
]


@dataclass(frozen=True, slots=True)
class Searching:
    """What was asked of searches."""

    iterations: int
    expand: int
    depth: int
    policy_calls: int | None
    reflect: bool
    resume: bool

    @staticmethod
    def refuse(**others: bool) -> None:
        """Refuse options that say nothing of a search.

        Raises:
            typer.BadParameter: one was given.
        """
        for name, given in others.items():
            if given:
                message = f"it does not go with --{name}"
                raise typer.BadParameter(message, param_hint="--search")

    def run(
        self,
        store: Pool,
        make: EnvironmentFactory,
        policies: Sequence[Policy],
        tasks: Sequence[Task],
        *,
        seed: int,
        limits: Limits,
        json: bool,
    ) -> None:
        """Search at the tasks, store the trees and tell of them.

        Args:
            store: where to.
            make: makes a fresh environment.
            policies: who acts.
            tasks: at what.
            seed: of the whole set.
            limits: seconds, searches at a time, retries.
            json: whether to tell it as JSON.
        """
        from trajstore.rollouts import SearchOptions, first_error, record_searches

        options = SearchOptions(
            iterations=self.iterations,
            expand=self.expand,
            depth=min(self.depth, limits.max_steps),
            policy_calls=self.policy_calls,
            seconds=limits.timeout_s,
            reflect=first_error if self.reflect else None,
        )
        with count_progress("searches", quiet=json) as progress:
            done = record_searches(
                store,
                make,
                policies,
                tasks,
                options=options,
                seed=seed,
                limits=limits,
                resume=self.resume,
                progress=progress,
            )
        _tell(done, json=json)


def _tell(done: SearchReport, *, json: bool) -> None:
    listed: list[dict[str, Any]] = [
        {
            "policy": name,
            "searches": tally.attempts,
            "solved": tally.solved,
            "success_rate": round(tally.success_rate, 4),
            "mean_reward": None if tally.mean_reward is None else round(tally.mean_reward, 4),
            "errors": tally.errors,
            "runs": tally.runs,
            "calls": tally.calls,
            "merged": tally.merged,
        }
        for name, tally in done.policies.items()
    ]
    if json:
        told = {"policies": listed, "added": done.added, "skipped": done.skipped}
        report({**told, "error": done.first_error}, json=True)
    else:
        if listed:
            out(table(listed))
        left_out = f", {done.skipped:,} searches were there already" if done.skipped else ""
        say(f"{done.added:,} new in the store{left_out}")
    if done.first_error is not None:
        say(f"something failed for technical reasons; the first: {done.first_error}")
    errors = sum(tally.errors for tally in done.policies.values())
    if errors and errors == sum(tally.attempts for tally in done.policies.values()):
        raise typer.Exit(1)
