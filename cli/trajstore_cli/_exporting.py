"""What the export commands share: options about messages, the format, and the report."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from trajstore_cli._cells import pairs
from trajstore_cli._output import out, say
from trajstore_cli._values import as_json

if TYPE_CHECKING:
    from trajstore.exports import ExportReport

Format = Literal["parquet", "jsonl"]

OutputOption = Annotated[
    Path, typer.Option("-o", "--output", metavar="DIR", help="Folder; - is stdout (jsonl).")
]
ArgumentsOption = Annotated[
    Literal["object", "text"],
    typer.Option(help="Arguments of calls parsed, or as the model wrote them."),
]
ReasoningOption = Annotated[
    bool, typer.Option("--reasoning/--no-reasoning", help="Keep the reasoning or leave it out.")
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


def checked_format(output: Path, given: Format | None) -> Format | None:
    """The format that was asked for: JSON lines for stdout, and no file name for a folder."""
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


def tell(
    done: ExportReport,
    output: Path,
    *,
    dry_run: bool,
    json: bool,
    fail_empty: bool,
    hint: str = "--where and --selection say which runs are taken",
) -> None:
    """The report on stdout (on stderr where rows are there); the stages behind it on stderr."""
    values = dict(done.manifest)
    to_stdout = str(output) == "-" and not dry_run
    show = say if to_stdout else out
    if json:
        show(as_json(values))
    else:
        _tell_stages(done)
        if not done.rows:
            say(f"no row is left; {hint}")
        units: dict[str, Any] = {u: values[u] for u in ("pairs", "tasks") if u in values}
        where = "stdout" if to_stdout else str(output)
        place = {"would write to" if dry_run else "output": where}
        show(pairs({"rows": done.rows, **units, "trajectories": done.runs, **place}))
    if fail_empty and not done.rows:
        raise typer.Exit(1)


def _tell_stages(done: ExportReport) -> None:
    for stage in done.manifest["selection_funnel"]:
        say(_stage_line(stage))
    for reason, number in done.refused.items():
        first = done.refused_ids[reason][0]
        text = f"refused {number:,} as {reason}: {as_flags(done.reasons[reason])} (first: {first})"
        say(textwrap.fill(text, 100, subsequent_indent="  ", break_on_hyphens=False))


def _stage_line(stage: Mapping[str, Any]) -> str:
    dropped = ", ".join(f"{reason} {n:,}" for reason, n in stage["dropped"].items())
    unit = f" {stage['unit']}" if "unit" in stage else ""
    counts = f"{stage['in']:>8,} -> {stage['out']:>8,}{unit}"
    return f"{stage['stage']:<12} {counts}" + (f"   {dropped}" if dropped else "")


def as_flags(text: str) -> str:
    """A hint in Python's words in those of the command line.

    >>> as_flags("masked_turns='keep' keeps it, temperature=1.0 sets it")
    '--masked-turns keep keeps it, --temperature 1.0 sets it'
    """
    found = r"(\w+)=(?:'([\w-]+)'|(\d+\.?\d*))"
    return re.sub(found, lambda m: f"--{m[1].replace('_', '-')} {m[2] or m[3]}", text)
