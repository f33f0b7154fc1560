"""NeMo Gym rollouts: a Responses request, a Responses response and a reward a line."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, ClassVar

from trajstore.importers import swe_bench
from trajstore.importers.building import StepBuilder, moment, number, text_of, whole
from trajstore.importers.importer import Importer, success_of, uri
from trajstore.importers.items import ImportOptions, Item
from trajstore.importers.response_items import response_steps, usage_fields
from trajstore.importers.source import Record, Source
from trajstore.importers.tau2_bench import IMPORTER as TAU2
from trajstore.schema import (
    Status,
    Step,
    Trajectory,
    digest,
    json_text_or_none,
    trajectory_id,
)

_ANY_GAIN = 2e-6
"""Success threshold that, less the tolerance, means "more than nothing"."""

_TAKEN = frozenset(
    {"responses_create_params", "response", "reward", "_ng_rollout_index", "result", "task"}
)
_REQUEST_TAKEN = frozenset({"input", "tools"})
_RESPONSE_TAKEN = frozenset({"output", "tools"})
_SAMPLING = ("temperature", "top_p", "max_output_tokens", "top_logprobs", "seed")


class NemoGymImporter(Importer):
    """Reads ``*_rollouts.jsonl`` of NeMo Gym, also those that embed a tau2 simulation.

    Identity: agent, task, rollout index, and id and creation time of the response, since a response
    id alone may repeat (one harness names it after the task) and rollout indices start anew in each
    run. Agent messages in the request are context that was not sampled here: kept as copied steps.
    """

    name: ClassVar[str] = "nemo-gym"
    title: ClassVar[str] = "NeMo Gym rollouts (JSON Lines)"
    reads: ClassVar[str] = (
        "request, Responses items with token ids and log-probabilities, flags; success from "
        "'resolved', else from the reward"
    )

    def detect(self, source: Source) -> float:
        """Sure of records with ``responses_create_params``."""
        return 0.95 if any(_is_ours(value) for value in source.sample) else 0.0

    def read(self, source: Source, options: ImportOptions) -> Iterator[Item]:
        """The rollouts; a file of tasks that were not run yet is ignored as a whole."""
        ours = [value for value in source.sample if _is_ours(value)]
        if ours and not any("response" in value for value in ours):
            yield self.ignored(source, "NeMo Gym tasks without a run: no record has a response")
            return
        yield from super().read(source, options)

    def convert(self, source: Source, record: Record, options: ImportOptions) -> Iterable[Item]:
        """One rollout."""
        value = record.value
        request, response = value["responses_create_params"], value["response"]
        if not isinstance(request, Mapping) or not isinstance(response.get("output"), list):
            message = "responses_create_params must be an object and response.output a list"
            raise TypeError(message)
        simulation = _simulation(value)
        if simulation is not None:
            inner = Record(simulation, record.index, record.line)
            yield from _tau2(value, inner, source, options)
            return
        steps = _steps(request, response)
        task, agent = _task(value, request), _agent(value)
        attempt = _attempt(value)
        named = (response.get("id"), response.get("created_at"))
        reward = number(value.get("reward"))
        started, ended = _times(value, response)
        usage = _run_usage(value, response, steps)
        yield Trajectory(
            trajectory_id=trajectory_id(
                self.name, digest(agent, task, attempt, *(named if any(named) else (_said(steps),)))
            ),
            task_id=task,
            attempt=attempt,
            goal=_goal(request, steps),
            source=self.name,
            source_uri=uri(source, record),
            agent=agent,
            model=response.get("model") or request.get("model") or None,
            status=_status(value, response),
            error=_error(value, response),
            termination_reason=_reason(value, response),
            success=_success(value, reward, options),
            reward=reward,
            rewards=_components(value),
            tools=json_text_or_none(request.get("tools") or response.get("tools")),
            steps=steps,
            started_at=started,
            ended_at=ended,
            duration_s=_duration(value, started, ended),
            tags=("mask_sample",) if value.get("mask_sample") is True else (),
            metadata=_metadata(value, request, response, whole_usage=bool(usage)),
            prompt_tokens=usage.get("prompt_tokens"),
            completion_tokens=usage.get("completion_tokens"),
            cached_tokens=usage.get("cached_tokens"),
        )


def _is_ours(value: Any) -> bool:
    return isinstance(value, Mapping) and isinstance(value.get("responses_create_params"), Mapping)


def _steps(request: Mapping[str, Any], response: Mapping[str, Any]) -> tuple[Step, ...]:
    """The prompt, then what was sampled; agent messages of the prompt are copied context."""
    builder = response_steps(request.get("input") or [], StepBuilder())
    if request.get("instructions"):
        instructions = StepBuilder()
        instructions.add("system", text_of(request["instructions"]))
        builder.drafts[:0] = instructions.drafts
    for draft in builder.drafts:
        if draft.actor == "agent":
            draft.values["is_copied"] = True
    prompt = len(builder.drafts)
    response_steps(response["output"], builder)
    sampling = json_text_or_none({k: request[k] for k in _SAMPLING if request.get(k) is not None})
    for draft in builder.drafts[prompt:]:
        if draft.actor == "agent" and sampling:
            draft.values["sampling"] = sampling
    return builder.steps()


def _simulation(value: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The tau2 simulation inside a record, or None."""
    result = value.get("result")
    if not isinstance(result, Mapping) or not {"id", "task_id", "messages"} <= result.keys():
        return None
    return result if result["messages"] else None


