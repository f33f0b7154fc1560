"""Workflows (Agent Workflow Memory, Wang et al. 2024): routines that runs which succeeded share."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from trajstore.errors import MemoryItemError
from trajstore.memory.bank_upkeep import Change, reason_of, set_states
from trajstore.memory.reflections import only_one
from trajstore.memory.utility import Learning, confidences
from trajstore.retrieval import Hits, search
from trajstore.schema import Workflow, canonical_json, json_text, workflow_id
from trajstore.store import Store

TOP_K = 5
"""Workflows that a search gives (ours)."""

FEWEST_STEPS = 2
"""A workflow of one step is none (AWM)."""

_VARIABLE = re.compile(r"\{([A-Za-z_]\w*)\}")
_UNHELPFUL = "confidence"
_LEARNING = Learning()


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredWorkflow:
    """One workflow, with what became of the runs that were given it."""

    workflow_id: str
    """Hash of name and steps."""
    name: str
    description: str | None = None
    """When it helps."""
    steps: tuple[Mapping[str, Any], ...] = ()
    """Each with ``tool`` and ``arguments``, or ``text``; ``{x}`` stands for a variable."""
    trajectory_ids: tuple[str, ...] = ()
    """The successes it was made from."""
    environment: str | None = None
    source: str = ""
    created_at: datetime | None = None
    about: Mapping[str, Any] = field(default_factory=dict)
    """The row's metadata: counts of the evidence."""
    state: str | None = None
    """None where it is served."""
    because: str | None = None
    """Why it is not."""
    uses: int = 0
    """Runs that were given it."""
    successes: int = 0
    """Those of them that succeeded."""
    failures: int = 0
    """Those of them that failed."""

    @property
    def variables(self) -> tuple[str, ...]:
        """Names of its variables, in the order in which they first occur."""
        return tuple(dict.fromkeys(v for step in self.steps for v in variables_in(step)))

    @property
    def text(self) -> str:
        """The workflow as a prompt shows it: its name, when it helps, numbered steps."""
        lines = [f"{n}. {_step_text(step)}" for n, step in enumerate(self.steps, start=1)]
        return "\n".join([self.name, *([self.description] if self.description else []), *lines])


def variables_in(step: Mapping[str, Any]) -> list[str]:
    """Names of the variables of a step: those it declares, else every ``{name}`` in it."""
    declared = step.get("variables")
    if declared is not None:
        return [str(v) for v in declared]
    return _VARIABLE.findall(canonical_json(dict(step)))


def _step_text(step: Mapping[str, Any]) -> str:
    said = str(step.get("text") or "")
    if not step.get("tool"):
        return said
    given = step.get("arguments") or {}
    shown = ", ".join(f"{k}={_shown(v)}" for k, v in given.items())
    call = f"{step['tool']}({shown})"
    return f"{said}: {call}" if said else call


def _shown(value: Any) -> str:
    is_variable = isinstance(value, str) and _VARIABLE.fullmatch(value)
    return str(value) if is_variable else json_text(value)


def checked_steps(steps: object) -> list[dict[str, Any]]:
    """The steps, if they are those of a workflow.

    Raises:
        MemoryItemError: there are fewer than two, one neither calls a tool nor says anything, or
            one declares a variable that it does not hold.
    """
    if not isinstance(steps, list) or len(steps) < FEWEST_STEPS:
        raise MemoryItemError(f"A workflow is a list of {FEWEST_STEPS} or more steps.")
    found = []
    for number, step in enumerate(steps, start=1):
        plain = {"text": step} if isinstance(step, str) else step
        if not isinstance(plain, dict) or not (plain.get("tool") or plain.get("text")):
            message = f"Step {number} has neither a tool nor a text: {canonical_json(step)[:200]}"
            raise MemoryItemError(message)
        if not isinstance(plain.get("arguments") or {}, dict):
            raise MemoryItemError(f"The arguments of step {number} are no JSON object.")
        inside = set(_VARIABLE.findall(canonical_json({**plain, "variables": None})))
        missing = sorted(set(map(str, plain.get("variables") or ())) - inside)
        if missing:
            raise MemoryItemError(f"Step {number} does not hold its variable {missing[0]!r}.")
        found.append(plain)
    return found


