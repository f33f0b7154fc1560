"""How often a task is passed: attempts, passes, and the rate, by which policies.

A pass is the recorded ``success``, or a reward of at least an explicit threshold, since rewards may
be partial or above 1. An attempt whose outcome is unknown counts for neither side.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import pyarrow as pa

from trajstore.errors import SelectionError
from trajstore.filters.relations import relation

Passed = Literal["success", "reward"]
"""What a pass is: the column ``success``, or a ``reward`` of at least ``pass_threshold``."""

PASS_THRESHOLD = 1.0
"""Reward of a pass, unless something else is asked for: all of a reward that ends at 1."""

PROFILE_SCHEMA: pa.Schema = pa.schema(
    [
        pa.field("task_id", pa.string(), nullable=False),
        pa.field("attempts", pa.int64(), nullable=False),
        pa.field("passes", pa.int64(), nullable=False),
        pa.field("expired", pa.int64(), nullable=False),
        pa.field("rate", pa.float64()),
        pa.field("smoothed", pa.float64()),
        pa.field("steps", pa.float64()),
    ]
)
"""One row a task. ``attempts``: those of known outcome that count; ``expired``: those by policies
that do not count; ``rate``: passes over attempts, 0 to 1, null without attempts; ``smoothed``: the
rate with :func:`smoothed_rate`'s prior; ``steps``: mean agent steps of the attempts."""


def passed_sql(passed: Passed, pass_threshold: float) -> str:
    """SQL for whether a run passed: true, false, or null where that is unknown.

    >>> passed_sql("reward", 1.0)
    'CASE WHEN NOT isnan(reward) THEN reward >= 1.0 END'
    """
    if passed == "success":
        return "success"
    return f"CASE WHEN NOT isnan(reward) THEN reward >= {float(pass_threshold)!r} END"


def check_threshold(pass_threshold: float) -> None:
    """Check a pass threshold.

    Raises:
        SelectionError: it is not finite.
    """
    if not math.isfinite(pass_threshold):
        raise SelectionError(f"A pass threshold is a finite number, not {pass_threshold}.")


def profile(
    rows: pa.Table,
    *,
    passed: Passed = "success",
    pass_threshold: float = PASS_THRESHOLD,
    policies: Sequence[str] = (),
    prior: tuple[float, float] = (1.0, 1.0),
) -> pa.Table:
    """How often each task is passed.

    Args:
        rows: summary rows.
        passed: what a pass is.
        pass_threshold: smallest reward of a pass, where ``passed`` is ``reward``.
        policies: the policy versions whose attempts count; the profile of an older policy has
            expired. Empty: all attempts count.
        prior: of :func:`smoothed_rate`.

    Returns:
        A table in :data:`PROFILE_SCHEMA`, ordered by task.
    """
    check_threshold(pass_threshold)
    a, b = _prior(prior)
    counts = "policy_version IN (SELECT policy FROM policies)" if policies else "true"
    query = f"""
        SELECT task_id,
            count(*) FILTER (counts AND passed IS NOT NULL) AS attempts,
            count(*) FILTER (counts AND passed) AS passes,
            count(*) FILTER (NOT counts) AS expired,
            passes / nullif(attempts, 0) AS rate,
            CASE WHEN attempts > 0 THEN (passes + {a!r}) / (attempts + {a + b!r}) END AS smoothed,
            avg(n_agent_steps) FILTER (counts AND passed IS NOT NULL) AS steps
        FROM (SELECT task_id, n_agent_steps, {passed_sql(passed, pass_threshold)} AS passed,
                coalesce({counts}, false) AS counts FROM runs)
        GROUP BY task_id ORDER BY task_id"""
    columns = ["task_id", "success", "reward", "policy_version", "n_agent_steps"]
    tables = {
        "runs": rows.select(columns),
        "policies": pa.table({"policy": pa.array(policies, pa.string())}),
    }
    return relation(query, tables=tables).cast(PROFILE_SCHEMA)


def _prior(prior: tuple[float, float]) -> tuple[float, float]:
    a, b = map(float, prior)
    if not (a >= 0 and b >= 0 and math.isfinite(a + b)):
        raise SelectionError(f"A prior is two finite numbers of 0 or more, not {prior}.")
    return a, b


def smoothed_rate(passes: int, attempts: int, prior: tuple[float, float] = (1.0, 1.0)) -> float:
    """The mean of a Beta distribution after some attempts: few attempts stay near its prior.

    >>> smoothed_rate(0, 2), smoothed_rate(2, 2)
    (0.25, 0.75)

    Args:
        passes: 0 to ``attempts``.
        attempts: 0 or more.
        prior: passes and failures to begin with; (1, 1) leans to neither side (ours).
    """
    a, b = _prior(prior)
    return (passes + a) / (attempts + a + b)


def pass_at_k(attempts: int, passes: int, k: int) -> float:
    """Chance that at least one of ``k`` of the attempts passed (Chen et al. 2021, unbiased).

    ``1 - C(n - c, k) / C(n, k)``.

    >>> round(pass_at_k(8, 2, 4), 6)
    0.785714

    Args:
        attempts: n, at least ``k``.
        passes: c, 0 to ``attempts``.
        k: at least 1.

    Raises:
        SelectionError: the numbers do not fit together.
    """
    if not (1 <= k <= attempts and 0 <= passes <= attempts):
        message = (
            f"pass@k needs 1 <= k <= attempts and 0 <= passes <= attempts, not k={k}, "
            f"attempts={attempts}, passes={passes}."
        )
        raise SelectionError(message)
    return 1.0 - math.comb(attempts - passes, k) / math.comb(attempts, k)
