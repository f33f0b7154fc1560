"""Demonstrations for a prompt: hits as quoted records, inside a budget of tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from trajstore.errors import RetrievalError
from trajstore.retrieval.compress_text import RULES, Rule
from trajstore.retrieval.few_shot_fitting import SEPARATOR, Entry, Writing, fitted
from trajstore.retrieval.few_shot_records import Record, details, records
from trajstore.retrieval.hits import MEANINGS, Hit, Hits, Level
from trajstore.retrieval.quoting import Fence
from trajstore.retrieval.search import search
from trajstore.retrieval.tokens import Count, Tokenizer, counter
from trajstore.store import Reader, Store

Order = Literal["best-first", "best-last"]
"""In which order records stand inside their level: the best one first, or next to the task."""

_KINDS: dict[Level, str] = {
    "trajectory": "records of earlier runs",
    "step": "situations of earlier runs with what was done next",
    "skill": "skills that were verified",
    "reflection": "notes on failed runs",
    "workflow": "routines that worked before",
    "insight": "rules that were learnt from earlier runs",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FewShotOptions:
    """How demonstrations are shown."""

    order: Order = "best-first"
    """Order inside a level."""
    rule: Rule = "head-tail"
    """How long texts are shortened; see :func:`trajstore.retrieval.shorten`."""
    observation_characters: int = 1500
    """Most characters of one observation where the budget is ample; texts and calls have four times
    as many."""
    next_steps: int = 2
    """At level ``step``, agent steps to show from the hit on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """One record in a prompt."""

    level: Level
    """What it is."""
    item_id: str
    """Id of the hit; with ``score``, what :func:`trajstore.memory.record_uses` takes."""
    trajectory_id: str | None
    """The run it is or comes from."""
    task_id: str | None
    """The task of that run."""
    success: bool | None
    """The effective outcome of that run."""
    score: float
    """Score of the hit."""
    number: int
    """Its number in the prompt, from 1."""
    tokens: int
    """Tokens with its marks."""
    steps_left_out: int
    """Whole steps that are not shown."""
    is_shortened: bool
    """Whether a text in it lost characters; a mark in the prompt says how many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """Items that are not in a prompt, and why."""

    reason: str
    """``budget``, ``duplicate``, ``gone``, or a reason of :attr:`Hits.cuts`."""
    level: Level
    """What they are."""
    item_id: str | None = None
    """The item; None for what the search cut, of which only the number is known."""
    count: int = 1
    """How many."""
    tokens: int | None = None
    """Tokens that the item needs at least, where it did not fit."""

    def words(self) -> str:
        """The reason in words."""
        if self.item_id is None:
            return f"{self.count:,} of level {self.level} {MEANINGS.get(self.reason, self.reason)}"
        return f"{self.level} {self.item_id} {_REASONS[self.reason].format(self.tokens)}"


_REASONS = {
    "budget": "did not fit: it needs {} tokens at least",
    "duplicate": "shows the same as one that is in",
    "gone": "is no longer in the store, or has nothing to show",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FewShot:
    """Demonstrations, ready for a prompt."""

    query: str
    """What was searched for: the task."""
    text: str
    """The demonstrations with the rule that says what they are; empty where there are none."""
    shown: tuple[Shown, ...]
    """What is in it, in the order of the text."""
    left_out: tuple[LeftOut, ...]
    """What is not, and why."""
    tokens: int
    """Tokens of ``text``; never above ``budget``."""
    budget: int
    """Most tokens of ``text``."""
    counted_by: str
    """What counted the tokens."""
    snapshot: int
    """The store's snapshot that was searched."""

    def messages(
        self, *, system: str | None = None, user: str | None = None
    ) -> list[dict[str, str]]:
        """Two chat messages: who the agent is, and its task behind the demonstrations.

        Records stay out of the system message, where a model trusts what it reads most.

        Args:
            system: the system prompt; no system message where None.
            user: the task as the agent is to read it; the query where None.
        """
        task = self.query if user is None else user
        content = f"{self.text}\n\nYour task:\n{task}" if self.text else task
        first = [] if system is None else [{"role": "system", "content": system}]
        return [*first, {"role": "user", "content": content}]

    def by_level(self) -> dict[Level, tuple[Shown, ...]]:
        """What is shown, by level: one call of ``record_uses`` each."""
        levels = dict.fromkeys(s.level for s in self.shown)
        return {level: tuple(s for s in self.shown if s.level == level) for level in levels}

    def explain(self) -> str:
        """What is shown and what was left out, in words."""
        size = f"{self.tokens:,} of {self.budget:,} tokens (counted by {self.counted_by})"
        lines = [f"{len(self.shown):,} record{'' if len(self.shown) == 1 else 's'} in {size}"]
        for s in self.shown:
            parts = [f"{s.steps_left_out:,} steps left out"] if s.steps_left_out else []
            parts += ["long texts shortened"] if s.is_shortened else []
            about = f"; {', '.join(parts)}" if parts else ""
            lines.append(f"  {s.number}. {s.level} {s.item_id}: {s.tokens:,} tokens{about}")
        return "\n".join([*lines, *(f"  left out: {x.words()}" for x in self.left_out)])


