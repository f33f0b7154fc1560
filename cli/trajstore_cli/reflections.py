"""``trajstore reflections``: add, list, show, search, import, write, prune."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
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
    from trajstore.memory import StoredReflection

app = typer.Typer(
    help="Keep what failures taught, and show it to the next attempt.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def add(
    store: StoreArgument,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="What to do otherwise.")],
    run: Annotated[
        str | None, typer.Option(metavar="ID", help="The failed run that it is on.")
    ] = None,
    task: Annotated[
        str | None, typer.Option(metavar="T", help="Its task, where the run is not stored.")
    ] = None,
    trial: Annotated[
        int | None, typer.Option(metavar="N", min=0, help="Number of the attempt, from 0.")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Keep a reflection on a failed run.

    Example: trajstore reflections add pool "Search before you buy." --task shop/1 --trial 0
    """
    from trajstore.memory import Reflections

    kept = Reflections(open_store(store)).add(text, trajectory_id=run, task_id=task, trial=trial)
    report(_row(kept), json=json)


def list_(
    store: StoreArgument,
    task: Annotated[str | None, typer.Option(metavar="T", help="Only on this task.")] = None,
    window: Annotated[
        int | None,
        typer.Option(metavar="M", min=1, help="Of --task the newest M trials: what is shown next."),
    ] = None,
    recall: Annotated[
        bool, typer.Option("--recall", help="Of --task the three that proved best.")
    ] = False,
    every: EveryOption = False,
    json: JsonOption = False,
) -> None:
    """List reflections by task and trial, with what became of their uses.

    Example: trajstore reflections list pool
    """
    from trajstore.memory import Reflections

    memory = Reflections(open_store(store))
    if task is None and (window is not None or recall):
        raise typer.BadParameter("is needed by --window and --recall", param_hint="--task")
    if task is not None and window is not None:
        found = memory.window(task, m=window)
    elif task is not None and recall:
        found = memory.recall(task)
    else:
        found = [r for r in memory.all(every=every) if task in {None, r.task_id}]
    listed((_row(r) for r in found), json=json, noun="reflections")


def show(store: StoreArgument, reflection: ReferenceArgument, json: JsonOption = False) -> None:
    """Show one reflection whole.

    Example: trajstore reflections show pool 4be7
    """
    from trajstore.memory import Reflections

    found = Reflections(open_store(store)).get(reflection)
    values = asdict(found)
    if json:
        report(values, json=True)
        return
    text = values.pop("text")
    report(values, json=False)
    out(f"\n{safe_lines(text)}")


def search(
    store: StoreArgument,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="A goal, or what went wrong.")],
    k: Annotated[int, typer.Option("-k", metavar="N", min=1, help="Reflections at most.")] = 3,
    task: TaskOption = None,
    environment: InEnvironmentOption = None,
    token_budget: BudgetOption = None,
    json: JsonOption = False,
) -> None:
    """Find reflections on similar tasks.

    Example: trajstore reflections search pool "heat an apple" -k 3
    """
    from trajstore.memory import Reflections

    memory = Reflections(open_store(store))
    hits = memory.search(
        text, k=k, task_id=task, environment=environment, token_budget=token_budget
    )
    found_by(hits, json=json, noun="reflection")


def import_(
    store: StoreArgument,
    paths: Annotated[
        list[Path], typer.Argument(metavar="PATH...", help="Results of Reflexion: files, folders.")
    ],
    json: JsonOption = False,
) -> None:
    """Take in the memories of Reflexion runs, with the attempts that they are on.

    Example: trajstore reflections import pool reflexion/alfworld
    """
    pool = open_store(store, create=True)
    before = pool.memory("reflections").num_rows
    done = pool.import_files([str(p) for p in paths], format="reflexion")
    added = pool.memory("reflections").num_rows - before
    told: dict[str, Any] = {
        "reflections": added,
        "trajectories": done.trajectories,
        "already": done.already,
    }
    problems = [str(p) for p in done.problems]
    if json:
        report({**told, "problems": problems}, json=True)
        return
    report(told, json=False)
    say_some(problems, "left out: {}")


def write(
    store: StoreArgument,
    endpoint: EndpointOption,
    model: ModelOption,
    api_key_env: KeyOption = "OPENAI_API_KEY",
    where: Annotated[
        str, typer.Option(metavar="SQL", help="Only runs for which this is true.")
    ] = "true",
    most: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Reflections to write at most.")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Let a model reflect on each failed run that has no reflection.

    Runs whose outcome is unknown are not failures. The exit code is 1 where a run was left out
    because of the model.

    Example: trajstore reflections write pool --endpoint http://localhost:8000/v1 --model M
    """
    from trajstore.memory import write_reflections

    chat = chat_of(endpoint, model, api_key_env)
    done = asdict(write_reflections(open_store(store), chat, where=where, most=most, model=model))
    _tell(done, "written", json=json)


def prune(store: StoreArgument, dry_run: DryRunOption = False, json: JsonOption = False) -> None:
    """Take out reflections that did not help, and bring back those that do now.

    Example: trajstore reflections prune pool --dry-run
    """
    from trajstore.memory import Reflections

    done = Reflections(open_store(store)).prune(dry_run=dry_run)
    told: dict[str, Any] = asdict(done)
    report(told if json else {k: len(v) for k, v in told.items()}, json=json)


def _tell(done: dict[str, Any], ids: str, *, json: bool) -> None:
    if json:
        report(done, json=True)
    else:
        report({**done, ids: len(done[ids]), "problems": len(done["problems"])}, json=False)
        say_some(done["problems"], "left out: {}")
    if done["problems"]:
        raise typer.Exit(1)


def _row(reflection: StoredReflection) -> dict[str, Any]:
    return {
        "id": reflection.reflection_id,
        "task": reflection.task_id,
        "trial": reflection.trial,
        "confidence": round(reflection.confidence, 4),
        "uses": reflection.uses,
        "state": reflection.state,
        "text": reflection.text,
    }


def register(main: typer.Typer) -> None:
    """Add the commands."""
    if not app.registered_commands:
        for function in (add, show, search, write, prune):
            add_command(app, function)
        add_command(app, list_, "list")
        add_command(app, import_, "import")
    main.add_typer(app, name="reflections")
