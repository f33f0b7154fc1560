"""SWE-agent ``.traj`` files, with the predictions and SWE-bench reports beside them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from trajstore.importers import swe_bench
from trajstore.importers.building import number, rest, text_of
from trajstore.importers.importer import Importer, uri
from trajstore.importers.items import ImportOptions, Item
from trajstore.importers.plain import count, words
from trajstore.importers.source import Record, Source
from trajstore.importers.swe_agent_steps import calls_tools, is_demo, run_steps, said
from trajstore.schema import (
    Status,
    Step,
    Trajectory,
    digest,
    json_text_or_none,
    trajectory_id,
)

_ENDING = ".traj"
_TURN = frozenset({"action", "observation", "response"})
_MARKS = frozenset({"agent", "message_type", "thought", "action"})
_RUN_NAME = re.compile(
    r"(?P<model>.+?)__(?P<data>.+?)__(?P<config>.+?)"
    r"__t-(?P<temperature>[\d.]+)__p-(?P<top_p>[\d.]+)__c-[\d.]+(?:__.*)?"
)
_SHARED = ("environment", "replay_config")
_TAKEN = frozenset({"trajectory", "history", "attempts"})
_TRUNCATED = ("exit_cost", "exit_context", "exit_format", "exit_total_execution_time", "timeout")


class SweAgentImporter(Importer):
    """Reads ``.traj`` files of all three generations.

    Identity: nothing in a file names the run, so it is taken from the content: the prompt and the
    first turn with its execution time where there is one (a nonce that no other attempt has and
    that stays as the file grows), else the whole run. So a longer snapshot of an old run, which
    has no times, is a run of its own, and attempts that begin alike never fall together.
    """

    name: ClassVar[str] = "swe-agent"
    title: ClassVar[str] = "SWE-agent trajectories (.traj)"
    reads: ClassVar[str] = (
        "turns, tool calls, state, patch; demonstrations are context; outcome from a SWE-bench "
        "report beside the run"
    )

    def detect(self, source: Source) -> float:
        """Sure of ``history`` with ``trajectory``, and of predictions and reports of such runs."""
        value = source.first
        if is_run(value):
            return 0.95
        if swe_bench.is_predictions(value):
            return 0.8
        if swe_bench.is_report(value) and swe_bench.run_paths(
            source.path, swe_bench.verdicts(value), _ENDING
        ):
            return 0.9
        return 0.0

    def read(self, source: Source, options: ImportOptions) -> Iterator[Item]:
        """The run; predictions are ignored as a whole."""
        if swe_bench.is_predictions(source.first):
            yield self.ignored(source, "predictions: the patches are in the runs themselves")
            return
        yield from super().read(source, options)

    def convert(self, source: Source, record: Record, options: ImportOptions) -> Iterable[Item]:
        """One run with its attempts, or one report."""
        del options
        value = record.value
        if swe_bench.is_report(value):
            return self._labels(source, record)
        return self._run(source, record)

    def _run(self, source: Source, record: Record) -> Iterator[Item]:
        value, where = record.value, uri(source, record)
        attempts = value.get("attempts")
        if isinstance(attempts, list) and attempts:
            # The top level only repeats the best attempt.
            shared = {k: value[k] for k in _SHARED if k in value}
            for n, attempt in enumerate(attempts):
                yield _trajectory({**shared, **attempt}, source, f"{where}#attempts/{n}", n)
        else:
            yield _trajectory(value, source, where, None)
        instance = instance_of(value, source.path)
        for path in swe_bench.report_paths(source.path, instance, _ENDING):
            report = Source(path).first
            if swe_bench.is_report(report) and instance in swe_bench.verdicts(report):
                yield swe_bench.outcome(report, instance, identify(value))

    def _labels(self, source: Source, record: Record) -> Iterator[Item]:
        report = record.value
        runs = swe_bench.run_paths(source.path, swe_bench.verdicts(report), _ENDING)
        if not runs:
            yield self.problem(source, "no .traj file of its instances lies beside it", record)
        for instance, path in runs.items():
            run = Source(path).first
            if is_run(run):
                yield swe_bench.outcome(report, instance, identify(run))


def is_run(value: Any) -> bool:
    """Whether this is a ``.traj`` document."""
    if not isinstance(value, Mapping) or not isinstance(value.get("history"), list):
        return False
    turns = value.get("trajectory")
    if isinstance(turns, list) and "info" in value:
        return not turns or (isinstance(turns[0], Mapping) and turns[0].keys() >= _TURN)
    history = value["history"]
    return bool(history) and all(
        isinstance(m, Mapping) and "role" in m and m.keys() & _MARKS for m in history[:3]
    )


def identify(run: Mapping[str, Any]) -> str:
    """Id of the run (see :class:`SweAgentImporter`)."""
    history, turns = said(run["history"]), run.get("trajectory") or []
    prompt = [text_of(m.get("content")) for m in history if m["role"] in {"system", "user"}][:2]
    clock = turns[0].get("execution_time") if turns else None
    if clock is None:
        talk = [[m["role"], m.get("content"), m.get("tool_calls")] for m in history]
        return trajectory_id("swe-agent", digest(talk, [_turn(t) for t in turns]))
    return trajectory_id("swe-agent", digest(prompt, _turn(turns[0]), clock))


def _turn(turn: Mapping[str, Any]) -> list[Any]:
    return [turn.get("response"), turn.get("action"), turn.get("observation")]


def instance_of(run: Mapping[str, Any], path: Path) -> str:
    """The instance: the problem's own id in newer files, else the name of the file."""
    problem = (run.get("replay_config") or {}).get("problem_statement")
    named = problem.get("id") if isinstance(problem, Mapping) else None
    return str(named or swe_bench.stem_of(path, _ENDING))


