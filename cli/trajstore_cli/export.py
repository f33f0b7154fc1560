"""``trajstore export``."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from trajstore_cli._cells import pairs
from trajstore_cli._command import add
from trajstore_cli._options import (
    AtOption,
    DryRunOption,
    FailEmptyOption,
    JsonOption,
    StoreArgument,
    open_store,
)
from trajstore_cli._output import out, say
from trajstore_cli._values import as_json
from trajstore_cli.select import SelectionOption, read_selection

if TYPE_CHECKING:
    from trajstore.exports import ExportReport

app = typer.Typer(
    no_args_is_help=True, help="Write training sets in the shape that a trainer reads."
)


OutputOption = Annotated[
    Path, typer.Option("-o", "--output", metavar="DIR", help="Folder; - is stdout (jsonl).")
]
ToOption = Annotated[
    Literal["trl", "openai", "llama-factory", "verl", "openrlhf", "axolotl"],
    typer.Option(help="Trainer."),
]
WhereOption = Annotated[
    str | None, typer.Option(metavar="SQL", help="Condition over trajectories.")
]
FailuresOption = Annotated[
    bool,
    typer.Option("--include-failures", help="Also runs that failed or have no known outcome."),
]
LayoutOption = Annotated[
    Literal["messages", "prompt-completion"],
    typer.Option(help="One row a run, or one for each stretch of turns to train on."),
]
ArgumentsOption = Annotated[
    Literal["object", "text"],
    typer.Option(help="Arguments of calls parsed, or as the model wrote them."),
]
ReasoningOption = Annotated[
    bool, typer.Option("--reasoning/--no-reasoning", help="Keep the reasoning or leave it out.")
]
MaskedTurnsOption = Annotated[
    Literal["refuse", "keep"],
    typer.Option(help="Runs with agent turns not to train on (copied, format errors)."),
]
FormatErrorsOption = Annotated[
    bool, typer.Option("--train-format-errors", help="Train on turns that did not parse.")
]
MediaOption = Annotated[
    Literal["refuse", "mark"],
    typer.Option(help="Runs with images or audio: refuse them, or write marks such as [image]."),
]
EnvironmentOption = Annotated[
    Literal["user", "drop"],
    typer.Option(help="Environment steps become user messages, or are left out."),
]
ConsecutiveOption = Annotated[
    Literal["keep", "merge"],
    typer.Option(help="User or system messages in a row stay, or become one."),
]
FormatOption = Annotated[
    Literal["parquet", "jsonl"] | None,
    typer.Option("--format", help="What the trainer prefers if not given; stdout takes jsonl."),
]


def sft(
    store: StoreArgument,
    output: OutputOption,
    to: ToOption = "trl",
    where: WhereOption = None,
    selection: SelectionOption = None,
    include_failures: FailuresOption = False,
    layout: LayoutOption = "messages",
    arguments: ArgumentsOption = "object",
    reasoning: ReasoningOption = True,
    masked_turns: MaskedTurnsOption = "refuse",
    train_format_errors: FormatErrorsOption = False,
    media: MediaOption = "refuse",
    environment: EnvironmentOption = "user",
    consecutive: ConsecutiveOption = "keep",
    format: FormatOption = None,  # noqa: A002  the name of the flag
    at: AtOption = None,
    fail_empty: FailEmptyOption = False,
    dry_run: DryRunOption = False,
    json: JsonOption = False,
) -> None:
    """Write a supervised fine-tuning set.

    Successes only, unless told otherwise. The folder gets the rows, a dataset card and a manifest
    with the snapshot, the selection and the count left after each stage. A run that cannot be told
    to the trainer is refused, with the reason.

    Example: trajstore export sft pool -o sft/ --where "environment = 'airline'"
    """
    from trajstore.exports import SftOptions

    options = SftOptions(
        layout=layout,
        arguments=arguments,
        include_reasoning=reasoning,
        masked_turns=masked_turns,
        train_format_errors=train_format_errors,
        media=media,
        environment=environment,
        consecutive=consecutive,
    )
    done = open_store(store).export_sft(
        None if dry_run else output,
        to=to,
        where=where,
        selection=read_selection(selection),
        success_only=not include_failures,
        at=at,
        format=_format(output, format),
        options=options,
    )
    _tell(done, output, dry_run=dry_run, json=json)
    if not done.rows and fail_empty:
        raise typer.Exit(1)


def _format(
    output: Path, given: Literal["parquet", "jsonl"] | None
) -> Literal["parquet", "jsonl"] | None:
    if str(output) == "-":
        if given == "parquet":
            raise typer.BadParameter("stdout takes jsonl only", param_hint="--format")
        return "jsonl"
    if output.suffix in {".parquet", ".jsonl"} and not output.is_dir():
        message = (
            f"{output} looks like a file; an export goes into a folder that also holds a manifest. "
            "For rows alone: -o - > FILE"
        )
        raise typer.BadParameter(message, param_hint="--output")
    return given


def _tell(done: ExportReport, output: Path, *, dry_run: bool, json: bool) -> None:
    """The report on stdout (on stderr where rows are there); the stages behind it on stderr."""
    values = dict(done.manifest)
    to_stdout = str(output) == "-" and not dry_run
    show = say if to_stdout else out
    if json:
        show(as_json(values))
        return
    _tell_stages(values)
    if not done.rows:
        say("no row is left; --include-failures and --where say which runs are taken")
    where = {"would write to" if dry_run else "output": "stdout" if to_stdout else str(output)}
    show(pairs({"rows": done.rows, "trajectories": done.runs, **where}))


def _tell_stages(manifest: Mapping[str, Any]) -> None:
    from trajstore.exports import REFUSALS

    for stage in manifest["selection_funnel"]:
        dropped = ", ".join(f"{reason} {n:,}" for reason, n in stage["dropped"].items())
        counts = f"{stage['in']:>8,} -> {stage['out']:>8,}"
        say(f"{stage['stage']:<12} {counts}" + (f"   {dropped}" if dropped else ""))
    for reason, number in manifest["refused"].items():
        text = f"refused {number:,} as {reason}: {as_flags(REFUSALS[reason])}"
        say(textwrap.fill(text, 100, subsequent_indent="  ", break_on_hyphens=False))


def as_flags(text: str) -> str:
    """A hint in Python's words in those of the command line.

    >>> as_flags("masked_turns='keep' keeps it")
    '--masked-turns keep keeps it'
    """
    return re.sub(r"(\w+)='([\w-]+)'", lambda m: f"--{m[1].replace('_', '-')} {m[2]}", text)


def register(main: typer.Typer) -> None:
    """Add the commands."""
    if not app.registered_commands:
        add(app, sft)
    main.add_typer(app, name="export")
