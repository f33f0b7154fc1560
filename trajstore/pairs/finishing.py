"""From pairs that were found to pair rows: what collapses, ids, digests, weights and the report."""

from __future__ import annotations

import math
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from trajstore.pairs.relations import Relations, literal
from trajstore.pairs.report import PAIR_DROPS, RUN_DROPS, TASK_DROPS, PairReport
from trajstore.pairs.runs import RunRules
from trajstore.pairs.schema import PAIR_SCHEMA
from trajstore.pairs.turns import TurnSource


@dataclass(frozen=True, slots=True, kw_only=True)
class Build:
    """What the rows of one build say of it."""

    level: str
    policy: str
    parameters: str
    rules: RunRules
    max_pairs: int | None = None
    length_balance: float | None = None
    seed: int = 0


_IDENTIFIED = """
    WITH places AS (SELECT DISTINCT chosen, n_prompt_steps FROM found),
    prompts AS (
        SELECT chosen, n_prompt_steps, coalesce(sum(hash(step_index, turn)), 0) AS content
        FROM places LEFT JOIN path ON run = chosen AND step_index < n_prompt_steps GROUP BY ALL)
    SELECT f.*, c.task_id, c.trajectory_id AS chosen_id, r.trajectory_id AS rejected_id,
        sha256(concat_ws(chr(31), {level}, c.task_id,
            coalesce(c.source_digest, c.trajectory_id), coalesce(chosen_step::VARCHAR, ''),
            coalesce(r.source_digest, r.trajectory_id), coalesce(rejected_step::VARCHAR, ''),
            n_prompt_steps))[:32] AS pair_id,
        (c.agent, c.model, c.policy_version) IS DISTINCT FROM (r.agent, r.model, r.policy_version)
            AS is_across,
        hash(content, n_prompt_steps, c.tools_digest, c.said_goal) AS prompt_node
    FROM found f JOIN prompts USING (chosen, n_prompt_steps)
    JOIN started c ON c.run = chosen JOIN started r ON r.run = rejected"""

_COLLAPSED = """
    SELECT * EXCLUDE (reason), CASE
        WHEN reason IS NOT NULL THEN reason
        WHEN row_number() OVER (PARTITION BY task_id, likeness, reason
            ORDER BY chosen_reward - rejected_reward DESC, chosen_id, rejected_id, chosen_step) > 1
            THEN 'near-identical' END AS reason
    FROM identified"""

_CAPPED = """
    SELECT * EXCLUDE (reason), CASE
        WHEN reason IS NULL AND row_number() OVER (PARTITION BY task_id, reason IS NULL
            ORDER BY sha256({seed} || pair_id), pair_id) > {most} THEN 'task-cap'
        ELSE reason END AS reason
    FROM collapsed"""

_BALANCED = """
    SELECT * EXCLUDE (reason), CASE
        WHEN reason IS NULL AND {is_majority} AND row_number() OVER (
            PARTITION BY reason IS NULL AND {is_majority}
            ORDER BY sha256({seed} || pair_id), pair_id) <= {excess} THEN 'length-balance'
        ELSE reason END AS reason
    FROM capped"""

_LENGTHS = """
    SELECT count(*) FILTER (chosen_length > rejected_length) AS longer,
        count(*) FILTER (chosen_length < rejected_length) AS shorter,
        count(*) FILTER (chosen_length = rejected_length) AS equal
    FROM {relation} WHERE reason IS NULL"""

_PROMPTS = """
    SELECT prompt_node, min(chosen_id) AS trajectory_id, any_value(n_prompt_steps) AS n
    FROM balanced WHERE reason IS NULL GROUP BY prompt_node"""

_PARTS = """
    SELECT prompt_node, trajectory_id, n, step_index, digest
    FROM prompts JOIN started USING (trajectory_id) JOIN path USING (run) WHERE step_index < n"""

_READ = """
    SELECT prompt_node, p.step_index, coalesce(p.digest, r.digest) AS digest
    FROM parts p LEFT JOIN read r
        ON r.trajectory_id = p.trajectory_id AND r.step_index = p.step_index"""

_DIGESTED = """
    SELECT prompt_node, sha256(concat(any_value(tools_digest), chr(28), any_value(said_goal),
        chr(28), string_agg(digest, ',' ORDER BY step_index))) AS prompt_digest
    FROM prompts JOIN started USING (trajectory_id) LEFT JOIN digests USING (prompt_node)
    GROUP BY prompt_node"""

_ROWS = """
    SELECT pair_id, sha256(concat_ws(chr(31), task_id, {level}, {policy}))[:32] AS pair_group,
        task_id, {level} AS level, {policy} AS policy, {parameters} AS parameters,
        chosen_id, rejected_id, chosen_step, rejected_step, n_prompt_steps,
        prompt_digest[:32] AS prompt_digest, chosen_reward, rejected_reward,
        chosen_reward - rejected_reward AS margin,
        1.0::DOUBLE / count(*) OVER (PARTITION BY task_id) AS weight,
        same_start, {criterion} AS criterion
    FROM balanced JOIN digested USING (prompt_node) WHERE reason IS NULL
    ORDER BY task_id, margin DESC, chosen_id, rejected_id, chosen_step"""

_COUNTS = """
    SELECT count(*) FILTER (NOT same_start) AS other_start,
        count(*) FILTER (is_across) AS other_policy,
        (SELECT count(*) FROM all_judged WHERE NOT can_win AND {level} = 'trajectory')
            AS rejected_only
    FROM balanced WHERE reason IS NULL"""

