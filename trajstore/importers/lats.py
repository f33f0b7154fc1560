"""LATS: code written by tree search, one problem a line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from trajstore.importers import programming
from trajstore.importers.importer import Importer, uri
from trajstore.importers.items import ImportOptions, Item
from trajstore.importers.programming import ProgrammingRun
from trajstore.importers.source import Record, Source
from trajstore.schema import Reflection, Step, Trajectory


class LatsImporter(Importer):
    """Reads the programming results of Language Agent Tree Search (Zhou et al. 2023).

    A record keeps two nodes of the tree, the root and the best one, and each is an attempt; the
    best one descends from the root (``relation`` branch). Only the best one was put to the hidden
    tests, so only its success is known. ``acc`` is the running accuracy of the file and no score
    of the record; it stays in the metadata.

    A record without ``is_solved`` is a problem that was never searched, since its first
    implementation passed the visible tests; that implementation is not in the file. It becomes a
    trajectory that holds the problem alone, with unknown success, so that the task is counted and
    never counted as a failure.

    LATS runs the last entry of ``test_feedback`` on the node that it made last, which in an
    unsolved search need not be the best one. The first reflection is on the root; the others are
    on nodes that are not in the file, so they name no attempt.
    """

    name = "lats"
    title = "LATS (tree search) programming results: JSON lines, one problem each"
    reads = (
        "root and best implementation as attempts, test feedback, reflections; outcome of the "
        "best one is is_solved"
    )

    def detect(self, source: Source) -> float:
        """Say 0.9 for programming records of which one shows a tree search."""
        found = programming.records(source)
        return 0.9 if any(programming.is_tree_search(r, source.name) for r in found) else 0.0

    def convert(self, source: Source, record: Record, options: ImportOptions) -> Iterable[Item]:
        """The attempts of one problem and the reflections on its nodes."""
        del options
        value, run = record.value, ProgrammingRun.of(source.name)
        prompt, task = str(value["prompt"]), programming.task_id(value, run)
        searched = "is_solved" in value
        codes = programming.texts(value, "implementations")
        if searched and not codes:
            raise KeyError("implementations")
        if not searched and "acc" not in value:
            raise KeyError("is_solved")
        feedback = programming.texts(value, "test_feedback")
        ids = programming.attempt_ids(value, max(1, len(codes)))
        for number, trajectory_id in enumerate(ids):
            steps = [Step(actor="user", text=prompt)]
            if searched:
                said = programming.feedback_of(feedback, number)
                steps.append(programming.implementation_step(codes[number], said))
            is_judged = searched and number == len(codes) - 1
            yield Trajectory(
                trajectory_id=trajectory_id,
                task_id=task,
                attempt=number,
                goal=prompt,
                source=self.name,
                source_uri=uri(source, record),
                environment=programming.ENVIRONMENT,
                agent="lats",
                model=run.model,
                parent_id=ids[0] if number else None,
                relation="branch" if number else None,
                status="terminated" if searched else None,
                success=programming.verdict(value) if is_judged else None,
                steps=tuple(steps),
                metadata=programming.metadata(value, run),
            )
        yield from self._reflections(source, record, task, ids[0])

    def _reflections(
        self, source: Source, record: Record, task: str, root: str
    ) -> Iterator[Reflection]:
        run = ProgrammingRun.of(source.name)
        said = programming.texts(record.value, "reflections")
        first = said[0] if said else None
        for text in dict.fromkeys(t for t in said if t.strip() and t != programming.TREE_MARK):
            yield Reflection(
                task_id=task,
                text=text,
                source=self.name,
                trial=0 if text == first else None,
                trajectory_id=root if text == first else None,
                environment=programming.ENVIRONMENT,
                model=run.model,
                source_uri=uri(source, record),
            )


IMPORTER = LatsImporter()
"""The importer, as the registry finds it."""
