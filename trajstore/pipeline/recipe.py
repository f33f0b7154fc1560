"""Recipes: from a store to training sets, told in one TOML file."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trajstore._toml import Table, read_toml, unknown
from trajstore.errors import RecipeError, TrajstoreError
from trajstore.exports import Format
from trajstore.pipeline.recipe_kinds import KINDS, SetKind
from trajstore.pipeline.recipe_stages import RecipeStage, SplitRecipe, stages_of
from trajstore.schema import canonical_json

_FOLDER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_PLACES = ("store", "output", "snapshot", "import")


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportRecipe:
    """The table ``[import]``: files that go into the store first. What is there already is left."""

    paths: tuple[str, ...]
    """Files, folders or globs, relative to the recipe."""
    format: str | None = None
    """Name of the importer; found by content where not given."""
    strict: bool = False
    """Stop at the first record that cannot be read."""
    redact: bool = True
    """Replace secrets by typed placeholders."""
    environment: str | None = None
    """For runs that name none."""
    agent: str | None = None
    """For runs that name none."""
    model: str | None = None
    """For runs that name none."""
    success_threshold: float | None = None
    """Reward from which on a run counts as solved; each format's own rule where not given."""
    map: Mapping[str, str] = field(default_factory=dict)
    """For tables: our field = their column."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetRecipe:
    """A table ``[[dataset]]``: one training set, in a folder of its own."""

    kind: str
    """What the set is for: ``sft``, ``dpo``, ``kto``, ``reward``, ``prompts`` or ``grpo``."""
    to: str
    """The trainer whose shape is written."""
    name: str = ""
    """Name of its folder."""
    split: str | None = None
    """The split that its tasks come from. Needed where there is a ``[split]``; none else."""
    format: Format | None = None
    """``parquet`` or ``jsonl``; what the trainer prefers where not given."""
    allow_empty: bool = False
    """Whether a set without a row is no error."""
    stages: tuple[RecipeStage, ...] = ()
    """Its own ``[[dataset.select]]``, behind those of the recipe."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """What its kind reads beside that, such as ``options``."""
    table: Table
    """Where it stands."""

    @property
    def writes(self) -> SetKind:
        """How such a set is written."""
        return KINDS[self.kind]


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """A recipe, checked."""

    path: Path
    """The file."""
    table: Table
    """The whole of it."""
    store: str | None = None
    """The store: a folder relative to the recipe, or a URI."""
    output: str | None = None
    """Folder of the sets, relative to the recipe."""
    snapshot: int | str | None = None
    """Number or pin of the snapshot to read."""
    seed: int | None = None
    """Seed of every stage that draws and says none of its own."""
    imports: ImportRecipe | None = None
    """The table ``[import]``."""
    split: SplitRecipe | None = None
    """The table ``[split]``."""
    stages: tuple[RecipeStage, ...] = ()
    """The tables ``[[select]]``: stages that every set begins with."""
    datasets: tuple[DatasetRecipe, ...]
    """The tables ``[[dataset]]``."""
    contents: Mapping[str, Any]
    """What decides the sets, as written: everything but where things lie (``store``, ``output``,
    ``import``) and which snapshot is read."""

    @property
    def digest(self) -> str:
        """SHA-256 of the contents, whatever the order of keys, spaces and comments."""
        return hashlib.sha256(canonical_json(self.contents).encode()).hexdigest()

    def error(self, message: str, *keys: str | int) -> TrajstoreError:
        """An error about the recipe, or about a key of it."""
        return self.table.error(message, *keys)

    def store_uri(self) -> str:
        """Where the store lies, as seen from here.

        Raises:
            RecipeError: the recipe does not say.
        """
        if self.store is None:
            raise self.error('The recipe needs store = the folder or URI of one, such as "pool".')
        return self.located(self.store)

    def output_folder(self) -> Path:
        """Where the sets go, as seen from here.

        Raises:
            RecipeError: the recipe does not say, or names a URI.
        """
        if self.output is None:
            raise self.error('The recipe needs output = the folder of its sets, such as "sets".')
        if "://" in self.output:
            message = (
                f"The sets go into a local folder, not to {self.output}; copy them from there."
            )
            raise self.error(message, "output")
        return Path(self.located(self.output))

    def located(self, path: str) -> str:
        """A path of the recipe as seen from here; a URI stays."""
        return path if "://" in path else str(self.path.parent / path)


def read_recipe(path: str | Path) -> Recipe:
    """Read and check a recipe; no store is opened.

    Raises:
        RecipeError: it cannot be read, or something in it is unknown, missing or does not fit; the
            message begins with file and line.
    """
    file = Path(path)
    return _recipe(read_toml(file, "recipe", RecipeError), file)


def _recipe(top: Table, file: Path) -> Recipe:
    top.known((*_PLACES, "seed", "split", "select", "dataset"))
    seed = top.value("seed", int) if "seed" in top.values else None
    imports = top.table("import").made(ImportRecipe) if "import" in top.values else None
    if imports and "snapshot" in top.values:
        message = (
            "A snapshot is what was there then, so what [import] brings would not be in it: leave "
            "one of the two out."
        )
        raise top.error(message, "snapshot")
    if "select" in top.values and isinstance(top.values["select"], dict):
        raise top.error("Stages are a list of tables: write [[select]], not [select].", "select")
    split = top.table("split").made(SplitRecipe) if "split" in top.values else None
    stages = stages_of(top, "select", seed=seed, folder=file.parent)
    datasets = tuple(_dataset(t, seed, split, file.parent) for t in top.tables("dataset"))
    if not datasets:
        raise top.error('The recipe makes no set: add a [[dataset]] with kind = "sft".')
    _told_apart(datasets)
    given = {n: top.value(n, str) for n in ("store", "output") if n in top.values}
    if "snapshot" in top.values:
        given["snapshot"] = top.value("snapshot", int | str)
    return Recipe(
        path=file,
        table=top,
        seed=seed,
        imports=imports,
        split=split,
        stages=stages,
        datasets=datasets,
        contents={k: v for k, v in top.values.items() if k not in _PLACES},
        **given,
    )


def _dataset(
    table: Table, seed: int | None, split: SplitRecipe | None, folder: Path
) -> DatasetRecipe:
    kind = _kind(table)
    own = ("name", "kind", "to", "split", "format", "allow_empty")
    table.known((*own, "select", *KINDS[kind].keys))
    settings = KINDS[kind].settings(table, seed)
    made = table.made(
        DatasetRecipe,
        others=True,
        stages=stages_of(table, "select", seed=seed, folder=folder),
        settings=settings,
        table=table,
        **({} if "name" in table.values else {"name": kind}),
        **({} if "to" in table.values else {"to": KINDS[kind].targets()[0]}),
    )
    _check_target(made)
    _check_split(made, split)
    if not _FOLDER.fullmatch(made.name):
        message = f"The name '{made.name}' is no folder's: use letters, digits, '.', '_' and '-'."
        raise table.error(message, "name")
    return made


def _kind(table: Table) -> str:
    if "kind" not in table.values:
        raise table.error(f"{table.title} needs 'kind': one of {', '.join(KINDS)}.")
    kind: str = table.value("kind", str)
    if kind not in KINDS:
        raise table.error(unknown(f"There is no kind '{kind}'", kind, KINDS), "kind")
    return kind


def _check_target(made: DatasetRecipe) -> None:
    known = made.writes.targets()
    if made.to not in known:
        what = f"A set of kind '{made.kind}' cannot be written for '{made.to}'"
        raise made.table.error(unknown(what, made.to, known), "to")


def _check_split(made: DatasetRecipe, split: SplitRecipe | None) -> None:
    names = split.names() if split else ()
    if made.split is None and split:
        message = (
            f"The set '{made.name}' does not say its split, and none is taken by itself: write "
            f"split = one of {', '.join(names)}."
        )
        raise made.table.error(message)
    if made.split is not None and made.split not in names:
        what = f"There is no split '{made.split}'"
        message = (
            unknown(what, made.split, names)
            if split
            else f"{what}, as the recipe has no table [split] with shares = {{ val = 0.1 }}."
        )
        raise made.table.error(message, "split")


def _told_apart(datasets: tuple[DatasetRecipe, ...]) -> None:
    seen: set[str] = set()
    for made in datasets:
        if made.name.lower() in seen:
            message = f"There are two sets '{made.name}': give one of them another name."
            raise made.table.error(message, "name" if "name" in made.table.values else "kind")
        seen.add(made.name.lower())
