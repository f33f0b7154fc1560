"""Insights that say the same in other words (ACE): found by meaning, merged only when told to."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from trajstore.memory.insights_row import StoredInsight

SAME = 0.90
"""Least cosine of two insights that say the same (ACE)."""

Vectors = Callable[[Sequence[str]], Sequence[Sequence[float]]]
"""Texts in, a vector of length 1 for each out."""


def near_duplicates(
    insights: Sequence[StoredInsight], vectors: Vectors, *, cosine: float = SAME
) -> list[list[StoredInsight]]:
    """Groups of two or more insights that say the same; give one to ``Insights.merge``.

    In the order given, each joins the first group whose first member is as near as that, so no
    chain of small steps joins what is far apart. Kind, level and task have to be the same.

    Args:
        insights: what to compare.
        vectors: how: ``lambda texts: trajstore.retrieval.embedder("minilm").embed(texts)``.
        cosine: least cosine with the first of a group, itself included.
    """
    found = list(vectors([i.words for i in insights])) if insights else []
    groups: list[list[int]] = []
    for place, item in enumerate(insights):
        for group in groups:
            first = insights[group[0]]
            same_place = (first.kind, first.level, first.task_id) == (
                item.kind,
                item.level,
                item.task_id,
            )
            if same_place and _dot(found[group[0]], found[place]) >= cosine:
                group.append(place)
                break
        else:
            groups.append([place])
    return [[insights[n] for n in group] for group in groups if len(group) > 1]


def _dot(one: Sequence[float], other: Sequence[float]) -> float:
    return sum(float(a) * float(b) for a, b in zip(one, other, strict=True))
