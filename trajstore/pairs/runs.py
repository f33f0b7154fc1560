"""Which runs may enter pairs and groups, and what each is worth by a criterion."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

import pyarrow as pa
import pyarrow.compute as pc

from trajstore.errors import PairError
from trajstore.pairs.relations import Relations, identifier, listed, literal, with_columns
from trajstore.schema import LABEL_SCHEMA, digest

Truncated = Literal["rejected-only", "keep", "drop"]
Cost = Literal[
    "n_tool_calls", "n_agent_steps", "completion_tokens", "cost_usd", "duration_s", "size_bytes"
]

SAFE = "safe"
"""Name of the label that says whether a whole run was safe."""

REFUSAL = "refusal"
"""Name of the label that says that the agent refused; its rationale is the reason it gave."""

RUN_REASONS: Mapping[str, str] = {
    "denied": "the deny-list names its task, its id or its content",
    "other-task": "its task is not among those asked for",
    "mask-sample": "its source says that it must not be trained on (tag mask_sample)",
    "error": "it ended in a technical error",
    "running": "it has not ended",
    "truncated": "it was cut off",
    "no-agent-step": "it holds no step of the agent",
    "unknown-outcome": "nobody judged it by this criterion",
    "duplicate": "the same content is there under another id",
    "contradicting-duplicate": "the same content is there under another id with another outcome",
    "unknown-version": "its policy version is not known, and a staleness window is asked for",
    "stale": "its policy version is older than the staleness window",
    "evicted": "its group had more runs than the most that were asked for",
}
"""Why a run is left out: the reason's name and what it means."""

