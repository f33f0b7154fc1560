"""What items of memory are worth, worked out from the rows that say who was given what.

Nothing here is kept: every number follows from the table ``uses`` and the effective outcomes of the
runs, so a late verdict, or one that was taken back, moves it. Runs whose outcome is unknown move
nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import pyarrow as pa

from trajstore.memory.uses import UseKind
from trajstore.store import Store

START, GAIN, LOSS, FLOOR = 0.5, 0.05, 0.15, 0.2
"""Confidence of an item that nobody used, what a success adds, what a failure takes, and where an
item is taken out (all ours): four failures in a row from the start, or one more than a third."""

RATE = 0.5
"""How far one gap moves a utility (D2Skill's b)."""

Q_RATE = 0.3
"""How far one outcome moves a Q value (MemRL)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Learning:
    """How outcomes move a confidence."""

    start: float = START
    """Before the first use, 0 to 1."""
    gain: float = GAIN
    """Added by a success."""
    loss: float = LOSS
    """Taken by a failure; larger than the gain."""
    floor: float = FLOOR
    """Below this an item is taken out."""


_LEARNING = Learning()


def item_of(kind: UseKind) -> str:
    """SQL of the item that a use is of; of an insight every version counts alike."""
    return "split_part(item_id, '@', 1)" if kind == "insight" else "item_id"


def confidences(store: Store, kind: UseKind, learning: Learning = _LEARNING) -> dict[str, float]:
    """Confidence of every item that was used in a run whose outcome is known.

    From :attr:`Learning.start` each use, in the order in which they were given, adds the gain or
    takes the loss, inside 0 to 1.

    Args:
        store: the store.
        kind: what the items are.
        learning: the numbers.

    Returns:
        Item -> confidence; an item without such a use is not in it.
    """
    moves = f"CASE WHEN success THEN {learning.gain!r} ELSE {-learning.loss!r} END"
    rows = store.query(
        f"""
        SELECT {item_of(kind)} AS item, list_reduce(
            list_prepend({learning.start!r}::DOUBLE,
                list(({moves})::DOUBLE ORDER BY given_at, use_id)),
            lambda c, move: round(greatest(0.0, least(1.0, c + move)), 9)) AS value
        FROM uses JOIN trajectories USING (trajectory_id)
        WHERE kind = '{kind}' AND success IS NOT NULL
        GROUP BY item ORDER BY item"""
    ).read_all()
    return _by_item(rows)


def q_values(store: Store, kind: UseKind, *, rate: float = Q_RATE) -> dict[str, float]:
    """MemRL's Q of every item: from 0, ``Q <- Q + rate * (r - Q)`` with r = 1 or -1 a use.

    Returns:
        Item -> Q, -1 to 1; an item without a use of known outcome is not in it.
    """
    rows = store.query(
        f"""
        SELECT {item_of(kind)} AS item, list_reduce(
            list_prepend(0.0::DOUBLE,
                list((CASE WHEN success THEN 1 ELSE -1 END)::DOUBLE ORDER BY given_at, use_id)),
            lambda q, r: q + {rate!r} * (r - q)) AS value
        FROM uses JOIN trajectories USING (trajectory_id)
        WHERE kind = '{kind}' AND success IS NOT NULL
        GROUP BY item ORDER BY item"""
    ).read_all()
    return _by_item(rows)


def utilities(
    store: Store, kind: UseKind, *, level: Literal["task", "step"] = "task", rate: float = RATE
) -> dict[str, float]:
    """D2Skill's utility of every item: from 0, ``u <- (1 - b) u + b * gap``.

    A group is the runs at one task by one policy version. Its baseline is the mean success of those
    of its runs that were given nothing; a group without one says nothing. At level ``task`` each
    group moves an item once, by the mean success of the runs that were given it less the baseline;
    at level ``step`` each run that was given it does, by its own success less the baseline. The
    order is that in which the item was given.

    Args:
        store: the store.
        kind: what the items are.
        level: how a gap is counted.
        rate: b, 0 to 1.

    Returns:
        Item -> utility, -1 to 1; an item that no group tells of is not in it.
    """
    per_run = ", use_id" if level == "step" else ""
    rows = store.query(
        f"""
        WITH judged AS (
            SELECT trajectory_id, task_id, policy_version, success::INT::DOUBLE AS won,
                trajectory_id IN (SELECT trajectory_id FROM uses) AS given
            FROM trajectories WHERE success IS NOT NULL),
        baseline AS (
            SELECT task_id, policy_version, avg(won) AS usual FROM judged WHERE NOT given
            GROUP BY ALL),
        gaps AS (
            SELECT {item_of(kind)} AS item, task_id, j.policy_version{per_run},
                avg(won) - any_value(usual) AS gap, min(given_at) AS moment
            FROM uses JOIN judged j USING (trajectory_id) JOIN baseline b
                USING (task_id)
            WHERE kind = '{kind}' AND b.policy_version IS NOT DISTINCT FROM j.policy_version
            GROUP BY ALL)
        SELECT item, list_reduce(
            list_prepend(0.0::DOUBLE,
                list(gap ORDER BY moment, task_id, policy_version{per_run})),
            lambda u, gap: (1 - {rate!r}) * u + {rate!r} * gap) AS value
        FROM gaps GROUP BY item ORDER BY item"""
    ).read_all()
    return _by_item(rows)


def use_counts(store: Store, kind: UseKind) -> dict[str, int]:
    """How many runs were given each item."""
    rows = store.query(
        f"""
        SELECT {item_of(kind)} AS item, count(DISTINCT trajectory_id) AS value
        FROM uses WHERE kind = '{kind}' GROUP BY item ORDER BY item"""
    ).read_all()
    return {item: int(count) for item, count in _by_item(rows).items()}


def _by_item(rows: pa.Table) -> dict[str, float]:
    """Each item once."""
    values = zip(rows.column("item").to_pylist(), rows.column("value").to_pylist(), strict=True)
    return dict(values)
