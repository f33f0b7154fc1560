"""``trajstore export prompts`` and ``grpo``."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

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
from trajstore_cli.pair import CriterionOption, StdOption, VariantOption, WhereOption
from trajstore_cli.select import SelectionOption, read_selection


def prompts(
    store: StoreArgument,
    output: OutputOption,
    to: Annotated[
        Literal["trl", "verl", "openrlhf"], typer.Option(help="Trainer that samples for itself.")
    ] = "trl",
    differing: Annotated[
        Literal["shared", "first"],
        typer.Option(help="Attempts that open differently: what they share, or the first one's."),
    ] = "shared",
    ground_truth: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Name of the answer in the metadata; else no answer."),
    ] = None,
    data_source: Annotated[
        str | None, typer.Option(help="verl's data_source; the environment if not given.")
    ] = None,
    where: WhereOption = None,
    selection: SelectionOption = None,
    media: MediaOption = "refuse",
    environment: EnvironmentOption = "user",
    consecutive: ConsecutiveOption = "keep",
    format: FormatOption = None,  # noqa: A002  the name of the flag
    at: AtOption = None,
    fail_empty: FailEmptyOption = False,
    dry_run: DryRunOption = False,
    json: JsonOption = False,
) -> None:
    """Write one prompt a task, for trainers that sample for themselves (GRPO, PPO, RLOO).

    The prompt is what all attempts at the task begin with. No row holds an answer unless
    --ground-truth names it.

    Example: trajstore export prompts pool --to verl -o prompts/
    """
    from trajstore.exports.rl import PromptOptions
    from trajstore.pipeline.exporting_rl import export_prompts_from

    done = export_prompts_from(
        open_store(store),
        None if dry_run else output,
        to=to,
        selection=read_selection(selection),
        where=where,
        at=at,
        format=checked_format(output, format),
        options=PromptOptions(
            differing=differing,
            ground_truth=ground_truth,
            data_source=data_source,
            media=media,
            environment=environment,
            consecutive=consecutive,
        ),
    )
    tell(done, output, dry_run=dry_run, json=json, fail_empty=fail_empty)


def grpo(
    store: StoreArgument,
    output: OutputOption,
    to: Annotated[str, typer.Option(help="messages, or prime-rl for token rows.")] = "messages",
    variant: VariantOption = "grpo",
    std: StdOption = "population",
    criterion: CriterionOption = "reward",
    keep_zero_variance: Annotated[
        bool,
        typer.Option("--keep-zero-variance", help="Also groups without a signal, labelled so."),
    ] = False,
    temperature: Annotated[
        float | None,
        typer.Option(min=0.0, help="prime-rl: of sampling, for steps that do not say."),
    ] = None,
    where: WhereOption = None,
    selection: SelectionOption = None,
    arguments: ArgumentsOption = "object",
    reasoning: ReasoningOption = True,
    media: MediaOption = "refuse",
    environment: EnvironmentOption = "user",
    consecutive: ConsecutiveOption = "keep",
    format: FormatOption = None,  # noqa: A002  the name of the flag
    at: AtOption = None,
    fail_empty: FailEmptyOption = False,
    dry_run: DryRunOption = False,
    json: JsonOption = False,
) -> None:
    """Write groups of attempts with their advantages, to train on stored runs.

    Groups are those of `trajstore groups`. Groups without a signal (all alike) are left out and
    counted.

    Example: trajstore export grpo pool --to messages -o grpo/ --variant rloo
    """
    from trajstore.exports.rl import GroupRowOptions
    from trajstore.pairs import GroupOptions, RunRules
    from trajstore.pipeline.exporting_rl import export_groups_from

    done = export_groups_from(
        open_store(store),
        None if dry_run else output,
        to=to,
        selection=read_selection(selection),
        where=where,
        grouping=GroupOptions(
            variant=variant,
            std=std,
            no_signal="keep" if keep_zero_variance else "drop-zero-variance",
            runs=RunRules(criterion=criterion, truncated="keep"),
        ),
        at=at,
        format=checked_format(output, format),
        options=GroupRowOptions(
            arguments=arguments,
            include_reasoning=reasoning,
            media=media,
            environment=environment,
            consecutive=consecutive,
            temperature=temperature,
        ),
    )
    tell(done, output, dry_run=dry_run, json=json, fail_empty=fail_empty)


def register(export: typer.Typer) -> None:
    """Add the commands to the group ``export``."""
    add(export, prompts)
    add(export, grpo)
