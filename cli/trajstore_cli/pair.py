"""``trajstore pairs`` and ``trajstore groups``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from trajstore_cli._command import add
from trajstore_cli._options import AtOption, FailEmptyOption, StoreArgument, open_reader
from trajstore_cli._output import say
from trajstore_cli._tables import tables_to
from trajstore_cli.select import SelectionOption, read_selection

if TYPE_CHECKING:
    import pyarrow as pa

    from trajstore.pairs import StepPairOptions, TrajectoryPairOptions

WhereOption = Annotated[
    str | None, typer.Option(metavar="SQL", help="Condition over trajectories.")
]
OutputOption = Annotated[
    Path | None,
    typer.Option("-o", "--output", metavar="FILE", help="Parquet; JSON lines if not given."),
]
CriterionOption = Annotated[
    str,
    typer.Option(
        help="What is compared: reward, success, or a label by its name; label:reward is a label "
        "of that name, which `rewards --write` makes."
    ),
]

LevelOption = Annotated[
    Literal["trajectory", "step"], typer.Option(help="Whole runs, or next actions.")
]
PolicyOption = Annotated[
    Literal["best_worst", "all_margin", "topk_bottomk", "adjacent", "hard_negatives"],
    typer.Option(help="Which runs of a task become a pair."),
]
MarginOption = Annotated[
    float | None, typer.Option(help="Least difference; 0 between runs, 0.5 between steps.")
]
VariantOption = Annotated[
    Literal["grpo", "rloo", "dr_grpo"], typer.Option(help="How advantages are made.")
]
StdOption = Annotated[
    Literal["population", "sample"], typer.Option(help="Divide by n, or by n - 1.")
]


def pairing_options(
    level: str, policy: str, criterion: str, margin: float | None
) -> TrajectoryPairOptions | StepPairOptions:
    """What the flags say about pairs."""
    from trajstore.pairs import RunRules, StepPairOptions, TrajectoryPairOptions

    given: dict[str, Any] = {"policy": policy, "runs": RunRules(criterion=criterion)}
    if margin is not None:
        given["margin"] = margin
    if level == "trajectory":
        return TrajectoryPairOptions(**given)
    return StepPairOptions(**given)


def pairs(
    store: StoreArgument,
    level: LevelOption = "trajectory",
    policy: PolicyOption = "best_worst",
    criterion: CriterionOption = "reward",
    margin: MarginOption = None,
    where: WhereOption = None,
    selection: SelectionOption = None,
    output: OutputOption = None,
    at: AtOption = None,
    fail_empty: FailEmptyOption = False,
) -> None:
    """Build preference pairs of runs, or of steps, at the same task.

    What was left out, and why, goes to stderr.

    Example: trajstore pairs pool --policy all_margin --margin 0.5 -o pairs.parquet
    """
    from trajstore.pipeline import build_pairs

    options = pairing_options(level, policy, criterion, margin)
    rows, report = build_pairs(
        open_reader(store, at), read_selection(selection), where=where, options=options
    )
    say(report.explain())
    _write(rows, output, fail_empty=fail_empty)


def groups(
    store: StoreArgument,
    variant: VariantOption = "grpo",
    std: StdOption = "population",
    criterion: CriterionOption = "reward",
    where: WhereOption = None,
    selection: SelectionOption = None,
    output: OutputOption = None,
    at: AtOption = None,
    fail_empty: FailEmptyOption = False,
) -> None:
    """Group the attempts at each task, with advantages.

    Groups without a signal (all alike) are labelled; their share goes to stderr.

    Example: trajstore groups pool --variant rloo -o groups.parquet
    """
    from trajstore.pairs import GroupOptions, RunRules
    from trajstore.pipeline import build_groups

    rules = RunRules(criterion=criterion, truncated="keep")
    rows, report = build_groups(
        open_reader(store, at),
        read_selection(selection),
        where=where,
        options=GroupOptions(variant=variant, std=std, runs=rules),
    )
    say(report.explain())
    _write(rows, output, fail_empty=fail_empty)


def _write(rows: pa.Table, output: Path | None, *, fail_empty: bool) -> None:
    with tables_to(output) as take:
        take(rows)
    if fail_empty and not rows.num_rows:
        raise typer.Exit(1)


def register(app: typer.Typer) -> None:
    """Add the commands."""
    add(app, pairs)
    add(app, groups)