def _tau2(
    value: Mapping[str, Any], simulation: Record, source: Source, options: ImportOptions
) -> Iterator[Item]:
    """The embedded simulation, read as tau2-bench's own and so under the same id.

    Input and output of the record hold its messages once more, without times, tokens and error
    flags, and cut where the last request was made; only the system prompt is added from there.
    """
    request, response = value["responses_create_params"], value["response"]
    domain = (value.get("config") or {}).get("domain")
    for item in TAU2.convert(source, simulation, replace(options, environment=domain)):
        if not isinstance(item, Trajectory):
            yield item
            continue
        metadata = _metadata(value, request, response, whole_usage=True)
        yield replace(
            item,
            source=NemoGymImporter.name,
            source_uri=uri(source, simulation),
            environment=domain,
            attempt=item.attempt if item.attempt is not None else _attempt(value),
            goal=item.goal or _tau2_goal(value),
            agent=item.agent or _agent(value),
            tools=item.tools or json_text_or_none(request.get("tools")),
            steps=_system_prompt(request) + item.steps,
            metadata=json_text_or_none(
                {**json.loads(item.metadata or "{}"), "nemo_gym": json.loads(metadata or "{}")}
            ),
        )


def _system_prompt(request: Mapping[str, Any]) -> tuple[Step, ...]:
    items = request.get("input")
    given = [i for i in items if i.get("role") == "system"] if isinstance(items, list) else ()
    return tuple(Step(actor="system", text=text_of(i.get("content"))) for i in given)


def _tau2_goal(value: Mapping[str, Any]) -> str | None:
    """What the simulated user was told to want."""
    task = value.get("task") or {}
    said = (task.get("user_scenario") or {}).get("instructions")
    if isinstance(said, Mapping):
        names = ("reason_for_call", "known_info", "unknown_info", "task_instructions")
        said = "\n\n".join(str(said[name]) for name in names if said.get(name))
    return said or task.get("ticket")


def _attempt(value: Mapping[str, Any]) -> int | None:
    return whole(value.get("_ng_rollout_index"))


def _said(steps: tuple[Step, ...]) -> list[str | None]:
    return [step.text for step in steps]


def _agent(value: Mapping[str, Any]) -> str | None:
    reference = value.get("agent_ref")
    if isinstance(reference, Mapping) and reference.get("name"):
        return str(reference["name"])
    info = (value.get("metadata") or {}).get("agent_info") or {}
    return info.get("name")


def _task(value: Mapping[str, Any], request: Mapping[str, Any]) -> str:
    """The task's name where there is one, else its number under its agent, else its prompt.

    A number is one of the data set that the agent was given, so it means nothing without the agent.
    """
    places = (value, request.get("metadata") or {}, value.get("metadata") or {})
    for place in places:
        if place.get("instance_id"):
            return swe_bench.task_id(str(place["instance_id"]), "nemo-gym")
    index = value.get("_ng_task_index")
    if index is not None:
        return f"nemo-gym/{_agent(value) or 'agent'}/{index}"
    return f"nemo-gym/{digest(request.get('input'))[:16]}"


def _goal(request: Mapping[str, Any], steps: tuple[Step, ...]) -> str | None:
    """The problem statement, or all user messages before the agent's first word."""
    statement = (request.get("metadata") or {}).get("problem_statement")
    if statement:
        return str(statement)
    asked: list[str] = []
    for step in steps:
        if step.actor == "agent":
            break
        if step.actor == "user" and step.text:
            asked.append(step.text)
    return "\n".join(asked) or None


