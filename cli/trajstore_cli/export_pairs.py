"""``trajstore export dpo``, ``reward`` and ``kto``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

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
from trajstore_cli.pair import (
    CriterionOption,
    LevelOption,
    MarginOption,
    PolicyOption,
    WhereOption,
    pairing_options,
)
from trajstore_cli.select import SelectionOption, read_selection

if TYPE_CHECKING:
    import pyarrow as pa

ToOption = Annotated[
    str,
    typer.Option(
        help="Trainer: trl takes whole runs; openai, llama-factory, openrlhf, axolotl and nemo-rl "
        "take pairs of single steps."
    ),
]
RewardToOption = Annotated[
    str,
    typer.Option(
        help="Trainer: trl, openrlhf and nemo-rl take whole runs, llama-factory single steps."
    ),
]
PairsOption = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Pairs that `trajstore pairs -o` wrote, instead."),
]
MarginColumnOption = Annotated[
    bool,
    typer.Option("--margin-column", help="Write the margin, which trl and openrlhf then train on."),
]


def dpo(
    store: StoreArgument,
    output: OutputOption,
    to: ToOption = "trl",
    level: LevelOption = "trajectory",
    policy: PolicyOption = "best_worst",
    criterion: CriterionOption = "reward",
    margin: MarginOption = None,
    pairs: PairsOption = None,
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
    """Write a preference set for DPO.

    Pairs are built as `trajstore pairs` builds them, or taken from a file that it wrote. A pair
    that the trainer cannot read is refused, with its id and the way out.

    Example: trajstore export dpo pool --to trl -o dpo/ --policy all_margin --margin 0.5
    """
    from trajstore.exports.preference import PairRowOptions
    from trajstore.pipeline.exporting_pairs import export_pairs_from

    given = _read_pairs(pairs, built=(level, policy, criterion, margin))
    done = export_pairs_from(
        open_store(store),
        None if dry_run else output,
        kind="dpo",
        to=to,
        selection=read_selection(selection),
        where=where,
        pairs=given,
        pairing=pairing_options(level, policy, criterion, margin),
        at=at,
        format=checked_format(output, format),
        options=PairRowOptions(
            arguments=arguments,
            include_reasoning=reasoning,
            media=media,
            environment=environment,
            consecutive=consecutive,
        ),
    )
    tell(done, output, dry_run=dry_run, json=json, fail_empty=fail_empty, hint=_HINT)


def reward(
    store: StoreArgument,
    output: OutputOption,
    to: RewardToOption = "trl",
    level: LevelOption = "trajectory",
    policy: PolicyOption = "best_worst",
    criterion: CriterionOption = "reward",
    margin: MarginOption = None,
    margin_column: MarginColumnOption = False,
    pairs: PairsOption = None,
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
    """Write a preference set for a reward model.

    Pairs are those of `trajstore pairs`; the model learns to score the chosen side above the other.

    Example: trajstore export reward pool --to trl -o reward/
    """
    from trajstore.exports.preference import PairRowOptions
    from trajstore.pipeline.exporting_pairs import export_pairs_from

    given = _read_pairs(pairs, built=(level, policy, criterion, margin))
    done = export_pairs_from(
        open_store(store),
        None if dry_run else output,
        kind="reward",
        to=to,
        selection=read_selection(selection),
        where=where,
        pairs=given,
        pairing=pairing_options(level, policy, criterion, margin),
        at=at,
        format=checked_format(output, format),
        options=PairRowOptions(
            arguments=arguments,
            include_reasoning=reasoning,
            media=media,
            environment=environment,
            consecutive=consecutive,
            margin=margin_column,
        ),
    )
    tell(done, output, dry_run=dry_run, json=json, fail_empty=fail_empty, hint=_HINT)


_HINT = "`trajstore pairs` says what was left out, and why"


def _read_pairs(path: Path | None, *, built: tuple[str, str, str, float | None]) -> pa.Table | None:
    """The pairs of a file; flags that say how to build pairs do not go with it."""
    if path is None:
        return None
    if built != ("trajectory", "best_worst", "reward", None):
        message = "the pairs are built already; --level, --policy, --criterion, --margin build new"
        raise typer.BadParameter(message, param_hint="--pairs")
    if not path.is_file():
        raise typer.BadParameter(f"there is no file {path}", param_hint="--pairs")
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return pq.read_table(path)
    except pa.ArrowInvalid as error:
        message = f"{path} is no Parquet file; `trajstore pairs -o FILE` writes one"
        raise typer.BadParameter(message, param_hint="--pairs") from error


def kto(
    store: StoreArgument,
    output: OutputOption,
    to: Annotated[
        Literal["trl", "llama-factory"],
        typer.Option(help="Trainer; llama-factory takes runs of a single agent turn."),
    ] = "trl",
    criterion: Annotated[
        str,
        typer.Option(
            help="What a run is judged by: success, reward, or a label by its name; label:reward "
            "is a label of that name."
        ),
    ] = "success",
    pass_threshold: Annotated[
        float, typer.Option(help="Least value of a good run; a verdict is worth 1 or 0.")
    ] = 1.0,
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
    """Write a KTO set: single runs, each labelled good or bad.

    Runs of unknown outcome never enter.

    Example: trajstore export kto pool --to trl -o kto/
    """
    from trajstore.exports.kto import KtoOptions
    from trajstore.pairs import RunRules
    from trajstore.pipeline.exporting_pairs import export_kto_from

    done = export_kto_from(
        open_store(store),
        None if dry_run else output,
        to=to,
        selection=read_selection(selection),
        where=where,
        rules=RunRules(criterion=criterion, truncated="keep"),
        pass_threshold=pass_threshold,
        at=at,
        format=checked_format(output, format),
        options=KtoOptions(
            arguments=arguments,
            include_reasoning=reasoning,
            media=media,
            environment=environment,
            consecutive=consecutive,
        ),
    )
    tell(done, output, dry_run=dry_run, json=json, fail_empty=fail_empty)


def register(export: typer.Typer) -> None:
    """Add the commands to the group ``export``."""
    add(export, dpo)
    add(export, reward)
    add(export, kto)
