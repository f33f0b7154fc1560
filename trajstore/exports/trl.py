"""TRL: ``messages``, or ``prompt`` and ``completion``, with a mask beside them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from trajstore.exports.files import Format, Kind
from trajstore.exports.sft import Layout, SftOptions, SftRow
from trajstore.exports.target import PROVENANCE, Record, SftTarget

_BESIDE: Mapping[str, Kind] = {"tools": "string", "trainable": "bool-list", **PROVENANCE}

SFT_COLUMNS: Mapping[Layout, Mapping[str, Kind]] = {
    "messages": {"messages": "json-list", **_BESIDE},
    "prompt-completion": {"prompt": "json-list", "completion": "json-list", **_BESIDE},
}
"""Layout -> columns of an SFT set for TRL, in order."""


class TrlTarget(SftTarget):
    """Messages as JSON values, which ``datasets`` gives back without padding."""

    name: ClassVar[str] = "trl"
    title: ClassVar[str] = "TRL `SFTTrainer`"
    formats: ClassVar[tuple[Format, ...]] = ("parquet", "jsonl")
    layouts: ClassVar[tuple[Layout, ...]] = tuple(SFT_COLUMNS)
    usage: ClassVar[str] = """```python
from datasets import load_dataset
from trl import SFTConfig, SFTTrainer

rows = load_dataset("path/to/this/folder", split="train")
config = SFTConfig(assistant_only_loss=True, max_length=None)
SFTTrainer("model", args=config, train_dataset=rows).train()
```

`assistant_only_loss` keeps the loss off tool results and needs a chat template with
`{% generation %}`; TRL brings one for the families that it knows. `max_length` is 1024 unless set,
which cuts most trajectories.
"""

    def columns(self, options: SftOptions) -> Mapping[str, Kind]:
        """Those of the layout."""
        return SFT_COLUMNS[options.layout]

    def record(self, row: SftRow, options: SftOptions) -> Record:
        """The row as it is."""
        return Record(values=row.record(options.layout))


TARGET = TrlTarget()
"""The target of this module."""
