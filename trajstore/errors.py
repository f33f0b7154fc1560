"""Every exception that trajstore raises on purpose, in one tree.

::

    TrajstoreError
    ├── StoreError              the store on disk
    │   ├── StoreNotFoundError      no store at that path
    │   ├── StoreFormatError        a store this version cannot read
    │   ├── SnapshotError           a snapshot that does not exist or was broken by a delete
    │   ├── CorruptStoreError       files that the log names are missing or damaged
    │   └── WriteError              an append that could not be made durable
    ├── QueryError              SQL that may not or cannot run
    ├── SchemaError             rows that do not fit the schema
    ├── ImportFormatError       no importer fits, or the named one does not exist
    ├── RecordError             one record that cannot be read (strict mode raises it)
    ├── SelectionError          a selection that cannot be made: unknown stage, bad parameter
    ├── PairError               pairs, groups or credit that cannot be built as asked
    ├── ExportError             a set that cannot be expressed for that trainer
    ├── RecipeError             a recipe of training sets that cannot be read or followed
    ├── JudgeError              a rubric that cannot be used, or a verdict that cannot be read
    ├── TrainingError           rows that cannot be trained on, or a run that has gone wrong
    ├── EndpointError           a model endpoint that refuses, fails or does not answer
    ├── ContextFullError        a conversation that is longer than its model can read
    ├── RetrievalError          an index or embedder that cannot serve, a search that makes no sense
    ├── SandboxError            code that cannot be locked in, or not started
    ├── SkillError              a skill that cannot be kept, found or removed as asked
    ├── MemoryItemError         the same of a reflection, a workflow or an insight
    └── MissingDependencyError  an optional package that an extra brings
"""

from __future__ import annotations

from pathlib import Path


class TrajstoreError(Exception):
    """Root of all errors that trajstore raises on purpose.

    The message says what was wrong, where, and what to do. ``path``, ``line`` and ``record`` repeat
    the place for programs.
    """

    def __init__(
        self,
        message: str,
        *,
        path: str | Path | None = None,
        line: int | None = None,
        record: str | None = None,
    ) -> None:
        """Keep the message and the place it speaks of."""
        super().__init__(message)
        self.path = str(path) if path is not None else None
        self.line = line
        self.record = record


class StoreError(TrajstoreError):
    """Something is wrong with the store itself."""


class StoreNotFoundError(StoreError):
    """There is no store at the given path."""


class StoreFormatError(StoreError):
    """The store was written by a version, or with features, that this version cannot read."""


class SnapshotError(StoreError):
    """The snapshot does not exist, or a delete has broken it."""


class CorruptStoreError(StoreError):
    """Files that the log names are missing or damaged."""


class WriteError(StoreError):
    """An append did not become durable; nothing of it is visible."""


class QueryError(TrajstoreError):
    """A query is not allowed or failed."""


class SchemaError(TrajstoreError):
    """Rows do not fit the declared schema."""


class ImportFormatError(TrajstoreError):
    """No importer recognises the input, or the named format does not exist."""


class RecordError(TrajstoreError):
    """One record could not be read; raised only in strict mode."""


class SelectionError(TrajstoreError):
    """A selection cannot be made, read or written as asked."""


class PairError(TrajstoreError):
    """Pairs, groups or credit cannot be built as asked."""


class ExportError(TrajstoreError):
    """A selection cannot be expressed in the shape that was asked for."""


class RecipeError(TrajstoreError):
    """A recipe of training sets cannot be read or followed; ``path`` and ``line`` say where."""


class JudgeError(TrajstoreError):
    """A rubric cannot be used, or a judge's answer cannot be read."""


class TrainingError(TrajstoreError):
    """Rows cannot be made or trained on as asked, or a run diverged or ran out of memory."""


class EndpointError(TrajstoreError):
    """A model endpoint refuses, fails, or does not answer in time."""


class ContextFullError(TrajstoreError):
    """A conversation is longer than the model can read; an attempt ends there, truncated."""


class RetrievalError(TrajstoreError):
    """An index or an embedder cannot serve, or a search cannot be made as asked."""


class SandboxError(TrajstoreError):
    """Code cannot be locked in on this machine, or a command cannot be started."""


class SkillError(TrajstoreError):
    """A skill cannot be kept, found, served or removed as asked."""


class MemoryItemError(TrajstoreError):
    """A reflection, workflow or insight cannot be kept, found or changed as asked."""


class MissingDependencyError(TrajstoreError):
    """An optional dependency is missing; the message names the extra that brings it."""
