"""Which two runs of a prompt become a pair: the policies, as queries.

A query reads ``candidates`` (one row a run) and, for hard negatives, ``path``; it gives
``chosen`` and ``rejected``, the numbers of two runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

Policy = Literal["best_worst", "all_margin", "topk_bottomk", "adjacent", "hard_negatives"]

TIE = 1e-9
"""Values that differ by no more than this are equal: 0.9999999999999998 is a reward of 1."""

POLICIES: Mapping[str, str] = {
    "best_worst": "the best run (reward desc, cost asc) against the worst (reward asc, cost desc)",
    "all_margin": "every run against every worse one, the margin kept",
    "topk_bottomk": "each of the k best against each of the k worst",
    "adjacent": "each level of reward against the next one, by its cheapest run",
    "hard_negatives": "the best run against the worse one that goes along with it longest",
}
"""The policies and what they do."""

_TOP = """top AS (
    SELECT * FROM candidates WHERE can_win QUALIFY row_number() OVER (
        PARTITION BY prompt_key ORDER BY value DESC, cost, run) <= {k})"""

_BOTTOM = """bottom AS (
    SELECT * FROM candidates QUALIFY row_number() OVER (
        PARTITION BY prompt_key ORDER BY value, cost DESC, run) <= {k})"""

_LEVELS = """levels AS (
    SELECT *, dense_rank() OVER (PARTITION BY prompt_key ORDER BY round(value, 9) DESC) AS place
    FROM candidates QUALIFY row_number() OVER (PARTITION BY prompt_key, round(value, 9)
        ORDER BY can_win DESC, cost, run) = 1)"""

_NEGATIVES = """negatives AS (
    SELECT c.prompt_key, c.run AS chosen, r.run AS rejected,
        any_value(r.value) AS value,
        coalesce(min(a.step_index) FILTER (a.actor <> b.actor OR a.seen <> b.seen
            OR a.action IS DISTINCT FROM b.action), count(b.step_index)) AS shared
    FROM top c JOIN candidates r ON c.prompt_key = r.prompt_key AND {better}
    LEFT JOIN path a ON a.run = c.run
    LEFT JOIN path b ON b.run = r.run AND b.step_index = a.step_index
    GROUP BY ALL)"""

_PAIRED = "SELECT c.run AS chosen, r.run AS rejected"


def better(margin: float, *, efficiency_tiebreak: bool) -> str:
    """SQL that says whether run ``c`` is better than run ``r``.

    Values within :data:`TIE` are equal, and the margin is kept up to it, as 0.6 - 0.2 is less than
    0.4 in binary. A tie is broken by cost between two successes only: a short failure is not
    efficient.
    """
    found = f"(c.value - r.value > {TIE} AND c.value - r.value >= {margin!r} - {TIE})"
    if efficiency_tiebreak:
        is_tie = f"abs(c.value - r.value) <= {TIE}"
        found += f" OR ({is_tie} AND c.success AND r.success AND c.cost < r.cost)"
    return f"({found})"


def proposals_query(policy: Policy, *, is_better: str, k: int) -> str:
    """The query of a policy."""
    on = f"ON c.prompt_key = r.prompt_key AND {is_better}"
    best = _TOP.format(k=1)
    ends = f"{_PAIRED} FROM top c JOIN bottom r {on}"
    queries: Mapping[str, str] = {
        "best_worst": f"WITH {best}, {_BOTTOM.format(k=1)} {ends}",
        "all_margin": f"{_PAIRED} FROM candidates c JOIN candidates r {on} AND c.can_win",
        "topk_bottomk": f"WITH {_TOP.format(k=k)}, {_BOTTOM.format(k=k)} {ends}",
        "adjacent": f"WITH {_LEVELS} {_PAIRED} FROM levels c JOIN levels r {on} "
        "AND c.can_win AND r.place = c.place + 1",
        "hard_negatives": f"WITH {best}, {_NEGATIVES.format(better=is_better)} "
        "SELECT chosen, rejected FROM negatives QUALIFY row_number() OVER ("
        "PARTITION BY prompt_key ORDER BY shared DESC, value DESC, rejected) = 1",
    }
    return queries[policy]