_DISTINCT = {"distinct": 1.0}
_ONCE: dict[Level, dict[str, Any]] = {"trajectory": {"per_task": 1}}

DEFAULT_OPTIONS = FewShotOptions()
DEFAULT_BUDGET = 4000
"""Tokens that demonstrations may take."""


def few_shot(
    store: Store,
    text: str,
    *,
    budget: int = DEFAULT_BUDGET,
    level: Level | Sequence[Level] | Mapping[Level, float] = "trajectory",
    tokenizer: Tokenizer = None,
    options: FewShotOptions = DEFAULT_OPTIONS,
    **search_options: Any,
) -> FewShot:
    """Search, and show what was found inside a budget: a task in, a prompt out.

    Args:
        store: an open store.
        text: the task.
        budget: most tokens of the demonstrations, with marks and rule.
        level: what to show: one level, several with equal shares of the budget, or shares by level.
            What one level does not need goes to the next.
        tokenizer: what counts; see :func:`trajstore.retrieval.counter`.
        options: order, rule and sizes.
        search_options: for :func:`trajstore.retrieval.search`, at every level: ``k``, ``task_id``,
            ``success_only``, ... ``unverified`` shows skills that never were verified, too, and
            says so of each. ``where``, ``tools`` and ``state`` make sense for one level only.
            ``distinct`` is 1 where not given, and ``per_task`` is 1 for trajectories: attempts at
            one task, and equal texts, show the same once more.

    Raises:
        RetrievalError: see :func:`trajstore.retrieval.search` and :func:`build_few_shot`.
    """
    levels: Sequence[Level] = [level] if isinstance(level, str) else list(level)
    found = [
        search(store, text, level=name, **{**_DISTINCT, **_ONCE.get(name, {}), **search_options})
        for name in levels
    ]
    shares = [level[name] for name in levels] if isinstance(level, Mapping) else None
    return build_few_shot(
        store, found, budget=budget, shares=shares, tokenizer=tokenizer, options=options
    )


def build_few_shot(
    source: Store | Reader,
    found: Hits | Sequence[Hits],
    *,
    budget: int = DEFAULT_BUDGET,
    shares: Sequence[float] | None = None,
    tokenizer: Tokenizer = None,
    options: FewShotOptions = DEFAULT_OPTIONS,
) -> FewShot:
    """Show hits inside a budget.

    Each record gets an even part of its level's share and is shown in the fullest detail that fits:
    first long observations are shortened by the rule, then texts and calls, then whole steps in the
    middle of the run are left out. A mark stands wherever something is missing. A record that does
    not fit its part in the least detail may use up what its level has left, so a better hit comes
    before a worse one; what does not fit then is left out and listed.

    Args:
        source: the store, or a snapshot of it.
        found: hits of one search, or of several at different levels, in the order of the prompt.
        budget: most tokens of the text.
        shares: part of the budget for each of ``found``, scaled to sum to 1; equal where None.
        tokenizer: what counts.
        options: order, rule and sizes.

    Raises:
        RetrievalError: the budget is negative, or the shares or options make no sense.
    """
    sets = [found] if isinstance(found, Hits) else list(found)
    parts = _shares(sets, shares)
    _check(budget, options)
    sections, left_out = _sections(source, sets, options)
    count = counter(tokenizer)
    writing = _writing(sections, sets, options, count)
    about = writing.fence.rule(_kinds(sections))
    room = budget - count(about + SEPARATOR)
    entries = fitted(sections, parts, room, writing)
    text, order = _text(entries, about, writing.fence, options)
    tokens = count(text)
    while entries and tokens > budget:  # a tokenizer may join what stands side by side
        entries = entries[:-1]
        text, order = _text(entries, about, writing.fence, options)
        tokens = count(text)
    inside = {id(e.record) for e in entries}
    missed = [r for records in sections for r in records if id(r) not in inside]
    left_out += [_left("budget", r.hit, tokens=writing.least(r)) for r in missed]
    return FewShot(
        query=sets[0].query if sets else "",
        text=text,
        shown=tuple(_shown(number, e) for number, e in enumerate(order, 1)),
        left_out=(*left_out, *_cut(sets)),
        tokens=tokens,
        budget=budget,
        counted_by=count.name,
        snapshot=sets[0].snapshot if sets else 0,
    )


