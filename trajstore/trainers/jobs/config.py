"""What a job is told: one TOML file, read into values that are checked before anything runs."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import inf
from pathlib import Path
from typing import Any, Literal

from trajstore._toml import Table, read_toml
from trajstore.errors import TrainingError
from trajstore.rollouts import shipped
from trajstore.rollouts.policies.checkpoints import holds_adapter, holds_weights
from trajstore.schema import canonical_json
from trajstore.trainers.trainer import Lora

TemplateName = Literal["chatml-tools", "bare", "own"]
Dtype = Literal["float32", "bfloat16"]
_MOST_TASKS = 1_000_000
_TABLES = ("job", "model", "training", "rollouts", "data")


def check_positive(name: str, value: float | None) -> None:
    """Check that a number, where it is given, is finite and above 0.

    Raises:
        TrainingError: it is not.
    """
    if value is not None and not 0 < value < inf:
        raise TrainingError(f"{name} must be above 0, not {value}.")


def check_not_negative(name: str, value: float) -> None:
    """Check that a number is finite and at least 0.

    Raises:
        TrainingError: it is not.
    """
    if not 0 <= value < inf:
        raise TrainingError(f"{name} must be 0 or more, not {value}.")


@dataclass(frozen=True, slots=True, kw_only=True)
class JobTable:
    """The table ``[job]``: where things lie."""

    store: str
    """The store, relative to the file, or a URI. Rollouts go there; examples come from it."""
    output: str
    """Folder of the job: checkpoints, metrics, plot. Relative to the file; ``{seed}`` in it, and in
    other paths of the file, stands for the seed."""
    seed: int = 0
    """Seed of weights, order of examples, tasks and sampling."""
    snapshot: int | str | None = None
    """Number or pin of the snapshot that examples come from; the newest at the start where not
    given. A job that goes on reads the one that it began with."""
    name: str | None = None
    """What policy versions begin with; the kind of job where not given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scratch:
    """The table ``[model.scratch]``: a small Llama with a tokenizer of its own."""

    layers: int = 2
    """Number of layers."""
    hidden: int = 128
    """Width."""
    heads: int = 4
    """Attention heads; ``hidden`` is a multiple of it."""
    vocabulary: int = 800
    """Tokens at most, the 256 bytes and the marks of turns among them."""
    max_positions: int = 1024
    """Longest sequence in tokens."""

    def check(self) -> None:
        """Check that a model can be made of it."""
        for name in ("layers", "hidden", "heads", "max_positions"):
            check_positive(name, getattr(self, name))
        if self.hidden % (2 * self.heads):
            message = f"hidden = {self.hidden} must be a multiple of twice heads = {self.heads}."
            raise TrainingError(message)
        if self.vocabulary < 300:
            message = (
                f"vocabulary = {self.vocabulary} is too few: 256 bytes and the marks of turns "
                "take 264; give 300 or more."
            )
            raise TrainingError(message)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelTable:
    """The table ``[model]``: what is trained."""

    base: str | None = None
    """Folder of a model of transformers, relative to the file: the weights that a job starts
    from. An adapter is merged into its base first. Either this or ``[model.scratch]``."""
    template: TemplateName = "chatml-tools"
    """How messages become text. ``own`` is the tokenizer's, ``bare`` leaves out system prompt and
    tool definitions, for small models of one environment."""
    dtype: Dtype = "float32"
    """Of the weights. On a GPU, float32 weights are trained with bfloat16 arithmetic."""
    gradient_checkpointing: bool = False
    """Compute activations twice instead of keeping them."""
    scratch: Scratch | None = None
    """Make a small model instead."""
    lora: Lora | None = None
    """Train adapters instead of all weights."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingTable:
    """The table ``[training]``: one round of gradient steps."""

    learning_rate: float = 2e-5
    """Greatest step size. (2e-5 for all weights: ETO, 2403.02502; adapters take about 1e-4.)"""
    epochs: float | None = None
    """Passes over the examples; 1 where ``steps`` is not given either."""
    steps: int | None = None
    """Steps of the optimiser, whatever the number of examples."""
    batch_size: int = 8
    """Examples of one process at a time."""
    accumulation: int = 1
    """Batches of a step; 2 with half the batch size trains the same in less memory."""
    warmup: float = 0.03
    """Share of the steps in which the rate rises."""
    schedule: Literal["constant", "linear", "cosine"] = "cosine"
    """How the rate falls after that."""
    weight_decay: float = 0.0
    """Of AdamW."""
    max_grad_norm: float = 1.0
    """Gradients are clipped to it."""
    max_tokens: int | None = None
    """Longest example; it is cut behind the last step that fits."""
    save_steps: int = 100
    """Steps between checkpoints; a killed job loses no more."""
    logging_steps: int = 10
    """Steps between lines of metrics."""
    bf16: bool | None = None
    """Compute in bfloat16; by itself on a GPU that can."""
    tensorboard: bool = True
    """Also write events for TensorBoard."""

    def check(self) -> None:
        """Check the ranges."""
        for name in ("learning_rate", "epochs", "steps", "batch_size", "accumulation"):
            check_positive(name, getattr(self, name))
        for name in ("save_steps", "logging_steps", "max_grad_norm", "max_tokens"):
            check_positive(name, getattr(self, name))
        check_not_negative("weight_decay", self.weight_decay)
        if self.epochs is not None and self.steps is not None:
            raise TrainingError("steps and epochs say the same; give one of them.")
        if not 0 <= self.warmup < 1:
            raise TrainingError(f"warmup is a share of the steps from 0 to 1, not {self.warmup}.")


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskTable:
    """The tables ``[rollouts.tasks]`` and ``[rollouts.held_out]``: seeded tasks."""

    count: int
    """How many."""
    seed: int = 0
    """Which ones."""
    attempts: int = 1
    """How often each is attempted."""

    def check(self) -> None:
        """Check the ranges."""
        for name in ("count", "attempts"):
            check_positive(name, getattr(self, name))
        if self.count > _MOST_TASKS:
            raise TrainingError(f"count = {self.count:,} is above {_MOST_TASKS:,}.")


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutTable:
    """The table ``[rollouts]``: what the policy attempts, and how it samples."""

    environment: str
    """One that ships: calculator, code-fixing or web-shop."""
    kind: Literal["arithmetic", "two-hop"] | None = None
    """Only these tasks of the calculator."""
    tasks: TaskTable | None = None
    """Tasks to train on."""
    held_out: TaskTable | None = None
    """Tasks to measure on. No run at one of them is trained on, whatever ``[data]`` or
    ``[rollouts.tasks]`` says."""
    temperature: float = 1.0
    """Of sampling."""
    max_steps: int = 8
    """Agent steps of an attempt."""
    max_tokens: int = 96
    """Tokens of one turn."""
    concurrency: int = 64
    """Attempts at a time."""
    policy: Literal["transformers", "vllm"] = "transformers"
    """What samples: the model in this process, or a vLLM server that was started with the base and
    takes new weights as they come. It reads the job's folder."""
    url: str | None = None
    """Of the server, such as http://127.0.0.1:8000."""
    model: str | None = None
    """Name of the base on the server; its path where not given."""
    allow_unisolated: bool = False
    """Run code also where this machine cannot lock it in."""

    def check(self) -> None:
        """Check names and ranges."""
        try:
            shipped(self.environment)
        except ValueError as error:
            raise TrainingError(f"environment: {error}") from error
        for name in ("temperature", "max_steps", "max_tokens", "concurrency"):
            check_positive(name, getattr(self, name))
        if self.kind and self.environment != "calculator":
            raise TrainingError("kind is for the environment 'calculator' alone.")
        if (self.policy != "transformers") != (self.url is not None):
            raise TrainingError("url belongs to policy = 'vllm', and to it only.")


