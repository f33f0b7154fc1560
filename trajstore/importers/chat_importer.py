"""The base of the importers whose records hold lists of chat messages."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from trajstore.importers.chat_record import ChatRecord, WholeList, chat_record, is_turn
from trajstore.importers.chat_trajectory import (
    Conversation,
    chat_trajectory,
    judged,
    opening,
    stated,
)
from trajstore.importers.importer import Importer, uri
from trajstore.importers.items import ImportOptions, Item
from trajstore.importers.media_columns import with_media
from trajstore.importers.source import Record, Source
from trajstore.importers.well_known import Columns, column_names, mapping_fault
from trajstore.schema import Step


class ChatImporter(Importer):
    """Reads records whose heart is a list of messages; a subclass reads the messages.

    Identity: a column that names the run (``trajectory_id``, ``traj_id``, ``session_id``,
    ``conversation_id``, ``uuid``, ``rollout_id``, or ``run_id`` with its task) decides. A plain
    ``id`` or a row number may be shared by attempts, so it decides together with the task, the
    attempt, the model and everything up to the first answer; a longer version is still the same
    run. Where a record has none of these, its whole content decides. The two sides of a pair always
    differ.

    Task: the column that names it, else the hash of the tools and of all that was given before the
    first answer (for a pair: of the prompt that both share).
    """

    @abstractmethod
    def conversation(self, messages: list[Any], row: Mapping[str, Any]) -> Conversation:
        """Read one conversation.

        Args:
            messages: the messages, at least one.
            row: the record they come from.

        Raises:
            ValueError: it is no conversation of this format.
        """

    def is_bare(self, value: Any) -> bool:
        """Whether the first value of a file says that the whole file is one list of messages."""
        return is_turn(value)

    def find(self, row: Mapping[str, Any]) -> ChatRecord | None:
        """The conversations of a record, or None."""
        return chat_record(row)

    def columns(self, source: Source) -> list[str]:
        """Names of the columns that a mapping may name."""
        return column_names(source.sample)

    def read(self, source: Source, options: ImportOptions) -> Iterator[Item]:
        """Everything the source holds; a bare list of messages is one record."""
        if options.mapping:
            fault = mapping_fault(options.mapping, self.columns(source))
            if fault is not None:
                yield self.problem(source, fault)
                return
        bare = source.shape in {"array", "lines"} and self.is_bare(source.first)
        yield from super().read(WholeList(source) if bare else source, options)

    def convert(self, source: Source, record: Record, options: ImportOptions) -> Iterable[Item]:
        """One trajectory, or the two of a pair, and what the data set says of them."""
        row = {"messages": record.value} if isinstance(record.value, list) else record.value
        if not isinstance(row, Mapping):
            raise TypeError(f"a record is an object or a list of messages, not {row!r:.60}")
        columns = Columns(row, options.mapping)
        view = columns.view()
        found = self.find(view)
        if found is None:
            raise ValueError(f"no conversation in the fields {', '.join(map(str, row))}")
        columns.use(found.used)
        for i, messages in enumerate(found.conversations):
            side = found.sides[i] if found.sides else None
            read = self._shown(self.conversation(messages, view), view)
            if side is not None and not any(s.actor == "agent" for s in read.steps):
                raise ValueError(f"the {side} side has no answer")
            each = Columns(row, options.mapping, set(columns.used))
            prompt = self._prompt(read, messages, found, view)
            built = chat_trajectory(each, found, read, prompt, side)
            yield replace(
                built,
                source=self.name,
                source_uri=uri(source, record),
                success=judged(built, options),
            )
            yield from stated(built.trajectory_id, side, view)

    def _prompt(
        self, read: Conversation, messages: list[Any], found: ChatRecord, view: Mapping[str, Any]
    ) -> tuple[Step, ...]:
        if not found.sides:
            return opening(read.steps)
        shared = messages[: found.prompt_turns]
        return self.conversation(shared, view).steps if shared else ()

    @staticmethod
    def _shown(read: Conversation, view: Mapping[str, Any]) -> Conversation:
        steps, used = with_media(read.steps, view)
        return replace(read, steps=steps, used=read.used | used)
