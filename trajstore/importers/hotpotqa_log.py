"""Reflexion's text log of HotpotQA: blocks of Thought, Action, Observation under trial headings."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from trajstore.importers.source import Source
from trajstore.schema import Observation, Step, ToolCall, digest

_TRIAL = re.compile(r"BEGIN TRIAL (\d+)\s*$")
_SECTION = re.compile(r"-+ BEGIN (CORRECT|INCORRECT|HALTED) AGENTS -+\s*$")
_BETWEEN = re.compile(r"#{10,}\s*$|Trial summary:")
_ANSWER = "Correct answer: "
_LAST_TRIAL = re.compile(r"Below is the last trial.*?\(END PREVIOUS TRIAL\)", re.DOTALL)
_FIRST_THOUGHT = re.compile(r"^Thought(?: 1)?:", re.MULTILINE)
_QUESTION = re.compile(r"^Question: ?", re.MULTILINE)
_TAIL = re.compile(
    r"You have attempted to answer (?:the )?following question before|"
    r"The following reflection\(s\) give a plan"
)
_REFLECTIONS = "\nReflections:\n- "
_TURN = re.compile(r"^(Thought|Action|Observation)(?: (\d+))?: ?", re.MULTILINE)
_CALL = re.compile(r"(\w+)\[(.*)\]", re.DOTALL)
_ORDER = ("Thought", "Action", "Observation")


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """One block of the log: what one agent did with one question in one trial."""

    trial: int
    """Number of the trial, from 1 as the log counts."""
    section: str
    """``CORRECT``, ``INCORRECT`` or ``HALTED``: the evaluator's word."""
    line: int
    """Line on which the block starts, from 1."""
    text: str
    """The block without its ``Correct answer`` line."""
    answer: str
    """The right answer."""


def is_log(head: str) -> bool:
    """Whether a text starts like this log."""
    return all(mark in head for mark in ("BEGIN TRIAL ", " AGENTS -", "Question: ", "Thought"))


def blocks(source: Source) -> Iterator[Block | int]:
    """Blocks in the order of the file, one in memory; a line number where one is cut off.

    A block ends with its ``Correct answer`` line, for observations span lines and may be empty.
    """
    trial, section, start = 0, "", 0
    lines: list[str] = []
    with source.open() as stream:
        for number, raw in enumerate(stream, 1):
            line = raw.decode("utf-8", "replace").rstrip("\r\n")
            heading, agents = _TRIAL.match(line), _SECTION.match(line)
            if heading or agents or _BETWEEN.match(line):
                if lines:
                    yield start
                lines = []
                trial = int(heading[1]) if heading else trial
                section = agents[1] if agents else section
            elif line.startswith(_ANSWER) and lines:
                answer = line.removeprefix(_ANSWER)
                text = "\n".join(lines)
                yield Block(trial=trial, section=section, line=start, text=text, answer=answer)
                lines = []
            elif lines or line:
                start = start if lines else number
                lines.append(line)
    if lines:
        yield start


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """What stands before the first thought of a block."""

    question: str
    """The question alone, without the reflections that are glued to it."""
    before: str
    """Instructions and context in front of the question; '' where there are none."""
    after: str
    """Reflections or the last attempt behind the question; '' where there are none."""
    scratchpad: str
    """Thoughts, actions and observations as text."""

    @classmethod
    def of(cls, text: str) -> Prompt:
        """Cut a block's text at its question and its first thought.

        Raises:
            ValueError: it has no question or no thought.
        """
        last_trial = _LAST_TRIAL.search(text)
        thought = _FIRST_THOUGHT.search(text, last_trial.end() if last_trial else 0)
        asked = _question(text, thought.start() if thought else 0)
        if thought is None or asked is None:
            raise ValueError("a block without 'Question:' or without 'Thought 1:'")
        said = text[asked.end() : thought.start()]
        tail = _TAIL.search(said)
        end = tail.start() if tail else len(said)
        return cls(
            question=said[:end].strip(),
            before=text[: asked.start()].strip(),
            after=said[end:].strip(),
            scratchpad=text[thought.start() :].strip(),
        )

    @property
    def reflections(self) -> list[str]:
        """Reflections that the agent was shown, oldest first."""
        for part in (f"\n{self.after}", f"\n{self.before}"):
            _, heading, listed = part.partition(_REFLECTIONS)
            if heading:
                lines = (r.split("\n", 1)[0].strip() for r in listed.split("\n- "))
                return [line for line in lines if line]
        return []

    @property
    def task(self) -> str:
        """Id of the question inside HotpotQA: a hash of its words."""
        return digest(" ".join(self.question.split()))[:16]

    def steps(self) -> tuple[Step, ...]:
        """Prompt and turns; reflections are an ``environment`` step, since nobody said them."""
        found = [Step(actor="system", text=self.before)] if self.before else []
        found.append(Step(actor="user", text=self.question))
        if self.after:
            found.append(Step(actor="environment", text=self.after))
        return (*found, *(turn.step() for turn in _turns(self.scratchpad)))


def _question(text: str, end: int) -> re.Match[str] | None:
    """The heading of the question; a copy of the last attempt in the prompt has one of its own."""
    copied = _LAST_TRIAL.search(text)
    begin, stop = copied.span() if copied else (end, end)
    found = (m for m in _QUESTION.finditer(text, 0, end) if not begin < m.start() < stop)
    return max(found, key=lambda match: match.start(), default=None)


@dataclass(slots=True, kw_only=True)
class _Turn:
    said: dict[str, str] = field(default_factory=dict)

    def step(self) -> Step:
        action, observation = self.said.get("Action"), self.said.get("Observation")
        call = _CALL.fullmatch(action or "")
        calls = (ToolCall(name=call[1], arguments_raw=call[2]),) if call else ()
        results = () if observation is None else (Observation(text=observation),)
        return Step(
            actor="agent",
            text=None if call else action,
            reasoning=self.said.get("Thought"),
            tool_calls=calls,
            observations=results,
            format_error=(action is not None and call is None)
            or (observation or "").startswith("Invalid Action."),
        )


def _turns(scratchpad: str) -> Iterator[_Turn]:
    """Turns in order; a heading counts only where it is due, for observations may quote others."""
    turn, due, number = _Turn(), 0, 1
    marks = list(_TURN.finditer(scratchpad))
    begin, name = 0, ""
    for mark in marks:
        if mark[1] != _ORDER[due] or (mark[2] is not None and int(mark[2]) != number):
            continue
        if name:
            turn.said[name] = scratchpad[begin : mark.start()].strip()
        if due == 0 and turn.said:
            yield turn
            turn = _Turn()
        begin, name, due = mark.end(), mark[1], (due + 1) % 3
        number += due == 0
    if name:
        turn.said[name] = scratchpad[begin:].strip()
        yield turn
