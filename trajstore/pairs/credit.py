"""Credit of single steps: discounted returns, and credit of any kind as labels.

Every function here gives :class:`Credit`; :func:`labels_of` turns it into labels, which is how it
goes back into a store.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

import pyarrow as pa

from trajstore.errors import PairError
from trajstore.pairs.relations import Relations, listed
from trajstore.pairs.runs import RunRules, judged_runs
from trajstore.pairs.schema import CREDIT_SCHEMA
from trajstore.pairs.turns import Steps, turn_source
from trajstore.schema import Label, canonical_json

EVALUATOR = "trajstore"
"""Who says so, in labels of computed credit."""

RewardSource = Literal["auto", "run", "steps"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Credit:
    """Credit of steps (or of whole runs), and how it was computed."""

    rows: pa.Table
    """Rows of ``CREDIT_SCHEMA``, in order of run and step; some methods add columns."""
    method: str
    """The method and its version, such as ``returns/1``."""
    parameters: Mapping[str, Any]
    """Its parameters."""

    @property
    def version(self) -> str:
        """Method and parameters as one text: the version of the evaluator in labels."""
        return f"{self.method} {canonical_json(dict(self.parameters))}"


def labels_of(credit: Credit) -> Iterator[Label]:
    """The credit as labels by the evaluator ``trajstore``; the version names the method.

    Computing the same credit again gives the same labels, which a store keeps once; other
    parameters give other labels beside them.
    """
    version = credit.version
    columns = (listed(credit.rows.column(name)) for name in CREDIT_SCHEMA.names)
    for trajectory_id, step_index, name, value in zip(*columns, strict=True):
        yield Label(
            trajectory_id=trajectory_id,
            step_index=step_index,
            name=name,
            value=value,
            evaluator=EVALUATOR,
            evaluator_version=version,
        )


def group_credit(groups: pa.Table) -> Credit:
    """The advantages of groups as credit of whole runs, named ``advantage``.

    Args:
        groups: rows of ``GROUP_SCHEMA``, as :func:`group_advantages` gives them.
    """
    with Relations(groups=groups) as made:
        rows = made.rows(
            "SELECT trajectory_id, NULL::INT AS step_index, 'advantage' AS name, "
            "advantage AS value FROM groups ORDER BY trajectory_id"
        )
        how = made.rows("SELECT DISTINCT variant, std_convention FROM groups ORDER BY ALL")
    variants, stds = (listed(how.column(n)) for n in ("variant", "std_convention"))
    parameters = {"variant": "/".join(variants), "std": "/".join(stds)}
    return Credit(rows=rows.cast(CREDIT_SCHEMA), method="groups/1", parameters=parameters)


_REWARDED = """
    SELECT {key}, t.step_index, r.task_id, r.value AS outcome,
        count(t.reward) OVER whole > 0 AS has_steps, coalesce(t.reward, 0.0) AS step_reward,
        row_number() OVER (PARTITION BY {key} ORDER BY t.step_index DESC) = 1 AS is_last
    FROM {steps} t JOIN {runs} r USING ({key})
    WINDOW whole AS (PARTITION BY {key})"""

_REWARDS = {
    "auto": "CASE WHEN has_steps THEN step_reward WHEN is_last THEN outcome ELSE 0.0 END",
    "run": "CASE WHEN is_last THEN outcome ELSE 0.0 END",
    "steps": "step_reward",
}


def turn_rewards(
    rows: pa.Table,
    steps: Steps,
    *,
    source: RewardSource = "auto",
    rules: RunRules | None = None,
    labels: pa.Table | None = None,
) -> pa.Table:
    """The reward of every agent step of the judged runs.

    Args:
        rows: one row a trajectory of the ``trajectories`` view.
        steps: rows of ``STEP_SCHEMA``, or the runs themselves.
        source: ``run``: the worth of the run, on its last agent step; ``steps``: the rewards that
            the environment gave; ``auto``: those where a run has any, else ``run``.
        rules: which runs count and what they are worth; by reward, runs that were cut off too,
            where None.
        labels: rows of ``LABEL_SCHEMA``, for a criterion that is a label.

    Returns:
        ``trajectory_id, step_index, task_id, reward`` in order of run and step. Runs of unknown
        worth are not there.

    Raises:
        PairError: an unknown source, or rules that cannot be followed.
    """
    rules = rules or RunRules(truncated="keep")
    judged = judged_runs(rows, rules, labels=labels, collapse=False).kept
    own = turn_source(steps).rewards(judged.column("trajectory_id"))
    with Relations(judged=judged, own=own) as made:
        return made.rows(rewards_query(source, "own", "judged", "trajectory_id"))


def rewards_query(source: RewardSource, steps: str, runs: str, key: str) -> str:
    """One SELECT of the rewards of agent steps, in order of run and step.

    Args:
        source: where rewards come from.
        steps: a relation with ``step_index`` and ``reward`` of the agent's own steps.
        runs: a relation with ``task_id`` and ``value``.
        key: the column that says in both which run it is.

    Raises:
        PairError: there is no such source.
    """
    if source not in _REWARDS:
        known = ", ".join(get_args(RewardSource))
        raise PairError(f"There is no source of rewards {source!r}; known are: {known}")
    rewarded = _REWARDED.format(key=key, steps=steps, runs=runs)
    return (
        f"SELECT {key}, step_index, task_id, {_REWARDS[source]} AS reward FROM ({rewarded}) "
        f"ORDER BY {key}, step_index"
    )


def discounted(rewards: pa.Table, *, gamma: float, key: str = "trajectory_id") -> pa.Table:
    """The rows with ``value``, the discounted return of each: ``G_t = sum_k gamma^k r_(t+k)``.

    Args:
        rewards: ``reward`` and more, in order of run and step.
        gamma: discount a step, from 0 to 1.
        key: the column that says which run it is.

    Raises:
        PairError: gamma is out of its range.
    """
    if not 0 <= gamma <= 1:
        raise PairError(f"gamma is {gamma}; it must lie between 0 and 1")
    ids, given = listed(rewards.column(key)), listed(rewards.column("reward"))
    returns = [0.0] * len(ids)
    run, ahead = None, 0.0
    for place in range(len(ids) - 1, -1, -1):
        ahead = given[place] + (gamma * ahead if ids[place] == run else 0.0)
        run, returns[place] = ids[place], ahead
    return rewards.append_column("value", pa.array(returns, pa.float64()))


def discounted_returns(
    rows: pa.Table,
    steps: Steps,
    *,
    gamma: float = 1.0,
    source: RewardSource = "auto",
    rules: RunRules | None = None,
    labels: pa.Table | None = None,
) -> Credit:
    """The discounted return of every agent step, named ``return``; a step is one agent turn.

    With a terminal reward only, the last agent step has the whole of it and each step before it
    gamma times the one after.

    Args:
        rows: one row a trajectory of the ``trajectories`` view.
        steps: rows of ``STEP_SCHEMA``, or the runs themselves.
        gamma: discount an agent turn, from 0 to 1.
        source: where rewards come from; see :func:`turn_rewards`.
        rules: which runs count and what they are worth.
        labels: rows of ``LABEL_SCHEMA``, for a criterion that is a label.

    Raises:
        PairError: an argument is out of its range.
    """
    rewards = turn_rewards(rows, steps, source=source, rules=rules, labels=labels)
    criterion = (rules or RunRules()).criterion
    return credit_of(
        discounted(rewards, gamma=gamma),
        name="return",
        method="returns/1",
        parameters={"gamma": gamma, "source": source, "criterion": criterion},
    )


def credit_of(table: pa.Table, *, name: str, method: str, parameters: Mapping[str, Any]) -> Credit:
    """A table with ``trajectory_id, step_index, value`` as credit; other columns stay behind them.

    Args:
        table: the rows, in order of run and step.
        name: what is credited.
        method: the method and its version.
        parameters: its parameters.
    """
    head = pa.table(
        {
            "trajectory_id": table.column("trajectory_id"),
            "step_index": table.column("step_index"),
            "name": pa.repeat(name, table.num_rows),
            "value": table.column("value"),
        }
    ).cast(CREDIT_SCHEMA)
    for column in table.column_names:
        if column not in CREDIT_SCHEMA.names:
            head = head.append_column(table.schema.field(column), table.column(column))
    return Credit(rows=head, method=method, parameters=parameters)