@dataclass(frozen=True, slots=True, kw_only=True)
class DataTable:
    """The table ``[data]``: runs of the store that examples are made of."""

    where: str | None = None
    """Condition in SQL over ``trajectories``, such as "success"."""
    selection: str | None = None
    """File of ``trajstore select -o``, relative to the file; its snapshot is read."""
    limit: int | None = None
    """So many runs at most, drawn by the job's seed."""
    include_reasoning: bool = True
    """Train on reasoning, where tokens are made from text."""

    def check(self) -> None:
        """Check that one source is named."""
        check_positive("limit", self.limit)
        if self.where is not None and self.selection is not None:
            raise TrainingError("where and selection both say which runs; give one of them.")


@dataclass(frozen=True, slots=True, kw_only=True)
class JobConfig:
    """A job, checked."""

    path: Path
    """The file."""
    kind: str
    """``sft``, ``star``, ``rft``, ``dpo`` or ``grpo``."""
    job: JobTable
    """Where things lie."""
    model: ModelTable
    """What is trained."""
    training: TrainingTable
    """How."""
    rollouts: RolloutTable | None
    """On what it is sampled; None where the file has no such table."""
    data: DataTable
    """What it is trained on."""
    settings: Any
    """What only this kind of job is told: a value of its own class."""
    table: Table
    """The whole file."""
    contents: Mapping[str, Any] = field(repr=False)
    """What decides the result, as written: all but where things lie."""

    @property
    def digest(self) -> str:
        """SHA-256 of the contents, whatever the order of keys, spaces and comments."""
        return hashlib.sha256(canonical_json(self.contents).encode()).hexdigest()

    @property
    def name(self) -> str:
        """What policy versions begin with, up to the seed."""
        return self.job.name or self.kind

    def located(self, path: str) -> str:
        """A path of the file as seen from here; a URI stays. ``{seed}`` in it is the seed."""
        path = path.replace("{seed}", str(self.job.seed))
        return path if "://" in path else str(self.path.parent / path)

    @property
    def base(self) -> Path | None:
        """The folder of ``[model] base`` as seen from here; None where a model is made."""
        return None if self.model.base is None else Path(self.located(self.model.base))

    def error(self, message: str, *keys: str | int) -> TrainingError:
        """An error about the file, or about a key of it."""
        made = self.table.error(message, *keys)
        return made if isinstance(made, TrainingError) else TrainingError(str(made))

    def need_rollouts(self) -> RolloutTable:
        """The table ``[rollouts]``.

        Raises:
            TrainingError: the file has none.
        """
        if self.rollouts is None:
            message = (
                "This job samples, so it needs a table [rollouts] with environment = "
                '"calculator" and [rollouts.tasks] with count = 200.'
            )
            raise self.error(message)
        return self.rollouts


