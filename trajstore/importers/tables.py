"""Tables of conversations: Parquet, Arrow, and JSON rows as people publish them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar

from trajstore.importers import (
    adp,
    anthropic_messages,
    hermes,
    openai_chat,
    openai_responses,
    sharegpt,
)
from trajstore.importers.adp_sft import is_adp_sft
from trajstore.importers.chat_importer import ChatImporter
from trajstore.importers.chat_record import ChatRecord, chat_record, is_conversation, is_turn
from trajstore.importers.chat_trajectory import Conversation
from trajstore.importers.importer import Importer
from trajstore.importers.items import ImportOptions, Item
from trajstore.importers.source import Record, Source
from trajstore.importers.table_rows import TableRows
from trajstore.importers.well_known import column_names


class TablesImporter(ChatImporter):
    """Rows with a column of messages, of any chat format; see :class:`ChatImporter` for identity.

    The column is found by its content: a list of messages, of ShareGPT turns or of Responses items,
    or the JSON text of one. Other columns go to our fields by well-known names or by the user's
    mapping, and the rest to ``metadata``. Success comes only from such a column. Without a mapping,
    rows of the Agent Data Protocol (standard, raw and SFT) are read as its own importer reads them.
    """

    name: ClassVar[str] = "tables"
    title: ClassVar[str] = "Tables of conversations: Parquet, Arrow, JSON rows"
    reads: ClassVar[str] = (
        "a column of messages or of chosen and rejected ones; other columns by well-known names or "
        "by the mapping; success only from a column"
    )

    def detect(self, source: Source) -> float:
        """0.5 for Parquet or Arrow with conversations, 0.1 without; 0.3 for JSON rows with them."""
        if source.shape in {"parquet", "arrow"}:
            return 0.5 if self._finds(TableRows(source).sample) else 0.1
        if source.shape not in {"array", "lines"} or is_turn(source.first):
            return 0.0
        return 0.3 if self._finds(source.sample) else 0.0

    def _finds(self, rows: list[Any]) -> bool:
        return any(
            isinstance(row, Mapping) and (_owner(row) is not None or self.find(row) is not None)
            for row in rows
        )

    def read(self, source: Source, options: ImportOptions) -> Iterator[Item]:
        """Every row; where no row at the start has a conversation, one problem for them all."""
        rows = TableRows(source) if source.shape in {"parquet", "arrow"} else source
        named = {"messages", "completion", "chosen"} & set(options.mapping)
        if (
            isinstance(rows, TableRows)
            and rows.sample
            and not named
            and not self._finds(rows.sample)
        ):
            reason = (
                f"no column holds a conversation; columns: {', '.join(rows.columns)}. If one does, "
                "name it: mapping messages=COLUMN"
            )
            yield self.problem(source, reason)
            return
        yield from super().read(rows, options)

    def columns(self, source: Source) -> list[str]:
        """Names of all columns, also those inside structs and JSON text."""
        inside = column_names(source.sample)
        named = source.columns if isinstance(source, TableRows) else []
        return list(dict.fromkeys([*named, *inside]))

    def convert(self, source: Source, record: Record, options: ImportOptions) -> Iterable[Item]:
        """The runs of a row; a row of ADP's forms is the very run that ADP's importer reads."""
        owner = None if options.mapping else _owner(record.value)
        if owner is not None:
            return owner.convert(source, record, options)
        return super().convert(source, record, options)

    def find(self, row: Mapping[str, Any]) -> ChatRecord | None:
        """The conversations of a row by usual names, else in any column, the longest first."""
        opened = {name: _opened(value) for name, value in row.items()}
        found = openai_responses.IMPORTER.find(opened) or chat_record(opened)
        if found is not None:
            return found
        lists = {n: v for n, v in opened.items() if is_conversation(v)}
        if not lists:
            return None
        name = max(lists, key=lambda n: len(lists[n]))
        return ChatRecord(conversations=(lists[name],), used=frozenset({name}))

    def conversation(self, messages: list[Any], row: Mapping[str, Any]) -> Conversation:
        """Steps of messages, read by the importer of their own format."""
        plain = [_plain(m) for m in messages]
        reader = _reader(plain)
        if reader is openai_responses.IMPORTER:
            row = {name: _opened(value) for name, value in row.items()}
        return reader.conversation(plain, row)


def _owner(row: Any) -> Importer | None:
    """The importer of rows that hold runs with an identity of their own in another format."""
    if is_adp_sft(row):
        return sharegpt.IMPORTER
    return None if adp.kind_of(row) is None else adp.IMPORTER


def _reader(messages: list[Any]) -> ChatImporter:
    """The importer of the format that the messages have."""
    if openai_responses.is_items(messages):
        return openai_responses.IMPORTER
    if hermes.has_tags(messages):
        return hermes.IMPORTER
    if any(isinstance(m, Mapping) and "from" in m for m in messages):
        return sharegpt.IMPORTER
    if anthropic_messages.is_marked(messages):
        return anthropic_messages.IMPORTER
    return openai_chat.IMPORTER


def _opened(value: Any) -> Any:
    """The value of JSON text of a list or object, also of a list of such texts."""
    if isinstance(value, list) and value and all(isinstance(v, str) for v in value):
        found = [_opened(v) for v in value]
        return found if is_conversation(found) else value
    if not isinstance(value, str) or value[:1] not in {"[", "{"}:
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value


def _plain(message: Any) -> Any:
    """A message whose text and calls stand where chat messages have them."""
    if not isinstance(message, Mapping):
        return message
    plain = dict(message)
    if "role" in plain and "content" not in plain:
        name = next((n for n in ("text", "value", "system_prompt") if plain.get(n)), None)
        if name is not None:
            plain["content"] = plain.pop(name)
    for name in ("tool_calls", "function_call"):
        if name in plain:
            plain[name] = _opened(plain[name])
    return plain


IMPORTER = TablesImporter()
