"""``trajstore judge``."""

from __future__ import annotations

import os
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from trajstore_cli._command import add
from trajstore_cli._options import DryRunOption, JsonOption, StoreArgument, open_store
from trajstore_cli._output import out, report, say, say_some
from trajstore_cli._progress import count_progress
from trajstore_cli._values import as_json
from trajstore_cli.pair import WhereOption
from trajstore_cli.select import SelectionOption, read_selection

if TYPE_CHECKING:
    from trajstore.pipeline import ChatEndpoint, JudgePlan, JudgeReport

RubricOption = Annotated[
    str,
    typer.Option(
        "--rubric",
        metavar="FILE|NAME",
        help="A TOML file, or a shipped one: research, rler.",
    ),
]
EndpointOption = Annotated[
    str, typer.Option("--endpoint", metavar="URL", help="Up to and with the version: .../v1.")
]
ModelOption = Annotated[str, typer.Option("--model", metavar="M", help="The judge's model.")]
KeyOption = Annotated[
    str,
    typer.Option(
        "--api-key-env", metavar="NAME", help="Environment variable that holds the API key."
    ),
]
ConcurrencyOption = Annotated[
    int, typer.Option(metavar="N", min=1, help="Requests in flight at once, at most.")
]
LimitOption = Annotated[
    int | None, typer.Option(metavar="N", min=0, help="Judge at most this many runs now.")
]
EvaluatorOption = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="The name in labels; llm-judge/RUBRIC/MODEL if not given."),
]
BudgetOption = Annotated[
    int, typer.Option(metavar="CHARS", help="Longest quote of a run; four characters make a token.")
]
AnswerOption = Annotated[
    int, typer.Option(metavar="TOKENS", min=1, help="Longest answer of the judge.")
]
AsOutcomeOption = Annotated[
    bool, typer.Option("--as-outcome", help="The total becomes the run's outcome label.")
]


def judge(
    store: StoreArgument,
    rubric: RubricOption,
    endpoint: EndpointOption,
    model: ModelOption,
    where: WhereOption = None,
    selection: SelectionOption = None,
    concurrency: ConcurrencyOption = 4,
    limit: LimitOption = None,
    evaluator: EvaluatorOption = None,
    api_key_env: KeyOption = "OPENAI_API_KEY",
    budget: BudgetOption = 48_000,
    max_answer: AnswerOption = 1024,
    as_outcome: AsOutcomeOption = False,
    dry_run: DryRunOption = False,
    json: JsonOption = False,
) -> None:
    """Let a chat model score runs by a rubric.

    Its scores become labels. The endpoint is any OpenAI-compatible one. Runs that this rubric,
    model and name have judged are passed over, so the same command goes on where it stopped.
    --dry-run counts, and prints what the judge would be asked about the first run. The exit code is
    1 where a run could not be judged.

    Example: trajstore judge pool --rubric research --endpoint http://localhost:8000/v1 --model M
    """
    from trajstore import pipeline

    found = pipeline.find_rubric(rubric)
    asked: dict[str, Any] = {
        "where": where,
        "selection": read_selection(selection),
        "evaluator": evaluator,
        "limit": limit,
        "options": pipeline.JudgeOptions(
            concurrency=concurrency, budget=budget, as_outcome=as_outcome
        ),
    }
    judge_ = _endpoint(endpoint, model, api_key_env, max_answer)
    pool = open_store(store)
    if dry_run:
        _tell_plan(pipeline.plan_judging(pool, found, model, **asked), json=json)
        return
    with count_progress("judging", quiet=json) as progress:
        done = pipeline.judge(pool, found, judge_, progress=progress, **asked)
    _tell(done, json=json)


def _endpoint(url: str, model: str, variable: str, max_tokens: int) -> ChatEndpoint:
    from trajstore.pipeline import ChatEndpoint

    key = os.environ.get(variable) or None
    if key is None and variable != "OPENAI_API_KEY":
        message = f"the environment has no variable {variable}, or it is empty"
        raise typer.BadParameter(message, param_hint="--api-key-env")
    return ChatEndpoint(base_url=url, model=model, api_key=key, max_tokens=max_tokens)


def _tell_plan(plan: JudgePlan, *, json: bool) -> None:
    values = asdict(plan)
    if json:
        out(as_json(values))
        return
    messages = values.pop("messages")
    report(values, json=False)
    for message in messages:
        say(f"\n[{message['role']}]\n{message['content']}")


def _tell(done: JudgeReport, *, json: bool) -> None:
    values = asdict(done)
    if json:
        out(as_json(values))
    else:
        report({**values, "unjudged": len(done.unjudged)}, json=False)
        say_some([f"{u.trajectory_id}: {u.reason}" for u in done.unjudged], "not judged: {}")
    if done.unjudged:
        raise typer.Exit(1)


def register(app: typer.Typer) -> None:
    """Add the command."""
    add(app, judge)
