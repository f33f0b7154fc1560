"""ATIF trajectories (Agent Trajectory Interchange Format 1.0-1.8), as Harbor writes them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from trajstore.importers import harbor
from trajstore.importers.atif_files import (
    Segment,
    chain,
    head,
    is_atif,
    load,
    references,
    referrer,
    resolve,
)
from trajstore.importers.atif_own import own_run
from trajstore.importers.atif_run import Parent, Run, build, identify
from trajstore.importers.importer import Importer, uri
from trajstore.importers.items import ImportOptions, Item
from trajstore.importers.source import Record, Source


class AtifImporter(Importer):
    """Reads ATIF documents, their continuations and sub-agents, and Harbor's trial results.

    Identity: ``session_id`` and ``trajectory_id`` as far as they are there, the agent's name, the
    task, and the first model call (its time, text and calls), since a session id may be a
    placeholder or shared by siblings. None of it changes as a run grows or moves to a later
    version. A continuation counts as part of the first document; an embedded sub-agent also has
    the id of its parent in it, since its own id is unique there only.
    """

    name: ClassVar[str] = "atif"
    title: ClassVar[str] = "ATIF 1.0-1.8 trajectories (Harbor)"
    reads: ClassVar[str] = (
        "steps, tool calls, token ids, log-probabilities, sub-agents, continuations; outcome from "
        "Harbor's result.json"
    )

    def detect(self, source: Source) -> float:
        """Sure of ``schema_version: ATIF-...`` and of the files that Harbor puts beside it."""
        value = source.first
        if is_atif(value):
            return 0.95
        known = harbor.is_trial(value) or harbor.is_config(value) or harbor.is_traces(value)
        return 0.9 if known else 0.0

    def read(self, source: Source, options: ImportOptions) -> Iterator[Item]:
        """The trajectories; Harbor's other files are ignored as a whole."""
        value = source.first
        if harbor.is_traces(value):
            reason = "traces export: one record a model call with its whole prompt; the run itself "
            yield self.ignored(source, reason + "is in trajectory.json")
        elif harbor.is_config(value) and not harbor.is_trial(value):
            yield self.ignored(source, "configuration or summary of a Harbor job")
        else:
            yield from super().read(source, options)

    def convert(self, source: Source, record: Record, options: ImportOptions) -> Iterable[Item]:
        """One document with its sub-agents, or one trial result."""
        value = record.value
        if harbor.is_trial(value):
            return self._verdict(source, value, options)
        if not is_atif(value):
            message = "schema_version is not 'ATIF-v1...' or 'steps' is no list"
            raise ValueError(message)
        if not value["steps"]:
            message = "'steps' is empty"
            raise ValueError(message)
        own = own_run(value)
        if own is not None:
            return (own,)
        alone = source.shape == "object"
        first = Segment(document=value, path=source.path if alone else None)
        return self._document(source, first, uri(source, record), options)

    def _document(
        self, source: Source, first: Segment, where: str, options: ImportOptions
    ) -> Iterator[Item]:
        if first.path is not None:
            named_by = referrer(first.path)
            if named_by is not None and named_by.step is None:
                start = head(first)[0].path or first.path
                yield self.ignored(source, f"continues {start.name} and is read with it")
                return
        parent = None if first.path is None else _parent_of(first, {first.path})
        trial = None if first.path is None or parent else harbor.trial_of(first.path)
        segments, missing = chain(first)
        if missing is not None:
            reason = f"its continuation '{missing}' does not lie beside it; only this part went in"
            yield self.problem(source, reason)
        run = build(segments, where, parent=parent, trial=trial)
        yield run.trajectory
        if trial is not None:
            yield from harbor.labels(*trial, run.trajectory.trajectory_id, options)
        yield from _sub_agents(segments, run, frozenset(s.path for s in segments if s.path))

    def _verdict(
        self, source: Source, trial: Mapping[str, Any], options: ImportOptions
    ) -> Iterator[Item]:
        runs = harbor.runs_of(source.path)
        if not runs:
            reason = "the result of a trial whose trajectory.json lies neither here nor in agent/"
            yield self.problem(source, reason)
        for path, step in runs.items():
            document = load(path)
            verdict = (
                () if document is None else harbor.labels(trial, step, identify(document), options)
            )
            said = False
            for label in verdict:
                said = True
                yield label
            if not said:
                yield self.ignored(source, "no verdict on its run: the verifier gave none")


def _parent_of(first: Segment, seen: set[Path]) -> Parent | None:
    """The trajectory that names this file as its sub-agent, found beside it."""
    named_by = None if first.path is None else referrer(first.path)
    if named_by is None or named_by.step is None or named_by.segment.path in seen:
        return None
    segments = head(named_by.segment)
    path = segments[0].path
    above = _parent_of(segments[0], seen | {p for s in segments if (p := s.path)})
    trial = None if path is None or above else harbor.trial_of(path)
    run = build(segments, "", parent=above, trial=trial)
    return Parent(
        trajectory_id=run.trajectory.trajectory_id,
        task_id=run.trajectory.task_id,
        step=run.indices[-1].get(named_by.step),
    )


def _sub_agents(segments: Sequence[Segment], run: Run, seen: frozenset[Path]) -> Iterator[Item]:
    """The sub-agents of a run, embedded or in files beside it, and theirs."""
    for segment, indices in zip(segments, run.indices, strict=True):
        named = list(references(segment.document))
        embedded = {
            str(d.get("trajectory_id")): d
            for d in segment.document.get("subagent_trajectories") or ()
            if is_atif(d) and d["steps"]
        }
        for own_id, document in embedded.items():
            at = next((p for p, r in named if str(r.get("trajectory_id")) == own_id), None)
            parent = _handed_over(run, None if at is None else indices.get(at))
            where = f"{run.trajectory.source_uri}#{own_id}"
            parts = [Segment(document=document, path=None)]
            child = build(parts, where, parent=parent, embedded=True)
            yield child.trajectory
            yield from _sub_agents(parts, child, seen)
        for at, reference in named:
            if str(reference.get("trajectory_id")) not in embedded:
                yield from _sub_agent_file(
                    segment, reference, _handed_over(run, indices.get(at)), seen
                )


def _sub_agent_file(
    segment: Segment, reference: Mapping[str, Any], parent: Parent, seen: frozenset[Path]
) -> Iterator[Item]:
    path = None if segment.path is None else resolve(segment.path, reference.get("trajectory_path"))
    document = None if path is None or path in seen else load(path)
    if path is None or document is None or not document["steps"]:
        return
    parts, _ = chain(Segment(document=document, path=path))
    child = build(parts, path.as_posix(), parent=parent)
    yield child.trajectory
    yield from _sub_agents(parts, child, seen | {p.path for p in parts if p.path})


def _handed_over(run: Run, step: int | None) -> Parent:
    own = run.trajectory
    return Parent(trajectory_id=own.trajectory_id, task_id=own.task_id, step=step)


IMPORTER = AtifImporter()
"""The importer of this module."""