def read_config(
    path: str | Path, kind: str, settings: type[Any], *, seed: int | None = None
) -> JobConfig:
    """Read and check the file of a job; no store is opened and no model loaded.

    Args:
        path: the TOML file.
        kind: of job.
        settings: dataclass of the table that only this kind has; it is named as the kind.
        seed: instead of the file's.

    Raises:
        TrainingError: the file cannot be read, or a key is unknown, missing or does not fit; the
            message begins with file and line.
    """
    file = Path(path)
    top = read_toml(file, "job", TrainingError)
    top.known((*_TABLES, kind))
    job = top.table("job").made(JobTable)
    if "://" in job.output:
        raise top.error("The output of a job is a local folder.", "job", "output")
    if seed is not None:
        job = replace(job, seed=seed)
    made = JobConfig(
        path=file,
        kind=kind,
        job=job,
        model=_model(top),
        training=top.table("training").made(TrainingTable),
        rollouts=_rollouts(top) if "rollouts" in top.values else None,
        data=top.table("data").made(DataTable),
        settings=top.table(kind).made(settings),
        table=top,
        contents={
            "kind": kind,
            **{k: v for k, v in top.values.items() if k != "job"},
            "job": {"seed": job.seed, "name": job.name},
        },
    )
    _check_places(made)
    return made


def _model(top: Table) -> ModelTable:
    table = top.table("model")
    table.known((*(n for n in ModelTable.__dataclass_fields__),))
    inner: dict[str, Any] = {"scratch": None, "lora": None}
    for name, kind in (("scratch", Scratch), ("lora", Lora)):
        if name in table.values:
            inner[name] = table.table(name).made(kind)
    made = table.made(ModelTable, others=True, **inner)
    if (made.base is None) == (made.scratch is None):
        message = (
            "[model] needs base = a folder of a model, or a table [model.scratch]; one of them."
        )
        raise table.error(message)
    return made


def _rollouts(top: Table) -> RolloutTable:
    table = top.table("rollouts")
    table.known((*(n for n in RolloutTable.__dataclass_fields__),))
    inner: dict[str, Any] = {"tasks": None, "held_out": None}
    for name in inner:
        if name in table.values:
            inner[name] = table.table(name).made(TaskTable)
    return table.made(RolloutTable, others=True, **inner)


def _check_places(made: JobConfig) -> None:
    folder, selection = made.base, made.data.selection
    if folder is not None and not holds_weights(folder):
        message = (
            f"{folder} is no folder of a model: it has no config.json or adapter_config.json. Give "
            "one that save_pretrained wrote, or the output of a job that has ended, such as "
            "runs/warm/model."
        )
        raise made.error(message, "model", "base")
    served = made.rollouts is not None and made.rollouts.policy == "vllm"
    if folder is not None and served and made.model.lora is not None and holds_adapter(folder):
        message = (
            f"{folder} is an adapter, and a server puts no adapter over another. Give base a "
            "folder of whole weights, which merge_and_unload of peft makes, or leave out "
            "[model.lora]."
        )
        raise made.error(message, "model", "base")
    if selection is not None and not Path(made.located(selection)).is_file():
        message = f"There is no file {made.located(selection)}; trajstore select -o writes one."
        raise made.error(message, "data", "selection")
