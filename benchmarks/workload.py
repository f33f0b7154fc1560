"""The trajectories that are measured, and what every store must answer about them.

The right answers are worked out here from the generated values in plain Python, while they go by,
so no store's own query is the judge of another.
"""

from __future__ import annotations

import json
import random
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from benchmarks.measure import DisagreementError
from trajstore import Trajectory
from trajstore.importers import read_jsonl_record, to_jsonl_record
from trajstore.testing import generate

NEEDLE = "ValueError: time data '07.02."
"""Text that about one failed call in 28 has in its observation."""

SHORTEST = 3
"""Successes a task in ``shortest``; a task has eight attempts, so ten would never cut."""

FIRST = 20
"""That many trajectories, from the first on, can be checked besides the sample."""

QUESTIONS = {
    "rates": "success rate by agent and model",
    "histogram": "tool histogram",
    "errors": "error rate per tool",
    "search": "text search (LIKE)",
    "shortest": "shortest successes per task",
}
"""Key to name of the analytical queries.

- ``rates``: (agent, model, attempts with a known outcome, share of successes).
- ``histogram``: (tool, calls).
- ``errors``: (tool, calls with a known flag, share of errors).
- ``search``: (number of observations that hold :data:`NEEDLE`,).
- ``shortest``: (task_id, trajectory_id, tool calls) of the :data:`SHORTEST` successes with the
  fewest tool calls of each task, equal ones by id.
"""

Answer = list[tuple[Any, ...]]
Whole = tuple[Any, ...]
Record = dict[str, Any]


class RightAnswers:
    """The right answer to each question, from the trajectories that were added."""

    def __init__(self) -> None:
        """Know of no trajectory yet."""
        self._rates: dict[tuple[str, str], list[bool]] = defaultdict(list)
        self._calls: Counter[str] = Counter()
        self._flags: dict[str, list[bool]] = defaultdict(list)
        self._found = 0
        self._successes: dict[str, list[tuple[int, str]]] = defaultdict(list)

    def add(self, run: Trajectory) -> None:
        """Count one trajectory in."""
        if run.success is not None:
            self._rates[run.agent or "", run.model or ""].append(run.success)
        if run.success:
            self._successes[run.task_id].append((run.n_tool_calls, run.trajectory_id))
        for step in run.steps:
            self._calls.update(c.name for c in step.tool_calls)
            for call, result in zip(step.tool_calls, step.observations, strict=False):
                self._flags[call.name].append(bool(result.is_error))
            self._found += sum(NEEDLE in (o.text or "") for o in step.observations)

    def to(self, question: str) -> Answer:
        """The rows, ordered, shares rounded as by :func:`normal`."""
        rows: dict[str, Answer] = {
            "rates": [(*key, len(v), sum(v) / len(v)) for key, v in self._rates.items()],
            "histogram": list(self._calls.items()),
            "errors": [(name, len(v), sum(v) / len(v)) for name, v in self._flags.items()],
            "search": [(self._found,)],
            "shortest": [
                (task, i, calls)
                for task, found in self._successes.items()
                for calls, i in sorted(found)[:SHORTEST]
            ],
        }
        return normal(rows[question])


def normal(rows: Sequence[Sequence[Any]]) -> Answer:
    """Rows in ascending order with plain values, shares rounded to nine places."""
    plain = [tuple(round(v, 9) if isinstance(v, float) else v for v in row) for row in rows]
    return sorted(plain)


class Workload:
    """``n`` generated trajectories, in batches, with the answers to be found in them."""

    def __init__(self, n: int, *, seed: int = 0, batch: int = 1000, sample: int = 256) -> None:
        """Draw which trajectories will be read back; nothing is generated yet.

        Args:
            n: trajectories.
            seed: of the generator and of the draw.
            batch: trajectories a batch.
            sample: how many to read back at once (all, if there are fewer).
        """
        self.n = n
        self.batch = batch
        self.answers = RightAnswers()
        self._seed = seed
        draw = random.Random(seed)
        self._picked = draw.sample(range(n), min(sample, n))
        self._wholes: dict[int, Whole] = {}

    def batches(self) -> Iterator[list[Trajectory]]:
        """All trajectories; to be gone through once before the answers are asked for."""
        wanted = {*self._picked, *range(min(self.n, FIRST))}
        found: list[Trajectory] = []
        for i, run in enumerate(generate(self.n, self._seed)):
            self.answers.add(run)
            if i in wanted:
                self._wholes[i] = whole(run)
            found.append(run)
            if len(found) == self.batch:
                yield found
                found = []
        if found:
            yield found

    def first(self, n: int) -> list[Trajectory]:
        """The first trajectories, generated anew."""
        return list(generate(n, self._seed))

    @property
    def ids(self) -> list[str]:
        """Ids of the sample, in the order of the draw."""
        return [self._wholes[i][0] for i in self._picked]

    def check(self, store: str, what: str, found: Sequence[Whole], ids: Sequence[str]) -> None:
        """Check that a store gave these trajectories of the sample back, whole.

        Raises:
            DisagreementError: it did not.
        """
        expected = {w[0]: w for w in self._wholes.values()}
        got = {w[0]: w for w in found}
        for i in ids:
            if got.get(i) != expected[i]:
                raise DisagreementError(f"{store}: {what}: trajectory {i} did not come back whole")
        if len(found) != len(ids):
            message = f"{store}: {what}: {len(found)} trajectories came back, not {len(ids)}"
            raise DisagreementError(message)

    def check_answer(self, store: str, question: str, rows: Sequence[Sequence[Any]]) -> None:
        """Check a store's answer to a question.

        Raises:
            DisagreementError: it is wrong.
        """
        expected, found = self.answers.to(question), normal(rows)
        if found != expected:
            message = (
                f"{store}: {question}: {len(found)} rows, first {found[:2]}; "
                f"expected {len(expected)}, first {expected[:2]}"
            )
            raise DisagreementError(message)


def records(runs: Sequence[Trajectory]) -> list[Record]:
    """Trajectories as the plain dicts that a program holds before it stores them."""
    return [to_jsonl_record(run) for run in runs]


def whole(run: Trajectory) -> Whole:
    """A trajectory in a form in which every store can be compared."""
    steps = tuple(
        (
            s.actor,
            s.text,
            s.reasoning,
            tuple((c.name, _parsed(c.arguments)) for c in s.tool_calls),
            tuple((o.text, o.is_error) for o in s.observations),
        )
        for s in run.steps
    )
    return (run.trajectory_id, run.task_id, run.goal, run.success, run.reward, steps)


def whole_of_record(record: Mapping[str, Any]) -> Whole:
    """The same of a plain dict."""
    return whole(read_jsonl_record(record))


def _parsed(arguments: str | None) -> str:
    return json.dumps(json.loads(arguments or "null"), sort_keys=True)
