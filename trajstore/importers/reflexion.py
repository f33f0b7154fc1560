"""Reflexion: trial files of ALFWorld and WebShop, the HotpotQA log, programming results."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from trajstore.importers import programming
from trajstore.importers.hotpotqa_log import is_log
from trajstore.importers.importer import Importer
from trajstore.importers.items import ImportOptions, Item
from trajstore.importers.reflexion_hotpotqa import log_items
from trajstore.importers.reflexion_programming import problem_items
from trajstore.importers.reflexion_trials import Before, TrialFile, is_trial_record, trial_of
from trajstore.importers.source import Record, Source

_STEP_LOG = re.compile(
    r"^(?:\*{5} Start Trial #\d+ \*{5}|Environment #\d+(?: Trial #\d+)?:)", re.MULTILINE
)


class ReflexionImporter(Importer):
    """Reads the results of Reflexion (Shinn et al. 2023), in the forms its four tasks have.

    **ALFWorld, WebShop** (``env_results_trial_<k>.json``): outcome and memory of each task, no
    steps. Success is carried forward, so the trial file before tells which attempts happened;
    memory is cumulative, and each reflection comes once, numbered by its place in it, which is the
    number of the failed trial. Nothing in a file tells the run, and two runs (one with memory, one
    without) stand side by side over the same tasks: here the name of the folder is the name of the
    run and part of the ids, and the trial is read from the file name. Keep both when moving files.

    **HotpotQA** (text log): attempts with thoughts, actions and observations; unchanged copies of
    earlier attempts are left out. Halted means the step limit: a failure, truncated. Trials are
    numbered from 0 here and from 1 in the log. The id is a hash of question, trial and block.

    **Programming** (JSON lines): see :mod:`trajstore.importers.reflexion_programming`. ``acc`` is
    a running accuracy and no score. The id is a hash of the record.
    """

    name = "reflexion"
    title = "Reflexion runs: ALFWorld and WebShop trials, HotpotQA log, programming results"
    reads = (
        "attempts, reflections with their trial; outcome is is_success, the section of the log, "
        "or is_solved"
    )

    def claims(self, folder: Path, names: frozenset[str]) -> Iterable[tuple[str, ...]]:
        """The trial files of one run, in the order of trials."""
        found = sorted((trial_of(name), name) for name in names if trial_of(name) >= 0)
        group = tuple(name for _, name in found if _has_trials(Source(folder / name)))
        if group:
            yield group

    def detect(self, source: Source) -> float:
        """Say 0.9 and more for the four forms, 0.6 for the step logs beside trial files."""
        if source.files:
            return 0.95 if all(trial_of(f.name) >= 0 for f in source.files) else 0.0
        if source.shape == "text":
            if is_log(source.text_head):
                return 0.95
            return 0.6 if len(_STEP_LOG.findall(source.text_head)) > 1 else 0.0
        if _has_trials(source):
            return 0.95
        found = programming.records(source)
        tree = any(programming.is_tree_search(r, source.name) for r in found)
        return 0.9 if found and not tree else 0.0

    def read(self, source: Source, options: ImportOptions) -> Iterator[Item]:
        """Everything of a run's trial files, of a log, or of a file of problems."""
        if source.files:
            before: Before | None = None
            for path in source.files:
                place = Path(source.uri).with_name(path.name).as_posix()
                file = TrialFile(path, uri=place, importer=self.name, before=before)
                yield from self._trial(file, options)
                before = file.after
        elif source.shape == "text" and is_log(source.text_head):
            yield from log_items(source, self.name)
        elif source.shape == "text" and _STEP_LOG.search(source.text_head):
            reason = "a log of steps; outcomes and reflections come from env_results_trial_<k>.json"
            yield self.ignored(source, reason)
        elif not _has_trials(source):
            yield from super().read(source, options)
        elif trial_of(source.name) < 0:
            reason = "its trial is in the file name only: name it env_results_trial_<k>.json again"
            yield self.problem(source, reason)
        else:
            file = TrialFile(source.path, uri=source.uri, importer=self.name, before=None)
            yield from self._trial(file, options)

    def _trial(self, file: TrialFile, options: ImportOptions) -> Iterator[Item]:
        yield from super().read(file, options)
        yield from file.notes()

    def convert(self, source: Source, record: Record, options: ImportOptions) -> Iterable[Item]:
        """One environment in one trial, or one problem with its attempts."""
        if isinstance(source, TrialFile):
            return source.items(record, options)
        return problem_items(source, record, self.name)


def _has_trials(source: Source) -> bool:
    if source.shape != "array" or not source.sample:
        return False
    return any(is_trial_record(value) for value in source.sample)


IMPORTER = ReflexionImporter()
"""The importer, as the registry finds it."""
