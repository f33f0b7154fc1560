"""Pairs of a store, and runs with a verdict, as training sets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from trajstore.errors import ExportError
from trajstore.exports import ExportReport, Format, Lineage
from trajstore.exports.kto import DEFAULT_OPTIONS as KTO_DEFAULTS
from trajstore.exports.kto import Judged, KtoOptions, export_kto, kto_target
from trajstore.exports.preference import (
    DEFAULT_OPTIONS,
    PairKind,
    PairRowOptions,
    export_pairs,
    pair_target,
)
from trajstore.filters import Selection
from trajstore.pairs import DEFAULT_OPTIONS as BEST_WORST
from trajstore.pairs import (
    PairReport,
    RunRules,
    StepPairOptions,
    TrajectoryPairOptions,
    judged_runs,
)
from trajstore.pipeline.export_sources import (
    lineage_of,
    reader_of,
    stage_entry,
    with_stage,
)
from trajstore.pipeline.pairing import build_pairs
from trajstore.pipeline.pairing_input import pairing_input
from trajstore.store import Reader, Store

_RUNS_A_READ = 64
_VERDICTS = RunRules(criterion="success", truncated="keep")
"""Runs with a verdict, those that were cut off too."""


def export_pairs_from(  # noqa: PLR0913  one parameter a flag of the command
    store: Store,
    out: Path | str | None,
    *,
    kind: PairKind = "dpo",
    to: str = "trl",
    selection: Selection | None = None,
    where: str | None = None,
    pairs: pa.Table | None = None,
    pairing: TrajectoryPairOptions | StepPairOptions = BEST_WORST,
    step_values: Sequence[str] = (),
    alpha: float = 0.5,
    at: int | str | None = None,
    format: Format | None = None,  # noqa: A002  the name of the flag
    options: PairRowOptions = DEFAULT_OPTIONS,
) -> ExportReport:
    """Write a preference set of pairs of a store's runs.

    Args:
        store: where from.
        out: a folder, ``-`` for JSON lines on stdout, or None to only count.
        kind: ``dpo``, or ``reward`` for a reward model.
        to: the trainer whose shape is written.
        selection: only runs of this selection, in its own snapshot; not with ``where`` or ``at``.
        where: SQL condition over ``trajectories``.
        pairs: pairs that were built before, instead of building them now.
        pairing: how to pair, with ``step_values`` and ``alpha``; see :func:`build_pairs`.
        step_values: names of step labels that say what single actions are worth.
        alpha: weight of the first of two of those.
        at: snapshot number or pin; the newest where None.
        format: file format; the one that the trainer prefers where None.
        options: what a row holds.

    Raises:
        ExportError: the target cannot be written, or the folder holds something of somebody else.
        PairError: pairs cannot be built as asked.
        QueryError: the condition does not fit.
    """
    pair_target(to, kind)
    reader = reader_of(store, selection, where, at)
    if pairs is not None and (selection is not None or where):
        raise ExportError("give pairs, or the runs to build them from, not both")
    version = reader.snapshot.version
    lineage, facts = Lineage(snapshot=version, filter="the pairs that were given"), {}
    if pairs is None:
        how: dict[str, Any] = {"options": pairing, "step_values": step_values, "alpha": alpha}
        pairs, report = build_pairs(store, selection, where=where, at=version, **how)
        lineage = _paired(lineage_of(reader, selection, where), report, pairing.parameters())
        facts = {"pairs_report": report.as_dict()}
    return export_pairs(
        pairs,
        reader.get_many,
        out,
        kind=kind,
        to=to,
        format=format,
        lineage=lineage,
        options=options,
        facts=facts,
    )


def _paired(lineage: Lineage, report: PairReport, parameters: Mapping[str, Any]) -> Lineage:
    told = {"level": report.level, "policy": report.policy, **parameters}
    entry = stage_entry("pairs", told, report.runs, report.pairs, report.runs_dropped, unit="pairs")
    return with_stage(lineage, entry)


def export_kto_from(  # noqa: PLR0913  one parameter a flag of the command
    store: Store,
    out: Path | str | None,
    *,
    to: str = "trl",
    selection: Selection | None = None,
    where: str | None = None,
    rules: RunRules = _VERDICTS,
    pass_threshold: float = 1.0,
    at: int | str | None = None,
    format: Format | None = None,  # noqa: A002  the name of the flag
    options: KtoOptions = KTO_DEFAULTS,
) -> ExportReport:
    """Write a KTO set: single runs, each labelled good or bad.

    Runs that nobody judged never enter.

    Args:
        store: where from.
        out: a folder, ``-`` for JSON lines on stdout, or None to only count.
        to: the trainer whose shape is written.
        selection: only runs of this selection, in its own snapshot; not with ``where`` or ``at``.
        where: SQL condition over ``trajectories``.
        rules: which runs count and what they are judged by: the verdict where not given.
        pass_threshold: least value of a good run; a verdict is worth 1 or 0.
        at: snapshot number or pin; the newest where None.
        format: file format; the one that the trainer prefers where None.
        options: what a row holds.

    Raises:
        ExportError: the target cannot be written, or the folder holds something of somebody else.
        PairError: a criterion that is not there.
        QueryError: the condition does not fit.
    """
    kto_target(to)
    reader = reader_of(store, selection, where, at)
    if rules.label_names and not rules.evaluators:
        rules = replace(rules, evaluators=tuple(store.evaluator_ranking()))
    given = pairing_input(reader, selection, where, None, rules.within)
    runs = judged_runs(given.rows, rules, labels=given.labels(rules))
    kept = runs.kept.sort_by([("task_id", "ascending"), ("trajectory_id", "ascending")])
    counted = runs.dropped.column("reason").value_counts()
    dropped = {c["values"].as_py(): c["counts"].as_py() for c in counted}
    parameters = {"criterion": rules.criterion, "pass_threshold": pass_threshold}
    entry = stage_entry("verdicts", parameters, given.rows.num_rows, kept.num_rows, dropped)
    lineage = with_stage(lineage_of(reader, selection, where), entry)

    judged = _judged(reader, kept, pass_threshold)
    return export_kto(judged, out, to=to, format=format, lineage=lineage, options=options)


def _judged(reader: Reader, kept: pa.Table, pass_threshold: float) -> Iterator[Judged]:
    """Runs with their label, 64 in memory at a time."""
    for start in range(0, kept.num_rows, _RUNS_A_READ):
        part = kept.slice(start, _RUNS_A_READ)
        columns = (part.column(n) for n in ("trajectory_id", "value"))
        worth = {i.as_py(): v.as_py() for i, v in zip(*columns, strict=True)}
        for run in reader.get_many(list(worth)):
            value = worth[run.trajectory_id]
            yield Judged(run=run, value=value, good=value >= pass_threshold)
