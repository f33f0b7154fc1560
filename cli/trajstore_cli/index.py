"""``trajstore index``."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

import typer

from trajstore_cli._command import add
from trajstore_cli._options import JsonOption, StoreArgument, open_store
from trajstore_cli._output import out
from trajstore_cli._progress import count_progress
from trajstore_cli._values import as_json

EmbedderOption = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="minilm, hashing (no model), openai:MODEL@URL, none (words alone), or a "
        "sentence-transformers model; the index's own, or minilm, if not given.",
    ),
]
LevelOption = Annotated[
    list[str] | None,
    typer.Option(
        "--level",
        metavar="LEVEL",
        help="trajectory, step, skill, reflection, workflow, insight; may be given again. "
        "Trajectories and steps if not given.",
    ),
]


def index(
    store: StoreArgument,
    embedder: EmbedderOption = None,
    level: LevelOption = None,
    rebuild: Annotated[
        bool,
        typer.Option(
            "--rebuild", help="Make it anew: another embedder, or the old index is damaged."
        ),
    ] = False,
    json: JsonOption = False,
) -> None:
    """Bring the search index of a store up to date.

    Only what is new is embedded, in commits of a few thousand items, so a build that was stopped
    goes on where it was. Searches go on meanwhile.

    Example: trajstore index pool --embedder minilm
    """
    from trajstore.retrieval import build_index

    levels: Any = tuple(dict.fromkeys(level or ("trajectory", "step")))
    pool = open_store(store)
    with count_progress("indexing", quiet=json) as progress:
        done = build_index(
            pool, embedder=embedder, levels=levels, rebuild=rebuild, progress=progress
        )
    if json:
        out(as_json(asdict(done)))
        return
    for name, level_done in done.levels.items():
        counts = asdict(level_done)
        made_by = counts.pop("embedder")
        parts = ", ".join(f"{count:,} {what}" for what, count in counts.items())
        out(f"{name} ({made_by}): {parts}")


def register(app: typer.Typer) -> None:
    """Add the command."""
    add(app, index)
