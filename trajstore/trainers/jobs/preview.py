"""What a job would train on, without training: rows with their mask, counts, refusals."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from trajstore.errors import TrainingError
from trajstore.store import Store
from trajstore.trainers.jobs.kinds import KINDS
from trajstore.trainers.jobs.run import JobRun
from trajstore.trainers.jobs.start import read_job
from trajstore.trainers.rows import TokenRow

SHOWN = 10
"""Rows that a preview renders."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A piece of a row that is trained on throughout, or not at all."""

    text: str
    """As the tokens decode."""
    trained: bool
    """Whether loss falls on it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownRow:
    """One rendered row."""

    trajectory_id: str
    """The run that it comes from."""
    tokens: int
    """Length."""
    trained: int
    """Tokens that carry loss."""
    spans: tuple[Span, ...]
    """The whole of it, in order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """What a job would begin with."""

    snapshot: int
    """What examples would be read from."""
    runs: int
    """Runs that ``[data]`` names; 0 for a job that samples its own."""
    rows: int
    """Rows of them."""
    tokens: int
    """Of all rows."""
    trained: int
    """Of them, tokens that carry loss."""
    longest: int
    """Tokens of the longest row."""
    cut: int
    """Rows that end early for ``max_tokens``."""
    refused: Mapping[str, int]
    """Reason -> runs that gave no row for it."""
    first_refused: Mapping[str, str]
    """Reason -> the first such run, with all that was said of it."""
    unused: Mapping[str, int]
    """What runs have stored and is not used -> so many runs, such as token ids of another
    tokenizer."""
    train_tasks: int
    """Tasks that would be attempted and trained on."""
    held_out_tasks: int
    """Tasks that would be measured on."""
    shown: tuple[ShownRow, ...]
    """The first rows."""


def preview_job(
    kind: str,
    path: str | Path,
    *,
    store: Store | None = None,
    seed: int | None = None,
) -> Preview:
    """Everything up to the first step: the file, the store, the tokenizer, the rows.

    Nothing is written: neither the job's folder nor the store. A tokenizer from scratch is trained,
    into a folder that is removed again.

    Args:
        kind: of job.
        path: the TOML file.
        store: instead of opening the one that the file names.
        seed: instead of the file's.

    Raises:
        TrainingError: the file is wrong, or there is nothing to train on.
        StoreNotFoundError: there is no store.
    """
    config = read_job(kind, path, seed=seed)
    if store is None:
        uri = config.located(config.job.store)
        store = Store(uri, create=False)
    with tempfile.TemporaryDirectory() as folder:
        job = JobRun(config, store, scratch=Path(folder) / "job")
        reads = kind == "rft" and (config.data.where or config.data.selection)
        return _preview(job, with_rows=bool(reads) or not KINDS[kind].samples(config))


def _preview(job: JobRun, *, with_rows: bool) -> Preview:
    rows: list[TokenRow] = []
    refused: Counter[str] = Counter()
    first: dict[str, str] = {}
    runs = 0
    if with_rows:
        found = job.examples(job.runs())
        rows, runs = found.rows, found.runs
        for each in found.refused:
            reason = _general(each.reason, each.trajectory_id)
            refused[reason] += 1
            first.setdefault(reason, each.reason)
    if with_rows and not rows and not refused:
        raise TrainingError("there is nothing to train on")
    return Preview(
        snapshot=job.reader.snapshot.version,
        runs=runs,
        rows=len(rows),
        tokens=sum(len(r.token_ids) for r in rows),
        trained=sum(r.n_action_tokens for r in rows),
        longest=max((len(r.token_ids) for r in rows), default=0),
        cut=sum(bool(r.cut_steps) for r in rows),
        refused=dict(refused.most_common()),
        first_refused=first,
        unused=dict(
            Counter(
                why for _, why in sorted({(r.trajectory_id, w) for r in rows for w in r.unused})
            )
        ),
        train_tasks=len(job.tasks.train),
        held_out_tasks=len(job.tasks.held_out),
        shown=tuple(rendered(r, job.tokenizer) for r in rows[:SHOWN]),
    )


def _general(reason: str, name: str) -> str:
    """A reason without the run that it speaks of, so that equal ones can be counted."""
    return reason.replace(f"run {name}: ", "").replace(name, "the run")


def rendered(row: TokenRow, tokenizer: Any) -> ShownRow:
    """A row as text, in pieces that are trained on or not.

    Args:
        row: what to show.
        tokenizer: that its tokens are of.
    """
    marked = zip(row.token_ids.tolist(), row.action_mask.tolist(), strict=True)
    spans = [
        Span(text=_text([i for i, _ in part], tokenizer), trained=bool(trained))
        for trained, part in groupby(marked, key=lambda pair: pair[1])
    ]
    return ShownRow(
        trajectory_id=row.trajectory_id,
        tokens=len(row.token_ids),
        trained=row.n_action_tokens,
        spans=tuple(spans),
    )


def _text(ids: Sequence[int], tokenizer: Any) -> str:
    text: str = tokenizer.decode(
        list(ids), skip_special_tokens=False, clean_up_tokenization_spaces=False
    )
    return text
