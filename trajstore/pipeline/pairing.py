"""Pairs, groups and credit over a snapshot of a store."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from math import isfinite
from typing import Any, Literal

import pyarrow as pa

from trajstore.errors import PairError
from trajstore.filters import Selection
from trajstore.pairs import (
    CREDIT_SCHEMA,
    DEFAULT_GROUP_OPTIONS,
    EVALUATOR,
    Credit,
    GroupOptions,
    GroupReport,
    PairReport,
    RunRules,
    StateOptions,
    StepPairOptions,
    TrajectoryPairOptions,
    blended_values,
    discounted_returns,
    group_advantages,
    group_credit,
    label_values,
    pivots,
    rtmc_advantages,
    step_pairs,
    subgoal_credit,
    subgoal_marks,
    trajectory_pairs,
    turn_advantages,
)
from trajstore.pipeline.label_rows import label_rows
from trajstore.pipeline.pairing_input import PairingInput, pairing_input
from trajstore.store import Batch, Condition, Reader, Store

CreditMethod = Literal["returns", "rtmc", "turn_advantages", "pivots", "subgoals", "groups"]

_LABELS_A_COMMIT = 200_000


@dataclass(frozen=True, slots=True, kw_only=True)
class CreditReport:
    """What writing credit did."""

    method: str
    """The method and its parameters, as the labels name them."""
    labels: int
    """Labels written."""
    already: int
    """Labels that said the same before."""
    snapshot: int
    """Snapshot after it."""


def _ranked(source: Store | Reader, rules: RunRules) -> RunRules:
    """The rules with the store's ranking of evaluators, where they name none themselves."""
    if rules.evaluators or not rules.label_names or isinstance(source, Reader):
        return rules
    return replace(rules, evaluators=tuple(source.evaluator_ranking()))


def build_pairs(
    source: Store | Reader,
    selection: Selection | None = None,
    *,
    where: str | Condition | None = None,
    options: TrajectoryPairOptions | StepPairOptions | None = None,
    step_values: Sequence[str] = (),
    alpha: float = 0.5,
    at: int | str | None = None,
) -> tuple[pa.Table, PairReport]:
    """Pairs of the runs of a store.

    Args:
        source: a store, or a reader of one snapshot.
        selection: which runs; its snapshot is read.
        where: SQL condition over ``trajectories`` instead of a selection; all runs where both are
            None.
        options: how to pair; the kind of options says the level. Best against worst run of each
            task where None.
        step_values: names of step labels that say what single actions are worth (step level only).
            Of two, such as a search and a critic, the blend counts.
        alpha: weight of the first of two.
        at: snapshot number or pin; the newest where None.

    Returns:
        Rows of ``PAIR_SCHEMA``, and what became of every run, task and pair.

    Raises:
        PairError: options that cannot be followed.
        QueryError: the condition does not fit.
    """
    options = options or TrajectoryPairOptions()
    options = replace(options, runs=_ranked(source, options.runs))
    given = pairing_input(source, selection, where, at, options.runs.within)
    labels = given.labels(options.runs)
    if isinstance(options, TrajectoryPairOptions):
        if step_values:
            raise PairError("step_values need options of the step level: StepPairOptions.")
        return trajectory_pairs(given.rows, given.turns, options=options, labels=labels)
    values = _step_values(given, step_values, alpha)
    return step_pairs(given.rows, given.turns, options=options, labels=labels, values=values)


def _step_values(given: PairingInput, names: Sequence[str], alpha: float) -> pa.Table | None:
    if len(names) > 2:
        raise PairError(f"step_values are one or two names of labels, not {len(names)}.")
    tables = [label_values(given.step_labels(name), name) for name in names]
    return blended_values(*tables, alpha=alpha) if len(tables) == 2 else (tables or [None])[0]


def build_groups(
    source: Store | Reader,
    selection: Selection | None = None,
    *,
    where: str | Condition | None = None,
    options: GroupOptions = DEFAULT_GROUP_OPTIONS,
    at: int | str | None = None,
) -> tuple[pa.Table, GroupReport]:
    """Groups of the runs of a store, with advantages.

    Args:
        source: a store, or a reader of one snapshot.
        selection: which runs; its snapshot is read.
        where: SQL condition over ``trajectories`` instead of a selection.
        options: how to group.
        at: snapshot number or pin; the newest where None.

    Returns:
        Rows of ``GROUP_SCHEMA``, and what was left out.

    Raises:
        PairError: options that cannot be followed.
        QueryError: the condition does not fit.
    """
    options = replace(options, runs=_ranked(source, options.runs))
    columns = (*options.by, *options.runs.within)
    given = pairing_input(source, selection, where, at, columns)
    return group_advantages(given.rows, options=options, labels=given.labels(options.runs))


