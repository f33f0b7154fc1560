"""How judging is asked for, and what it says it did."""

from __future__ import annotations

from dataclasses import dataclass, field

from trajstore.errors import JudgeError
from trajstore.pipeline.transcripts import Cut


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeOptions:
    """How a judge works through the runs."""

    concurrency: int = 4
    """Requests in flight at any moment, at most."""
    budget: int = 48_000
    """Most characters of a quoted run; about four make a token."""
    cut: Cut = "middle"
    """How a longer run is cut, see :func:`quote_run`."""
    asks: int = 3
    """How often one run is put to the judge until its answer can be read."""
    as_outcome: bool = False
    """Write the total as label ``outcome``, so that it decides the effective reward (and success,
    where the rubric has ``pass_at``)."""
    give_up_after: int = 10
    """Stop after this many runs in a row could not be judged."""
    write_every: int = 20
    """Verdicts that are appended together; at most these are lost by a kill."""

    def __post_init__(self) -> None:
        """Check the counts.

        Raises:
            JudgeError: one is below 1.
        """
        for name in ("concurrency", "asks", "give_up_after", "write_every"):
            if getattr(self, name) < 1:
                raise JudgeError(f"{name} must be at least 1, not {getattr(self, name)}.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Unjudged:
    """A run that the judge did not judge."""

    trajectory_id: str
    """The run."""
    reason: str
    """What went wrong."""


@dataclass(slots=True, kw_only=True)
class JudgeReport:
    """What judging did."""

    evaluator: str
    """The evaluator that the labels name: ``llm-judge/RUBRIC/MODEL``."""
    evaluator_version: str
    """The rubric's name, version and hash."""
    snapshot: int
    """Snapshot that was judged."""
    wanted: int = 0
    """Runs that fit the condition."""
    already: int = 0
    """Those that this version of the rubric and this model had judged before, with this content."""
    judged: int = 0
    """Runs judged now."""
    unjudged: list[Unjudged] = field(default_factory=list)
    """Runs that could not be judged; run again to try them again."""
    labels: int = 0
    """Labels written."""
    requests: int = 0
    """Requests that brought an answer, and the retries before them."""
    prompt_tokens: int = 0
    """Tokens read by the judge."""
    completion_tokens: int = 0
    """Tokens written by it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgePlan:
    """What judging would do."""

    evaluator: str
    """The evaluator that the labels would name."""
    evaluator_version: str
    """The rubric's name, version and hash."""
    wanted: int
    """Runs that fit the condition."""
    already: int
    """Those that are judged already."""
    to_judge: int
    """Those that would be judged now."""
    messages: list[dict[str, str]]
    """What the judge would be asked about the first run that is not; empty where all are."""
