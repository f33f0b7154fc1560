"""Small bars for the cells of tables: the table stays text, the bar shows it at a glance."""

from __future__ import annotations

from collections.abc import Sequence

from trajstore.pipeline.report.markup import Markup, tag


def shares(parts: Sequence[tuple[str, float]]) -> Markup:
    """Parts of a whole next to each other.

    Args:
        parts: a class of the style sheet and a share from 0 to 1 each.
    """
    marks, at = [], 0.0
    for class_, share in parts:
        if share > 0:
            marks.append(
                tag("rect", x=at, y=0, width=100.0 * share, height=10, class_=f"f-{class_}")
            )
        at += 100.0 * share
    return _strip(*marks)


def interval(share: float | None, low: float, high: float) -> Markup:
    """A share from 0 to 1 as a tick inside its interval."""
    if share is None:
        return _strip()
    return _strip(
        tag("rect", x=100 * low, y=3, width=100 * (high - low), height=4, class_="f-range"),
        tag("rect", x=min(100 * share, 98.5), y=0, width=1.5, height=10, class_="f-accent"),
    )


def _strip(*marks: Markup) -> Markup:
    ground = tag("rect", x=0, y=0, width=100, height=10, class_="f-ground")
    return tag(
        "svg",
        ground,
        *marks,
        class_="strip",
        viewbox="0 0 100 10",
        preserve="none",
        aria_hidden="true",
    )


def legend(names: Sequence[tuple[str, str]]) -> Markup:
    """What the colours stand for: a class of the style sheet and words each."""
    entries = (
        tag("li", tag("span", class_=f"key b-{class_}", aria_hidden="true"), words)
        for class_, words in names
    )
    return tag("ul", *entries, class_="legend")