_OWN = ("reward", "success")
"""Criteria that a label of the same name does not replace."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRules:
    """What a run must be, and how it is judged."""

    criterion: str = "reward"
    """``reward``; ``success``; ``safety`` (labels ``safe`` and ``refusal``); or the name of a label
    on whole runs, as it is or behind ``label:`` (``label:reward`` for a label named so).

    By ``reward``, a task in which some judged run has a verdict but no reward is judged by verdicts
    as a whole (1 and 0), so that two scales never meet."""
    evaluators: tuple[str, ...] = ()
    """Whose label counts, the best first; others rank behind, the newest word first."""
    truncated: Truncated = "rejected-only"
    """Whether a run that was cut off may be chosen and rejected, only rejected, or neither. The
    first two differ for pairs of whole runs only."""
    errors: bool = False
    """Also take runs that ended in a technical error, where somebody judged them."""
    masked: bool = False
    """Also take runs whose source says that they must not be trained on."""
    within: tuple[str, ...] = ()
    """Columns that both sides must share beside the task, such as ``("model", "agent")``."""
    tasks: tuple[str, ...] | None = None
    """Only these tasks; all where None."""
    deny: tuple[str, ...] = ()
    """Never these: task ids, SHA-256 of task ids, trajectory ids or source digests."""
    denied: Literal["drop", "fail"] = "drop"
    """Whether a denied run among the rows is left out and counted, or stops the build."""

    @property
    def label_names(self) -> tuple[str, ...]:
        """Labels of whole runs that the criterion reads."""
        if self.criterion in _OWN:
            return ()
        if self.criterion == "safety":
            return (SAFE, REFUSAL)
        return (self.criterion.removeprefix("label:"),)

    def parameters(self) -> dict[str, Any]:
        """JSON-ready values; of the deny-list only its length and a hash."""
        values = asdict(self)
        values["deny"] = [len(self.deny), digest(*sorted(self.deny))[:16]] if self.deny else []
        return values


@dataclass(frozen=True, slots=True, kw_only=True)
class Runs:
    """Judged runs, and the others with the why."""

    kept: pa.Table
    """One row a run, in no order: the columns of :data:`RUN_COLUMNS`, ``value`` by the criterion,
    ``can_win`` and ``bucket`` (a hash of what both sides must share)."""
    dropped: pa.Table
    """``task_id``, ``trajectory_id``, ``reason``."""


RUN_COLUMNS: Mapping[str, pa.DataType] = {
    "trajectory_id": pa.string(),
    "task_id": pa.string(),
    "agent": pa.string(),
    "model": pa.string(),
    "status": pa.string(),
    "tags": pa.list_(pa.string()),
    "success": pa.bool_(),
    "reward": pa.float64(),
    "policy_version": pa.string(),
    "source_digest": pa.string(),
    "parent_id": pa.string(),
    "parent_step": pa.int32(),
    "relation": pa.string(),
    "n_agent_steps": pa.int64(),
    "n_tool_calls": pa.int64(),
    "completion_tokens": pa.int64(),
    "cost_usd": pa.float64(),
    "duration_s": pa.float64(),
    "size_bytes": pa.int64(),
    "started_at": pa.timestamp("us", tz="UTC"),
    "imported_at": pa.timestamp("us", tz="UTC"),
    "tools_digest": pa.string(),
    "goal_digest": pa.string(),
}
"""Columns of the ``trajectories`` view that are read here; one that is not there is unknown."""

_WORDS = """
    SELECT trajectory_id,
        arg_max({{'success': coalesce(success, value >= 0.5),
            'value': coalesce(value, success::INT::DOUBLE), 'rationale': rationale}},
            {{'rank': -coalesce(place, 1000000), 'at': created_at, 'id': label_id}}) AS word
    FROM labels LEFT JOIN evaluators USING (evaluator)
    WHERE name = {name} AND step_index IS NULL AND (success IS NOT NULL OR value IS NOT NULL)
    GROUP BY trajectory_id"""

_SAFETY = """
    SELECT trajectory_id, CASE
        WHEN safe.word.success IS NOT NULL THEN safe.word.success::INT::DOUBLE
        WHEN refusal.word.success AND trim(refusal.word.rationale) <> '' THEN 1.0 END AS value
    FROM ({safe}) safe FULL JOIN ({refusal}) refusal USING (trajectory_id)"""

_BY_REWARD = """CASE WHEN task_id IN (
    SELECT task_id FROM usable WHERE success IS NOT NULL AND reward IS NULL)
    THEN success::INT::DOUBLE ELSE reward END"""


def judged_runs(
    rows: pa.Table,
    rules: RunRules,
    *,
    labels: pa.Table | None = None,
    collapse: bool = True,
    need_steps: bool = True,
) -> Runs:
    """Judge runs by a criterion and leave out what may not be used.

    Args:
        rows: one row a trajectory of the ``trajectories`` view, in any order. ``tools`` and
            ``goal`` (or ``tools_digest`` and ``goal_digest``) are part of the prompt where they are
            there.
        rules: what a run must be.
        labels: rows of ``LABEL_SCHEMA``, for a criterion that is a label.
        collapse: keep one of several runs of a task with the same ``source_digest``.
        need_steps: leave out runs without a step of the agent.

    Raises:
        PairError: a rule that cannot be followed, or a denied task that is asked for.
    """
    _check(rows, rules, labels)
    runs = with_columns(_with_digests(rows), {**RUN_COLUMNS, **_extra(rows, rules)})
    runs = runs.append_column("place", pa.arange(0, runs.num_rows))
    with Relations(given=runs, deny=pa.table({"name": pa.array(rules.deny, pa.string())})) as made:
        _check_ids(made)
        _put_labels(made, rules, labels)
        made.make("reasons", _reasons_query(rules, need_steps=need_steps))
        if rules.denied == "fail":
            _fail_if_denied(made)
        made.make("valued", _valued_query(rules))
        made.make("copies", _COPIES.format(collapse=collapse))
        kept = _KEPT.format(
            bucket=", ".join(["task_id", *(identifier(n) for n in rules.within)]),
            can_win=rules.truncated != "rejected-only",
        )
        return Runs(kept=made.rows(kept), dropped=made.rows(_DROPPED))


_COPIES = """
    WITH twice AS (
        SELECT task_id, source_digest, min(value) < max(value) AS is_unlike,
            min(trajectory_id) AS first_id
        FROM given JOIN valued USING (place) WHERE {collapse} AND source_digest IS NOT NULL
        GROUP BY ALL HAVING count(*) > 1)
    SELECT place, CASE WHEN is_unlike THEN 'contradicting-duplicate' ELSE 'duplicate' END AS copy
    FROM twice JOIN given USING (task_id, source_digest) JOIN valued USING (place)
    WHERE is_unlike OR trajectory_id <> first_id"""

_KEPT = """
    SELECT given.* EXCLUDE (place), value, hash({bucket}) AS bucket,
        {can_win} OR status IS DISTINCT FROM 'truncated' AS can_win
    FROM given JOIN valued USING (place) WHERE place NOT IN (SELECT place FROM copies)"""

_DROPPED = """
    SELECT task_id, trajectory_id, coalesce(reason, copy, 'unknown-outcome') AS reason
    FROM given JOIN reasons USING (place) LEFT JOIN valued USING (place)
    LEFT JOIN copies USING (place)
    WHERE reason IS NOT NULL OR copy IS NOT NULL OR value IS NULL
    ORDER BY task_id, trajectory_id"""


def _check(rows: pa.Table, rules: RunRules, labels: pa.Table | None) -> None:
    for name in ("trajectory_id", "task_id", *rules.within):
        if name not in rows.column_names:
            raise PairError(f"The rows lack the column '{name}'; they have: {rows.column_names}")
    if rules.truncated not in get_args(Truncated):
        known = ", ".join(get_args(Truncated))
        raise PairError(f"truncated is {rules.truncated!r}; it must be one of: {known}")
    asked = set(rules.tasks or ())
    hashed = {hashlib.sha256(t.encode()).hexdigest(): t for t in asked}
    refused = sorted((asked & set(rules.deny)) | {hashed[d] for d in rules.deny if d in hashed})
    if refused:
        raise PairError(
            f"The tasks {', '.join(refused)} are asked for and on the deny-list; take them from "
            "one of the two."
        )
    if rules.label_names and rules.criterion != "safety":
        _check_label(rules.label_names[0], labels)


def _check_ids(made: Relations) -> None:
    twice = "SELECT trajectory_id FROM given GROUP BY 1 HAVING count(*) > 1 ORDER BY 1 LIMIT 3"
    found = listed(made.rows(twice).column(0))
    if found:
        message = f"The rows hold an id more than once, such as {', '.join(map(str, found))}"
        raise PairError(f"{message}; give one row a trajectory.")


def _check_label(name: str, labels: pa.Table | None) -> None:
    names = sorted(listed(pc.unique(labels.column("name")))) if labels is not None else []
    if name not in names:
        shown = [f"label:{n}" if n in _OWN else n for n in names]
        raise PairError(
            f"There is no criterion '{name}': use reward, success, safety, or the name of a label "
            f"on these runs ({', '.join(shown) or 'they have none'})."
        )


def _with_digests(rows: pa.Table) -> pa.Table:
    """The rows with hashes of ``tools`` and ``goal`` where the texts are there."""
    for name in ("tools", "goal"):
        if name in rows.column_names and f"{name}_digest" not in rows.column_names:
            with Relations(given=rows) as relations:
                hashed = f"SELECT md5({name}) FROM given"
                rows = rows.append_column(f"{name}_digest", relations.rows(hashed).column(0))
    return rows


def _extra(rows: pa.Table, rules: RunRules) -> dict[str, pa.DataType]:
    return {n: rows.schema.field(n).type for n in rules.within if n not in RUN_COLUMNS}


def _put_labels(made: Relations, rules: RunRules, labels: pa.Table | None) -> None:
    made.put("labels", LABEL_SCHEMA.empty_table() if labels is None else labels)
    ranked = list(enumerate(rules.evaluators))
    names, places = [n for _, n in ranked], [p for p, _ in ranked]
    columns = {"evaluator": pa.array(names, pa.string()), "place": pa.array(places, pa.int32())}
    made.put("evaluators", pa.table(columns))
    made.put("asked", pa.table({"task_id": pa.array(rules.tasks or (), pa.string())}))


def _fail_if_denied(made: Relations) -> None:
    found = made.rows(
        "SELECT DISTINCT task_id FROM given JOIN reasons USING (place) WHERE reason = 'denied'"
    )
    tasks = sorted(listed(found.column(0)))
    if tasks:
        raise PairError(
            f"Runs of {len(tasks)} tasks are on the deny-list: {', '.join(tasks[:20])}. Leave them "
            "out of the selection, or set denied='drop'."
        )


def _reasons_query(rules: RunRules, *, need_steps: bool) -> str:
    is_denied = " OR ".join(
        f"{named} IN (SELECT name FROM deny)"
        for named in ("task_id", "sha256(task_id)", "trajectory_id", "source_digest")
    )
    found = {
        "denied": f"coalesce({is_denied}, false)" if rules.deny else "false",
        "other-task": "false" if rules.tasks is None else "task_id NOT IN (SELECT * FROM asked)",
        "mask-sample": "false" if rules.masked else "list_contains(tags, 'mask_sample')",
        "error": "false" if rules.errors else "status = 'error'",
        "running": "status = 'running'",
        "truncated": "status = 'truncated'" if rules.truncated == "drop" else "false",
        "no-agent-step": "n_agent_steps = 0" if need_steps else "false",
    }
    cases = " ".join(f"WHEN {test} THEN {literal(reason)}" for reason, test in found.items())
    return f"SELECT place, CASE {cases} END AS reason FROM given"


def _valued_query(rules: RunRules) -> str:
    """Runs that somebody judged; an error that nobody judged says nothing, whatever its reward."""
    if rules.criterion == "reward":
        source, value = "usable", _BY_REWARD
    elif rules.criterion == "success":
        source, value = "usable", "success::INT::DOUBLE"
    else:
        name = literal(rules.label_names[0])
        words = f"SELECT trajectory_id, word.value AS value FROM ({_WORDS.format(name=name)})"
        if rules.criterion == "safety":
            safe, refusal = (_WORDS.format(name=literal(n)) for n in (SAFE, REFUSAL))
            words = _SAFETY.format(safe=safe, refusal=refusal)
        source, value = f"usable JOIN ({words}) USING (trajectory_id)", "value"
    return f"""
        WITH usable AS (
            SELECT place, task_id, trajectory_id, success, reward
            FROM given JOIN reasons USING (place)
            WHERE reason IS NULL AND NOT coalesce(status = 'error' AND success IS NULL, false))
        SELECT * FROM (SELECT place, {value} AS value FROM {source}) WHERE isfinite(value)"""
