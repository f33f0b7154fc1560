"""Build: the whole line from a store to training sets, as one recipe tells it."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import trajstore
from trajstore.errors import TrajstoreError
from trajstore.exports import ExportReport
from trajstore.filters import Selection, Stage, run_stages, stage
from trajstore.importers import ImportOptions
from trajstore.pipeline.importing import ImportReport, Progress, import_into
from trajstore.pipeline.recipe import DatasetRecipe, Recipe, read_recipe
from trajstore.pipeline.recipe_folder import (
    MANIFEST,
    BuiltFile,
    OutputFolder,
    State,
    differences,
    files_below,
)
from trajstore.pipeline.recipe_stages import Once, RecipeStage
from trajstore.pipeline.selecting import summary_frame
from trajstore.schema import SCHEMA_VERSION, json_text
from trajstore.store import Reader, Store


@dataclass(frozen=True, slots=True, kw_only=True)
class SetReport:
    """One set of a build."""

    name: str
    """Its name, and that of its folder."""
    kind: str
    """``sft``, ``dpo``, ..."""
    to: str
    """The trainer."""
    split: str | None
    """The split of its tasks."""
    rows: int
    """Rows written."""
    funnel: Sequence[Mapping[str, Any]]
    """One object a stage, from all runs of the snapshot to rows: ``stage``, ``parameters``, ``in``,
    ``out``, ``dropped`` (reason -> count)."""
    manifest: Mapping[str, Any]
    """What its own ``manifest.json`` says."""
    refused: Mapping[str, str] = field(default_factory=dict)
    """Reason for which runs, pairs or tasks gave no row -> why, and what to do about it."""
    files: tuple[BuiltFile, ...] = ()
    """Its files; none where nothing was written."""
    state: State | None = None
    """What has become of its folder; None where nothing was compared."""

    def explain(self) -> str:
        """The funnel as lines of text."""
        width = max(len(s["stage"]) for s in self.funnel)
        lines = []
        for told in self.funnel:
            dropped = ", ".join(f"{reason} {n:,}" for reason, n in told["dropped"].items())
            unit = f" {told['unit']}" if "unit" in told else ""
            counts = f"{told['in']:>9,} -> {told['out']:>9,}{unit}"
            lines.append(f"{told['stage']:<{width}}  {counts}   {dropped}".rstrip())
        return "\n".join(lines)


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildReport:
    """What a build made."""

    output: Path
    """Folder of the sets."""
    snapshot: int
    """The snapshot that was read."""
    sets: tuple[SetReport, ...]
    """The sets, in order of the recipe."""
    changes: Mapping[str, State] = field(default_factory=dict)
    """Files that differ from what was there, by path in the folder; empty where every byte is the
    same, and in a plan."""
    manifest: Mapping[str, Any] = field(default_factory=dict)
    """What ``manifest.json`` at the root says; empty in a plan."""
    imported: ImportReport | None = None
    """What ``[import]`` brought, where it ran."""


OnSet = Callable[[SetReport], None]
"""Called when a set is complete."""


def build(
    recipe: str | Path | Recipe,
    *,
    store: Store | None = None,
    output: str | Path | None = None,
    progress: Progress | None = None,
    on_set: OnSet | None = None,
) -> BuildReport:
    """Import, split, select and write every set of a recipe.

    The output folder appears or is replaced as a whole, once all sets are complete; it is left
    alone where every byte would be the same. The same recipe over the same snapshot gives the same
    bytes, on any machine, at any time.

    Args:
        recipe: the file, or what :func:`read_recipe` made of it.
        store: in the place of the one that the recipe names.
        output: folder in the place of the one that the recipe names.
        progress: called before each file of the import.
        on_set: called when a set is complete.

    Raises:
        RecipeError: the recipe cannot be read or followed, or a set ends without a row; the message
            begins with file and line.
        StoreNotFoundError: there is no store, and nothing to import.
    """
    found = recipe if isinstance(recipe, Recipe) else read_recipe(recipe)
    folder = OutputFolder(_output(found, output))
    folder.check()
    pool = store or Store(found.store_uri(), create=found.imports is not None)
    imported = _import(found, pool, progress)
    with folder.staging() as staged:
        report = _Build(found, pool).sets(folder, staged, on_set)
        if report.changes:
            folder.publish()
    return replace(report, imported=imported)


def check_build(
    recipe: str | Path | Recipe,
    *,
    store: Store | None = None,
    output: str | Path | None = None,
    on_set: OnSet | None = None,
) -> BuildReport:
    """Compare what lies on disk with what the recipe gives now; :attr:`BuildReport.changes`.

    Nothing is imported: the store is read as it is. Nothing is kept of what is made to compare.

    Args:
        recipe: as in :func:`build`.
        store: as in :func:`build`.
        output: as in :func:`build`.
        on_set: as in :func:`build`.

    Raises:
        RecipeError: as in :func:`build`.
        StoreNotFoundError: there is no store.
    """
    found = recipe if isinstance(recipe, Recipe) else read_recipe(recipe)
    pool = store or Store(found.store_uri(), create=False)
    folder = OutputFolder(_output(found, output))
    with folder.staging() as staged:
        return _Build(found, pool).sets(folder, staged, on_set)


def plan_build(
    recipe: str | Path | Recipe,
    *,
    store: Store | None = None,
    output: str | Path | None = None,
    on_set: OnSet | None = None,
) -> BuildReport:
    """Count what :func:`build` would write: the funnel of every set, and no file.

    Nothing is imported, and an empty set is no error.

    Args:
        recipe: as in :func:`build`.
        store: as in :func:`build`.
        output: as in :func:`build`.
        on_set: as in :func:`build`.

    Raises:
        RecipeError: the recipe cannot be read or followed.
        StoreNotFoundError: there is no store.
    """
    found = recipe if isinstance(recipe, Recipe) else read_recipe(recipe)
    work = _Build(found, store or Store(found.store_uri(), create=False))
    sets = []
    for dataset in found.datasets:
        sets.append(work.counted(dataset))
        if on_set is not None:
            on_set(sets[-1])
    return BuildReport(
        output=_output(found, output), snapshot=work.reader.snapshot.version, sets=tuple(sets)
    )


def _output(recipe: Recipe, given: str | Path | None) -> Path:
    return recipe.output_folder() if given is None else Path(given)


def _import(recipe: Recipe, store: Store, progress: Progress | None) -> ImportReport | None:
    said = recipe.imports
    if said is None:
        return None
    options = ImportOptions(
        environment=said.environment,
        agent=said.agent,
        model=said.model,
        success_threshold=said.success_threshold,
        mapping=said.map,
    )
    try:
        return import_into(
            store,
            [recipe.located(p) for p in said.paths],
            format=said.format,
            options=options,
            strict=said.strict,
            redact=said.redact,
            progress=progress,
        )
    except TrajstoreError as error:
        raise recipe.error(f"The import failed: {error}", "import") from error


class _Build:
    """The sets of one recipe over one snapshot; stages that sets share are asked once."""

    def __init__(self, recipe: Recipe, store: Store) -> None:
        self.recipe = recipe
        self.store = store
        self.reader = self._reader()
        self._frame = summary_frame(self.reader)
        said = recipe.table.table("split")
        split = recipe.split.stages() if recipe.split else ()
        self._split: list[Stage] = [Once(RecipeStage(inner=s, table=said)) for s in split]
        self._shared: dict[str | None, list[Stage]] = {}

    def _reader(self) -> Reader:
        if self.recipe.snapshot is None:
            return self.store.reader()
        try:
            return self.store.at(self.recipe.snapshot)
        except TrajstoreError as error:
            raise self.recipe.error(str(error), "snapshot") from error

    def sets(self, folder: OutputFolder, staged: Path, on_set: OnSet | None) -> BuildReport:
        """Write every set and the manifest to the staged folder, and compare."""
        there = files_below(folder.place) if folder.place.exists() else {}
        made = []
        for dataset in self.recipe.datasets:
            done = self._compared(self.made(dataset, staged / dataset.name), staged, there)
            made.append(done)
            if on_set is not None:
                on_set(done)
        manifest = self._manifest(made)
        text = json.dumps(manifest, indent=2, ensure_ascii=False) + "\n"
        (staged / MANIFEST).write_text(text, encoding="utf-8", newline="\n")
        return BuildReport(
            output=folder.place,
            snapshot=self.reader.snapshot.version,
            sets=tuple(made),
            changes=differences(there, files_below(staged)),
            manifest=manifest,
        )

    def counted(self, dataset: DatasetRecipe) -> SetReport:
        """Count one set; what is written on the way is gone afterwards."""
        with tempfile.TemporaryDirectory() as folder:
            return self._written(dataset, Path(folder) / dataset.name)

    def made(self, dataset: DatasetRecipe, out: Path) -> SetReport:
        """Write one set.

        Raises:
            RecipeError: it cannot be made, or it has no row.
        """
        report = self._written(dataset, out)
        if not report.rows and not dataset.allow_empty:
            message = (
                f"The set '{dataset.name}' ends without a row:\n{report.explain()}\nLoosen the "
                "stage that leaves none, or write allow_empty = true."
            )
            raise dataset.table.error(message)
        return report

    def _written(self, dataset: DatasetRecipe, out: Path) -> SetReport:
        try:
            done = dataset.writes.write(
                self.store,
                out,
                self._selection(dataset),
                to=dataset.to,
                format_=dataset.format,
                settings=dataset.settings,
            )
        except TrajstoreError as error:
            if error.path == dataset.table.source.name:  # it names its line already
                raise
            message = f"The set '{dataset.name}' cannot be made: {error}"
            raise dataset.table.error(message) from error
        return _reported(dataset, done)

    def _selection(self, dataset: DatasetRecipe) -> Selection:
        if dataset.split not in self._shared:
            self._shared[dataset.split] = [Once(s) for s in self._first(dataset)]
        stages = [*self._split, *self._shared[dataset.split], *dataset.stages]
        return run_stages(self._frame, stages, snapshot=self.reader.snapshot.version)

    def _first(self, dataset: DatasetRecipe) -> list[Stage]:
        """The stages that all sets of a split share, behind the split itself."""
        if dataset.split is None:
            return list(self.recipe.stages)
        only = RecipeStage(inner=stage("only-split", split=dataset.split), table=dataset.table)
        return [only, *self.recipe.stages]

    def _compared(self, made: SetReport, staged: Path, there: Mapping[str, BuiltFile]) -> SetReport:
        mine = f"{made.name}/"
        now = {f"{mine}{n}": f for n, f in files_below(staged / made.name).items()}
        now = {name: replace(file, name=name) for name, file in now.items()}
        before = {name: file for name, file in there.items() if name.startswith(mine)}
        changed: State = "changed" if differences(before, now) else "unchanged"
        return replace(made, files=tuple(now.values()), state=changed if before else "new")

    def _manifest(self, sets: Sequence[SetReport]) -> dict[str, Any]:
        return {
            "kind": "build",
            "recipe_sha256": self.recipe.digest,
            "snapshot": self.reader.snapshot.version,
            "evaluators": self.store.evaluator_ranking(),
            "trajstore_version": trajstore.__version__,
            "schema_version": SCHEMA_VERSION,
            "recipe": json.loads(json_text(self.recipe.contents)),
            "sets": [_described(s) for s in sets],
        }


def _reported(dataset: DatasetRecipe, done: ExportReport) -> SetReport:
    return SetReport(
        name=dataset.name,
        kind=dataset.kind,
        to=dataset.to,
        split=dataset.split,
        rows=done.rows,
        funnel=done.manifest["selection_funnel"],
        manifest=done.manifest,
        refused=done.reasons,
    )


def _described(made: SetReport) -> dict[str, Any]:
    """A set in the manifest of its build."""
    rows = {f"{made.name}/{f['name']}": f["rows"] for f in made.manifest["files"]}
    files = []
    for file in made.files:
        counted = {"rows": rows[file.name]} if file.name in rows else {}
        files.append({**asdict(file), **counted})
    return {
        "name": made.name,
        "kind": made.kind,
        "to": made.to,
        "split": made.split,
        "rows": made.rows,
        "ids_sha256": made.manifest["ids_sha256"],
        "funnel": [dict(s) for s in made.funnel],
        "files": files,
    }
