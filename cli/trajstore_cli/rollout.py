"""``trajstore rollout``: let agents act, and store what they did."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from trajstore_cli._cells import table
from trajstore_cli._command import add
from trajstore_cli._options import JsonOption, StoreArgument, open_store
from trajstore_cli._output import out, report, say
from trajstore_cli._progress import count_progress

if TYPE_CHECKING:
    from trajstore.rollouts import RolloutReport, ScriptPlayer, Shipped

_EVERY = "all"


def rollout(
    store: StoreArgument,
    env: Annotated[
        str, typer.Option(metavar="E", help="Environment: calculator, code-fixing or web-shop.")
    ],
    policy: Annotated[
        list[str] | None,
        typer.Option(
            metavar="P",
            help="Profile of the scripted agent, or 'all'; several may be given. "
            "If none is: the most able one.",
        ),
    ] = None,
    tasks: Annotated[int, typer.Option(metavar="N", min=1, help="Tasks to attempt.")] = 20,
    attempts: Annotated[
        int, typer.Option(metavar="N", min=1, help="Attempts at each task by each policy.")
    ] = 1,
    concurrency: Annotated[
        int, typer.Option(metavar="N", min=1, help="Attempts under way at one time.")
    ] = 8,
    seed: Annotated[
        int, typer.Option(metavar="N", help="Seed of the tasks and of the attempts.")
    ] = 0,
    max_steps: Annotated[
        int, typer.Option(metavar="N", min=1, help="Steps of one attempt at most.")
    ] = 20,
    timeout_s: Annotated[
        float, typer.Option(metavar="S", min=0.001, help="Seconds of one attempt at most.")
    ] = 300.0,
    allow_unisolated: Annotated[
        bool,
        typer.Option(
            "--allow-unisolated",
            help="Run code also where this machine cannot keep it from network and files.",
        ),
    ] = False,
    json: JsonOption = False,
) -> None:
    """Let agents attempt tasks and store each run as it ends.

    The same command adds nothing the second time: same seed, same runs. The exit code is 1 where
    every attempt failed for technical reasons.

    Example: trajstore rollout pool --env web-shop --policy careful --tasks 50
    """
    from trajstore.rollouts import SHIPPED, Limits, record_rollouts

    if env not in SHIPPED:
        message = f"there is no environment '{env}'; those that ship are {', '.join(SHIPPED)}"
        raise typer.BadParameter(message, param_hint="--env")
    chosen = SHIPPED[env]
    policies = _policies(chosen, policy)
    limits = Limits(max_steps=max_steps, timeout_s=timeout_s, concurrency=concurrency)
    with count_progress("attempts", quiet=json) as progress:
        done = record_rollouts(
            open_store(store, create=True),
            chosen.make_unisolated if allow_unisolated else chosen.make,
            policies,
            chosen.tasks(tasks, seed),
            attempts=attempts,
            seed=seed,
            limits=limits,
            progress=progress,
        )
    _tell(done, json=json)


def _policies(chosen: Shipped, wanted: list[str] | None) -> list[ScriptPlayer]:
    names = list(dict.fromkeys(wanted or chosen.profiles[:1]))
    if _EVERY in names:
        names = list(chosen.profiles)
    unknown = [name for name in names if name not in chosen.profiles]
    if unknown:
        known = ", ".join((*chosen.profiles, _EVERY))
        message = f"there is no policy '{unknown[0]}' here; those there are: {known}"
        raise typer.BadParameter(message, param_hint="--policy")
    return [chosen.agent(name) for name in names]


def _tell(done: RolloutReport, *, json: bool) -> None:
    listed: list[dict[str, Any]] = [
        {
            "policy": name,
            "attempts": tally.attempts,
            "solved": tally.solved,
            "success_rate": round(tally.success_rate, 4),
            "mean_reward": None if tally.mean_reward is None else round(tally.mean_reward, 4),
            "truncated": tally.truncated,
            "errors": tally.errors,
            "steps": tally.steps,
        }
        for name, tally in done.policies.items()
    ]
    if json:
        report({"policies": listed, "added": done.added, "error": done.first_error}, json=True)
    else:
        out(table(listed))
        say(f"{done.added:,} new in the store")
    errors = sum(tally.errors for tally in done.policies.values())
    if errors:
        say(f"{errors:,} failed for technical reasons; the first: {done.first_error}")
    if errors == sum(tally.attempts for tally in done.policies.values()):
        raise typer.Exit(1)


def register(app: typer.Typer) -> None:
    """Add the command."""
    add(app, rollout)
