"""``trajstore credit``, ``trajstore rewards`` and ``trajstore evaluators``."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from trajstore_cli._cells import table
from trajstore_cli._command import add
from trajstore_cli._options import AtOption, JsonOption, StoreArgument, open_store
from trajstore_cli._output import out, report, rows, say
from trajstore_cli._tables import tables_to
from trajstore_cli._values import as_json, settings
from trajstore_cli.pair import OutputOption, WhereOption
from trajstore_cli.select import SelectionOption, read_selection

if TYPE_CHECKING:
    from trajstore.pipeline import RewardReport

SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="A parameter, such as gamma=0.95; repeatable."),
]
WriteOption = Annotated[
    bool, typer.Option("--write", help="Keep the values as labels instead of printing them.")
]
CriterionOption = Annotated[
    str | None,
    typer.Option(
        help="What a run is worth: reward (default), success, or a label by its name; "
        "label:reward is a label of that name."
    ),
]


def credit(
    store: StoreArgument,
    method: Annotated[
        Literal["returns", "rtmc", "turn_advantages", "pivots", "subgoals", "groups"],
        typer.Option(help="How credit is computed."),
    ],
    parameter: SetOption = None,
    criterion: CriterionOption = None,
    where: WhereOption = None,
    selection: SelectionOption = None,
    at: AtOption = None,
    output: OutputOption = None,
    write: WriteOption = False,
    json: JsonOption = False,
) -> None:
    """Say which steps of the runs earned their outcome.

    Without --write one row a step goes to stdout (JSON lines) or to a Parquet file. Labels name the
    method and its parameters; the same credit twice is there once.

    Example: trajstore credit pool --method returns --set gamma=0.95 --write
    """
    from trajstore.pairs import RunRules
    from trajstore.pipeline.pairing import compute_credit, write_credit

    rules = None if criterion is None else RunRules(criterion=criterion, truncated="keep")
    pool = open_store(store)
    found = compute_credit(
        pool,
        method,
        read_selection(selection),
        where=where,
        rules=rules,
        at=at,
        **settings(parameter or (), hint="--set"),
    )
    if write:
        report(asdict(write_credit(pool, found)), json=json)
        return
    say(f"{found.rows.num_rows:,} values of {found.version}")
    with tables_to(output) as take:
        take(found.rows)


def rewards(
    store: StoreArgument,
    reward: Annotated[
        str, typer.Option(metavar="NAME", help="The reward; a wrong name lists them.")
    ],
    parameter: SetOption = None,
    where: WhereOption = None,
    selection: SelectionOption = None,
    at: AtOption = None,
    output: OutputOption = None,
    write: WriteOption = False,
    json: JsonOption = False,
) -> None:
    """Compute a reward of runs or steps by a published formula.

    Without --write the values go to stdout (JSON lines) or to a Parquet file, and what is to know
    about them to stderr. Labels name the formula and its parameters; the same values twice are
    there once.

    Example: trajstore rewards pool --reward turn-budget --set max_turns=30 --write
    """
    from trajstore.pipeline import write_rewards

    asked: dict[str, Any] = {"where": where, "selection": read_selection(selection), "at": at}
    parameters = settings(parameter or (), hint="--set")
    pool = open_store(store)
    if write:
        done = write_rewards(pool, reward, parameters, **asked)
        report(asdict(done), json=True) if json else report(_told(done), json=False)
        return
    with tables_to(output) as take:
        done = write_rewards(pool, reward, parameters, **asked, dry_run=True, each=take)
    told = {k: v for k, v in _told(done).items() if k not in {"labels", "already", "evaluator"}}
    say("  ".join(f"{k} {as_json(v)}" for k, v in told.items()))


def _told(done: RewardReport) -> dict[str, Any]:
    """The report with nested parts in words, empty ones left out."""
    values = asdict(done)
    spread, outranked = values.pop("spread"), values.pop("outranked")
    if spread["groups"]:
        values["tasks compared"] = spread["groups"]
        values["tasks without signal"] = done.spread.zero_variance
    if outranked:
        values["failure above a success in"] = ", ".join(outranked)
    return values


def evaluators(
    store: StoreArgument,
    rank: Annotated[
        str | None,
        typer.Option(metavar="A,B,...", help="Set whose outcome counts, the best first."),
    ] = None,
    json: JsonOption = False,
) -> None:
    """List evaluators, or rank them.

    Where several judged one run, the best-ranked counts; those not ranked come behind, the newest
    word first. --rank "" takes the ranking away.

    Example: trajstore evaluators pool --rank hidden-tests,llm-judge/rler/m
    """
    from trajstore.pipeline.evaluators import list_evaluators

    pool = open_store(store)
    if rank is not None:
        pool.rank_evaluators([name for name in map(str.strip, rank.split(",")) if name])
    found = [asdict(each) for each in list_evaluators(pool)]
    if json:
        rows(found)
    elif found:
        out(table(found))
    else:
        say("nobody has labelled a run, and no evaluator is ranked")


def register(app: typer.Typer) -> None:
    """Add the commands."""
    add(app, credit)
    add(app, rewards)
    add(app, evaluators)
