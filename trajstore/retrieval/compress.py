"""Keep the context of a long run inside a window: the newest steps whole, older ones shorter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from trajstore.errors import RetrievalError
from trajstore.retrieval.budget import ContextBudget
from trajstore.retrieval.compress_steps import (
    Conversation,
    Message,
    StepMessages,
    conversation,
    shorter,
    tokens_of,
)
from trajstore.retrieval.compress_summary import Summarise, note_on, with_note
from trajstore.retrieval.compress_text import LEAST, RULES, Rule
from trajstore.retrieval.tokens import Count, Tokenizer, counter

Older = Literal["abridge", "drop"]
"""What becomes of steps before the window where no model sums them up. ``abridge`` keeps what the
agent said and called, with texts and results shortened to 240 characters each; ``drop`` leaves them
out. What is too long even abridged is dropped, the oldest first."""

WINDOW = (8, 12)
"""Fewest and most newest steps that stay whole."""

_SIZES = (8000, 3000, 1000, 400, LEAST)
_NOTE, _SUMMARY, _OLDER = 64, 2000, 8
"""Tokens of a note without and with a summary; the part of the history for abridged steps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compressed:
    """A context that fits."""

    messages: tuple[Message, ...]
    """The messages to send."""
    tokens: int
    """Their tokens."""
    whole: int
    """Steps that are kept with every character."""
    shortened: int
    """Steps with a text that is shorter than it was; a mark says by how many characters."""
    summarised: int
    """Steps that stand as a summary."""
    dropped: int
    """Steps that are left out; a note says how many."""
    over: tuple[str, ...]
    """Parts that are longer than the budget gives them and were not touched."""