_PAIR_DROPS = """
    SELECT task_id, chosen_id, rejected_id, reason FROM balanced WHERE reason IS NOT NULL
    ORDER BY task_id, reason, chosen_id, rejected_id"""

_TASK_DROPS = """
    SELECT task_id, CASE WHEN task_id IN (SELECT task_id FROM balanced) THEN 'pairs-dropped'
        ELSE coalesce(reason, 'no-runs-left') END AS reason, coalesce(runs, 0) AS runs
    FROM (SELECT DISTINCT task_id FROM given) LEFT JOIN task_reasons USING (task_id)
    WHERE task_id NOT IN (SELECT task_id FROM balanced WHERE reason IS NULL)
    ORDER BY task_id"""

_NO_STEPS = """
    SELECT task_id, trajectory_id, 'no-agent-step' AS reason
    FROM judged WHERE trajectory_id NOT IN (SELECT trajectory_id FROM started)"""


def finished(
    made: Relations, build: Build, *, source: TurnSource, rows: pa.Table, dropped: pa.Table
) -> tuple[pa.Table, PairReport]:
    """Make rows of ``PAIR_SCHEMA`` and the report.

    ``found`` (pairs with a ``reason`` where one speaks against them), ``task_reasons``,
    ``all_judged``, ``judged``, ``started`` and ``path`` must be there.

    Args:
        made: those relations.
        build: what each row says of the build.
        source: the steps, for digests of prompts.
        rows: the runs that were given.
        dropped: runs that were left out, with the reason.
    """
    level, policy = literal(build.level), literal(build.policy)
    made.make("identified", _IDENTIFIED.format(level=level))
    made.make("collapsed", _COLLAPSED)
    seed, most = literal(str(build.seed)), literal(build.max_pairs)
    made.make("capped", _CAPPED.format(seed=seed, most=most))
    made.make("balanced", _balanced_query(made, build))
    _digest_prompts(made, source)
    made.put("given", rows.select(["task_id"]))
    pairs = made.rows(
        _ROWS.format(
            level=level,
            policy=policy,
            parameters=literal(build.parameters),
            criterion=literal(build.rules.criterion),
        )
    ).cast(PAIR_SCHEMA)
    left_out = pa.concat_tables([t.cast(RUN_DROPS) for t in (dropped, made.rows(_NO_STEPS))])
    told = made.rows(_COUNTS.format(level=level))
    report = PairReport(
        level=build.level,
        policy=build.policy,
        criterion=build.rules.criterion,
        runs=rows.num_rows,
        tasks=pc.count_distinct(rows.column("task_id")).as_py(),
        pairs=pairs.num_rows,
        tasks_paired=pc.count_distinct(pairs.column("task_id")).as_py(),
        run_drops=left_out.sort_by([("task_id", "ascending"), ("trajectory_id", "ascending")]),
        task_drops=made.rows(_TASK_DROPS).cast(TASK_DROPS),
        pair_drops=made.rows(_PAIR_DROPS).cast(PAIR_DROPS),
        **{n: told.column(n)[0].as_py() for n in told.column_names},
        p_chosen_longer=_p_chosen_longer(made, "balanced"),
    )
    return pairs, report


def _lengths(made: Relations, relation: str) -> tuple[int, int, int]:
    row = made.rows(_LENGTHS.format(relation=relation))
    longer, shorter, equal = (row.column(n)[0].as_py() for n in ("longer", "shorter", "equal"))
    return longer, shorter, equal


def _p_chosen_longer(made: Relations, relation: str) -> float | None:
    longer, shorter, equal = _lengths(made, relation)
    known = longer + shorter + equal
    return (longer + equal / 2) / known if known else None


def _balanced_query(made: Relations, build: Build) -> str:
    longer, shorter, equal = _lengths(made, "capped")
    if build.length_balance is None or build.length_balance >= 0.5:
        return "SELECT * FROM capped"
    sign = ">" if longer > shorter else "<"
    return _BALANCED.format(
        is_majority=f"chosen_length {sign} rejected_length",
        seed=literal(str(build.seed)),
        excess=excess(abs(longer - shorter), longer + shorter + equal, build.length_balance),
    )


def excess(difference: int, pairs: int, tolerance: float) -> int:
    """How many pairs of the more frequent kind have to go until its lead is in the tolerance.

    With d the lead and n the pairs, the share is within ``tolerance`` of one half once
    d - m <= 2 * tolerance * (n - m).

    >>> excess(40, 100, 0.05)
    34
    """
    return max(0, math.ceil((difference - 2 * tolerance * pairs) / (1 - 2 * tolerance) - 1e-9))


def _digest_prompts(made: Relations, source: TurnSource) -> None:
    """Digests of prompts: mostly from the turns at hand; only the other runs are read again."""
    made.make("prompts", _PROMPTS)
    made.make("parts", _PARTS)
    open_ = made.rows(
        "SELECT trajectory_id, max(n) AS n FROM parts WHERE digest IS NULL GROUP BY 1"
    )
    most = pc.max(open_.column("n")).as_py() or 0
    if most:
        made.put("read", source.digests(open_.column("trajectory_id").combine_chunks(), most))
        made.make("digests", _READ)
    else:
        made.make("digests", "SELECT prompt_node, step_index, digest FROM parts")
    made.make("digested", _DIGESTED)