class Workflows:
    """The workflows of a store. It keeps nothing itself."""

    def __init__(self, store: Store, *, learning: Learning = _LEARNING) -> None:
        """Use the table ``workflows`` of a store.

        Args:
            store: the store.
            learning: how outcomes of the runs that were given a workflow move its confidence.
        """
        self.store = store
        self.learning = learning

    def add(
        self,
        name: str,
        steps: Sequence[Mapping[str, Any] | str],
        *,
        description: str | None = None,
        trajectory_ids: Iterable[str] = (),
        environment: str | None = None,
        source: str = "hand",
    ) -> StoredWorkflow:
        """Keep a workflow; the same one again is there already.

        Args:
            name: a few words.
            steps: each ``{"tool": ..., "arguments": {...}}``, or ``{"text": ...}``, or a text.
            description: when it helps.
            trajectory_ids: the runs it was made from.
            environment: what it acts in.
            source: the writer.

        Raises:
            MemoryItemError: it has no name, or :func:`checked_steps` refuses the steps.
        """
        if not name.strip():
            raise MemoryItemError("A workflow needs a name.")
        new = Workflow(
            name=name.strip(),
            steps=json_text(checked_steps(list(steps))),
            source=source,
            description=description,
            trajectory_ids=tuple(trajectory_ids),
            environment=environment,
        )
        keep_workflows(self.store, [new])
        return self.get(workflow_id(new))

    def all(self, *, every: bool = False) -> list[StoredWorkflow]:
        """Workflows by name.

        Args:
            every: also those that are out of service.
        """
        return self._read("true" if every else "state IS NULL")

    def get(self, reference: str) -> StoredWorkflow:
        """One workflow, by its id, the beginning of it, or its name.

        Raises:
            MemoryItemError: there is none, or several.
        """
        quoted = _quoted(reference)
        named = self._read(f"name = {quoted}")
        found = named or self._read(f"starts_with(workflow_id, {quoted})")
        return only_one(found, reference, "workflow")

    def search(
        self,
        text: str,
        *,
        k: int = TOP_K,
        task_id: str | None = None,
        environment: str | None = None,
        token_budget: int | None = None,
    ) -> Hits:
        """Workflows that fit a text, by name and description.

        Needs the extra ``retrieval``. With an index (``trajstore index STORE --level workflow``)
        they are found by meaning too, else by words.

        Args:
            text: what is to be done.
            k: at most so many.
            task_id: the task that asks: whatever was made from a run at it, or at a task that is
                nearly the same, is left out.
            environment: only of this one.
            token_budget: tokens of all texts at most.
        """
        where = "state IS NULL"
        values = confidences(self.store, "workflow", self.learning)
        low = sorted(i for i, value in values.items() if value < self.learning.floor)
        if low:
            where += f" AND workflow_id NOT IN ({', '.join(map(_quoted, low))})"
        return search(
            self.store,
            text,
            k=k,
            level="workflow",
            where=where,
            task_id=task_id,
            environment=environment,
            token_budget=token_budget,
        )

    def prune(self, *, dry_run: bool = False) -> int:
        """Take out what fell below the floor of confidence, bring back what rose above it.

        Returns:
            Number of workflows that changed; only what was taken out so comes back.
        """
        values = confidences(self.store, "workflow", self.learning)
        changes: dict[str, Change] = {}
        for item in self.all(every=True):
            low = values.get(item.workflow_id, self.learning.start) < self.learning.floor
            if low and item.state is None:
                changes[item.workflow_id] = Change(state="retired", because=_UNHELPFUL)
            elif not low and item.state == "retired" and item.because == _UNHELPFUL:
                changes[item.workflow_id] = Change(state=None, because=None)
        if not dry_run:
            set_states(self.store, "workflows", changes)
        return len(changes)

    def _read(self, where: str) -> list[StoredWorkflow]:
        query = f"SELECT * FROM workflows WHERE {where} ORDER BY name, workflow_id"
        known = {f.name for f in fields(StoredWorkflow)}
        found = []
        for row in self.store.query(query).read_all().to_pylist():
            values = {k: v for k, v in row.items() if k in known}
            values["steps"] = tuple(json.loads(row["steps"]))
            values["trajectory_ids"] = tuple(row["trajectory_ids"] or ())
            about = json.loads(row["metadata"] or "{}")
            found.append(StoredWorkflow(**values, about=about, because=reason_of(row["metadata"])))
        return found


def keep_workflows(store: Store, workflows: Sequence[Workflow]) -> int:
    """Add workflows, and say how many are new.

    One that is there and stale, since a run that it was made from was taken back, is put in its
    place: it was made anew. One that was taken out for any other reason stays out.
    """
    added = store.add_workflows(workflows)
    again = {workflow_id(w): w for w in workflows}

    def decide(rows: pa.Table) -> pa.Table:
        is_stale = pc.fill_null(pc.equal(rows.column("state"), "stale"), False)
        known = pc.is_in(rows.column("workflow_id"), value_set=pa.array(list(again), pa.string()))
        found = rows.filter(pc.and_(is_stale, known))
        fresh = [again[i] for i in found.column("workflow_id").to_pylist()]
        for name in ("description", "trajectory_ids", "environment", "metadata", "state"):
            place = found.schema.get_field_index(name)
            values = [getattr(w, name) for w in fresh]
            column = pa.array(values, found.schema.field(place).type)
            found = found.set_column(place, found.schema.field(place), column)
        return found

    states = store.memory("workflows").column("state")
    if pc.any(pc.fill_null(pc.equal(states, "stale"), False)).as_py():
        store.change_memory("workflows", decide)
    return added


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