def _success(value: Mapping[str, Any], reward: float | None, options: ImportOptions) -> bool | None:
    """``resolved`` where there is one; else by reward, where more than 0 wins an episode.

    Gymnasium-like environments (records with ``terminated`` and ``truncated``) pay -1, 0 or 1;
    the others pay 1 for solved and less for partly solved.
    """
    if isinstance(value.get("resolved"), bool) and options.success_threshold is None:
        return bool(value["resolved"])
    episode = "terminated" in value and "truncated" in value
    return success_of(reward, options, at_least=_ANY_GAIN if episode else 1.0)


def _components(value: Mapping[str, Any]) -> dict[str, float]:
    """Named rewards: those of a Harbor verifier, and ``*_reward``, ``accuracy`` and the like."""
    verdict = (value.get("metadata") or {}).get("verifier_result") or {}
    found = {str(k): number(v) for k, v in (verdict.get("rewards") or {}).items()}
    names = ("library_reward", "subtask_score", "accuracy", "exact_accuracy", "rmsle")
    found |= {k: number(value.get(k)) for k in names}
    return {k: v for k, v in found.items() if v is not None}


def _status(value: Mapping[str, Any], response: Mapping[str, Any]) -> Status:
    if _error(value, response) is not None:
        return "error"
    cut = value.get("truncated") is True or value.get("agent_timed_out") is True
    return "truncated" if cut or response.get("status") == "incomplete" else "terminated"


def _error(value: Mapping[str, Any], response: Mapping[str, Any]) -> str | None:
    failed = (value.get("metadata") or {}).get("exception_info") or {}
    kinds = (value.get("error_kind"), failed.get("exception_message"), response.get("error"))
    found = next((k for k in kinds if k), None)
    return found if isinstance(found, str) or found is None else json_text_or_none(found)


def _reason(value: Mapping[str, Any], response: Mapping[str, Any]) -> str | None:
    if value.get("agent_timed_out") is True:
        return "agent_timed_out"
    details = response.get("incomplete_details") or {}
    result = (value.get("info") or {}).get("result")
    return details.get("reason") or (str(result) if result is not None else None)


def _times(value: Mapping[str, Any], response: Mapping[str, Any]) -> tuple[Any, Any]:
    """Start and end: of the Harbor trial, else the end as the response says it."""
    trial = value.get("metadata") or {}
    ended = trial.get("finished_at") or response.get("created_at")
    return moment(trial.get("started_at")), moment(ended)


def _duration(value: Mapping[str, Any], started: Any, ended: Any) -> float | None:
    if value.get("agent_run_time") is not None:
        return number(value["agent_run_time"])
    return (ended - started).total_seconds() if started and ended else None


def _run_usage(
    value: Mapping[str, Any], response: Mapping[str, Any], steps: tuple[Step, ...]
) -> dict[str, int]:
    """Tokens of the whole run, or nothing where the usage is that of the last model call.

    The simple agent used to return the last call's response with all outputs put in, and its usage
    with it. Such records have no rollout index; and no tokenizer packs 12 characters into a token.
    """
    usage = usage_fields(response.get("usage"))
    own = [s for s in steps if s.actor == "agent" and not s.is_copied]
    if len(own) < 2 or (value.get("metadata") or {}).get("agent_result"):
        return usage
    written = sum(len(s.text or "") + len(s.reasoning or "") for s in own)
    too_few = written > 12 * usage.get("completion_tokens", written)
    return {} if too_few or "_ng_rollout_index" not in value else usage


def _metadata(
    value: Mapping[str, Any],
    request: Mapping[str, Any],
    response: Mapping[str, Any],
    *,
    whole_usage: bool,
) -> str | None:
    """All other fields of the record, of the request and of the response."""
    left = {k: v for k, v in value.items() if k not in _TAKEN and v is not None}
    response_taken = _RESPONSE_TAKEN | {"usage"} if whole_usage else _RESPONSE_TAKEN
    for name, part, taken in (
        ("request", request, _REQUEST_TAKEN),
        ("response", response, response_taken),
    ):
        rest = {k: v for k, v in part.items() if k not in taken and v is not None}
        if rest:
            left[name] = rest
    return json_text_or_none(left)


IMPORTER = NemoGymImporter()
