"""A preference set in a folder: data, dataset card, manifest."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa

from trajstore.errors import ExportError
from trajstore.exports.conversation import Runs
from trajstore.exports.files import Format
from trajstore.exports.manifest import ExportReport, Lineage
from trajstore.exports.preference import axolotl, llama_factory, nemo_rl, openai, openrlhf, trl
from trajstore.exports.preference.rows import (
    DEFAULT_OPTIONS,
    REFUSALS,
    PairRowOptions,
    pair_rows,
)
from trajstore.exports.preference.target import PairKind, PairTarget
from trajstore.exports.writing import (
    NO_LINEAGE,
    Out,
    Refused,
    Taken,
    TrainingSet,
    chosen_format,
    write_set,
)

PAIR_TARGETS: Mapping[str, PairTarget] = {
    module.TARGET.name: module.TARGET
    for module in (trl, openai, llama_factory, openrlhf, axolotl, nemo_rl)
}
"""Name -> target, in the order of the documentation."""

_ELSEWHERE: Mapping[str, str] = {
    "verl": "its only preference reader (RMDataset) takes rendered texts, no messages, and "
    "no trainer of verl uses it; trl and openrlhf read pairs of messages"
}


def pair_target(name: str, kind: PairKind) -> PairTarget:
    """The target of that name.

    Raises:
        ExportError: there is none, or not for that kind; the message names those that are.
    """
    if name in _ELSEWHERE:
        raise ExportError(f"there is no {kind} export to {name}: {_ELSEWHERE[name]}")
    known = ", ".join(t.name for t in PAIR_TARGETS.values() if kind in t.kinds)
    if name not in PAIR_TARGETS or kind not in PAIR_TARGETS[name].kinds:
        raise ExportError(f"there is no {kind} export to {name!r}; known are {known}")
    return PAIR_TARGETS[name]


def export_pairs(  # noqa: PLR0913 - what an export is told, each by name
    pairs: pa.Table,
    runs: Runs,
    out: Out,
    *,
    kind: PairKind = "dpo",
    to: str = "trl",
    format: Format | None = None,  # noqa: A002 - the word that users know from the command line
    lineage: Lineage = NO_LINEAGE,
    options: PairRowOptions = DEFAULT_OPTIONS,
    facts: Mapping[str, Any] | None = None,
) -> ExportReport:
    """Write a set of pairs: data, ``README.md`` and ``manifest.json``.

    A pair of whole runs holds everything from where the runs part to the last agent turn. Targets
    that compare single messages take pairs of steps and refuse others, with the way out.

    Args:
        pairs: rows of ``trajstore.pairs.PAIR_SCHEMA``.
        runs: gives the runs that pairs name.
        out: a folder, a text stream, or ``-`` for stdout (streams take JSON lines only), or None to
            only count.
        kind: ``dpo``, or ``reward`` for a reward model.
        to: the trainer.
        format: ``parquet`` or ``jsonl``; what the trainer prefers where None.
        lineage: how the pairs came about.
        options: what rows look like.
        facts: further entries of the manifest, such as the report of the pairs.

    Returns:
        What was written, and which pairs were refused.

    Raises:
        ExportError: an unknown target, a format that it does not take, a table that holds no pairs,
            or a folder with files of somebody else.
    """
    trainer = pair_target(to, kind)
    prepared = trainer.prepare(options, kind)
    seen: set[str] = set()
    rows = TrainingSet(
        kind=kind,
        to=trainer.name,
        format=chosen_format(trainer.name, trainer.formats, format),
        columns=trainer.columns(kind, prepared),
        found=_found(pairs, runs, trainer, kind, prepared, seen),
        usage=trainer.usages[kind],
        parameters=prepared.parameters(),
        reasons={**REFUSALS, **trainer.refusals},
        lineage=lineage,
        unit="pairs",
        facts=lambda: {"trajectories": len(seen), **(facts or {})},
        files=lambda data: trainer.further(kind, data),
    )
    return write_set(rows, out)


def _found(
    pairs: pa.Table,
    runs: Runs,
    trainer: PairTarget,
    kind: PairKind,
    options: PairRowOptions,
    seen: set[str],
) -> Iterator[Taken | Refused]:
    for row in pair_rows(pairs, runs, options):
        if isinstance(row, Refused):
            yield row
            continue
        record = trainer.record_or_refusal(row, kind, options)
        if isinstance(record, Refused):
            yield record
            continue
        seen.update((row.chosen_id, row.rejected_id))
        applied = {k: n for k, n in record.applied.items() if n}
        yield Taken(id=row.pair_id, values=record.values, rules={**row.applied, **applied})
