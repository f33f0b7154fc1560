"""``trajstore export``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from trajstore_cli import export_atif, export_pairs, export_rl
from trajstore_cli._command import add
from trajstore_cli._exporting import (
    ArgumentsOption,
    ConsecutiveOption,
    EnvironmentOption,
    FormatOption,
    MediaOption,
    OutputOption,
    ReasoningOption,
    checked_format,
    tell,
)
from trajstore_cli._options import (
    AtOption,
    DryRunOption,
    FailEmptyOption,
    JsonOption,
    StoreArgument,
    open_store,
)
from trajstore_cli.pair import WhereOption
from trajstore_cli.select import SelectionOption, read_selection

app = typer.Typer(
    no_args_is_help=True, help="Write training sets in the shape that a trainer reads."
)


ToOption = Annotated[
    Literal["trl", "openai", "llama-factory", "verl", "openrlhf", "axolotl"],
    typer.Option(help="Trainer."),
]
FailuresOption = Annotated[
    bool,
    typer.Option("--include-failures", help="Also runs that failed or have no known outcome."),
]
LayoutOption = Annotated[
    Literal["messages", "prompt-completion"],
    typer.Option(help="One row a run, or one for each stretch of turns to train on."),
]
MaskedTurnsOption = Annotated[
    Literal["refuse", "keep"],
    typer.Option(help="Runs with agent turns not to train on (copied, format errors)."),
]
FormatErrorsOption = Annotated[
    bool, typer.Option("--train-format-errors", help="Train on turns that did not parse.")
]
MaxTokensOption = Annotated[
    int | None,
    typer.Option(
        metavar="N", min=1, help="Split longer runs where their context was condensed, or refuse."
    ),
]
TokenizerOption = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="A tokenizer.json to count by; estimated if not given."),
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
    max_tokens: MaxTokensOption = None,
    tokenizer: TokenizerOption = None,
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
        max_tokens=max_tokens,
        tokenizer=None if tokenizer is None else str(tokenizer),
    )
    done = open_store(store).export_sft(
        None if dry_run else output,
        to=to,
        where=where,
        selection=read_selection(selection),
        success_only=not include_failures,
        at=at,
        format=checked_format(output, format),
        options=options,
    )
    hint = "--include-failures and --where say which runs are taken"
    tell(done, output, dry_run=dry_run, json=json, fail_empty=fail_empty, hint=hint)


def register(main: typer.Typer) -> None:
    """Add the commands."""
    if not app.registered_commands:
        add(app, sft)
        export_pairs.register(app)
        export_rl.register(app)
        export_atif.register(app)
    main.add_typer(app, name="export")
