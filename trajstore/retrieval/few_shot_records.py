"""Hits as records for a prompt: who did what and what came of it, in as much detail as fits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from trajstore.retrieval.compress_text import LEAST, Rule, shorten
from trajstore.retrieval.few_shot_memories import UNVERIFIED, memory_fields
from trajstore.retrieval.hits import Hit
from trajstore.retrieval.quoting import line, plain
from trajstore.retrieval.turns import runs_of, turns_of
from trajstore.schema import Step, digest
from trajstore.store import Reader, Store, Transcript

_OUTCOMES = {True: "success", False: "failure", None: "unknown"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Detail:
    """How much of a record is shown."""

    observation: int
    """Most characters of one observation."""
    said: int
    """Most characters of one text, one call or one field of another kind."""
    steps: int | None = None
    """Most steps, each shown as a whole: the first third and the last ones; None is all."""


def details(observation: int) -> tuple[Detail, ...]:
    """Levels of detail to try, the fullest first.

    Args:
        observation: most characters of one observation at the fullest.
    """
    full = max(observation, LEAST)
    less, least = max(full // 3, LEAST), LEAST
    fewer = tuple(Detail(observation=least, said=less, steps=n) for n in (24, 12, 6, 3))
    return (
        Detail(observation=full, said=4 * full),
        Detail(observation=less, said=2 * full),
        Detail(observation=least, said=less),
        *fewer,
    )


@dataclass(frozen=True, slots=True)
class Line:
    """One thing that was said, done or seen."""

    label: str
    """Who or what."""
    text: str
    """The text, as it is stored."""
    seen: bool = False
    """Whether it is an observation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A hit with what is behind it."""

    hit: Hit
    """The hit."""
    head: tuple[Line, ...]
    """What is always shown: the goal, or the fields of an item of memory."""
    steps: tuple[tuple[Line, ...], ...] = ()
    """What was done, step by step."""

    @property
    def key(self) -> str:
        """Equal for records that would show the same."""
        return digest("record", *(f"{x.label}\n{x.text}" for x in (*self.head, *self._all())))

    @property
    def is_verified(self) -> bool:
        """Whether it is no skill that never was verified."""
        return Line(*UNVERIFIED) not in self.head

    def _all(self) -> Iterator[Line]:
        return (x for step in self.steps for x in step)

    def body(self, detail: Detail, rule: Rule) -> Body:
        """The text of the record in some detail, as it may stand between marks."""
        shown = self._kept(detail.steps)
        lines = [_about(self.hit), *(_written(x, detail, rule) for x in self.head)]
        lines += [_written(x, detail, rule) for step in shown[0] for x in step]
        if left := len(self.steps) - len(shown[0]) - len(shown[1]):
            lines.append(f"[... {left:,} steps left out ...]")
        lines += [_written(x, detail, rule) for step in shown[1] for x in step]
        every = [*self.head, *(x for part in shown for step in part for x in step)]
        return Body(
            text="\n".join(lines),
            steps_left_out=left,
            is_shortened=any(len(x.text) > _most(x, detail) for x in every),
        )

    def _kept(self, most: int | None) -> tuple[Sequence[tuple[Line, ...]], ...]:
        if most is None or len(self.steps) <= most:
            return self.steps, ()
        first = most // 3
        return self.steps[:first], self.steps[len(self.steps) - (most - first) :]


@dataclass(frozen=True, slots=True, kw_only=True)
class Body:
    """A record as text."""

    text: str
    """The lines."""
    steps_left_out: int
    """Whole steps that are not shown."""
    is_shortened: bool
    """Whether a text in it lost characters."""


def _most(shown: Line, detail: Detail) -> int:
    return detail.observation if shown.seen else detail.said


def _written(shown: Line, detail: Detail, rule: Rule) -> str:
    """One labelled line; further lines of its text stand indented, so none looks like a label."""
    text = plain(shorten(shown.text, _most(shown, detail), rule=rule))
    return f"{shown.label}: " + text.strip("\n").replace("\n", "\n  ")


def _about(hit: Hit) -> str:
    """Where a record comes from and what came of it."""
    said = [f"{hit.level} {line(hit.item_id)}"]
    if hit.trajectory_id not in {None, hit.item_id} and hit.level != "step":
        said.append(f"run {line(str(hit.trajectory_id))}")
    for name, value in (("task", hit.task_id), ("environment", hit.environment)):
        said += [f"{name} {line(value)}"] if value else []
    if hit.level in {"trajectory", "step"}:
        said.append(f"outcome {_OUTCOMES[hit.success]}")
        said += [] if hit.reward is None else [f"reward {hit.reward:g}"]
    said += [f"source {line(hit.source)}"] if hit.source else []
    return ", ".join(said)


def records(source: Store | Reader, hits: Sequence[Hit], *, next_steps: int) -> list[Record | None]:
    """What is behind each hit; None for what is gone from the store.

    Args:
        source: the store, or a snapshot of it.
        hits: hits of one search.
        next_steps: at level ``step``, agent steps to show from the hit on.
    """
    if not hits:
        return []
    level = hits[0].level
    reader = source if isinstance(source, Reader) else source.reader()
    if level == "trajectory":
        runs = reader.transcripts([h.item_id for h in hits])
        return [_of_run(h, runs.get(h.item_id)) for h in hits]
    if level == "step":
        steps = {key: run.steps for key, run in reader.transcripts(runs_of(hits)).items()}
        turns = turns_of(steps, hits, next_steps)
        return [_of_turns(h, t) for h, t in zip(hits, turns, strict=True)]
    fields = memory_fields(source, level, [h.item_id for h in hits])
    return [
        Record(hit=h, head=tuple(Line(n, t) for n, t in fields[h.item_id]))
        if h.item_id in fields
        else None
        for h in hits
    ]


def _of_run(hit: Hit, run: Transcript | None) -> Record | None:
    if run is None:
        return None
    goal = run.goal or hit.text
    shown = [s for s in run.steps if s.actor != "system" and not s.is_copied]
    steps = (_of_step(s) for s in shown if not (s.actor == "user" and s.text == goal))
    return Record(hit=hit, head=(Line("goal", goal),), steps=tuple(s for s in steps if s))


def _of_turns(hit: Hit, turns: Sequence[Step]) -> Record | None:
    steps = tuple(s for s in map(_of_step, turns) if s)
    return Record(hit=hit, head=(Line("situation", hit.text),), steps=steps) if steps else None


def _of_step(step: Step) -> tuple[Line, ...]:
    found = [Line(f"{step.actor} thinks", step.reasoning)] if step.reasoning else []
    found += [Line(step.actor, step.text, seen=step.actor == "environment")] if step.text else []
    found += [
        Line(f"{step.actor} calls {line(c.name)}", c.arguments_raw or c.arguments or "")
        for c in step.tool_calls
    ]
    for seen in step.observations:
        found.append(Line("error" if seen.is_error else "result", seen.text or "", seen=True))
    return tuple(found)