def exit_state(status: Any) -> Status | None:
    """How a run ended, from SWE-agent's ``exit_status``; none of its words says "solved".

    >>> exit_state("submitted"), exit_state("submitted (exit_cost)"), exit_state("exit_api")
    ('terminated', 'truncated', 'error')
    """
    if not status:
        return None
    words = str(status).lower()
    if any(limit in words for limit in _TRUNCATED):
        return "truncated"
    return "terminated" if words in {"submitted", "exit_forfeit", "skip"} else "error"


def _trajectory(
    run: Mapping[str, Any], source: Source, where: str, attempt: int | None
) -> Trajectory:
    history, turns = said(run["history"]), run.get("trajectory") or []
    if not history and not turns:
        message = "the run has no message and no turn"
        raise ValueError(message)
    instance, info = instance_of(run, source.path), run.get("info") or {}
    stats = info.get("model_stats") or {}
    status = info.get("exit_status")
    named = _RUN_NAME.fullmatch(source.path.parent.name)
    sent, received = count(stats.get("tokens_sent")), count(stats.get("tokens_received"))
    counted = bool(sent or received)
    return Trajectory(
        trajectory_id=identify(run),
        task_id=swe_bench.task_id(instance, "swe-agent"),
        attempt=attempt,
        goal=_goal(run, history),
        source="swe-agent",
        source_uri=where,
        environment=swe_bench.benchmark_of(instance) or words(run.get("environment")),
        agent="SWE-agent",
        model=named["model"] if named else None,
        status=exit_state(status) if status else ("running" if "exit_status" in info else None),
        termination_reason=None if status is None else str(status),
        steps=_with_sampling(run_steps(history, turns), named),
        prompt_tokens=sent if counted else None,
        completion_tokens=received if counted else None,
        cost_usd=number(stats.get("instance_cost", stats.get("total_cost"))),
        metadata=_metadata(run, source.path, native=calls_tools(history)),
    )


def _goal(run: Mapping[str, Any], history: Sequence[Mapping[str, Any]]) -> str | None:
    """The issue's text; the whole first user message where it cannot be told apart."""
    problem = (run.get("replay_config") or {}).get("problem_statement")
    if isinstance(problem, Mapping) and problem.get("text"):
        return str(problem["text"]).strip()
    first = next((text_of(m.get("content")) for m in history if m["role"] == "user"), None)
    return swe_bench.issue_of(first)


def _with_sampling(steps: tuple[Step, ...], named: re.Match[str] | None) -> tuple[Step, ...]:
    """Give agent steps the temperature and top_p that the run folder's name tells."""
    if named is None:
        return steps
    told = json_text_or_none({k: float(named[k]) for k in ("temperature", "top_p")})
    return tuple(replace(s, sampling=told) if s.actor == "agent" else s for s in steps)


def _metadata(run: Mapping[str, Any], path: Path, *, native: bool) -> str | None:
    demos = [m for m in run["history"] if isinstance(m, Mapping) and is_demo(m)]
    told = {
        "run": path.parent.name if "__" in path.parent.name else None,
        "action_in": "tool_calls" if native else "text",
        "demonstrations": [text_of(m.get("content")) for m in demos] or None,
    }
    return rest({**told, **run}, _TAKEN)


IMPORTER = SweAgentImporter()
"""The importer of this module."""
