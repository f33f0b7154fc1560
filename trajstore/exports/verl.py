"""verl: Parquet whose messages are plain structs, and a data set class for the rest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar

from trajstore.exports.arguments import with_objects
from trajstore.exports.files import Format, Kind
from trajstore.exports.messages import Message
from trajstore.exports.sft import Refusal, SftOptions, SftRow
from trajstore.exports.target import PROVENANCE, Record, SftTarget, provenance

CLASS_FILE = "verl_dataset.py"
"""Name of the file with the data set class."""

_CLASS = '''"""Rows as trajstore had them: tools parsed, arguments as objects, no empty keys."""

import json

from verl.utils.dataset.multiturn_sft_dataset import MultiTurnSFTDataset


class TrajstoreDataset(MultiTurnSFTDataset):
    """verl's multi-turn data set over a file that trajstore wrote."""

    def _read_files_and_process(self):
        super()._read_files_and_process()
        if self.tools is not None:
            self.tools = [json.loads(text) if text else None for text in self.tools]

    def _build_messages(self, example):
        return [_said(message) for message in super()._build_messages(example)]


def _said(message):
    keys = ("role", "content")
    kept = {k: v for k, v in message.items() if k in keys or (v is not None and len(v))}
    for call in kept.get("tool_calls", ()):
        text = call["function"]["arguments"]
        call["function"]["arguments"] = json.loads(text) if text.strip() else {}
    return kept
'''


class VerlTarget(SftTarget):
    """``messages``, ``tools`` and ``enable_thinking`` for verl's multi-turn SFT."""

    name: ClassVar[str] = "verl"
    title: ClassVar[str] = "verl multi-turn SFT"
    formats: ClassVar[tuple[Format, ...]] = ("parquet",)
    usage: ClassVar[str] = """```sh
torchrun ... -m verl.trainer.sft_trainer data.train_files=path/to/this/folder/train.parquet \\
  data.custom_cls.path=path/to/this/folder/verl_dataset.py \\
  data.custom_cls.name=TrajstoreDataset \\
  data.max_length=32768
```

Parquet structs give every message every key, and JSON schemas have no one Arrow type. So an absent
key is an empty text or list here, and `tools` and arguments are JSON text; the class in
`verl_dataset.py` gives verl the messages without empty keys, tools as a list and arguments as
objects. Without the class verl reads rows that have no tools. Loss falls on every assistant
message. `data.max_length` is 1024 unless set, and longer rows are an error.
"""

    def prepare(self, options: SftOptions) -> SftOptions:
        """Arguments as text, since one Arrow type has to hold them all."""
        return replace(super().prepare(options), arguments="text")

    def columns(self, options: SftOptions) -> Mapping[str, Kind]:
        """Structs, and the switch of thinking templates."""
        del options
        return {
            "messages": "message-list",
            "tools": "string",
            "enable_thinking": "bool",
            **PROVENANCE,
        }

    def record(self, row: SftRow, options: SftOptions) -> Record | Refusal:
        """``enable_thinking`` says whether the row holds any reasoning."""
        del options
        refusal = unreadable_arguments(row)
        if refusal is not None:
            return refusal
        values = {
            "messages": [_full(m) for m in row.messages],
            "tools": row.tools or "",
            "enable_thinking": any("reasoning_content" in m for m in row.messages),
            **provenance(row),
        }
        return Record(values=values)

    def files(self, data: str) -> Mapping[str, str]:
        """The data set class."""
        del data
        return {CLASS_FILE: _CLASS}


def unreadable_arguments(row: SftRow) -> Refusal | None:
    """A refusal where arguments as text are no JSON object, which the trainer will parse."""
    try:
        with_objects(row.messages)
    except ValueError as error:
        said = f"{error}. The trainer parses arguments; leave such runs out, or export to openai"
        return Refusal(trajectory_id=row.trajectory_id, reason="arguments", detail=said)
    return None


def _full(message: Message) -> Message:
    empty = {"reasoning_content": "", "tool_calls": [], "name": "", "tool_call_id": ""}
    return {**empty, **message}


TARGET = VerlTarget()
"""The target of this module."""
