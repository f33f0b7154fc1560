"""Next-state signals: what the user's next message says of the agent's step before it.

After OpenClaw-RL: a user who corrects, asks again or thanks has judged the last action, cheaply and
unreliably. The rules are patterns over English text, so the labels are weak: small values, and an
evaluator of their own that a ranking can put last.

A user step counts if the step before it (events and copied context left out) is the agent's. Only
its first 300 characters are looked at, with typographic apostrophes made plain; a message that a
program wrote (it begins with ``<``, ``{`` or ``[`` other than an interruption) says nothing. At
most one signal fires a step: correction before re-query before thanks.
"""

from __future__ import annotations

import pyarrow as pa

from trajstore.filters.relations import need_columns, relation

LOOKED_AT = 300
"""Characters of a message that the patterns see."""

REPEATED = 0.7
"""A message whose words overlap this much (Jaccard) with an earlier one of the user repeats it."""

REPEATED_WORDS = 5
"""A message with fewer different words repeats nothing."""

CORRECTIONS: tuple[str, ...] = (
    r"^\[request interrupted by user",
    (
        r"^(no|nope|nah)\b[,.!]* ?(please )?(stop|undo|i (said|meant|asked|was asking|"
        r"didn't (ask|say|mean|want)))\b"
    ),
    r"\b(that|this|it)('s| is| was) (not|n't|never) (right|correct|true|what|the (right|one))",
    r"\b(that|this|it) (isn't|wasn't) (right|correct|true|what|the (right|one))",
    r"\b(that|this|it)('s| is| was) (wrong|incorrect|a mistake|the wrong)",
    r"\bnot what i\b",
    (
        r"\b(actually|sorry|wait),? (but )?(i (said|meant|wanted|asked|did\b|never)|it('s| is)|"
        r"that('s| is) (not|wrong))"
    ),
    r"^actually,? my\b.{1,40}\b(is|was)\b",
    r"\bi (meant|did not ask|didn't ask|never (asked|said))\b",
    (
        r"\b(you|you've|you have) (misunderst\w+|missed|forgot\w*|ignored|got .{1,30} wrong|"
        r"mixed up|made a mistake|broke|deleted the wrong)"
    ),
    (
        r"\bthere('s| is| seems| might| must|) ?.{0,12}(some |a )?"
        r"(confusion|mix-?up|misunderstanding|mistake)\b"
    ),
    r"\bi('m| am) not (asking|looking|trying|travel)",
    r"^(please )?(undo|revert|roll (that|it|this) back)\b",
)
"""Patterns (RE2, any case) of a user who says that the last step was wrong."""

DENIALS: tuple[str, ...] = (
    (
        r"^(no|nope|nah)\b[,.!]* ?(please )?(that|this|it|you|we|don't|do not|"
        r"(not|the|my|use|only)\b|i (want|need|don't want))"
    ),
)
"""Further patterns of a correction, but only behind a step that asks nothing: else they answer."""

NO_CORRECTION: tuple[str, ...] = (
    (
        r"^no\b[,.!]* ?(that's|that is|that will be|this is|it's|it is|that would be)"
        r"[a-z ]{0,20}\b(all|it|fine|ok(ay)?|alright|all right|everything|good|great|perfect)\b"
    ),
    r"^no\b[,.!]* ?(thank|thanks|worries|problem|need\b|rush)",
    r"\bi (made|have made) a mistake\b",
)
"""Patterns that look like a correction and are none; where one matches, no correction fires."""

REQUERIES: tuple[str, ...] = (
    r"\b(as|like) i (said|mentioned|told|explained)\b",
    r"\bi('ve| have)? (already|just) (said|told|gave|given|mentioned|provided|explained|shared)\b",
    r"\b(let me|i'll|i will|to) (repeat|rephrase|clarify|reiterate)\b",
    r"\bi('m| am) (asking|repeating)( you| this| that| myself)* again\b",
    r"\bgoing (around |round )?in circles\b",
    (
        r"\b(can|could|would|will|can't|please|might|to) (you |we )?(please |also |just |try to )*"
        r"(double[- ]?check|re-?check|(check|look|try|search)( for)?( that| this| it)? again|"
        r"try checking again)"
    ),
    r"\b(check|look|try) again,? please\b",
    r"\bare you (really |absolutely )?(sure|positive|certain)\b",
    (
        r"\bstill (not|no\b|doesn't|does not|isn't|is not|fails|failing|failed|broken|wrong|seeing|"
        r"get(ting)? (the|an|this))"
    ),
    r"\b(issue|problem|error|bug) (is still|remains|persists)\b",
    r"\b(doesn't|does not|didn't|did not) (seem to )?(work|help|fix|answer)\b",
    r"\b(you|that) (didn't|did not|haven't|have not) (answer|address|do what|fix|finish)",
)
"""Patterns of a user who asks for the same thing again."""

THANKS: tuple[str, ...] = (
    r"\b(thank you|thanks|thank u|thx|many thanks|merci|much appreciated|cheers)\b",
    r"\bi (really |do )?appreciate (it|that|this|your|the|you)\b",
    r"^(perfect|awesome|excellent|amazing|brilliant|fantastic|lovely|great)\b",
    r"\b(great|good|nice|excellent|amazing) (job|work)\b|\bwell done\b",
    r"\b(that|it|this) (works|worked)\b",
)
"""Patterns of a user who is content."""

