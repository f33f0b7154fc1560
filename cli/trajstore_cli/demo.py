"""``trajstore demo``: the whole flow on runs that really happened a moment ago."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from trajstore_cli._command import add
from trajstore_cli._options import open_store
from trajstore_cli._output import out, paint

if TYPE_CHECKING:
    from trajstore import Pool
    from trajstore.pipeline import DemoReport

_QUERIES = {
    "Which agent is good, and what does it cost?": """
        select policy_version, count(*) attempts,
          round(avg(success::int), 2) success_rate,
          round(avg(n_tool_calls), 1) tool_calls
        from trajectories group by all order by success_rate desc, policy_version""",
    "Which tool fails most?": """
        select name, count(*) calls, count(*) filter (is_error) errors
        from tool_calls group by all order by errors desc, name""",
    "What do the errors say?": """
        select observation[:56] error, count(*) times
        from tool_calls where is_error
        group by all order by times desc, error limit 5""",
    "Which tasks have successes and failures, so that they can teach a preference?": """
        select task_id, attempts, successes, shortest_success
        from tasks where successes between 1 and attempts - 1
        order by success_rate, task_id limit 5""",
    "Who repeats the same call over and over?": """
        with repeated as (
          select trajectory_id, name, arguments, count(*) times
          from tool_calls group by all having times > 2)
        select policy_version, count(*) loops, max(times) longest
        from repeated join trajectories using (trajectory_id)
        group by all order by loops desc""",
}

_SHORTEST = (
    "select trajectory_id from trajectories where {} order by size_bytes, trajectory_id limit 1"
)


def demo(
    folder: Annotated[
        Path, typer.Argument(metavar="[DIR]", help="Where to put the store and the training set.")
    ] = Path("demo-pool"),
) -> None:
    """Walk the whole flow on real runs of scripted agents.

    The agents attempt tasks with real tools; their runs are stored, queried with SQL, shown, and
    exported as a training set. It takes seconds, and running it again adds nothing.

    Example: trajstore demo
    """
    from trajstore.pipeline import run_demo

    _say(
        "Scripted agents attempt tasks in the calculator environment: they search a small corpus,\n"
        "calculate, and answer. Some are careful; others have faults of several kinds."
    )
    store = open_store(str(folder), create=True)
    _say(_summary(run_demo(store), folder))
    _say("What you would do next, command by command:")
    _run("info", str(folder))
    for question, query in _QUERIES.items():
        _say(question)
        _run("query", str(folder), _dedented(query))
    _say("A run that was solved:")
    _run("show", str(folder), _first(store, "success and n_tool_calls > 1"))
    _say("And one that was not:")
    _run("show", str(folder), _first(store, "not success and n_tool_errors > 0"))
    _say("The successes as a training set:")
    sft = str(folder / "sft")
    _run("export", "sft", str(folder), "--to", "trl", "-o", sft)
    _say(
        f"Train on it: datasets.load_dataset({sft!r}) gives what TRL's SFTTrainer takes.\n"
        f"Look around: {_typed('shell', str(folder))}\n"
        f"Bring your own runs: {_typed('import', 'pool', 'runs/')}"
    )


def _summary(report: DemoReport, folder: Path) -> str:
    new = (
        f"{report.added} of them new" if report.added else "none of them new: same seed, same runs"
    )
    return (
        f"{report.attempts} attempts by {len(report.policies)} agents at {report.tasks} tasks, "
        f"{report.successes} solved.\nThey are in the store {folder}, {new}."
    )


def _dedented(query: str) -> str:
    lines = query.strip("\n").split("\n")
    return "\n".join(line.removeprefix(" " * 8) for line in lines)


def _first(store: Pool, condition: str) -> str:
    rows = store.query(_SHORTEST.format(condition)).read_all()
    return str(rows.column(0)[0].as_py())


def _say(text: str) -> None:
    out(paint(text, "yellow"))


def _run(*arguments: str) -> None:
    """Show a command as one would type it, and run it."""
    from trajstore_cli.main import app

    out("\n" + paint(f"$ {_typed(*arguments)}", "bold"))
    code = app(list(arguments), standalone_mode=False)
    if code:
        raise typer.Exit(code)
    out("")


def _typed(*arguments: str) -> str:
    return " ".join(["trajstore", *map(_quoted, arguments)])


def _quoted(argument: str) -> str:
    """As for a shell; SQL with its own single quotes and lines reads best in double ones."""
    plain = not any(c in argument for c in '"$`\\!')
    return f'"{argument}"' if plain and "\n" in argument else shlex.quote(argument)


def register(app: typer.Typer) -> None:
    """Add the command."""
    add(app, demo)
