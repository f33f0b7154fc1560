"""A job at work: what every kind of job shares, from the store to checkpoints and back."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trajstore.rollouts import Limits, Policy, Task, VllmServerPolicy
from trajstore.rollouts.dialect import Dialect
from trajstore.rollouts.policies.checkpoints import holds_adapter
from trajstore.schema import Trajectory
from trajstore.trainers.jobs.acting import local, served
from trajstore.trainers.jobs.config import JobConfig
from trajstore.trainers.jobs.data import JobData
from trajstore.trainers.jobs.examples import Examples, examples_of
from trajstore.trainers.jobs.inputs import check_inputs, inputs_of
from trajstore.trainers.jobs.models import load_model, load_template, load_tokenizer, merge
from trajstore.trainers.jobs.processes import ALONE, Processes
from trajstore.trainers.jobs.report import JobReport, Progress
from trajstore.trainers.jobs.sampling import (
    Evaluated,
    JobTasks,
    Sampler,
    Split,
    evaluated,
    free_series,
    limits_of,
    maker_of,
    tasks_of,
    versioned,
)
from trajstore.trainers.jobs.scratch import make_scratch
from trajstore.trainers.jobs.state import JobState
from trajstore.trainers.jobs.training import arguments_of, events_writer, train_in
from trajstore.trainers.objectives import Objective
from trajstore.trainers.tokenise import NO_FACTS, Facts, RowOptions

if TYPE_CHECKING:
    from trajstore.store import Reader, Store

_TEXTS = 2000
"""Runs that a tokenizer learns from, at most."""


class JobRun:
    """A job at work: folder, pinned snapshot, model, policy, metrics, and what is done already.

    It owns the files of the job's folder and is used by one thread.
    """

    def __init__(
        self,
        config: JobConfig,
        store: Store,
        *,
        resume: bool = False,
        fresh: bool = False,
        progress: Progress | None = None,
        scratch: Path | None = None,
        processes: Processes = ALONE,
    ) -> None:
        """Begin, or go on where an earlier start of the same job ended.

        Args:
            config: of :func:`trajstore.trainers.jobs.config.read_config`.
            store: that ``[job] store`` names.
            resume: there must be something to go on from.
            fresh: remove what is there and start anew.
            progress: told what is going on.
            scratch: a folder instead of the file's; the store is then left as it is, too.
            processes: that work at the job together, each with an instance of this class.

        Raises:
            TrainingError: the folder holds something else, or there is nothing to go on from.
        """
        self.config = config
        self.store = store
        self.folder = scratch or Path(config.located(config.job.output))
        self.processes = processes
        self.progress = progress if processes.first else None
        self._state = JobState.begin(
            self.folder, config.digest, resume=resume, fresh=fresh, processes=processes
        )
        self.recall = self._state.recall
        self.remember = self._state.remember
        self._server: VllmServerPolicy | None = None
        seen = processes.once(lambda: inputs_of(config))
        check_inputs(config, self._state, seen)
        data = JobData(config, store, self._state, processes, pin=scratch is None)
        self.reader, self.run_ids, self.runs = data.reader, data.run_ids, data.runs

    # --- what is read

    def examples(
        self,
        runs: Iterable[Trajectory],
        *,
        facts: Callable[[Trajectory], Facts] = lambda _: NO_FACTS,
        options: RowOptions | None = None,
    ) -> Examples:
        """Rows of runs, cut to the ``max_tokens`` of ``[training]``; none of a held-out task.

        Args:
            runs: of which.
            facts: what is known of each.
            options: choices for all; those of the file where None.
        """
        return examples_of(
            runs,
            self.tokenizer,
            self.template,
            held_out={t.task_id for t in self.tasks.held_out},
            facts=facts,
            options=options or self.row_options(),
        )

    def row_options(self) -> RowOptions:
        """Choices about rows, as the file says."""
        return RowOptions(
            max_tokens=self.config.training.max_tokens,
            include_reasoning=self.config.data.include_reasoning,
        )

    # --- what is trained

    @cached_property
    def base(self) -> Path:
        """Folder of the whole weights that the job starts from: given, merged, or from scratch."""
        given = self.config.base
        if given is not None and not holds_adapter(given):
            return given
        if given is not None:
            merged = self.folder / "base"
            self._once("merged", lambda: merge(self.config.model, given, merged))
            return merged
        self._once("scratch", self._make_scratch)
        return self._scratch

    def _once(self, name: str, make: Callable[[], None]) -> None:
        if not self.recall(name):
            self.processes.once(make)
            self.remember(name, True)

    @property
    def _scratch(self) -> Path:
        return self.folder / "scratch"

    def _make_scratch(self) -> None:
        table = self.config.model
        assert table.scratch is not None
        ids = self.run_ids()
        make_scratch(
            table.scratch,
            self.runs(ids[:: max(1, len(ids) // _TEXTS)]),
            load_template(table.template, None),
            self._scratch,
            seed=self.config.job.seed,
            options=self.row_options(),
        )

    @cached_property
    def tokenizer(self) -> Any:
        """Of the base."""
        return load_tokenizer(self.config.base or self.base)

    @cached_property
    def template(self) -> Any:
        """How messages become text."""
        return load_template(self.config.model.template, self.tokenizer)

    @cached_property
    def dialect(self) -> Dialect:
        """What policies of this job speak."""
        return Dialect(self.tokenizer, self.template)

    def fresh_model(self, checkpoint: Path | None = None) -> Any:
        """A model to train: the base, or a checkpoint, with adapters where the file asks for them.

        Args:
            checkpoint: folder that :meth:`train` gave; None is the base.
        """
        return load_model(self.config.model, self.base, checkpoint, seed=self.config.job.seed)

    def train(
        self,
        name: str,
        model: Any,
        examples: Sequence[Any],
        objective: Objective,
        *,
        epochs: float | None = None,
        steps: int | None = None,
        learning_rate: float | None = None,
    ) -> Path:
        """One round of gradient steps, in a folder of its own; see :func:`train_in`.

        Args:
            name: of the round and its folder.
            model: the model, or a function that gives it, called only if the round is not done.
            examples: what the objective takes.
            objective: what to minimise.
            epochs: overrides the file's ``epochs`` and ``steps``.
            steps: overrides them too.
            learning_rate: overrides the file's.

        Returns:
            The folder with the trained model and its tokenizer.
        """
        table = self.config.training
        arguments = arguments_of(
            table,
            seed=self.config.job.seed,
            gradient_checkpointing=self.config.model.gradient_checkpointing,
            epochs=epochs,
            steps=steps,
            learning_rate=learning_rate,
        )
        return train_in(
            self.folder / name,
            model if _is_function(model) else lambda: model,
            examples,
            objective,
            arguments,
            tokenizer=self.tokenizer,
            events=self.folder / "tensorboard" / name if table.tensorboard else None,
            shown=self._shown(f"training {name}"),
            processes=self.processes,
        )

    # --- what acts

    @cached_property
    def tasks(self) -> JobTasks:
        """Tasks to train on and held-out ones."""
        return tasks_of(self.config)

    @cached_property
    def series(self) -> str:
        """What this job's policy versions begin with: its name and seed.

        Where the store holds runs of an earlier job of that name and seed, a number follows, so
        that a version always means the same weights.
        """
        known: str | None = self.recall("series")
        if known is None:
            wanted = f"{self.config.name}-s{self.config.job.seed}"
            known = self.processes.once(lambda: free_series(self.store, wanted))
            self.remember("series", known)
        return known

    def version(self, name: str) -> str:
        """The policy version of some weights of this job, such as ``star-s0/iteration-1``."""
        return f"{self.series}/{re.sub(r'[^A-Za-z0-9._-]+', '-', name)}"

    def policy(self, model: Any, version: str) -> Policy:
        """A policy that samples from a model, in this process or on the server that the file names.

        Args:
            model: folder of a model, or one of :meth:`fresh_model`, which no server can read.
            version: name of its weights inside this job.

        Raises:
            TrainingError: a live model for a server.
            EndpointError: the server does not take the weights.
        """
        told = self.version(version)
        if self._is_served:
            folder = model if isinstance(model, Path) else None
            self._server = served(
                self.config,
                self.dialect,
                self.base,
                folder,
                told,
                self._server,
                sends=self.processes.first,
            )
            return self._server
        loaded = self.fresh_model(model) if isinstance(model, Path) else model
        return local(self.config, self.dialect, loaded, told)

    def rollouts(
        self,
        policy: Policy,
        tasks: Sequence[Task],
        *,
        attempts: int,
        version: str,
        split: Split,
        limits: Limits | None = None,
    ) -> list[Trajectory]:
        """Attempts at tasks, stored under the policy version and the tag of the split.

        What the store has of them is read back and not sampled again.

        Args:
            policy: who acts.
            tasks: at what.
            attempts: how often at each.
            version: name of the weights inside this job.
            split: whether the runs may be trained on.
            limits: steps and attempts at a time; those of the file where None.
        """
        table = self.config.need_rollouts()
        return self.sampler(f"{split} rollouts of {version}").runs(
            maker_of(table),
            versioned(policy, self.version(version)),
            tasks,
            attempts=attempts,
            limits=limits or limits_of(table),
            tags=(split,),
        )

    @property
    def _is_served(self) -> bool:
        return self.config.need_rollouts().policy == "vllm"

    def share(self, tasks: Sequence[Task]) -> Sequence[Task]:
        """The tasks that this process samples at; where a server samples, the first asks it all."""
        if self._is_served:
            return tasks if self.processes.first else ()
        return self.processes.share(tasks)

    def settled(self) -> Reader:
        """The store once every process has written what it sampled; the same snapshot for all."""
        self.processes.wait()
        return self.store.at(self.processes.once(self.store.snapshot))

    def sampler(self, what: str) -> Sampler:
        """What lets policies act and stores their runs; ``what`` is told to those who watch."""
        shown = self._shown(what)
        return Sampler(
            store=self.store,
            seed=self.config.job.seed,
            share=self.share,
            settled=self.settled,
            shown=None if shown is None else lambda done, of: shown(done, of, {}),
        )

    def evaluate(self, policy: Policy, version: str) -> Evaluated:
        """How a policy does on the held-out tasks, at its own temperature; logged.

        Args:
            policy: who acts.
            version: name of the weights inside this job.
        """
        table = self.config.need_rollouts()
        attempts = 1 if table.held_out is None else table.held_out.attempts
        runs = self.rollouts(
            policy, self.tasks.held_out, attempts=attempts, version=version, split="held-out"
        )
        found = evaluated(runs, attempts * len(self.tasks.held_out))
        self.log(version=version, **{f"held_out/{k}": v for k, v in asdict(found).items()})
        return found

    # --- what is told

    def log(self, **numbers: Any) -> None:
        """Append a line to the job's metrics, and its numbers to TensorBoard's events."""
        if not self.processes.first:
            return
        self._state.log(numbers)
        if self._events is None:
            return
        for name, value in numbers.items():
            if isinstance(value, int | float) and not isinstance(value, bool):
                self._events.add_scalar(name, value, self._state.lines)
        self._events.flush()

    @cached_property
    def _events(self) -> Any:
        if not self.config.training.tensorboard:
            return None
        folder = self.folder / "tensorboard" / "job"
        return events_writer(folder, self._state.lines + 1)

    def _shown(self, what: str) -> Callable[[int, int, Mapping[str, float]], None] | None:
        progress = self.progress
        if progress is None:
            return None
        return lambda done, of, numbers: progress(what, done, of, numbers)

    def report(self, model: Path | None, results: Mapping[str, Any]) -> JobReport:
        """What came of the job."""
        return JobReport(
            kind=self.config.kind,
            output=self.folder,
            snapshot=self.reader.snapshot.version,
            model=model,
            results=results,
        )


def _is_function(model: Any) -> bool:
    return callable(model) and not hasattr(model, "parameters")
