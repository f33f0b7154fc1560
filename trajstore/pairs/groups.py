"""Attempts at one task as groups, each run with its advantage over the group.

Sources: GRPO (Shao et al. 2024, 2402.03300): (r - mean) / (std + eps). RLOO (Ahmadian et al. 2024,
2402.14740): r minus the mean of the others. Dr.GRPO (Liu et al. 2025, 2503.20783): r - mean.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, get_args

import pyarrow as pa

from trajstore.errors import PairError
from trajstore.pairs.group_report import GroupReport
from trajstore.pairs.policies import TIE
from trajstore.pairs.relations import Relations, identifier, listed, literal
from trajstore.pairs.report import RUN_DROPS
from trajstore.pairs.runs import RunRules, judged_runs
from trajstore.pairs.schema import GROUP_SCHEMA, ZERO_VARIANCE

Variant = Literal["grpo", "rloo", "dr_grpo"]
StdConvention = Literal["population", "sample"]
NoSignal = Literal["keep", "drop-zero-variance", "drop-same-verdict"]

EPS: Mapping[str, float] = {"population": 1e-6, "sample": 1e-4}
"""What is added to a standard deviation before dividing by it; TRL adds 1e-4 to a sample's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupOptions:
    """How groups and advantages are made."""

    variant: Variant = "grpo"
    """``grpo``: (r - mean) / (std + eps); ``rloo``: r - mean of the others; ``dr_grpo``: r - mean.
    """
    std: StdConvention = "population"
    """Whether std divides by n or by n - 1; TRL takes ``sample``."""
    eps: float | None = None
    """Added to std; :data:`EPS` of the convention where None."""
    by: tuple[str, ...] = ("task_id",)
    """Columns that the runs of a group share, such as ``("task_id", "policy_version")``."""
    pass_threshold: float = 1.0
    """Least reward of a pass, for runs without a verdict."""
    no_signal: NoSignal = "keep"
    """What becomes of groups whose rewards are equal, or whose verdicts are (a shaped reward may
    still differ there, and training on that difference alone is known to ruin a policy)."""
    max_staleness: int | None = None
    """Only runs at most this many policy versions old; the boundary is kept."""
    current_version: int | None = None
    """The present policy version; the newest one among the runs where None."""
    versions: Mapping[str, int] | None = None
    """Number of each ``policy_version``; else the last digits of its name (``iter-7`` is 7)."""
    max_size: int | None = None
    """Most runs of a group."""
    order: Literal["freshest", "fifo"] = "freshest"
    """Which runs stay where there are more: those of the newest version, or the oldest ones."""
    runs: RunRules = field(default_factory=lambda: RunRules(truncated="keep"))
    """What a run must be, and how it is judged. A run that was cut off counts: leaving it out would
    raise the mean of its group."""

    def check(self) -> None:
        """Check the values.

        Raises:
            PairError: one is out of its range.
        """
        for name, type_ in (("variant", Variant), ("std", StdConvention), ("no_signal", NoSignal)):
            if getattr(self, name) not in get_args(type_):
                known = ", ".join(get_args(type_))
                raise PairError(f"{name} is {getattr(self, name)!r}; known are: {known}")
        if "task_id" not in self.by:
            raise PairError(f"Groups are by {self.by}; attempts at several tasks do not compare.")
        if self.order not in {"freshest", "fifo"}:
            raise PairError(f"order is {self.order!r}; known are: freshest, fifo")
        for name in ("max_staleness", "max_size", "eps"):
            value = getattr(self, name)
            if value is not None and value < (1 if name == "max_size" else 0):
                raise PairError(f"{name} is {value}, which leaves nothing")


DEFAULT_GROUP_OPTIONS = GroupOptions()
"""GRPO by task, population standard deviation, everything kept and labelled."""


