"""Which retrievals were used: something that only they showed turns up in what the agent did next.

What counts as "something" are tokens that hardly come up by chance: at least five characters with
a digit, an underscore, a slash, an at sign or a number sign in them, or all in capitals (ids,
paths, dates, codes); keys of JSON objects are left out. A token counts for the call whose
observation shows it first, if nobody (system, user, agent) said it up to that step, and if the
first to say it later is the agent, in the arguments of a call or in its text.
"""

from __future__ import annotations

import pyarrow as pa

from trajstore.filters.relations import relation

RETRIEVAL_TOOLS = (
    r"(?i)(^|[^a-z])(search|retriev\w*|look_?up|find|fetch|read|open|get|list|query|browse|view|"
    r"grep|glob|cat|webfetch|websearch|show)"
)
"""Names of tools that bring information, as a regular expression (RE2)."""

TOKEN = r"\b[A-Za-z.:-]*[0-9_/@#][A-Za-z0-9_./@#:-]*|\b[A-Z]{5,}\b"  # noqa: S105  no password
"""What may be an id, a path, a date or a code, as a regular expression (RE2)."""

LEAST_CHARACTERS = 5
"""Shorter tokens come up by chance."""

_LOOKED_AT = 20_000
_KEY = r"""["'][\w -]+["']\s*:"""

_WORDS = f"""unnest(regexp_extract_all(
            CASE WHEN strlen({{text}}) > {_LOOKED_AT} THEN left({{text}}, {_LOOKED_AT})
                ELSE {{text}} END, {{pattern}}))"""
_SAID = _WORDS.format(text="text", pattern="$token")
# A key of JSON is matched as a whole, so that no token is found in it; tokens begin with no quote.
_SHOWN = _WORDS.format(text="observation", pattern="$shown")

_A_STEP = 2**31  # Places are one number, step by step and call by call: numbers compare fast.

_TOKENS_SHOWN = f"""
        SELECT trajectory_id, token, min(step_index::BIGINT * {_A_STEP} + call_index) AS first
        FROM (SELECT trajectory_id, step_index, call_index, trim(word, '.:-') AS token
              FROM (SELECT trajectory_id, step_index, call_index, {_SHOWN} AS word
                    FROM calls WHERE observation IS NOT NULL AND {{calls}})
              WHERE left(word, 1) NOT IN ('"', chr(39)))
        WHERE len(token) >= $least GROUP BY trajectory_id, token"""

_RETRIEVED = _TOKENS_SHOWN.format(calls="regexp_matches(name, $tools)")

# Finding tokens costs most. So what was said is only looked at in runs where a retrieval showed
# some, and results of other tools, since they may have shown a token first, only in runs where the
# agent said something that a retrieval had shown.
_OTHER = _TOKENS_SHOWN.format(
    calls="NOT regexp_matches(name, $tools) "
    "AND trajectory_id IN (SELECT trajectory_id FROM candidates)"
)

_QUERY = f"""
    WITH retrieved AS ({_RETRIEVED}),
    showing AS (SELECT DISTINCT trajectory_id FROM retrieved),
    said AS (
        SELECT trajectory_id, step_index, actor = 'agent' AS by_agent, text
        FROM steps SEMI JOIN showing USING (trajectory_id) WHERE text IS NOT NULL
        UNION ALL
        SELECT trajectory_id, step_index, true, arguments
        FROM calls SEMI JOIN showing USING (trajectory_id) WHERE arguments IS NOT NULL),
    mentions AS (
        SELECT trajectory_id, token, min(step_index::BIGINT * 2 + by_agent::INTEGER) AS first
        FROM (SELECT trajectory_id, step_index, by_agent, trim(word, '.:-') AS token
              FROM (SELECT trajectory_id, step_index, by_agent, {_SAID} AS word FROM said))
        WHERE len(token) >= $least GROUP BY trajectory_id, token),
    candidates AS (
        SELECT trajectory_id, token, r.first AS first, (m.first // 2)::INTEGER AS used_at
        FROM retrieved r JOIN mentions m USING (trajectory_id, token)
        WHERE m.first // 2 > r.first // {_A_STEP} AND m.first % 2 = 1),
    other AS ({_OTHER})
    SELECT trajectory_id, (c.first // {_A_STEP})::INTEGER AS step_index,
        c.first % {_A_STEP} AS call_index, count(*) AS n_tokens,
        min({{'at': used_at, 'token': token}}).token AS token,
        min(used_at) AS used_at
    FROM candidates c LEFT JOIN other o USING (trajectory_id, token)
    WHERE o.first IS NULL OR o.first > c.first
    GROUP BY ALL
    ORDER BY trajectory_id, step_index, call_index"""


def used_retrievals(calls: pa.Table, steps: pa.Table, *, tools: str = RETRIEVAL_TOOLS) -> pa.Table:
    """Calls whose result the agent used later.

    Args:
        calls: the input ``calls``.
        steps: the input ``steps``.
        tools: regular expression (RE2) for names of retrieval tools.

    Returns:
        One row a used call: ``trajectory_id, step_index, call_index, n_tokens`` (how many tokens
        were used), ``token`` (the first of them) and ``used_at`` (the step that used it).
    """
    tables = {
        "calls": calls.select(
            ["trajectory_id", "step_index", "call_index", "name", "arguments", "observation"]
        ),
        "steps": steps.select(["trajectory_id", "step_index", "actor", "text"]),
    }
    return relation(
        _QUERY,
        tables=tables,
        token=TOKEN,
        shown=f"{_KEY}|{TOKEN}",
        least=LEAST_CHARACTERS,
        tools=tools,
    )