NO_THANKS: tuple[str, ...] = (
    r"\bfor your (patience|understanding|time)\b|\bin advance\b|\bfor trying\b",
    r"\b(but|however|unfortunately|though|disappoint\w*|frustrat\w*|unhappy|unacceptable)\b",
    r"\b(no|don't|do not)\b[^.!?]{0,40}\bthank(s| you)\b|\bthanks to\b",
    r"\b(please|could you|can you|would you|i need|i want|i('d| would) like)\b",
    r"\bi (can't|cannot|won't)\b",
    r"\b(get back to|contact|be in touch|let you know|reach out|human agent|someone who)\b",
)
"""Patterns that take the thanks back or show that it is only polite."""

AGREEMENTS: tuple[str, ...] = (
    r"^(yes|yeah|yep|sure|ok(ay)?|alright|correct|that's correct|thank|thanks|great)\b",
    r"^please (proceed|go ahead|use)\b",
)
"""Patterns of a message that says yes: one that resembles an earlier yes repeats no question."""

_TEXT = "replace(left(text, $looked_at), '\u2019', '''')"
_WORDS = r"list_distinct(regexp_extract_all(lower(text), '[\w'']+'))"

_QUERY = f"""
    WITH turns AS (
        SELECT trajectory_id, step_index, actor, text, {_TEXT} AS opening, {_WORDS} AS words,
            lag(actor) OVER run AS actor_before, lag(step_index) OVER run AS judged,
            coalesce(contains(right(lag(text) OVER run, $looked_at), '?'), false) AS asked
        FROM steps WHERE actor <> 'environment'
        WINDOW run AS (PARTITION BY trajectory_id ORDER BY step_index)),
    answers AS (
        SELECT *, trim(opening) AS said FROM turns
        WHERE actor = 'user' AND actor_before = 'agent' AND text IS NOT NULL
            AND (NOT regexp_matches(trim(opening), '^[<{{\\[]')
                OR regexp_matches(trim(opening), '(?i)^\\[request interrupted'))),
    again AS (
        SELECT a.trajectory_id, a.step_index, min(b.step_index) AS first_asked
        FROM answers a JOIN turns b ON a.trajectory_id = b.trajectory_id
            AND b.actor = 'user' AND b.step_index < a.step_index
        WHERE NOT regexp_matches(said, $agreements) AND len(a.words) >= $least_words
            AND len(list_intersect(a.words, b.words)) >= $repeated
                * (len(a.words) + len(b.words) - len(list_intersect(a.words, b.words)))
        GROUP BY ALL),
    heard AS (
        SELECT a.trajectory_id, a.judged, first_asked,
            coalesce(nullif(regexp_extract(said, $corrections), ''),
                CASE WHEN asked THEN '' ELSE regexp_extract(said, $denials) END) AS correction,
            regexp_extract(said, $requeries) AS requery,
            regexp_extract(said, $thanks) AS thanks,
            regexp_matches(said, $no_correction) AS no_correction,
            regexp_matches(said, $no_thanks) AS no_thanks
        FROM answers a LEFT JOIN again USING (trajectory_id, step_index)),
    named AS (
        SELECT *, CASE
            WHEN correction <> '' AND NOT no_correction THEN 'correction'
            WHEN requery <> '' OR first_asked IS NOT NULL THEN 're-query'
            WHEN thanks <> '' AND NOT no_thanks THEN 'thanks' END AS name
        FROM heard)
    SELECT trajectory_id, judged::INTEGER AS step_index, name,
        CASE name WHEN 'correction' THEN $correction WHEN 're-query' THEN $requery
            ELSE $thank END::DOUBLE AS value,
        CASE WHEN name = 'correction' THEN 'the user says "' || correction || '"'
            WHEN name = 'thanks' THEN 'the user says "' || thanks || '"'
            WHEN requery <> '' THEN 'the user says "' || requery || '"'
            ELSE 'the user repeats step ' || first_asked END AS rationale
    FROM named WHERE name IS NOT NULL ORDER BY trajectory_id, step_index"""


def next_state_signals(
    steps: pa.Table,
    *,
    correction: float = -0.5,
    requery: float = -0.25,
    thanks: float = 0.25,
) -> pa.Table:
    """Weak rewards of steps from what the user said next: correction, re-query, thanks.

    Args:
        steps: the input ``steps`` of :data:`trajstore.filters.rewards.INPUTS`.
        correction: for a step that the user corrects.
        requery: for a step after which the user asks for the same thing again.
        thanks: for a step that the user thanks for.

    Returns:
        One row a signal, ordered by run and step: ``trajectory_id``, ``step_index`` (of the agent's
        step), ``name`` (``correction``, ``re-query`` or ``thanks``), ``value``, ``rationale`` (the
        words that gave it away).
    """
    need_columns(steps, "steps", ["trajectory_id", "step_index", "actor", "text"])
    return relation(
        _QUERY,
        tables={"steps": steps},
        looked_at=LOOKED_AT,
        repeated=REPEATED,
        least_words=REPEATED_WORDS,
        corrections=_any(CORRECTIONS),
        denials=_any(DENIALS),
        no_correction=_any(NO_CORRECTION),
        agreements=_any(AGREEMENTS),
        requeries=_any(REQUERIES),
        thanks=_any(THANKS),
        no_thanks=_any(NO_THANKS),
        correction=correction,
        requery=requery,
        thank=thanks,
    )


def _any(patterns: tuple[str, ...]) -> str:
    return "(?i)" + "|".join(f"(?:{p})" for p in patterns)
