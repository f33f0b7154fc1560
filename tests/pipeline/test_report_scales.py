"""Bins and intervals of the report against hand-worked values and SQL."""

from __future__ import annotations

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trajstore.pipeline.report.intervals import wilson
from trajstore.pipeline.report.layout import classical_layout
from trajstore.pipeline.report.markup import tag
from trajstore.pipeline.report.scales import Bins, bins


def made(values: list[float], *, whole: bool = False) -> Bins:
    ordered = sorted(values)
    cut = len(ordered) // 100
    low, high = ordered[cut], ordered[-1 - cut]
    return bins(low=low, high=high, smallest=ordered[0], largest=ordered[-1], whole=whole)


def test_few_whole_numbers_have_a_bin_each() -> None:
    found = made([1, 2, 3, 3, 6], whole=True)
    assert [found.label(i) for i in range(found.count)] == ["1", "2", "3", "4", "5", "6"]
    assert found.ticks()[0] == (0.5, "1")


def test_far_values_go_into_an_open_bin() -> None:
    found = made([*range(1, 300), 10_000], whole=True)
    assert found.label(found.count - 1).endswith("or more")
    assert found.edge(found.count - 1) <= 299


def test_wide_ranges_have_bins_of_equal_ratio() -> None:
    found = made([1.0, 10.0, 1e4, 1e6])
    assert found.log
    assert [label for _, label in found.ticks()] == ["1", "100", "10k", "1M"]


def test_one_value_has_one_bin() -> None:
    assert made([7, 7, 7], whole=True).count == 1


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.floats(-1e12, 1e12, allow_nan=False).map(lambda x: float(f"{x:.6g}")),
        min_size=1,
        max_size=50,
    )
)
def test_sql_puts_each_value_into_the_bin_whose_edges_hold_it(values: list[float]) -> None:
    found = made(values)
    query = f"SELECT v, {found.sql('v')} FROM (SELECT unnest({values!r}::DOUBLE[]) AS v)"
    for value, place in duckdb.execute(query).fetchall():
        assert 0 <= place < found.count
        slack = 1e-5 * max(abs(value), abs(found.edge(1) - found.edge(0)))
        assert place == 0 or value >= found.edge(place) - slack
        assert place == found.count - 1 or value < found.edge(place + 1) + slack
    assert found.count <= 34


def test_wilson_agrees_with_newcombe() -> None:
    """Newcombe 1998, table I: 81 of 263 gives 0.2553 to 0.3662, 0 of 20 gives 0 to 0.1611."""
    assert wilson(81, 263) == pytest.approx((0.2553, 0.3662), abs=5e-5)
    assert wilson(0, 20) == pytest.approx((0.0, 0.1611), abs=5e-5)
    assert wilson(20, 20) == pytest.approx((0.8389, 1.0), abs=5e-5)


def test_a_layout_keeps_the_distances_of_a_triangle() -> None:
    """Three items with squared distances 0.2, 0.5 and 0.9 fit into a plane exactly."""
    squared = [[0.0, 0.2, 0.5], [0.2, 0.0, 0.9], [0.5, 0.9, 0.0]]
    points, shown = classical_layout([[1 - d for d in row] for row in squared])
    for i, row in enumerate(squared):
        for j, expected in enumerate(row):
            assert ((points[i] - points[j]) ** 2).sum() == pytest.approx(expected, abs=1e-3)
    assert shown == 1.0


def test_items_that_are_all_alike_lie_at_one_place() -> None:
    points, shown = classical_layout([[1.0, 1.0], [1.0, 1.0]])
    assert points.tolist() == [[0.0, 0.0], [0.0, 0.0]]
    assert shown is None


def test_only_what_was_made_by_tag_is_markup() -> None:
    inner = tag("b", "1 < 2")
    assert tag("p", inner, "<i>", title='a"b') == (
        '<p title="a&quot;b"><b>1 &lt; 2</b>&lt;i&gt;</p>'
    )
