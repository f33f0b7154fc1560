"""axolotl: ``type: chat_template`` with a flag on every message: train on it or not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar

from trajstore.exports.files import Format, Kind
from trajstore.exports.sft import Refusal, SftOptions, SftRow
from trajstore.exports.target import PROVENANCE, Record, SftTarget, provenance
from trajstore.exports.verl import unreadable_arguments


class AxolotlTarget(SftTarget):
    """``messages`` with ``training`` on each, and ``tools`` as JSON text."""

    name: ClassVar[str] = "axolotl"
    title: ClassVar[str] = "axolotl (`type: chat_template`)"
    formats: ClassVar[tuple[Format, ...]] = ("jsonl", "parquet")
    usage: ClassVar[str] = """```yaml
datasets:
  - path: path/to/this/folder
    split: train
    type: chat_template
    field_messages: messages
    field_tools: tools
    message_field_training: training
sequence_len: 32768
```

Give the folder and not the file: only then the card above keeps absent keys absent. Arguments are
JSON text, which axolotl parses after it has removed every null: as objects they would lose theirs.
"""

    def prepare(self, options: SftOptions) -> SftOptions:
        """Arguments as text, and masked turns kept with ``training: false``."""
        return replace(super().prepare(options), arguments="text", masked_turns="keep")

    def columns(self, options: SftOptions) -> Mapping[str, Kind]:
        """Messages, and the tools as text."""
        del options
        return {"messages": "json-list", "tools": "string", **PROVENANCE}

    def record(self, row: SftRow, options: SftOptions) -> Record | Refusal:
        """Each message with its flag."""
        del options
        refusal = unreadable_arguments(row)
        if refusal is not None:
            return refusal
        flagged = [
            {**m, "training": trained}
            for m, trained in zip(row.messages, row.trainable, strict=True)
        ]
        return Record(values={"messages": flagged, "tools": row.tools, **provenance(row)})


TARGET = AxolotlTarget()
"""The target of this module."""
