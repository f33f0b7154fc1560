"""``trajstore workflows``: add, list, show, search, induce."""

from __future__ import annotations

from dataclasses import asdict
from json import JSONDecodeError, loads
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from trajstore_cli._cells import safe_lines
from trajstore_cli._chat import KeyOption, chat_of
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
from trajstore_cli._options import JsonOption, StoreArgument, file_or_stdin, open_store
from trajstore_cli._output import out, report, say_some

if TYPE_CHECKING:
    from trajstore.memory import StoredWorkflow

app = typer.Typer(
    help="Keep the routines that successes share.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def add(
    store: StoreArgument,
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="JSON: name, description, steps; - is stdin.")
    ],
    environment: Annotated[str | None, typer.Option(metavar="E", help="What it acts in.")] = None,
    json: JsonOption = False,
) -> None:
    """Keep a workflow: two or more steps, each with a tool and arguments, or a text.

    Example: trajstore workflows add pool find.json
    """
    from trajstore.memory import Workflows

    with file_or_stdin(file) as path:
        text = path.read_text(encoding="utf-8")
    try:
        value = loads(text)
    except JSONDecodeError as error:
        message = f"{file} is no JSON: {error}"
        raise typer.BadParameter(message, param_hint="FILE") from error
    if not isinstance(value, dict):
        raise typer.BadParameter(f"{file} holds no JSON object", param_hint="FILE")
    kept = Workflows(open_store(store)).add(
        str(value.get("name") or ""),
        value.get("steps") or [],
        description=value.get("description"),
        environment=environment or value.get("environment"),
    )
    report(_row(kept), json=json)


def list_(store: StoreArgument, every: EveryOption = False, json: JsonOption = False) -> None:
    """List workflows by name, with what became of their uses.

    Example: trajstore workflows list pool
    """
    from trajstore.memory import Workflows

    found = [_row(w) for w in Workflows(open_store(store)).all(every=every)]
    if not json:
        found = [{k: v for k, v in row.items() if k != "description"} for row in found]
    listed(found, json=json, noun="workflows")


def show(store: StoreArgument, workflow: ReferenceArgument, json: JsonOption = False) -> None:
    """Show one workflow, by its id or name, with its steps.

    Example: trajstore workflows show pool "search > open"
    """
    from trajstore.memory import Workflows

    found = Workflows(open_store(store)).get(workflow)
    if json:
        report({**asdict(found), "variables": list(found.variables)}, json=True)
        return
    about = _row(found) | {"variables": list(found.variables), "because": found.because}
    report({**about, "runs": len(found.trajectory_ids), **_counts(found)}, json=False)
    out(f"\n{safe_lines(found.text)}")


def search(
    store: StoreArgument,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="What is to be done.")],
    k: Annotated[int, typer.Option("-k", metavar="N", min=1, help="Workflows at most.")] = 5,
    task: TaskOption = None,
    environment: InEnvironmentOption = None,
    token_budget: BudgetOption = None,
    json: JsonOption = False,
) -> None:
    """Find workflows by name and description.

    Example: trajstore workflows search pool "cancel a reservation"
    """
    from trajstore.memory import Workflows

    memory = Workflows(open_store(store))
    hits = memory.search(
        text, k=k, task_id=task, environment=environment, token_budget=token_budget
    )
    found_by(hits, json=json, noun="workflow")


def induce(
    store: StoreArgument,
    where: Annotated[
        str, typer.Option(metavar="SQL", help="Only runs for which this is true.")
    ] = "true",
    support: Annotated[
        int, typer.Option(metavar="N", min=1, help="Distinct tasks whose successes share it.")
    ] = 2,
    contrast: Annotated[
        float, typer.Option(metavar="X", min=-1, max=1, help="Least (s - f) / (s + f).")
    ] = 0.5,
    longest: Annotated[
        int, typer.Option(metavar="N", min=2, help="Calls of the longest pattern.")
    ] = 8,
    most: Annotated[int, typer.Option(metavar="N", min=1, help="Workflows to keep at most.")] = 50,
    endpoint: Annotated[
        str | None,
        typer.Option(metavar="URL", help="Ask a model instead: .../v1 of its endpoint."),
    ] = None,
    model: Annotated[str, typer.Option(metavar="M", help="That model.")] = "",
    api_key_env: KeyOption = "OPENAI_API_KEY",
    json: JsonOption = False,
) -> None:
    """Find the workflows of successes: by rule, or by a model with --endpoint.

    Example: trajstore workflows induce pool --where "environment = 'airline'"
    """
    from trajstore.memory import RuleOptions, induce_by_chat, induce_workflows

    pool = open_store(store)
    if endpoint is None:
        options = RuleOptions(support=support, contrast=contrast, longest=longest, most=most)
        done: dict[str, Any] = asdict(induce_workflows(pool, where=where, options=options))
    else:
        chat = chat_of(endpoint, model, api_key_env, max_tokens=4096)
        done = asdict(induce_by_chat(pool, chat, where=where))
    if json:
        report(done, json=True)
    else:
        problems = done.pop("problems", ())
        report({**done, "workflows": len(done["workflows"])}, json=False)
        say_some(problems, "left out: {}")


def _row(workflow: StoredWorkflow) -> dict[str, Any]:
    return {
        "id": workflow.workflow_id,
        "name": workflow.name,
        "steps": len(workflow.steps),
        "uses": workflow.uses,
        "state": workflow.state,
        "description": workflow.description,
    }


def _counts(workflow: StoredWorkflow) -> dict[str, Any]:
    return {"source": workflow.source, "environment": workflow.environment}


def register(main: typer.Typer) -> None:
    """Add the commands."""
    if not app.registered_commands:
        for function in (add, show, search, induce):
            add_command(app, function)
        add_command(app, list_, "list")
    main.add_typer(app, name="workflows")
