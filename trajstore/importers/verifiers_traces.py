"""verifiers v1 traces: a graph of messages whose root-to-leaf paths are the conversations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trajstore.importers.building import StepBuilder, moment, number, openai_steps
from trajstore.importers.importer import success_of
from trajstore.importers.items import ImportOptions
from trajstore.importers.response_items import usage_fields
from trajstore.importers.token_lists import logprobs, token_ids
from trajstore.schema import Status, Step, Trajectory, digest, json_text_or_none, trajectory_id

_TAKEN = frozenset(
    {"id", "task", "tools", "nodes", "calls", "rewards", "stop_condition", "metrics"}
)
_NODE_TAKEN = frozenset(
    {"parent", "message", "sampled", "token_ids", "mask", "logprobs", "timestamp"}
)
_CUT = ("max_turns", "max_input_tokens", "max_output_tokens", "max_total_tokens")
_QUESTIONS = ("prompt", "question", "problem", "instruction", "goal")


def is_trace(value: Any) -> bool:
    """Whether a value is a v1 trace: an id, a task, and nodes with messages."""
    if not isinstance(value, Mapping) or not {"id", "task", "nodes"} <= value.keys():
        return False
    nodes = value["nodes"]
    if not isinstance(nodes, list):
        return False
    return not nodes or (isinstance(nodes[0], Mapping) and "message" in nodes[0])


@dataclass(slots=True, kw_only=True)
class _Path:
    """One conversation: nodes from a root to a leaf, with the steps that they became."""

    nodes: list[int]
    steps: tuple[Step, ...]
    step_of: dict[int, int]


def trace_trajectories(
    trace: Mapping[str, Any],
    place: str,
    options: ImportOptions,
    threshold: float,
    attempts: Counter[str],
) -> Iterator[Trajectory]:
    """The trajectories of one trace.

    The path to the last leaf is the run itself and has its outcome. The other paths (before a
    compaction, of a sub-agent) are branches of it; nodes that an earlier path already gave are
    copied steps there, so that each sampled message counts once.

    Args:
        trace: the trace.
        place: where it was read.
        options: thresholds of the user.
        threshold: reward that counts as passed.
        attempts: how many traces of each task came before; this one is added.

    Raises:
        ValueError: it holds no message, or a parent that is not before its child.
    """
    nodes, calls = trace["nodes"], _calls_by_node(trace)
    paths = _paths(nodes)
    if not paths:
        raise ValueError("the trace has no message")
    given: set[int] = set()
    main = _path(nodes, paths[-1], calls, given)
    task = _task(trace)
    attempts[task] += 1
    yield _main(trace, main, task, attempts[task] - 1, place, options, threshold)
    for nodes_of_path in paths[:-1]:
        branch = _path(nodes, nodes_of_path, calls, given)
        shared = [n for n in nodes_of_path if n in main.step_of]
        yield Trajectory(
            trajectory_id=trajectory_id("verifiers", f"{trace['id']}/{nodes_of_path[-1]}"),
            task_id=task,
            source="verifiers",
            source_uri=place,
            parent_id=trajectory_id("verifiers", str(trace["id"])),
            parent_step=main.step_of[shared[-1]] if shared else None,
            relation="branch",
            model=_model(trace),
            tools=json_text_or_none(trace.get("tools")),
            steps=branch.steps,
            metadata=json_text_or_none({"leaf": nodes_of_path[-1]}),
        )


def _calls_by_node(trace: Mapping[str, Any]) -> dict[int, Mapping[str, Any]]:
    return {c["node"]: c for c in trace.get("calls") or () if c.get("node") is not None}


def _paths(nodes: Sequence[Mapping[str, Any]]) -> list[list[int]]:
    """Root-to-leaf paths in order of their leaves."""
    parents = [node.get("parent") for node in nodes]
    for i, parent in enumerate(parents):
        if parent is not None and not (type(parent) is int and 0 <= parent < i):
            raise ValueError(f"node {i} has parent {parent}, which is not before it")
    inner = set(parents)
    found = []
    for leaf in (i for i in range(len(nodes)) if i not in inner):
        path: list[int] = []
        at: int | None = leaf
        while at is not None:
            path.append(at)
            at = parents[at]
        found.append(path[::-1])
    return found


def _path(
    nodes: Sequence[Mapping[str, Any]],
    path: list[int],
    calls: Mapping[int, Mapping[str, Any]],
    given: set[int],
) -> _Path:
    builder, step_of = StepBuilder(), dict[int, int]()
    prompt: list[int] = []
    for index in path:
        node, before = nodes[index], len(builder.drafts)
        openai_steps([node["message"]], builder)
        if len(builder.drafts) > before:
            draft = builder.drafts[-1]
            draft.values.update(_values(node, calls.get(index) or {}, prompt))
            if draft.actor == "agent" and (node.get("sampled") is not True or index in given):
                draft.values["is_copied"] = True
        step_of[index] = max(len(builder.drafts) - 1, 0)
        prompt.extend(token_ids(node.get("token_ids")) or ())
        given.add(index)
    return _Path(nodes=path, steps=builder.steps(), step_of=step_of)


def _values(node: Mapping[str, Any], call: Mapping[str, Any], prompt: list[int]) -> dict[str, Any]:
    """Fields of the step of a node: what its model call saw, wrote and used."""
    values: dict[str, Any] = {"timestamp": moment(node.get("timestamp"))}
    if node.get("sampled") is True:
        ids, mask = token_ids(node.get("token_ids")) or (), node.get("mask") or []
        if len(ids) == len(mask) and any(mask):
            scaffold = [t for t, sampled in zip(ids, mask, strict=True) if not sampled]
            values["prompt_token_ids"] = (*prompt, *scaffold)
            values["completion_token_ids"] = tuple(
                t for t, sampled in zip(ids, mask, strict=True) if sampled
            )
            values["logprobs"] = logprobs(node.get("logprobs"))
        values |= usage_fields(call.get("usage"))
        values["model"] = call.get("model")
        values["sampling"] = json_text_or_none(call.get("sampling"))
        span = call.get("time") or {}
        if span.get("end"):
            values["latency_s"] = float(span["end"]) - float(span["start"])
            values["timestamp"] = values["timestamp"] or moment(span["start"])
    kept = {k: v for k, v in node.items() if k not in _NODE_TAKEN and v not in (None, [], {})}
    kept |= {k: call[k] for k in ("finish_reason", "error", "policy") if call.get(k)}
    values["metadata"] = json_text_or_none(kept)
    return {k: v for k, v in values.items() if v is not None}


def _main(
    trace: Mapping[str, Any],
    path: _Path,
    task: str,
    attempt: int,
    place: str,
    options: ImportOptions,
    threshold: float,
) -> Trajectory:
    rewards = {k: r for k, r in (trace.get("rewards") or {}).items() if r is not None}
    scores = {str(k): _score(r) for k, r in rewards.items()}
    reward = sum(scores[str(k)] * _weight(r) for k, r in rewards.items()) if rewards else None
    errors = trace.get("errors") or []
    started, ended = _times(trace)
    data = (trace["task"] or {}).get("data") or {}
    asked = next((data[q] for q in _QUESTIONS if isinstance(data.get(q), str)), None)
    return Trajectory(
        trajectory_id=trajectory_id("verifiers", str(trace["id"])),
        task_id=task,
        attempt=attempt,
        goal=asked or next((s.text for s in path.steps if s.actor == "user" and s.text), None),
        source="verifiers",
        source_uri=place,
        agent=_agent(trace),
        model=_model(trace),
        status=_status(trace, errors),
        error=f"{errors[-1].get('type')}: {errors[-1].get('message')}" if errors else None,
        termination_reason=trace.get("stop_condition"),
        success=None if _failed(trace, errors) else success_of(reward, options, at_least=threshold),
        reward=reward,
        rewards={**_metrics(trace), **scores},
        tools=json_text_or_none(trace.get("tools")),
        steps=path.steps,
        started_at=started,
        ended_at=ended,
        duration_s=(ended - started).total_seconds() if started and ended else None,
        metadata=json_text_or_none({**_rest(trace), "leaf": path.nodes[-1]}),
    )


def _score(reward: Any) -> float:
    return float(reward["score"] if isinstance(reward, Mapping) else reward)


def _weight(reward: Any) -> float:
    weight = number(reward.get("weight")) if isinstance(reward, Mapping) else None
    return 1.0 if weight is None else weight


def _metrics(trace: Mapping[str, Any]) -> dict[str, float]:
    metrics = trace.get("metrics") or {}
    return {str(k): float(v) for k, v in metrics.items() if isinstance(v, int | float)}


def _task(trace: Mapping[str, Any]) -> str:
    task = trace["task"] or {}
    key = task.get("key") or task.get("hash") or digest(task.get("data"))[:16]
    return "/".join(str(p) for p in ("verifiers", task.get("type"), key) if p)


def _agent(trace: Mapping[str, Any]) -> str | None:
    name = (trace.get("agent") or {}).get("name")
    return None if name is None else str(name)


def _model(trace: Mapping[str, Any]) -> str | None:
    called = next((c["model"] for c in trace.get("calls") or () if c.get("model")), None)
    given = ((trace.get("agent") or {}).get("config") or {}).get("model")
    return called or (given if isinstance(given, str) else None)


def _failed(trace: Mapping[str, Any], errors: list[Any]) -> bool:
    return bool(errors) and trace.get("ok") is not True


def _status(trace: Mapping[str, Any], errors: list[Any]) -> Status | None:
    if _failed(trace, errors):
        return "error"
    if trace.get("stop_condition") in _CUT:
        return "truncated"
    return "terminated" if trace.get("is_completed") else None


def _times(trace: Mapping[str, Any]) -> tuple[Any, Any]:
    timing = trace.get("timing") or {}
    spans = [v for v in timing.values() if isinstance(v, Mapping)]
    ends = [float(s["end"]) for s in spans if s.get("end")]
    return moment(timing.get("start")), moment(max(ends)) if ends else None


def _rest(trace: Mapping[str, Any]) -> dict[str, Any]:
    left = {k: v for k, v in trace.items() if k not in _TAKEN and v not in (None, [], {})}
    lost = [c for c in trace.get("calls") or () if c.get("node") is None]
    task = trace["task"] or {}
    return {**left, "task": task, **({"calls_without_answer": lost} if lost else {})}