def group_advantages(
    rows: pa.Table,
    *,
    options: GroupOptions = DEFAULT_GROUP_OPTIONS,
    labels: pa.Table | None = None,
) -> tuple[pa.Table, GroupReport]:
    """Group the attempts at each task and give each its advantage.

    A group whose values are equal within 1e-9 has advantage 0 for every run and says why in
    ``zero_variance``; a group of one is such a group. Runs of unknown worth enter no group.

    Args:
        rows: one row a trajectory of the ``trajectories`` view.
        options: how to group.
        labels: rows of ``LABEL_SCHEMA``, for a criterion that is a label.

    Returns:
        Rows of ``GROUP_SCHEMA``, and what was left out and what looks wrong.

    Raises:
        PairError: options that cannot be followed.
    """
    options.check()
    rules = options.runs
    extra = tuple(n for n in options.by if n != "task_id" and n not in rules.within)
    rules = replace(rules, within=(*rules.within, *extra))
    judged = judged_runs(rows, rules, labels=labels, collapse=False)
    with Relations(judged=judged.kept) as made:
        made.put("numbers", _given_numbers(options))
        aged = _AGED.format(
            group_id=_group_id(dict.fromkeys((*options.by, *rules.within))),
            passed=_passed(options),
            current=literal(options.current_version),
        )
        made.make("windowed", _windowed_query(options, aged))
        made.make("members", "SELECT * FROM windowed WHERE reason IS NULL")
        made.make("measured", _MEASURED.format(ddof=int(options.std == "sample"), same=TIE))
        made.make("kept", f"SELECT * FROM measured WHERE {_SIGNALS[options.no_signal]}")
        eps = EPS[options.std] if options.eps is None else options.eps
        query = _ROWS.format(
            advantage=_ADVANTAGES[options.variant].format(eps=repr(eps)),
            variant=literal(options.variant),
            std=literal(options.std),
        )
        groups = made.rows(query).cast(GROUP_SCHEMA)
        drops = [judged.dropped, made.rows(_LATE_DROPS)]
        return groups, _report(made, options, rows.num_rows, drops)


_AGED = """
    WITH named AS (SELECT DISTINCT policy_version FROM judged WHERE policy_version IS NOT NULL),
    dated AS (
        SELECT policy_version, coalesce(number, TRY_CAST(
            regexp_extract(policy_version, '(\\d+)\\D*$', 1) AS INT)) AS version
        FROM named LEFT JOIN numbers USING (policy_version))
    SELECT task_id, trajectory_id, policy_version, started_at, version, value,
        {group_id} AS group_id, {passed} AS passed,
        coalesce({current}, (SELECT max(version) FROM dated)) - version AS staleness
    FROM judged LEFT JOIN dated USING (policy_version)"""

_ORDERS = {
    "freshest": "version DESC NULLS LAST, started_at DESC NULLS LAST, trajectory_id",
    "fifo": "version NULLS LAST, started_at NULLS LAST, trajectory_id",
}

_MEASURED = """
    SELECT *, hi - lo <= {same} * greatest(1, abs(hi)) AS is_flat,
        list_sum(list_transform(rewards, lambda r: r - mean)) / n AS shift,
        CASE WHEN n > {ddof} THEN sqrt(list_sum(list_transform(rewards,
            lambda r: (r - mean) ** 2)) / (n - {ddof})) ELSE 0 END AS std
    FROM (SELECT group_id, count(*) AS n, min(value) AS lo, max(value) AS hi,
            fsum(value ORDER BY trajectory_id) / n AS mean,
            list(value ORDER BY trajectory_id) AS rewards,
            bool_and(passed) AS all_pass, bool_and(NOT passed) AS all_fail
        FROM members GROUP BY group_id)"""

_SIGNALS = {
    "keep": "true",
    "drop-zero-variance": "NOT is_flat",
    "drop-same-verdict": "NOT is_flat AND NOT all_pass AND NOT all_fail",
}

