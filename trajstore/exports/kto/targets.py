"""The trainers that read KTO rows: TRL and LLaMA-Factory."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

from trajstore.errors import ExportError
from trajstore.exports.conversation import Unfit
from trajstore.exports.files import Format, Kind
from trajstore.exports.kto.rows import KtoOptions, KtoRow, refused
from trajstore.exports.llama_factory import TARGET as LLAMA_FACTORY
from trajstore.exports.llama_factory import dataset_info, turns_of
from trajstore.exports.target import Described, Record
from trajstore.exports.trl_masks import TRAINER_FILE, TRAINERS
from trajstore.exports.writing import Refused

PROVENANCE: Mapping[str, Kind] = {
    "trajectory_id": "string",
    "task_id": "string",
    "value": "double",
}
"""Columns that say where a row comes from, and the value that made the label."""


class KtoTarget(Described, ABC):
    """One trainer. It turns a row into what it reads, or refuses it."""

    def prepare(self, options: KtoOptions) -> KtoOptions:
        """The options with what the target leaves no choice about."""
        return options

    @abstractmethod
    def columns(self) -> Mapping[str, Kind]:
        """Columns of a record, in order."""

    @abstractmethod
    def record(self, row: KtoRow) -> Record:
        """The row as the target reads it.

        Raises:
            Unfit: it cannot; the reason is among :attr:`refusals`.
        """

    def record_or_refusal(self, row: KtoRow) -> Record | Refused:
        """The row as the target reads it, or why it cannot."""
        try:
            return self.record(row)
        except Unfit as unfit:
            return refused(row.trajectory_id, unfit, self.refusals)


class TrlKto(KtoTarget):
    """``prompt``, ``completion``, ``label``, with a mask beside."""

    name: ClassVar[str] = "trl"
    title: ClassVar[str] = "TRL `KTOTrainer`"
    formats: ClassVar[tuple[Format, ...]] = ("parquet", "jsonl")
    usage: ClassVar[str] = """```python
import sys

from datasets import load_dataset
from trl import KTOConfig

sys.path.insert(0, "path/to/this/folder")
from trl_masks import MaskedKTOTrainer

rows = load_dataset("path/to/this/folder", split="train")
config = KTOConfig(max_length=None)
MaskedKTOTrainer("model", args=config, train_dataset=rows).train()
```

**Do not train on this folder with a plain `KTOTrainer` where a completion holds more than one
message.** It puts loss on everything behind the prompt, so on tool results and on what users say,
which the model did not choose. `trainable` says for each message of the completion whether loss may
fall on it; `MaskedKTOTrainer` in `trl_masks.py` is TRL's trainer with exactly that mask. It needs a
chat template with `{% generation %}`; TRL brings one for the families that it knows. `max_length`
is 1024 unless set, which cuts most trajectories.
"""

    def columns(self) -> Mapping[str, Kind]:
        """Messages as JSON values, the label, and the mask."""
        return {
            "prompt": "json-list",
            "completion": "json-list",
            "label": "bool",
            "tools": "string",
            "trainable": "bool-list",
            **PROVENANCE,
        }

    def record(self, row: KtoRow) -> Record:
        """The row as it is."""
        return Record(values={n: getattr(row, n) for n in self.columns()})

    def files(self, data: str) -> Mapping[str, str]:
        """The trainer that uses the mask."""
        del data
        return {TRAINER_FILE: TRAINERS}


class LlamaFactoryKto(KtoTarget):
    """Turns that alternate, and ``kto_tag``."""

    name: ClassVar[str] = "llama-factory"
    title: ClassVar[str] = "LLaMA-Factory `kto` (`kto_tag`)"
    formats: ClassVar[tuple[Format, ...]] = ("jsonl",)
    usage: ClassVar[str] = """```yaml
stage: kto
dataset_dir: path/to/this/folder
dataset: trajstore
```

The tag judges the last turn of a row, and loss falls on that turn alone. Set `cutoff_len`, which is
2048 unless set and cuts most trajectories.
"""
    refusals: ClassVar[Mapping[str, str]] = {
        "several-turns": "LLaMA-Factory's KTO judges the last turn alone, and the verdict is on "
        "the whole run; export to trl, which takes all turns",
        **LLAMA_FACTORY.refusals,
    }
    rules: ClassVar[Mapping[str, str]] = LLAMA_FACTORY.rules

    def prepare(self, options: KtoOptions) -> KtoOptions:
        """Arguments as objects: LLaMA-Factory writes them as its template wants."""
        return replace(options, arguments="object")

    def columns(self) -> Mapping[str, Kind]:
        """Turns, and the tag."""
        return {
            "conversations": "json-list",
            "kto_tag": "bool",
            "system": "string",
            "tools": "string",
            **PROVENANCE,
        }

    def record(self, row: KtoRow) -> Record:
        """Runs of a single agent turn."""
        if len(row.completion) > 1:
            raise Unfit("several-turns", f"{len(row.completion)} messages follow the prompt")
        applied: Counter[str] = Counter()
        system, turns = turns_of([*row.prompt, *row.completion], applied)
        values: dict[str, Any] = {
            "conversations": turns,
            "kto_tag": row.label,
            "system": system,
            "tools": row.tools or "",
            **{n: getattr(row, n) for n in PROVENANCE},
        }
        return Record(values=values, applied=applied)

    def files(self, data: str) -> Mapping[str, str]:
        """``dataset_info.json`` with the one data set ``trajstore``."""
        return dataset_info(data, kto_tag="kto_tag")


KTO_TARGETS: Mapping[str, KtoTarget] = {t.name: t for t in (TrlKto(), LlamaFactoryKto())}
"""Name -> target."""


def kto_target(name: str) -> KtoTarget:
    """The target of that name.

    Raises:
        ExportError: there is none.
    """
    if name not in KTO_TARGETS:
        known = ", ".join(KTO_TARGETS)
        raise ExportError(f"there is no kto export to {name!r}; known are {known}")
    return KTO_TARGETS[name]
