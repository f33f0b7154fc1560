"""Every column of every table of record: name, Arrow type, unit, nullability, meaning.

This is the only place where a column is declared. The Arrow schemas (:mod:`.tables`), the validator
(:mod:`.validate`) and the reference page ``docs/reference/schema.md`` are made from it.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

TIMESTAMP = pa.timestamp("us", tz="UTC")
"""Points in time: microseconds since 1970 in UTC."""

TOOL_CALL = pa.struct(
    [
        pa.field("call_id", pa.string()),
        pa.field("name", pa.string()),
        pa.field("arguments", pa.string()),
        pa.field("arguments_raw", pa.string()),
    ]
)
"""One call inside a step; ``arguments`` is canonical JSON text, never a typed struct."""

OBSERVATION = pa.struct(
    [
        pa.field("call_id", pa.string()),
        pa.field("text", pa.string()),
        pa.field("is_error", pa.bool_()),
        pa.field("content", pa.string()),
    ]
)
"""One result inside a step."""

ACTORS = ("system", "user", "agent", "environment")
"""Who a step belongs to; ``environment`` is an event or context summary that nobody said."""

STATUSES = ("terminated", "truncated", "error", "running")
"""How a trajectory ended; none of them says whether it succeeded."""

RELATIONS = ("branch", "sub-agent", "continuation", "retry", "rationalization")
"""How a trajectory descends from its ``parent_id``."""

SKILL_STATES = ("pending", "retired")
"""Why a skill is not served: it has to be verified again, or it was taken out."""

MEMORY_STATES = ("stale", "expired", "retired")
"""Why another item of memory is not served: part of what it came from was taken back, it is too
old, or it was taken out."""

INSIGHT_KINDS = ("rule", "reasoning", "strategy", "warning", "skill", "exemplar")
"""What an insight is: ExpeL's rule, ReasoningBank's item, SLEA-RL's strategy or warning, D2Skill's
skill in words, or a run that stays as an example."""

INSIGHT_LEVELS = ("task", "step")
"""What an insight helps with: a whole task, or one step of it."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table of record."""

    name: str
    """The column's name, the same in Arrow, SQL and Python."""
    type: pa.DataType
    """Its Arrow type."""
    meaning: str
    """What a value says, with unit and range."""
    nullable: bool = True
    """Whether null is allowed; null always means unknown or not there."""
    allowed: tuple[str, ...] = ()
    """The only values allowed, where the column is an enumeration."""


def _c(
    name: str,
    type_: pa.DataType,
    meaning: str,
    *,
    null: bool = True,
    allowed: tuple[str, ...] = (),
) -> Column:
    return Column(name=name, type=type_, meaning=meaning, nullable=null, allowed=allowed)


_S, _I32, _I64, _F64, _B = pa.string(), pa.int32(), pa.int64(), pa.float64(), pa.bool_()

TRAJECTORIES: tuple[Column, ...] = (
    _c(
        "trajectory_id", _S, "stable id; importing the same run again gives the same id", null=False
    ),
    _c("task_id", _S, "group key, prefixed by its source or environment", null=False),
    _c("attempt", _I32, "trial number inside the task, where the source has one"),
    _c("goal", _S, "what was asked, in words"),
    _c("source", _S, "the importer or rollout that wrote the row", null=False),
    _c("source_uri", _S, "the file and record it was read from"),
    _c("source_digest", _S, "SHA-256 of the content, hexadecimal"),
    _c("environment", _S, "what the agent acted in"),
    _c("environment_version", _S, "version of the environment, for expiry"),
    _c("agent", _S, "the scaffold around the model"),
    _c("model", _S, "the model that acted"),
    _c("policy_version", _S, "checkpoint or iteration of the policy"),
    _c("parent_id", _S, "trajectory this one descends from"),
    _c("parent_step", _I32, "step of the parent at which it leaves, from 0"),
    _c("relation", _S, "how it descends from its parent", allowed=RELATIONS),
    _c("status", _S, "how the run ended; says nothing of success", allowed=STATUSES),
    _c("error", _S, "technical error that ended the run"),
    _c("termination_reason", _S, "the source's own word for why the run ended"),
    _c(
        "success",
        _B,
        "outcome as the source's own evaluator gave it; null is unknown, never guessed",
    ),
    _c("reward", _F64, "reward of the whole run as given, any range"),
    _c("rewards", pa.map_(_S, _F64), "named components of the reward"),
    _c("tools", _S, "JSON text: the tool definitions offered to the model"),
    _c("n_steps", _I32, "number of rows in steps", null=False),
    _c("n_agent_steps", _I32, "steps by the agent, copied context not counted", null=False),
    _c("n_tool_calls", _I32, "tool calls of those agent steps", null=False),
    _c("n_tool_errors", _I32, "observations of those agent steps flagged as errors", null=False),
    _c("n_format_errors", _I32, "agent steps whose output could not be parsed", null=False),
    _c("prompt_tokens", _I64, "tokens read, each model call counted once, cached ones included"),
    _c("completion_tokens", _I64, "tokens written, each model call counted once"),
    _c("cached_tokens", _I64, "part of prompt_tokens that came from a cache"),
    _c("cost_usd", _F64, "cost of the run in US dollars"),
    _c("duration_s", _F64, "wall time of the run in seconds"),
    _c(
        "size_bytes", _I64, "UTF-8 bytes of text, reasoning, arguments and observations", null=False
    ),
    _c("started_at", TIMESTAMP, "when the run started"),
    _c("ended_at", TIMESTAMP, "when the run ended"),
    _c("imported_at", TIMESTAMP, "when the row was written"),
    _c("expires_at", TIMESTAMP, "after this the run is not served as an experience"),
    _c("tags", pa.list_(_S), "free labels"),
    _c("metadata", _S, "JSON text: everything of the source that has no column"),
)
"""One row an attempt."""