_ADVANTAGES = {
    "grpo": "(value - mean - shift) / (std + {eps})",
    "rloo": "(value - mean - shift) * n / (n - 1)",
    "dr_grpo": "value - mean - shift",
}

_ROWS = """
    SELECT group_id, task_id, trajectory_id, value AS reward, n, mean, std,
        CASE WHEN is_flat THEN 0 ELSE {advantage} END AS advantage,
        {variant} AS variant, {std} AS std_convention,
        CASE WHEN NOT is_flat THEN NULL WHEN all_pass THEN 'all_pass'
            WHEN all_fail THEN 'all_fail' ELSE 'mixed_equal' END AS zero_variance,
        staleness, policy_version
    FROM members JOIN kept USING (group_id) ORDER BY task_id, group_id, trajectory_id"""

_LATE_DROPS = "SELECT task_id, trajectory_id, reason FROM windowed WHERE reason IS NOT NULL"

_TOTALS = """
    SELECT count(*) AS groups, coalesce(sum(n), 0)::BIGINT AS runs_grouped,
        count(*) FILTER (all_pass OR all_fail) AS same_verdict,
        (SELECT count(*) FROM measured) - count(*) AS groups_dropped,
        count(*) FILTER (is_flat AND all_pass) AS all_pass,
        count(*) FILTER (is_flat AND all_fail) AS all_fail,
        count(*) FILTER (is_flat AND NOT all_pass AND NOT all_fail) AS mixed_equal
    FROM kept"""


def _windowed_query(options: GroupOptions, aged: str) -> str:
    is_late = "CASE "
    if options.max_staleness is not None:
        is_late += (
            "WHEN staleness IS NULL THEN 'unknown-version' "
            f"WHEN staleness > {options.max_staleness} THEN 'stale' "
        )
    query = f"SELECT *, {is_late} WHEN false THEN '' END AS reason FROM ({aged})"
    if options.max_size is None:
        return query
    return f"""
        SELECT * EXCLUDE (reason), CASE WHEN reason IS NULL AND row_number() OVER (
            PARTITION BY group_id, reason IS NULL ORDER BY {_ORDERS[options.order]}
            ) > {options.max_size} THEN 'evicted' ELSE reason END AS reason
        FROM ({query})"""


def _given_numbers(options: GroupOptions) -> pa.Table:
    versions = options.versions or {}
    columns = {
        "policy_version": pa.array(versions.keys(), pa.string()),
        "number": pa.array(versions.values(), pa.int32()),
    }
    return pa.table(columns)


def _group_id(by: Iterable[str]) -> str:
    parts = ", ".join(f"coalesce({identifier(n)}::VARCHAR, '')" for n in by)
    return f"sha256(concat_ws(chr(31), 'group', {parts}))[:32]"


def _passed(options: GroupOptions) -> str:
    by_value = f"value >= {options.pass_threshold!r} - {TIE}"
    by_outcome = options.runs.criterion in {"reward", "success"}
    return f"coalesce(success, {by_value})" if by_outcome else by_value


def _report(
    made: Relations, options: GroupOptions, runs: int, drops: list[pa.Table]
) -> GroupReport:
    totals = made.rows(_TOTALS)
    told = {n: totals.column(n)[0].as_py() for n in totals.column_names}
    flat = {reason: told.pop(reason) for reason in ZERO_VARIANCE}
    sizes = made.rows("SELECT n, count(*) AS groups FROM kept GROUP BY n ORDER BY n")
    dropped = pa.concat_tables([t.cast(RUN_DROPS) for t in drops])
    return GroupReport(
        variant=options.variant,
        criterion=options.runs.criterion,
        runs=runs,
        sizes=dict(zip(listed(sizes.column("n")), listed(sizes.column("groups")), strict=True)),
        zero_variance={reason: n for reason, n in flat.items() if n},
        run_drops=dropped.sort_by([("task_id", "ascending"), ("trajectory_id", "ascending")]),
        **told,
    )
