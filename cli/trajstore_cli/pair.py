"""``trajstore pairs`` and ``trajstore groups``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from trajstore_cli._command import add
from trajstore_cli._options import AtOption, FailEmptyOption, StoreArgument, open_reader
from trajstore_cli._output import out, say
from trajstore_cli._values import as_json
from trajstore_cli.select import SelectionOption, read_selection

if TYPE_CHECKING:
    import pyarrow as pa

WhereOption = Annotated[
    str | None, typer.Option(metavar="SQL", help="Condition over trajectories.")
]
OutputOption = Annotated[
    Path | None,
    typer.Option("-o", "--output", metavar="FILE", help="Parquet; JSON lines if not given."),
]
CriterionOption = Annotated[
    str, typer.Option(help="What is compared: reward, success, or the name of a label.")
]


def pairs(
    store: StoreArgument,
    level: Annotated[
        Literal["trajectory", "step"], typer.Option(help="Whole runs, or next actions.")
    ] = "trajectory",
    policy: Annotated[
        Literal["best_worst", "all_margin", "topk_bottomk", "adjacent", "hard_negatives"],
        typer.Option(help="Which runs of a task become a pair."),
    ] = "best_worst",
    criterion: CriterionOption = "reward",
    margin: Annotated[
        float | None, typer.Option(help="Least difference; 0 between runs, 0.5 between steps.")
    ] = None,
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
    from trajstore.pairs import RunRules, StepPairOptions, TrajectoryPairOptions
    from trajstore.pipeline import build_pairs

    rules = RunRules(criterion=criterion)
    options: TrajectoryPairOptions | StepPairOptions
    if level == "trajectory":
        options = TrajectoryPairOptions(policy=policy, margin=margin or 0.0, runs=rules)
    else:
        given: dict[str, Any] = {"policy": policy}
        if margin is not None:
            given["margin"] = margin
        options = StepPairOptions(**given, runs=rules)
    rows, report = build_pairs(
        open_reader(store, at), read_selection(selection), where=where, options=options
    )
    say(report.explain())
    _write(rows, output, fail_empty=fail_empty)


def groups(
    store: StoreArgument,
    variant: Annotated[
        Literal["grpo", "rloo", "dr_grpo"], typer.Option(help="How advantages are made.")
    ] = "grpo",
    std: Annotated[
        Literal["population", "sample"], typer.Option(help="Divide by n, or by n - 1.")
    ] = "population",
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
    if output is None or str(output) == "-":
        for batch in rows.to_batches(max_chunksize=10_000):
            for row in batch.to_pylist():
                out(as_json(row))
    else:
        import pyarrow.parquet as pq

        pq.write_table(rows, output, compression="zstd")
    if fail_empty and not rows.num_rows:
        raise typer.Exit(1)


def register(app: typer.Typer) -> None:
    """Add the commands."""
    add(app, pairs)
    add(app, groups)