def compute_credit(
    source: Store | Reader,
    method: CreditMethod,
    selection: Selection | None = None,
    *,
    where: str | Condition | None = None,
    rules: RunRules | None = None,
    at: int | str | None = None,
    **parameters: Any,
) -> Credit:
    """Credit of the steps of a store's runs; :func:`write_credit` keeps it.

    Args:
        source: a store, or a reader of one snapshot.
        method: ``returns``, ``rtmc``, ``turn_advantages``, ``pivots``, ``subgoals`` (from
            labels ``subgoal`` and ``sub-goal/NAME``) or ``groups``.
        selection: which runs; its snapshot is read.
        where: SQL condition over ``trajectories`` instead of a selection.
        rules: which runs count and what they are worth; by reward, runs that were cut off too,
            where None.
        at: snapshot number or pin; the newest where None.
        parameters: of the method, such as ``gamma=0.95`` or ``kappa=0``.

    Raises:
        PairError: an unknown method or parameter, or one out of its range.
        QueryError: the condition does not fit.
    """
    if method not in _METHODS:
        raise PairError(f"There is no credit {method!r}; known are: {', '.join(_METHODS)}")
    taken, compute = _METHODS[method]
    unknown = [n for n in parameters if n not in taken]
    if unknown:
        raise PairError(
            f"The credit '{method}' has no parameter {unknown[0]!r}; it takes: {', '.join(taken)}"
        )
    for name, value in parameters.items():
        if name in _NUMBERS and not (
            isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)
        ):
            raise PairError(f"{name} of the credit '{method}' must be a number, not {value!r}")
    default = RunRules(criterion="success" if method == "subgoals" else "reward", truncated="keep")
    rules = _ranked(source, rules or default)
    given = pairing_input(source, selection, where, at, rules.within)
    return compute(given, rules, parameters)


def _returns(given: PairingInput, rules: RunRules, parameters: Mapping[str, Any]) -> Credit:
    labels = given.labels(rules)
    return discounted_returns(given.rows, given.turns, rules=rules, labels=labels, **parameters)


_NUMBERS = frozenset(
    ["gamma", "kappa", "weight", "below", "least_runs", "pass_threshold", "bonus", "eps"]
)

_Compute = Callable[[PairingInput, RunRules, Mapping[str, Any]], Credit]


def _by_state(method: Callable[..., Credit], gamma: float) -> _Compute:
    def credit(given: PairingInput, rules: RunRules, parameters: Mapping[str, Any]) -> Credit:
        rest = {"gamma": gamma, **parameters}
        shared = {n: rest.pop(n) for n in ("gamma", "source") if n in rest}
        options = StateOptions(**shared, runs=rules)
        labels = given.labels(rules)
        return method(given.rows, given.turns, options=options, labels=labels, **rest)

    return credit


def _subgoals(given: PairingInput, rules: RunRules, parameters: Mapping[str, Any]) -> Credit:
    marks = subgoal_marks(given.subgoal_labels())
    return subgoal_credit(given.rows, given.turns, marks, rules=rules, **parameters)


def _groups(given: PairingInput, rules: RunRules, parameters: Mapping[str, Any]) -> Credit:
    options = GroupOptions(**parameters, runs=rules)
    return group_credit(group_advantages(given.rows, options=options)[0])


_METHODS: Mapping[str, tuple[tuple[str, ...], _Compute]] = {
    "returns": (("gamma", "source"), _returns),
    "rtmc": (("gamma", "source", "kappa"), _by_state(rtmc_advantages, 1.0)),
    "turn_advantages": (
        ("gamma", "source", "weight", "normaliser"),
        _by_state(turn_advantages, 0.95),
    ),
    "pivots": (("below", "least_runs", "pass_threshold"), _by_state(pivots, 1.0)),
    "subgoals": (("bonus",), _subgoals),
    "groups": (("variant", "std", "eps", "by", "pass_threshold"), _groups),
}
"""Method -> the parameters that it takes, and how it is computed."""


def write_credit(store: Store, credit: Credit) -> CreditReport:
    """Keep credit as labels by the evaluator ``trajstore``, 200,000 in one commit.

    The version of each label names the method and its parameters; the same credit again adds
    nothing.

    Args:
        store: where to.
        credit: as :func:`compute_credit` gives it.
    """
    written = already = 0
    at = datetime.now(UTC)
    for start in range(0, credit.rows.num_rows, _LABELS_A_COMMIT):
        part = credit.rows.slice(start, _LABELS_A_COMMIT)
        labels = label_rows(
            {name: part.column(name) for name in CREDIT_SCHEMA.names},
            evaluator=EVALUATOR,
            evaluator_version=credit.version,
            at=at,
        )
        done = store.append(Batch(labels=labels))
        written += done.labels
        already += done.labels_already
    return CreditReport(
        method=credit.version, labels=written, already=already, snapshot=store.snapshot()
    )