def compress_context(
    messages: Sequence[Message],
    *,
    budget: ContextBudget | None = None,
    window: tuple[int, int] = WINDOW,
    older: Older = "abridge",
    summarise: Summarise | None = None,
    rule: Rule = "head-tail",
    tokenizer: Tokenizer = None,
) -> Compressed:
    """The messages of a run so far, short enough for the window of a model.

    A step is a message of the agent with the results of its calls and what the user said after it.
    It is kept, shortened, summed up or dropped as one, so no call loses its result. The newest step
    has a part of the budget of its own. Of the steps before it the newest 12 stay whole, or fewer
    down to 8 where the part for history has no room; where it has none for 8, long results are
    shortened by the rule, the oldest first. Older steps are summed up, abridged or dropped. What
    the user said is kept, from dropped steps as far as the part for the conversation goes. System
    prompt and intent are never touched. What fits as it is comes back as it is.

    Args:
        messages: the whole conversation in OpenAI's form, the oldest first.
        budget: the parts of the window; :class:`ContextBudget` where None.
        window: fewest and most steps that stay whole.
        older: what becomes of older steps without ``summarise``.
        summarise: a model that sums up the older steps; asked once a call where there are any.
        rule: how texts are shortened.
        tokenizer: what counts; see :func:`trajstore.retrieval.counter`.

    Raises:
        RetrievalError: what may not be shortened is more than the window has room for, or an
            argument makes no sense.
    """
    if not 1 <= window[0] <= window[1] or older not in {"abridge", "drop"} or rule not in RULES:
        raise RetrievalError(
            f"window is two numbers from 1 up, older is abridge or drop, rule is one of "
            f"{', '.join(RULES)}; not {window}, '{older}', '{rule}'."
        )
    budget = budget or ContextBudget()
    whole = conversation(messages)
    work = _Work(count=counter(tokenizer), rule=rule, budget=budget)
    if not whole.steps or work.fits(whole):
        return work.result(whole, whole, messages)
    rest = None if summarise or older == "drop" else _OLDER
    room = _SUMMARY if summarise else _NOTE
    made, gone = work.made(whole, window, rest, room)
    if gone:
        spoken = max(0, budget.conversation - work.size(made.intent))
        note = note_on(gone, work.count, spoken=spoken, room=room, summarise=summarise)
        made = replace(made, intent=with_note(made.intent, note))
    ready = [*made.system, *made.intent, *(m for step in made.steps for m in step)]
    return work.result(whole, made, ready, gone=len(gone), summed=summarise is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Work:
    """How one context is made shorter."""

    count: Count
    rule: Rule
    budget: ContextBudget

    def made(
        self, whole: Conversation, window: tuple[int, int], share: int | None, for_note: int
    ) -> tuple[Conversation, tuple[StepMessages, ...]]:
        """The steps that stay, and those that are gone.

        Args:
            whole: the conversation.
            window: fewest and most steps that stay whole.
            share: older steps are abridged and have one part in so many; None drops them.
            for_note: tokens to leave for a note on what is gone.
        """
        *past, current = *whole.steps[:-1], self.current(whole)
        room = self.budget.prompt - self.fixed(whole) - self.size(current)
        room = max(0, min(self.budget.history, room) - for_note)
        for_older = room // share if share and len(past) > window[1] else 0
        kept = self.window(past, room - for_older, window)
        before = past[: len(past) - len(kept)]
        room -= sum(map(self.size, kept))
        abridged = self.abridged(before, room) if share else ()
        gone = tuple(before[: len(before) - len(abridged)])
        return replace(whole, steps=(*abridged, *kept, current)), gone

    def size(self, messages: Sequence[Message]) -> int:
        return tokens_of(messages, self.count)

    def fixed(self, whole: Conversation) -> int:
        """Tokens that nothing may shorten, with the whole part for the conversation."""
        spoken = max(self.size(whole.intent), self.budget.conversation)
        return self.size(whole.system) + spoken

    def fits(self, whole: Conversation) -> bool:
        *past, current = whole.steps
        history = sum(map(self.size, past))
        rest = self.fixed(whole) + self.size(current)
        return (
            history <= self.budget.history
            and self.size(current) <= self.budget.observation
            and history + rest <= self.budget.prompt
        )

    def current(self, whole: Conversation) -> StepMessages:
        """The newest step, shortened as far as its part asks."""
        least = self.budget.prompt - self.fixed(whole)
        step = self.within(whole.steps[-1:], min(self.budget.observation, least))[0]
        if self.size(step) > least:
            raise RetrievalError(
                f"System prompt, intent and newest step need {self.fixed(whole):,} and "
                f"{self.size(step):,} tokens, and the window has {self.budget.prompt:,}. Give a "
                "larger ContextBudget, or shorten the system prompt."
            )
        return step

    def within(self, steps: Sequence[StepMessages], most: int) -> list[StepMessages]:
        """Steps with their long texts shortened until they fit: results first, the oldest first."""
        found = list(steps)
        total = sum(map(self.size, found))
        for results_only in (True, False):
            for size in _SIZES:
                for at, step in enumerate(found):
                    if total <= most:
                        return found
                    total -= self.size(step)
                    found[at] = self.shortened(step, size, results_only=results_only)
                    total += self.size(found[at])
        return found

    def shortened(self, step: StepMessages, most: int, *, results_only: bool) -> StepMessages:
        return tuple(
            m if m.get("role") == "user" else shorter(m, most, self.rule, results_only=results_only)
            for m in step
        )

    def window(
        self, past: Sequence[StepMessages], room: int, window: tuple[int, int]
    ) -> tuple[StepMessages, ...]:
        """The newest steps that stay, whole where that is possible."""
        sizes = [self.size(step) for step in past]
        least, most = (min(n, len(past)) for n in window)
        for number in range(most, least - 1, -1):
            if sum(sizes[len(past) - number :]) <= room:
                return tuple(past[len(past) - number :])
        return self.newest(self.within(past[len(past) - least :], room), room)

    def abridged(self, steps: Sequence[StepMessages], room: int) -> tuple[StepMessages, ...]:
        """Older steps in their shortest form, the newest that fit."""
        found = [self.shortened(step, LEAST, results_only=False) for step in steps]
        return self.newest(found, room)

    def newest(self, steps: Sequence[StepMessages], room: int) -> tuple[StepMessages, ...]:
        first = len(steps)
        while first and room >= (size := self.size(steps[first - 1])):
            room -= size
            first -= 1
        return tuple(steps[first:])

    def result(
        self,
        whole: Conversation,
        made: Conversation,
        messages: Sequence[Message],
        *,
        gone: int = 0,
        summed: bool = False,
    ) -> Compressed:
        same = sum(a is b or a == b for a, b in zip(whole.steps[gone:], made.steps, strict=True))
        parts = (
            ("system", whole.system, self.budget.system),
            ("conversation", whole.intent, self.budget.conversation),
        )
        return Compressed(
            messages=tuple(messages),
            tokens=self.size(messages),
            whole=same,
            shortened=len(made.steps) - same,
            summarised=gone if summed else 0,
            dropped=0 if summed else gone,
            over=tuple(
                f"{name}: {self.size(part):,} tokens, its part has {most:,}"
                for name, part, most in parts
                if self.size(part) > most
            ),
        )
