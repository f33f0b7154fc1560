"""``trajstore insights``: list, show, search, update, prune."""

from __future__ import annotations

from dataclasses import asdict
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from trajstore_cli._cells import safe_lines
from trajstore_cli._chat import EndpointOption, KeyOption, ModelOption, chat_of
from trajstore_cli._command import add as add_command
from trajstore_cli._memory import (
    BudgetOption,
    EveryOption,
    InEnvironmentOption,
    ReferenceArgument,
    TaskOption,
    found_by,
    listed,
)
from trajstore_cli._options import DryRunOption, JsonOption, StoreArgument, open_store
from trajstore_cli._output import out, report, say_some

if TYPE_CHECKING:
    from trajstore.memory import StoredInsight

app = typer.Typer(
    help="Keep what many runs taught, in words, and what became of it.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)


class Draw(StrEnum):
    """What an update draws from runs."""

    RULES = "rules"
    REASONING = "reasoning"
    CONTRAST = "contrast"


KindOption = Annotated[
    str | None,
    typer.Option(
        metavar="K", help="Only this kind: rule, reasoning, strategy, warning, skill, exemplar."
    ),
]


def list_(
    store: StoreArgument,
    kind: KindOption = None,
    every: EveryOption = False,
    json: JsonOption = False,
) -> None:
    """List insights, those with the most votes first.

    Example: trajstore insights list pool --kind rule
    """
    from trajstore.memory import Insights

    found = Insights(open_store(store)).all(kind=kind, every=every)
    listed((_row(i) for i in found), json=json, noun="insights")


def show(store: StoreArgument, insight: ReferenceArgument, json: JsonOption = False) -> None:
    """Show one insight with every version of its text.

    Example: trajstore insights show pool 5d1f
    """
    from trajstore.memory import Insights

    memory = Insights(open_store(store))
    found = memory.get(insight)
    versions = [{"version": n, "at": at, "text": t} for n, t, at in memory.versions(insight)]
    if json:
        report({**asdict(found), "versions": versions}, json=True)
        return
    about = {k: v for k, v in asdict(found).items() if k not in {"text", "trajectory_ids"}}
    report({**about, "runs": len(found.trajectory_ids)}, json=False)
    out(safe_lines("".join(f"\n{v['version']}. {v['text']}" for v in versions)))


def search(
    store: StoreArgument,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="What is to be done, or is seen.")],
    k: Annotated[int, typer.Option("-k", metavar="N", min=1, help="Insights at most.")] = 5,
    kind: KindOption = None,
    task: TaskOption = None,
    environment: InEnvironmentOption = None,
    token_budget: BudgetOption = None,
    json: JsonOption = False,
) -> None:
    """Find insights that fit a text.

    Example: trajstore insights search pool "change a flight" -k 3
    """
    from trajstore.memory import Insights

    memory = Insights(open_store(store))
    hits = memory.search(
        text, k=k, kind=kind, task_id=task, environment=environment, token_budget=token_budget
    )
    found_by(hits, json=json, noun="insight")


def update(
    store: StoreArgument,
    endpoint: EndpointOption,
    model: ModelOption,
    draw: Annotated[
        Draw,
        typer.Option(
            help="rules (ExpeL), reasoning items of each run, or contrast: of the runs at a task."
        ),
    ] = Draw.RULES,
    api_key_env: KeyOption = "OPENAI_API_KEY",
    where: Annotated[
        str, typer.Option(metavar="SQL", help="Only runs for which this is true.")
    ] = "true",
    json: JsonOption = False,
) -> None:
    """Let a model draw insights from runs that were not looked at yet.

    The exit code is 1 where an answer, or part of one, could not be used.

    Example: trajstore insights update pool --endpoint http://localhost:8000/v1 --model M
    """
    from trajstore.memory import update_reasoning, update_rules

    pool = open_store(store)
    chat = chat_of(endpoint, model, api_key_env, max_tokens=2048)
    if draw is Draw.RULES:
        done: dict[str, Any] = asdict(update_rules(pool, chat, where=where))
    else:
        parallel = draw is Draw.CONTRAST
        done = asdict(update_reasoning(pool, chat, where=where, parallel=parallel))
    problems = done["problems"]
    if json:
        report(done, json=True)
    else:
        report({**done, "problems": len(problems)}, json=False)
        say_some(problems, "left out: {}")
    if problems:
        raise typer.Exit(1)


def prune(
    store: StoreArgument,
    share: Annotated[
        float, typer.Option(metavar="X", min=0, max=1, help="Least share of uses that helped.")
    ] = 0.3,
    least_uses: Annotated[
        int, typer.Option(metavar="N", min=1, help="Judged uses before anything is said.")
    ] = 5,
    dry_run: DryRunOption = False,
    json: JsonOption = False,
) -> None:
    """Take out insights that do not help, and bring back those that do now.

    Example: trajstore insights prune pool --dry-run
    """
    from trajstore.memory import Insights

    memory = Insights(open_store(store))
    gone, back = memory.prune(share=share, least_uses=least_uses, dry_run=dry_run)
    told = {"retired": gone, "returned": back}
    report(told if json else {k: len(v) for k, v in told.items()}, json=json)


def _row(insight: StoredInsight) -> dict[str, Any]:
    return {
        "id": insight.insight_id,
        "version": insight.version,
        "kind": insight.kind,
        "votes": insight.votes,
        "helpful": insight.helpful,
        "harmful": insight.harmful,
        "state": insight.state,
        "text": insight.text,
    }


def register(main: typer.Typer) -> None:
    """Add the commands."""
    if not app.registered_commands:
        for function in (show, search, update, prune):
            add_command(app, function)
        add_command(app, list_, "list")
    main.add_typer(app, name="insights")