STEPS: tuple[Column, ...] = (
    _c("trajectory_id", _S, "the trajectory", null=False),
    _c("step_index", _I32, "position in the trajectory, from 0", null=False),
    _c("actor", _S, "whose turn it is", null=False, allowed=ACTORS),
    _c("text", _S, "what was said; null and '' differ"),
    _c("reasoning", _S, "thinking beside the text"),
    _c("content", _S, "JSON text: parts, only where the message has more than text"),
    _c("tool_calls", pa.list_(TOOL_CALL), "calls made in this step, in order"),
    _c("observations", pa.list_(OBSERVATION), "results that came back, in order"),
    _c("reward", _F64, "step reward given by the environment"),
    _c("state", _S, "JSON text: environment variables the agent could see"),
    _c("state_key", _S, "hash of what the agent could see before acting; equal keys, same state"),
    _c(
        "is_copied",
        _B,
        "context repeated from another trajectory: never trained on or counted",
        null=False,
    ),
    _c("format_error", _B, "the model's output could not be parsed into an action", null=False),
    _c("model", _S, "model of this call"),
    _c("prompt_tokens", _I64, "tokens read by this call, cached ones included"),
    _c("completion_tokens", _I64, "tokens written by this call"),
    _c("cached_tokens", _I64, "part of prompt_tokens that came from a cache"),
    _c("latency_s", _F64, "seconds this call took"),
    _c("timestamp", TIMESTAMP, "when the step happened"),
    _c("prompt_token_ids", pa.list_(_I32), "what the sampler really saw"),
    _c("completion_token_ids", pa.list_(_I32), "what the sampler really wrote"),
    _c("logprobs", pa.list_(pa.float32()), "natural-log probability of each completion token"),
    _c("sampling", _S, "JSON text: temperature, top_p, top_k, seed, logprobs mode of this call"),
    _c("metadata", _S, "JSON text: everything of the step that has no column"),
)
"""One row a step, contiguous and in order inside its trajectory."""

LABELS: tuple[Column, ...] = (
    _c("label_id", _S, "hash of what the label says, so the same word is kept once", null=False),
    _c("trajectory_id", _S, "the trajectory it speaks of", null=False),
    _c("step_index", _I32, "the step it speaks of; null for the whole run"),
    _c("name", _S, "what is judged; 'outcome' decides success and reward", null=False),
    _c("value", _F64, "score or reward, any range"),
    _c("success", _B, "the verdict, where it is one"),
    _c("rationale", _S, "why"),
    _c("evaluator", _S, "who judged", null=False),
    _c("evaluator_version", _S, "version of the evaluator or rubric"),
    _c("created_at", TIMESTAMP, "when it was judged", null=False),
)
"""One row an evaluator's word; append-only."""

SKILLS: tuple[Column, ...] = (
    _c("skill_id", _S, "name@hash of the code: immutable", null=False),
    _c("name", _S, "the skill's name", null=False),
    _c("version", _I32, "1 for the first code under this name, then 2, 3, ...", null=False),
    _c("signature", _S, "how it is called"),
    _c("docstring", _S, "what its code says of itself"),
    _c("code", _S, "the code", null=False),
    _c("language", _S, "programming language", null=False),
    _c("description", _S, "what it does, in words"),
    _c(
        "dependencies",
        pa.list_(_S),
        "skills that its code calls, pinned as name@hash; a bare name is whatever is newest",
    ),
    _c("trajectory_ids", pa.list_(_S), "the runs it was drawn from; null where nobody said"),
    _c("verified_at", TIMESTAMP, "when a verifier last ran it with success; null if never"),
    _c("environment", _S, "what it acts in"),
    _c("environment_version", _S, "version of the environment it was verified in"),
    _c(
        "uses",
        _I64,
        "runs that were given it; the view adds those in `uses` to what its source had counted",
        null=False,
    ),
    _c("successes", _I64, "those of them that succeeded, counted alike", null=False),
    _c("source", _S, "the importer or writer", null=False),
    _c("source_uri", _S, "the file and record it was read from"),
    _c("created_at", TIMESTAMP, "when the row was written"),
    _c("metadata", _S, "JSON text: everything else"),
    _c(
        "state",
        _S,
        "why it is not served: what it calls was replaced and it has not been verified since, or "
        "it was taken out; null where it may be",
        allowed=SKILL_STATES,
    ),
)
"""One row a version of a skill (Voyager)."""

