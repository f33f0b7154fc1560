"""What sessions of the smaller command-line agents share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, ClassVar

from trajstore.importers.building import StepBuilder, moment
from trajstore.schema import Trajectory, digest, json_text_or_none, trajectory_id

FAMILY = "cli-session"
"""Family of all these sessions; the agent's name stands before the session id."""


class CliSession(ABC):
    """One session while it is being built; a subclass reads the records of one agent."""

    agent: ClassVar[str]
    """Name of the agent that writes such files."""

    def __init__(self) -> None:
        """Start empty."""
        self.builder = StepBuilder()
        self.session: str | None = None
        self.parent: str | None = None
        self.shown: str | None = None
        """Name of the agent, where one form serves several."""
        self.cost_usd: float | None = None
        self.tools: Any = None
        self.header: dict[str, Any] = {}
        self.records: list[Any] = []
        self.counted: Counter[str] = Counter()
        self._times: list[datetime] = []

    @classmethod
    @abstractmethod
    def opens(cls, record: Mapping[str, Any]) -> bool:
        """Whether a record can only be one of this agent's."""

    @abstractmethod
    def add(self, record: Mapping[str, Any]) -> None:
        """Take in one record; raise KeyError, TypeError or ValueError where it is none."""

    def seen(self, value: Any) -> datetime | None:
        """Read a time, and widen the session to it."""
        time = moment(value)
        if time is not None:
            self._times = [min([time, *self._times]), max([time, *self._times])]
        return time

    def keep(self, record: Mapping[str, Any]) -> None:
        """Keep a bookkeeping record as it is."""
        self.records.append(dict(record))

    def key(self) -> str:
        """Identity inside the family: the agent and its session id."""
        return f"{self.agent}/{self.session or digest(self.header, self._goal())[:32]}"

    def _goal(self) -> str | None:
        said = (d.text for d in self.builder.drafts if d.actor == "user")
        return next((text for text in said if text and text.strip()), None)

    def trajectories(self, uri: str) -> Iterator[Trajectory]:
        """The session; nothing where nobody spoke."""
        if not any(d.actor in {"user", "agent"} for d in self.builder.drafts):
            return
        models = Counter(d.values["model"] for d in self.builder.drafts if d.values.get("model"))
        started, ended = self._times or (None, None)
        parent = trajectory_id(FAMILY, f"{self.agent}/{self.parent}") if self.parent else None
        yield Trajectory(
            trajectory_id=trajectory_id(FAMILY, self.key()),
            task_id=self.key(),
            source=FAMILY,
            source_uri=uri,
            goal=self._goal(),
            agent=self.shown or self.agent,
            model=models.most_common(1)[0][0] if models else None,
            tools=json_text_or_none(self.tools),
            parent_id=parent,
            relation="sub-agent" if parent else None,
            cost_usd=self.cost_usd,
            started_at=started,
            ended_at=ended,
            duration_s=(ended - started).total_seconds() if started and ended else None,
            metadata=self._metadata(),
            steps=self.builder.steps(),
        )

    def _metadata(self) -> str | None:
        found = {
            "session": self.header,
            "records": self.records,
            "records_not_kept": dict(self.counted),
        }
        return json_text_or_none({k: v for k, v in found.items() if v})


def notes(value: Mapping[str, Any], *known: str) -> str | None:
    """JSON text of the fields beside ``known``; None where there are none."""
    return json_text_or_none({k: v for k, v in value.items() if k not in known and v is not None})
