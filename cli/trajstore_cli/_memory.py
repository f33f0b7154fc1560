"""What the commands of reflections, workflows and insights print alike."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from trajstore_cli._cells import table
from trajstore_cli._output import out, report, rows, say

if TYPE_CHECKING:
    from trajstore.retrieval import Hits

EveryOption = Annotated[
    bool, typer.Option("--all", help="Also those that are out of service, with why.")
]
ReferenceArgument = Annotated[
    str, typer.Argument(metavar="ID", help="Its id, or the beginning of it.")
]
TaskOption = Annotated[
    str | None,
    typer.Option("--task", metavar="T", help="The task that asks: what comes from it is left out."),
]
InEnvironmentOption = Annotated[
    str | None, typer.Option("--environment", metavar="E", help="Only of this environment.")
]
BudgetOption = Annotated[
    int | None, typer.Option(metavar="N", min=1, help="Tokens of all texts at most.")
]


def listed(values: Iterable[Mapping[str, Any]], *, json: bool, noun: str) -> None:
    """Print items: JSON lines, or a table with the first characters of each text."""
    if json:
        rows(values)
        return
    found = [dict(v) for v in values]
    if found:
        out(table(found))
    else:
        say(f"there are no {noun}")


def found_by(hits: Hits, *, json: bool, noun: str) -> None:
    """Print what a search found, and what was cut."""
    found = [
        {"rank": n, "score": round(h.score, 4), "id": h.item_id, "task": h.task_id, "text": h.text}
        for n, h in enumerate(hits, start=1)
    ]
    if json:
        told = {"mode": hits.mode, "cuts": dict(hits.cuts), "notes": list(hits.notes)}
        report({"hits": found, **told}, json=True)
        return
    if found:
        out(table(found))
    for note in hits.notes:
        say(note)
    if not found:
        say(f"no {noun} fits")