def _check(budget: int, options: FewShotOptions) -> None:
    if budget < 0:
        raise RetrievalError(f"budget is 0 or more tokens, not {budget}.")
    if options.order not in {"best-first", "best-last"}:
        raise RetrievalError(f"There is no order '{options.order}'. Orders: best-first, best-last")
    if options.rule not in RULES:
        raise RetrievalError(
            f"There is no rule '{options.rule}' to shorten by. Rules: {', '.join(RULES)}"
        )
    if options.next_steps < 1:
        raise RetrievalError(f"next_steps is 1 or more, not {options.next_steps}.")


def _shares(sets: Sequence[Hits], shares: Sequence[float] | None) -> list[float]:
    given = [1.0] * len(sets) if shares is None else [float(s) for s in shares]
    if len(given) != len(sets):
        raise RetrievalError(f"There are {len(sets)} sets of hits and {len(given)} shares.")
    if any(not s >= 0 for s in given) or (given and not 0 < sum(given) < float("inf")):
        raise RetrievalError(f"Shares are 0 or more, and not all 0; not {given}.")
    return [s / sum(given) for s in given]


def _sections(
    source: Store | Reader, sets: Sequence[Hits], options: FewShotOptions
) -> tuple[list[list[Record]], list[LeftOut]]:
    """The records of each set, each once, and the hits that have none."""
    left_out: list[LeftOut] = []
    sections: list[list[Record]] = []
    known: set[str] = set()
    for hits in sets:
        kept: list[Record] = []
        found = records(source, hits, next_steps=options.next_steps)
        for hit, record in zip(hits, found, strict=True):
            if record is None:
                left_out.append(_left("gone", hit))
            elif record.key in known:
                left_out.append(_left("duplicate", hit))
            else:
                known.add(record.key)
                kept.append(record)
        sections.append(kept)
    return sections, left_out


def _writing(
    sections: Sequence[Sequence[Record]],
    sets: Sequence[Hits],
    options: FewShotOptions,
    count: Count,
) -> Writing:
    """Marks that occur in no record in its fullest detail, so in none at all."""
    levels = details(options.observation_characters)
    texts = [r.body(levels[0], options.rule).text for records in sections for r in records]
    return Writing(
        fence=Fence.around([*(hits.query for hits in sets), *texts]),
        details=levels,
        rule=options.rule,
        count=count,
        widest=max(1, len(texts)),
    )


def _kinds(sections: Sequence[Sequence[Record]]) -> str:
    return "; ".join(_kind(records) for records in sections if records)


def _kind(records: Sequence[Record]) -> str:
    if all(r.is_verified for r in records):
        return _KINDS[records[0].hit.level]
    some = "of which some " if any(r.is_verified for r in records) else "which "
    return f"skills, {some}never were verified, as each of those says"


def _text(
    entries: Sequence[Entry], about: str, fence: Fence, options: FewShotOptions
) -> tuple[str, list[Entry]]:
    """The text, and the entries in its order."""
    if not entries:
        return "", []
    sign = 1 if options.order == "best-first" else -1
    order = sorted(entries, key=lambda e: (e.section, sign * e.rank))
    quoted = (fence.quote(number, e.body.text) for number, e in enumerate(order, 1))
    return SEPARATOR.join([about, *quoted]), order


def _shown(number: int, entry: Entry) -> Shown:
    hit = entry.record.hit
    return Shown(
        level=hit.level,
        item_id=hit.item_id,
        trajectory_id=hit.trajectory_id,
        task_id=hit.task_id,
        success=hit.success,
        score=hit.score,
        number=number,
        tokens=entry.tokens,
        steps_left_out=entry.body.steps_left_out,
        is_shortened=entry.body.is_shortened,
    )


def _left(reason: str, hit: Hit, *, tokens: int | None = None) -> LeftOut:
    return LeftOut(reason=reason, level=hit.level, item_id=hit.item_id, tokens=tokens)


def _cut(sets: Sequence[Hits]) -> list[LeftOut]:
    """What the searches left out: repeats of a better hit one by one, all else as a number."""
    found: list[LeftOut] = []
    for hits in sets:
        names, level = hits.repeated, hits.level
        found += [LeftOut(reason="duplicate", level=level, item_id=name) for name in names]
        counts = {**hits.cuts, "distinct": hits.cuts.get("distinct", 0) - len(names)}
        found += [LeftOut(reason=r, level=level, count=c) for r, c in counts.items() if c > 0]
    return found
