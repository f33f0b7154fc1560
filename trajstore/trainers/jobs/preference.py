"""Pairs of runs and of steps as training examples, and what ``[dpo]`` says about them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc

from trajstore.errors import TrainingError
from trajstore.pairs import (
    Policy,
    RunRules,
    StateOptions,
    StepPairOptions,
    TrajectoryPairOptions,
    Truncated,
    blended_values,
    label_values,
    rtmc_advantages,
    step_pairs,
    trajectory_pairs,
)
from trajstore.pairs.step_level import StepPolicy
from trajstore.schema import Trajectory
from trajstore.trainers.jobs.config import check_not_negative, check_positive
from trajstore.trainers.jobs.examples import unused_of
from trajstore.trainers.jobs.run import JobRun
from trajstore.trainers.jobs.stored import StoredRuns
from trajstore.trainers.logprobs import with_logprobs
from trajstore.trainers.losses import DpoVariant
from trajstore.trainers.objectives import Dpo, Pair
from trajstore.trainers.rows import TokenRow
from trajstore.trainers.tokenise import Facts, RowOptions

Level = Literal["trajectory", "step"]

Q_SEARCH, Q_CRITIC = "q_search", "q_critic"
"""Labels of steps that a tree search gives."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DpoTable:
    """The table ``[dpo]``."""

    mode: Literal["online", "offline"] = "online"
    """``online`` samples in every iteration; ``offline`` trains once on pairs of the runs that
    ``[data]`` names."""
    iterations: int = 3
    """Rounds of sampling and training (ETO and AgentQ: about 3)."""
    tasks_per_iteration: int | None = None
    """Tasks of a round; all where not given."""
    attempts: int = 8
    """Runs of a task."""
    search: bool = False
    """Sample by tree search (LATS) instead; ``attempts`` is then its iterations."""
    expand: int = 4
    """Samples at a node of the search."""
    self_critique: bool = False
    """Ask the policy itself what each new place of the search is worth, from 0 to 10 (AgentQ); its
    answers are labels ``q_critic``. The model must be able to judge."""
    levels: tuple[Level, ...] = ("trajectory", "step")
    """What is paired: whole runs, next actions at one place, or both."""
    pairing: Policy = "best_worst"
    """Which runs of a task become pairs."""
    step_pairing: StepPolicy = "best_worst"
    """Which next actions of a place become pairs."""
    margin: float = 0.0
    """Least difference of two runs."""
    step_margin: float = 0.5
    """Least difference of the values of two next actions."""
    max_pairs: int | None = None
    """Most pairs of a task and level."""
    criterion: str = "reward"
    """What runs are worth: ``reward``, ``success``, or the name of a label."""
    truncated: Truncated = "rejected-only"
    """Whether a run that was cut off may be chosen or rejected."""
    alpha: float = 0.5
    """Weight of the search's values against those of a critic, where there is one (AgentQ)."""
    critic: str | None = None
    """Label of steps that holds a critic's values; ``q_critic`` of a search where there is one."""
    beta: float = 0.1
    """Pull to the reference."""
    later_beta: float | None = None
    """The same from the second iteration on (ETO: 0.5); as the first where not given."""
    variant: DpoVariant = "sigmoid"
    """Form of the loss."""
    nll_weight: float = 0.0
    """Share of the likelihood of the chosen side (IPR: 1)."""
    reference: Literal["previous", "base", "stored"] = "previous"
    """``previous``: the policy that the round starts from (ETO); ``base``: the weights that the job
    starts from (IPR); ``stored``: what the runs were sampled with (AgentQ), no model needed."""
    before: bool = True
    """Also measure the weights that the job starts from."""

    def check(self) -> None:
        """Check the ranges."""
        for name in ("iterations", "tasks_per_iteration", "expand"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise TrainingError(f"{name} starts at 1, not {value}.")
        if self.attempts < 2:
            raise TrainingError(f"attempts = {self.attempts} compares nothing; give 2 or more.")
        if not self.levels:
            raise TrainingError("levels is empty; give 'trajectory', 'step', or both.")
        if self.self_critique and not self.search:
            raise TrainingError("self_critique is about a search; give search = true, too.")
        check_positive("beta", self.beta)
        check_positive("later_beta", self.later_beta)
        check_not_negative("nll_weight", self.nll_weight)
        if not 0 <= self.alpha <= 1:
            raise TrainingError(f"alpha is from 0 to 1, not {self.alpha}.")

    def objective(self, number: int) -> Dpo:
        """The loss of a round, numbered from 1."""
        later = number > 1 and self.later_beta is not None
        beta = self.later_beta if later and self.later_beta is not None else self.beta
        return Dpo(beta=beta, variant=self.variant, nll_weight=self.nll_weight)


@dataclass(frozen=True, slots=True, kw_only=True)
class Paired:
    """Pairs to train on."""

    pairs: list[Pair]
    """Without the reference's log-probabilities."""
    counts: dict[str, int]
    """Pairs by level; those left out as ``refused`` (a side gave no single row) and ``cut`` (a side
    lost steps to ``max_tokens``); and runs of which something stored is not used."""


def pairs_of(job: JobRun, stored: StoredRuns, labels: pa.Table, settings: DpoTable) -> Paired:
    """Pairs of runs and of steps as training examples, by :mod:`trajstore.pairs`.

    Args:
        job: whose tokenizer and template make rows.
        stored: the runs.
        labels: rows of ``LABEL_SCHEMA`` on them.
        settings: how to pair.

    Raises:
        PairError: options that cannot be followed.
    """
    rules = RunRules(criterion=settings.criterion, truncated=settings.truncated)
    runs = {r.trajectory_id: r for r in stored.runs}
    made: list[Pair] = []
    counts = {"refused": 0, "cut": 0}
    for level in dict.fromkeys(settings.levels):
        table = _table(level, stored, labels, settings, rules)
        found = [_pair(job, runs, row) for row in _rows(table)]
        for why in ("refused", "cut"):
            counts[why] += found.count(why)
        whole = [p for p in found if isinstance(p, Pair)]
        counts[level] = len(whole)
        made += whole
    counts |= unused_of(row for p in made for row in (p.chosen, p.rejected))
    return Paired(pairs=made, counts=counts)


def _table(
    level: Level, stored: StoredRuns, labels: pa.Table, settings: DpoTable, rules: RunRules
) -> pa.Table:
    """Rows of ``PAIR_SCHEMA``."""
    if level == "trajectory":
        whole = TrajectoryPairOptions(
            policy=settings.pairing,
            margin=settings.margin,
            max_pairs=settings.max_pairs,
            runs=rules,
        )
        return trajectory_pairs(stored.rows, stored.runs, options=whole, labels=labels)[0]
    single = StepPairOptions(
        policy=settings.step_pairing,
        margin=settings.step_margin,
        max_pairs=settings.max_pairs,
        runs=rules,
    )
    values = step_values(stored, labels, settings, rules)
    return step_pairs(stored.rows, stored.runs, options=single, labels=labels, values=values)[0]


def step_values(
    stored: StoredRuns, labels: pa.Table, settings: DpoTable, rules: RunRules
) -> pa.Table | None:
    """Values of single actions; None where the mean worth of the runs through them is meant.

    A search's own values where it left any, else those means; blended with a critic's where there
    is one.
    """
    names = set(map(str, pc.unique(labels.column("name"))))
    searched = label_values(labels, Q_SEARCH) if Q_SEARCH in names else None
    critic = settings.critic or (Q_CRITIC if Q_CRITIC in names else None)
    if critic is None:
        return searched
    if searched is None:
        options = StateOptions(source="run", runs=rules)
        means = rtmc_advantages(stored.rows, stored.runs, kappa=0.0, options=options).rows
        searched = means.select(["trajectory_id", "step_index", "q"]).rename_columns(
            ["trajectory_id", "step_index", "value"]
        )
    return blended_values(searched, label_values(labels, critic), alpha=settings.alpha)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    """One row of ``PAIR_SCHEMA``, as far as it is used."""

    chosen_id: str
    rejected_id: str
    chosen_step: int | None
    rejected_step: int | None
    level: str
    weight: float


_COLUMNS = tuple(_Row.__dataclass_fields__)


def _rows(table: pa.Table) -> Iterator[_Row]:
    for values in zip(*(table.column(name) for name in _COLUMNS), strict=True):
        given: dict[str, Any] = {n: v.as_py() for n, v in zip(_COLUMNS, values, strict=True)}
        yield _Row(**given)


def _pair(job: JobRun, runs: dict[str, Trajectory], row: _Row) -> Pair | Literal["refused", "cut"]:
    """The two rows of a pair, or why there is none.

    A side that is cut would be preferred, or not, for an end that its row does not show.
    What the policy did wrong is rejected also if it could not be parsed; it is never chosen.
    """
    options = job.row_options()
    chosen = _side(job, runs[row.chosen_id], row.chosen_step, row, options)
    all_of_it = replace(options, train_format_errors=True)
    rejected = _side(job, runs[row.rejected_id], row.rejected_step, row, all_of_it)
    if chosen is None or rejected is None:
        return "refused"
    if chosen.cut_steps or rejected.cut_steps:
        return "cut"
    return Pair(chosen=chosen, rejected=rejected)


def _side(
    job: JobRun, run: Trajectory, step: int | None, row: _Row, options: RowOptions
) -> TokenRow | None:
    if step is None:
        steps = None
    else:
        steps = range(step, step + 1) if row.level == "step" else range(step + 1)
    facts = Facts(steps=steps, weight=row.weight)
    found = job.examples([run], facts=lambda _: facts, options=options).rows
    return found[0] if len(found) == 1 else None


def with_reference(job: JobRun, pairs: list[Pair], reference: Any) -> list[Pair]:
    """Pairs with the reference's log-probabilities.

    Args:
        job: at work.
        pairs: without.
        reference: the model; None takes those that the runs were sampled with.

    Raises:
        TrainingError: nothing is stored for a side.
    """
    sides = [p.chosen for p in pairs] + [p.rejected for p in pairs]
    if reference is not None:
        bare = job.config.settings.reference != "previous"
        sides = with_logprobs(sides, reference, "ref_logprobs", bare=bare)
    elif lacking := [r.trajectory_id for r in sides if r.old_logprobs is None]:
        message = (
            f"{len(lacking)} sides of pairs have no stored log-probabilities, the first of run "
            f"{lacking[0]}; reference = 'base' computes them."
        )
        raise job.config.error(message, "dpo", "reference")
    else:
        sides = [replace(r, ref_logprobs=r.old_logprobs) for r in sides]
    half = len(pairs)
    return [Pair(chosen=c, rejected=r) for c, r in zip(sides[:half], sides[half:], strict=True)]