REFLECTIONS: tuple[Column, ...] = (
    _c("reflection_id", _S, "hash of task, position and text", null=False),
    _c("task_id", _S, "the task it was written for", null=False),
    _c("trajectory_id", _S, "the failed attempt it speaks of, where known"),
    _c("trial", _I32, "number of that attempt, from 0"),
    _c("text", _S, "the reflection", null=False),
    _c("environment", _S, "what the agent acted in"),
    _c("model", _S, "who wrote it"),
    _c("source", _S, "the importer or writer", null=False),
    _c("source_uri", _S, "the file and record it was read from"),
    _c("created_at", TIMESTAMP, "when the row was written"),
    _c("metadata", _S, "JSON text: everything else"),
    _c("state", _S, "why it is not served; null where it is", allowed=MEMORY_STATES),
)
"""One row a reflection on a failed attempt (Reflexion)."""

WORKFLOWS: tuple[Column, ...] = (
    _c("workflow_id", _S, "hash of name and steps", null=False),
    _c("name", _S, "the workflow's name", null=False),
    _c("description", _S, "when it helps"),
    _c("steps", _S, "JSON text: list of steps with variables", null=False),
    _c("trajectory_ids", pa.list_(_S), "the successes it was induced from"),
    _c("environment", _S, "what it acts in"),
    _c("source", _S, "the importer or writer", null=False),
    _c("created_at", TIMESTAMP, "when the row was written"),
    _c("metadata", _S, "JSON text: everything else"),
    _c("state", _S, "why it is not served; null where it is", allowed=MEMORY_STATES),
)
"""One row a workflow induced from successes (Agent Workflow Memory)."""

INSIGHTS: tuple[Column, ...] = (
    _c("version_id", _S, "insight_id@version: immutable but for counters and state", null=False),
    _c("insight_id", _S, "stays the same when the text is edited", null=False),
    _c("version", _I32, "1 for the first text, then 2, 3, ...", null=False),
    _c("kind", _S, "what it is", null=False, allowed=INSIGHT_KINDS),
    _c("level", _S, "what it helps with", null=False, allowed=INSIGHT_LEVELS),
    _c("title", _S, "its name in a few words"),
    _c("description", _S, "when it helps, in a sentence"),
    _c("text", _S, "what is to be known", null=False),
    _c("observation", _S, "at level step: the observation that it holds for"),
    _c("task_id", _S, "the task it holds for; null where it holds for others too"),
    _c("votes", _I64, "importance, by ExpeL's operations", null=False),
    _c("helpful", _I64, "uses that helped, as counted before those in `uses`", null=False),
    _c("harmful", _I64, "uses that did not help, counted alike", null=False),
    _c("trajectory_ids", pa.list_(_S), "the runs it was drawn from"),
    _c("merged_from", pa.list_(_S), "insights whose place it takes"),
    _c("environment", _S, "what the agent acted in"),
    _c("environment_version", _S, "version of that environment"),
    _c("source", _S, "the writer", null=False),
    _c("created_at", TIMESTAMP, "when the version was written"),
    _c("metadata", _S, "JSON text: everything else"),
    _c("state", _S, "why it is not served; null where it is", allowed=MEMORY_STATES),
)
"""One row a version of an insight (ExpeL, ReasoningBank, ACE, SLEA-RL, D2Skill)."""

USES: tuple[Column, ...] = (
    _c("use_id", _S, "hash of run, kind and item, so that a use is kept once", null=False),
    _c("trajectory_id", _S, "the run that was given the item", null=False),
    _c("kind", _S, "what the item is: skill, reflection, workflow, trajectory, ...", null=False),
    _c("item_id", _S, "id of the item; of a skill name@hash, so the exact version", null=False),
    _c("score", _F64, "score it was found with, where it was searched for"),
    _c("rank", _I32, "place among what the run was given, from 1"),
    _c("given_at", TIMESTAMP, "when it was given", null=False),
)
"""One row an item of memory that a run was given."""

TABLES: dict[str, tuple[Column, ...]] = {
    "trajectories": TRAJECTORIES,
    "steps": STEPS,
    "labels": LABELS,
    "skills": SKILLS,
    "reflections": REFLECTIONS,
    "workflows": WORKFLOWS,
    "insights": INSIGHTS,
    "uses": USES,
}
"""All tables of record by name."""
