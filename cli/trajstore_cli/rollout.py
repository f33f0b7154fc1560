"""``trajstore rollout``: let agents act, and store what they did."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from trajstore_cli._cells import table
from trajstore_cli._chat import KeyOption, MaxTokensOption
from trajstore_cli._command import add
from trajstore_cli._options import JsonOption, StoreArgument, open_store
from trajstore_cli._output import out, report, say
from trajstore_cli._policies import (
    Model,
    ModelOption,
    TemperatureOption,
    TemplateOption,
    TokenIdsOption,
    TokenizerOption,
    UrlOption,
    VersionOption,
    policies_of,
)
from trajstore_cli._progress import count_progress
from trajstore_cli._search import (
    CallsOption,
    DepthOption,
    ExpandOption,
    IterationsOption,
    ReflectOption,
    Searching,
    SearchOption,
)

if TYPE_CHECKING:
    from trajstore.rollouts import RolloutReport


def rollout(
    store: StoreArgument,
    env: Annotated[
        str, typer.Option(metavar="E", help="Environment: calculator, code-fixing or web-shop.")
    ],
    policy: Annotated[
        list[str] | None,
        typer.Option(
            metavar="P",
            help="Profile of the scripted agent, 'all', or a model: 'endpoint', 'vllm' or "
            "'transformers'; several may be given. If none is: the most able profile.",
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
    retries: Annotated[
        int, typer.Option(metavar="N", min=0, help="New starts of an attempt that failed.")
    ] = 0,
    resume: Annotated[
        bool, typer.Option("--resume", help="Leave out attempts or searches that the store holds.")
    ] = False,
    url: UrlOption = "",
    model: ModelOption = "",
    tokenizer: TokenizerOption = "",
    template: TemplateOption = "chatml-tools",
    policy_version: VersionOption = None,
    temperature: TemperatureOption = 1.0,
    max_tokens: MaxTokensOption = 1024,
    token_ids: TokenIdsOption = False,
    api_key_env: KeyOption = "OPENAI_API_KEY",
    search: SearchOption = None,
    iterations: IterationsOption = 30,
    expand: ExpandOption = 5,
    depth: DepthOption = 15,
    policy_calls: CallsOption = None,
    reflect: ReflectOption = False,
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
    asked = Model(
        url=url,
        name=model,
        tokenizer=tokenizer,
        template=template,
        version=policy_version,
        temperature=temperature,
        max_tokens=max_tokens,
        token_ids=token_ids,
        api_key_env=api_key_env,
    )
    policies = policies_of(chosen, policy, asked)
    limits = Limits(
        max_steps=max_steps, timeout_s=timeout_s, concurrency=concurrency, retries=retries
    )
    if search is not None:
        Searching.refuse(attempts=attempts > 1)
    pool, given = open_store(store, create=True), chosen.tasks(tasks, seed)
    make = chosen.make_unisolated if allow_unisolated else chosen.make
    if search is not None:
        searching = Searching(iterations, expand, depth, policy_calls, reflect, resume)
        searching.run(pool, make, policies, given, seed=seed, limits=limits, json=json)
        return
    with count_progress("attempts", quiet=json) as progress:
        run = partial(record_rollouts, pool, make, policies, given, progress=progress)
        done = run(attempts=attempts, seed=seed, limits=limits, resume=resume)
    _tell(done, json=json)


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
        told = {"policies": listed, "added": done.added, "skipped": done.skipped}
        report({**told, "error": done.first_error}, json=True)
    else:
        if listed:
            out(table(listed))
        left_out = f", {done.skipped:,} were there already" if done.skipped else ""
        say(f"{done.added:,} new in the store{left_out}")
    errors = sum(tally.errors for tally in done.policies.values())
    if errors:
        say(f"{errors:,} failed for technical reasons; the first: {done.first_error}")
    if errors and errors == sum(tally.attempts for tally in done.policies.values()):
        raise typer.Exit(1)


def register(app: typer.Typer) -> None:
    """Add the command."""
    add(app, rollout)
