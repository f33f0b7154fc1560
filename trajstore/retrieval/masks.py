"""Which rows may be found at all: every filter and exclusion, before anything is ranked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from trajstore.retrieval.arrays import numpy
from trajstore.retrieval.levels import MEMORIES
from trajstore.retrieval.query import Query
from trajstore.retrieval.view import View

if TYPE_CHECKING:
    from trajstore.retrieval.arrays import Bools


def allowed_rows(
    view: View, query: Query, *, near: Sequence[str], now: datetime
) -> tuple[Bools, dict[str, int]]:
    """Rows that fit every bound, and how many each bound left out, in order.

    Args:
        view: the rows.
        query: what is asked.
        near: tasks nearly the same as the one that asks.
        now: the time that age and expiry are counted to.

    Returns:
        A mask over the rows, and counts by reason (:data:`trajstore.retrieval.hits.MEANINGS`).
    """
    np = numpy()
    mask = view.alive()
    left = int(np.count_nonzero(mask))
    cuts: dict[str, int] = {}
    for reason, fits in _filters(view, query, near, now):
        mask = mask & fits
        now_left = int(np.count_nonzero(mask))
        if now_left < left:
            cuts[reason] = left - now_left
        left = now_left
    return mask, cuts


def _filters(
    view: View, query: Query, near: Sequence[str], now: datetime
) -> Iterator[tuple[str, Bools]]:
    known = view.catalogue
    if query.where is not None:
        yield "where", view.of_runs(known.fits(query.where))
    if query.environment is not None:
        yield "environment", view.of_runs(known.equal("environment", query.environment))
    if query.environment_version is not None:
        same = known.equal("environment_version", query.environment_version)
        yield "environment_version", view.of_runs(same)
    if query.success_only and view.level not in MEMORIES:
        yield "outcome", view.of_runs(known.success > 0)
    if view.level == "skill" and not query.unverified:
        yield "unverified", view.of_runs(known.fits("verified_at IS NOT NULL"))
    if query.tools is not None:
        yield "tools", _uses_only(view, query.tools)
    if query.max_age is not None or view.catalogue.first_expiry < now.timestamp():
        yield "expired", view.of_runs(_in_time(view, query.max_age, now.timestamp()))
    if query.task_id is None or query.allow_same_task:
        return
    yield "same_task", ~view.of_runs(known.of_tasks([query.task_id]))
    if near:
        yield "near_duplicate_task", ~view.of_runs(known.of_tasks(near))


def _in_time(view: View, max_age: timedelta | None, now: float) -> Bools:
    """Not expired, and not older than asked for; what has no time has no age."""
    fits: Bools = view.catalogue.expires >= now
    if max_age is not None:
        fits = fits & ~(now - view.catalogue.at > max_age.total_seconds())
    return fits


def _uses_only(view: View, tools: Sequence[str]) -> Bools:
    """Rows whose next turn calls none but the given tools."""
    np = numpy()
    lists = view.rows.table.column("tools").combine_chunks()
    names, parents = lists.flatten(), pc.list_parent_indices(lists).to_numpy()
    known = pc.is_in(names, value_set=pa.array(list(tools), pa.string()))
    fits: Bools = np.ones(len(lists), bool)
    fits[parents[~known.to_numpy(zero_copy_only=False)]] = False
    return fits
