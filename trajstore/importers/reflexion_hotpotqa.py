"""Reflexion on HotpotQA: attempts and reflections out of the text log."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from trajstore.importers.hotpotqa_log import Block, Prompt, blocks
from trajstore.importers.items import Item, Problem
from trajstore.importers.source import Source
from trajstore.schema import Reflection, Trajectory, digest, json_text, trajectory_id

_ENVIRONMENT = "hotpotqa"
_STRATEGIES = ("last_trial_and_reflexion", "last_trial", "reflexion", "base")


@dataclass(slots=True, kw_only=True)
class _History:
    """What the log said of one question so far."""

    blocks: set[str] = field(default_factory=set)
    reflections: set[str] = field(default_factory=set)
    attempt: int | None = None
    trajectory_id: str | None = None


def log_items(source: Source, importer: str) -> Iterator[Item]:
    """Attempts and reflections of a log, each once.

    A question that was not tried again is printed again unchanged; such copies are counted in one
    note and give nothing else. A reflection speaks of the attempt before the block that shows it
    first; where two are new at once, one of them belongs to an attempt that the log left out.
    """
    histories: dict[str, _History] = {}
    copies = 0
    for block in blocks(source):
        if isinstance(block, int):
            reason = "a block without its 'Correct answer' line, cut off"
            yield Problem(source=source.uri, line=block, reason=reason)
            continue
        try:
            prompt = Prompt.of(block.text)
        except ValueError as error:
            yield Problem(source=source.uri, line=block.line, reason=str(error))
            continue
        history = histories.setdefault(prompt.task, _History())
        said = digest(block.text)
        if said in history.blocks:
            copies += 1
            continue
        history.blocks.add(said)
        yield from _block_items(source, block, prompt, history, importer)
    if copies:
        reason = f"{copies} blocks repeat an earlier attempt unchanged and are no attempts"
        yield Problem(source=source.uri, reason=reason, kind="ignored")


def _block_items(
    source: Source, block: Block, prompt: Prompt, history: _History, importer: str
) -> Iterator[Item]:
    task, where = f"{_ENVIRONMENT}/{prompt.task}", f"{source.uri}#L{block.line}"
    new = [r for r in dict.fromkeys(prompt.reflections) if r not in history.reflections]
    for text in new:
        yield Reflection(
            task_id=task,
            text=text,
            source=importer,
            trial=history.attempt,
            trajectory_id=history.trajectory_id if len(new) == 1 else None,
            environment=_ENVIRONMENT,
            source_uri=where,
        )
    history.reflections.update(new)
    key = digest(_ENVIRONMENT, prompt.task, block.trial, block.text)
    attempt = Trajectory(
        trajectory_id=trajectory_id("reflexion", key),
        task_id=task,
        attempt=block.trial - 1,
        goal=prompt.question,
        source=importer,
        source_uri=where,
        environment=_ENVIRONMENT,
        agent=_agent(source, prompt),
        parent_id=history.trajectory_id,
        relation="retry" if history.trajectory_id else None,
        status="truncated" if block.section == "HALTED" else "terminated",
        termination_reason="halted" if block.section == "HALTED" else None,
        success=block.section == "CORRECT",
        steps=prompt.steps(),
        metadata=json_text({"correct_answer": block.answer, "trial": block.trial}),
    )
    history.attempt, history.trajectory_id = attempt.attempt, attempt.trajectory_id
    yield attempt


def _agent(source: Source, prompt: Prompt) -> str:
    """``react`` or ``cot`` by the turns, and the strategy where the file or its folder names it."""
    style = "react" if prompt.scratchpad.startswith("Thought 1:") else "cot"
    named = "/".join(source.path.absolute().parts[-2:]).lower()
    strategy = next((s for s in _STRATEGIES if s in named), None)
    return f"{style}-{strategy}" if strategy else style
