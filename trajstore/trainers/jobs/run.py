"""A job at work: what every kind of job shares, from the store to checkpoints and back."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from trajstore.errors import SnapshotError, TrainingError
from trajstore.filters import Selection
from trajstore.rollouts import Limits, Policy, Task, VllmServerPolicy
from trajstore.rollouts.dialect import Dialect
from trajstore.schema import Trajectory
from trajstore.trainers.jobs.acting import local, served
from trajstore.trainers.jobs.config import JobConfig
from trajstore.trainers.jobs.models import load_model, load_template, load_tokenizer
from trajstore.trainers.jobs.sampling import (
    Evaluated,
    JobTasks,
    Sampler,
    Split,
    evaluated,
    limits_of,
    maker_of,
    tasks_of,
    versioned,
)
from trajstore.trainers.jobs.scratch import make_scratch
from trajstore.trainers.jobs.state import JobState
from trajstore.trainers.jobs.training import arguments_of, events_writer, train_in
from trajstore.trainers.objectives import Objective
from trajstore.trainers.rows import TokenRow
from trajstore.trainers.tokenise import (
    NO_FACTS,
    Facts,
    Refused,
    RowOptions,
    tokenise_all,
)

if TYPE_CHECKING:
    from trajstore.store import Reader, Store

Progress = Callable[[str, int, int, Mapping[str, float]], None]
"""Told what is being done, how much of it of how much, and the newest numbers."""

HELD_OUT = "it is an attempt at a held-out task, which would measure memory then"
"""Why a run at a held-out task gives no row."""

_RUNS_A_READ = 256
_TEXTS = 2000
"""Runs that a tokenizer learns from, at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobReport:
    """What came of a job."""

    kind: str
    """Of job."""
    output: Path
    """Its folder."""
    snapshot: int
    """What examples were read from."""
    model: Path | None
    """Folder of the model that came out last."""
    results: Mapping[str, Any] = field(default_factory=dict)
    """Numbers of the kind of job."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Examples:
    """Rows of runs, and what gave none."""

    rows: list[TokenRow]
    """In the order of the runs."""
    runs: int
    """Runs that were looked at."""
    refused: list[Refused]
    """Runs without a row, and why."""


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
    ) -> None:
        """Begin, or go on where an earlier start of the same job ended.

        Args:
            config: of :func:`trajstore.trainers.jobs.config.read_config`.
            store: that ``[job] store`` names.
            resume: there must be something to go on from.
            fresh: remove what is there and start anew.
            progress: told what is going on.
            scratch: a folder instead of the file's; the store is then left as it is, too.

        Raises:
            TrainingError: the folder holds something else, or there is nothing to go on from.
        """
        self.config = config
        self.store = store
        self.folder = scratch or Path(config.located(config.job.output))
        self.progress = progress
        self._state = JobState.begin(self.folder, config.digest, resume=resume, fresh=fresh)
        self.recall = self._state.recall
        self.remember = self._state.remember
        self._server: VllmServerPolicy | None = None
        self.reader = self._pinned(pin=scratch is None)

    # --- what is read

    def _pinned(self, *, pin: bool) -> Reader:
        """The snapshot of the job, kept from being cleaned away."""
        snapshot = self.recall("snapshot")
        if snapshot is None:
            selection = self._selection
            asked = self.config.job.snapshot
            if asked is None and selection is not None:
                asked = selection.snapshot
            reader = self.store.reader() if asked is None else self.store.at(asked)
            snapshot = reader.snapshot.version
            if pin:
                self.store.pin(self.pin_name, snapshot)
            self.remember("snapshot", snapshot)
        try:
            return self.store.at(snapshot)
        except SnapshotError as error:
            message = f"The snapshot of this job is gone: {error} Start anew with --fresh."
            raise TrainingError(message) from error

    @property
    def pin_name(self) -> str:
        """Name of the pin that keeps the job's snapshot readable."""
        return f"train-{self.config.name}-{self.config.digest[:8]}"

    @cached_property
    def _selection(self) -> Selection | None:
        file = self.config.data.selection
        return None if file is None else Selection.read(self.config.located(file))

    def run_ids(self) -> list[str]:
        """Ids of the runs that ``[data]`` names, in ascending order; a sample where it has a limit.

        Raises:
            TrainingError: there are none.
        """
        data = self.config.data
        if self._selection is not None:
            ids = sorted(self._selection.ids())
        else:
            ids = [i for part in self.reader.ids(data.where) for i in part]
        if data.limit is not None and len(ids) > data.limit:
            draw = Random(self.config.job.seed)  # noqa: S311 - a seeded choice, no secret
            ids = sorted(draw.sample(ids, data.limit))
        if not ids:
            message = (
                f"No run of snapshot {self.reader.snapshot.version} fits [data]; trajstore query "
                "shows what there is."
            )
            raise self.config.error(message, "data", "where")
        return ids

    def runs(self, ids: Sequence[str] | None = None) -> Iterator[Trajectory]:
        """Runs of the job's snapshot, a few hundred in memory; those of ``[data]`` where None."""
        chosen = self.run_ids() if ids is None else ids
        for start in range(0, len(chosen), _RUNS_A_READ):
            yield from self.reader.get_many(chosen[start : start + _RUNS_A_READ])

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
        rows: list[TokenRow] = []
        refused: list[Refused] = []
        made = tokenise_all(
            self._not_held_out(runs, refused),
            self.tokenizer,
            self.template,
            facts=facts,
            options=options or self.row_options(),
        )
        looked = 0
        for found in made:
            looked += 1
            if isinstance(found, Refused):
                refused.append(found)
            else:
                rows += found
        looked += sum(r.reason == HELD_OUT for r in refused)
        return Examples(rows=rows, runs=looked, refused=refused)

    def _not_held_out(
        self, runs: Iterable[Trajectory], refused: list[Refused]
    ) -> Iterator[Trajectory]:
        """The runs but those at held-out tasks, which are refused."""
        held_out = {t.task_id for t in self.tasks.held_out}
        for run in runs:
            if run.task_id in held_out:
                refused.append(Refused(trajectory_id=run.trajectory_id, reason=HELD_OUT))
            else:
                yield run

    def row_options(self) -> RowOptions:
        """Choices about rows, as the file says."""
        return RowOptions(
            max_tokens=self.config.training.max_tokens,
            include_reasoning=self.config.data.include_reasoning,
        )

    # --- what is trained

    @cached_property
    def base(self) -> Path:
        """Folder of the weights that the job starts from; made from scratch where asked for."""
        table = self.config.model
        if table.base is not None:
            return Path(self.config.located(table.base))
        assert table.scratch is not None
        folder = self.folder / "scratch"
        if not self.recall("scratch"):
            template = load_template(table.template, None)
            ids = self.run_ids()
            step = max(1, len(ids) // _TEXTS)
            make_scratch(
                table.scratch,
                self.runs(ids[::step]),
                template,
                folder,
                seed=self.config.job.seed,
                options=self.row_options(),
            )
            self.remember("scratch", True)
        return folder

    @cached_property
    def tokenizer(self) -> Any:
        """Of the base."""
        return load_tokenizer(self.base)

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
        if known is not None:
            return known
        wanted = f"{self.config.name}-s{self.config.job.seed}"
        query = "SELECT DISTINCT split_part(policy_version, '/', 1) AS series FROM trajectories"
        found = self.store.query(f"{query} WHERE policy_version IS NOT NULL").read_all()
        taken = set(map(str, found.column(0)))
        number = 1
        made = wanted
        while made in taken:
            number += 1
            made = f"{wanted}-{number}"
        self.remember("series", made)
        return made

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
        if self.config.need_rollouts().policy == "vllm":
            folder = model if isinstance(model, Path) else None
            self._server = served(self.config, self.dialect, self.base, folder, told, self._server)
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

    def sampler(self, what: str) -> Sampler:
        """What lets policies act and stores their runs; ``what`` is told to those who watch."""
        shown = self._shown(what)
        return Sampler(
            store=self.store,
            seed=self.config.job.seed,
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
        found = evaluated(runs)
        self.log(version=version, **{f"held_out/{k}": v for k, v in asdict(found).items()})
        return found

    # --- what is told

    def log(self, **numbers: Any) -> None:
        """Append a line to the job's metrics, and its numbers to TensorBoard's events."""
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
