"""Steps of a Codex run from a stream of items: where one model call ends and the next begins."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from trajstore.importers.building import Draft, StepBuilder
from trajstore.schema import Actor, Observation, Step, ToolCall, json_text_or_none


class Turns:
    """Collects items into steps.

    Codex writes the parts of one model call as items of their own. A call ends when its token count
    comes, when somebody else speaks, or when a result is followed by new words of the agent.
    """

    def __init__(self) -> None:
        """Start empty."""
        self.builder = StepBuilder()
        self.running = 0
        """Calls that have started and not ended, where the source says so."""
        self._open: Draft | None = None
        self._calls: dict[str, list[Draft]] = {}

    @property
    def drafts(self) -> list[Draft]:
        """The steps so far, in order."""
        return self.builder.drafts

    def step(self, actor: Actor, text: str | None, **values: Any) -> Draft:
        """Add a step of its own; a model call that was going on has ended."""
        self.close()
        return self.builder.add(actor, text, **values)

    def close(self) -> None:
        """End the model call that is going on."""
        self._open = None

    def agent(self, **values: Any) -> Draft:
        """The step of the model call that is going on; a new one with ``values`` where none is."""
        answered = self._open is not None and self._open.observations and not self.running
        if self._open is None or answered:
            self._open = self.builder.add("agent", **values)
        return self._open

    def call(self, call: ToolCall, **values: Any) -> Draft:
        """Add a tool call to the model call that is going on."""
        draft = self.agent(**values)
        draft.calls.append(call)
        if call.call_id is not None:
            self._calls.setdefault(call.call_id, []).append(draft)
        return draft

    def result(self, observation: Observation) -> Draft:
        """Attach a result to its call: by id, then by order; one without a call is kept."""
        asked = self._calls.get(observation.call_id or "", ())
        draft = next((d for d in asked if d.unanswered(observation.call_id)), None)
        if draft is None:
            return self.builder.observe(observation)
        draft.observations.append(observation)
        return draft

    def knows(self, call_id: str | None) -> bool:
        """Whether a call of that id was made."""
        return call_id in self._calls

    def settle(self, observation: Observation, notes: Mapping[str, Any]) -> None:
        """Complete a known call by what an event said of its end.

        The event's text counts only where no result came; its error flag where the result has none.
        """
        draft = self._calls[observation.call_id or ""][0]
        for index, known in enumerate(draft.observations):
            if known.call_id == observation.call_id:
                if known.is_error is None:
                    draft.observations[index] = replace(known, is_error=observation.is_error)
                break
        else:
            draft.observations.append(observation)
        if notes:
            ends = note(draft).setdefault("tool_results", {})
            ends[observation.call_id] = dict(notes)

    def steps(self) -> tuple[Step, ...]:
        """The finished steps."""
        for draft in self.drafts:
            draft.values["metadata"] = json_text_or_none(draft.values.get("metadata"))
        return self.builder.steps()


def note(draft: Draft, **fields: Any) -> dict[str, Any]:
    """The notes of a step that become its metadata, with ``fields`` added (None is left out)."""
    notes: dict[str, Any] = draft.values.setdefault("metadata", {})
    notes.update({k: v for k, v in fields.items() if v not in (None, [], {})})
    return notes
