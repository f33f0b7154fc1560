"""tau2-bench: Results files, in one piece or as an index with a folder of simulations."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trajstore.importers.building import moment, number, whole
from trajstore.importers.importer import Importer, success_of
from trajstore.importers.items import ImportOptions, Item, Problem
from trajstore.importers.source import Record, Source
from trajstore.importers.tau2_messages import message_steps, tick_steps
from trajstore.schema import Status, Step, Trajectory, json_text_or_none, trajectory_id

_INDEX = "results.json"
_FOLDER = "simulations"
_SIMULATION = frozenset({"id", "task_id", "termination_reason", "start_time"})
_STATUS: Mapping[str, Status] = {
    "user_stop": "terminated",
    "agent_stop": "terminated",
    "max_steps": "truncated",
    "timeout": "truncated",
    "too_many_errors": "truncated",
    "context_window_exceeded": "truncated",
    "agent_error": "error",
    "user_error": "error",
    "infrastructure_error": "error",
    "unexpected_error": "error",
}
_NEVER_JUDGED = frozenset({"infrastructure_error", "context_window_exceeded"})
"""Ends that tau2-bench itself leaves out of every rate: the reward 0 beside them is a filler."""
_PLACED = frozenset(
    {
        "task_id",
        "trial",
        "start_time",
        "end_time",
        "duration",
        "termination_reason",
        "agent_cost",
        "reward_info",
        "messages",
        "ticks",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """What a Results file says of all its simulations."""

    info: Mapping[str, Any] = field(default_factory=dict)
    """Agent, simulated user, environment, limits, commit."""
    tasks: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Tasks by id."""

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Results:
        """Take the head of a Results document."""
        listed = document.get("tasks")
        tasks = {
            str(task["id"]): task
            for task in (listed if isinstance(listed, list) else ())
            if isinstance(task, dict) and "id" in task
        }
        return cls(info=document["info"], tasks=tasks)

    def part(self, name: str) -> Mapping[str, Any]:
        """``agent``, ``user`` or ``environment`` info; empty where it is not there."""
        return self.info.get(f"{name}_info") or {}


class _Simulations(Source):
    """Simulations as records: those of one Results document, or one simulation file."""

    def __init__(self, path: Path, uri: str, results: Results, inside: list[Any] | None) -> None:
        super().__init__(path, uri=uri)
        self.results = results
        self.inside = inside

    def records(self, *, array_is_one: bool = False) -> Iterator[Record | Problem]:
        if self.inside is None:
            yield from super().records(array_is_one=array_is_one)
        else:
            yield from (Record(value, index) for index, value in enumerate(self.inside))


class Tau2BenchImporter(Importer):
    """Reads tau2-bench Results (Barres et al. 2025) and single simulation files.

    The id of a trajectory is the simulation's own uuid and start, so the one-file form, the
    folder form and a copy cut to fewer simulations give the same ids. Success is a reward of 1
    within 1e-6; it is unknown where ``reward_info`` is null and where tau2-bench itself does not
    count the run (``infrastructure_error``, ``context_window_exceeded``). Failed action checks
    say nothing: the gold actions are only one way to the goal.

    Spoken simulations keep their text in ticks; utterances are put together again. The agent's
    policy is no message; it is kept in the metadata.
    """

    name = "tau2-bench"
    title = "tau2-bench Results: results.json with its simulations inside or in a folder beside"
    reads = (
        "messages, tool calls of agent and simulated user, tokens, cost, reward and its parts; "
        "outcome is reward_info.reward == 1"
    )

    def claims(self, folder: Path, names: frozenset[str]) -> Iterable[tuple[str, ...]]:
        """``results.json`` together with the files of ``simulations/`` beside it."""
        if not {_INDEX, _FOLDER} <= names or not _is_results(Source(folder / _INDEX)):
            return
        inside = sorted(p.name for p in (folder / _FOLDER).glob("*.json"))
        if inside:
            yield (_INDEX, *(f"{_FOLDER}/{name}" for name in inside))

    def detect(self, source: Source) -> float:
        """Say 0.95 for a Results file or folder and 0.9 for a simulation file."""
        if source.files:
            first, *others = source.files
            inside = all(f.parent.name == _FOLDER for f in others)
            return 0.95 if first.name == _INDEX and others and inside else 0.0
        if source.shape != "object":
            return 0.0
        if _is_results(source):
            return 0.95
        value = source.first
        fits = isinstance(value, dict) and value.keys() >= _SIMULATION
        return 0.9 if fits and ("messages" in value or "ticks" in value) else 0.0

    def read(self, source: Source, options: ImportOptions) -> Iterator[Item]:
        """Every simulation of a Results file or folder, one at a time in the folder form."""
        file = Source(source.files[0], uri=source.uri) if source.files else source
        head = next(file.records(), None)
        if isinstance(head, Problem):
            yield head
            return
        document = head.value if head is not None else None
        if isinstance(document, dict) and isinstance(document.get("info"), dict):
            yield from self._results(file, document, options)
        elif isinstance(document, dict) and document.keys() >= _SIMULATION:
            results = _results_beside(file.path)
            yield from super().read(_Simulations(file.path, file.uri, results, None), options)
        else:
            yield self.problem(source, "neither a Results file (field 'info') nor a simulation")

    def _results(
        self, file: Source, document: Mapping[str, Any], options: ImportOptions
    ) -> Iterator[Item]:
        results, inside = Results.of(document), document.get("simulations")
        if isinstance(inside, list) and inside:
            yield from super().read(_Simulations(file.path, file.uri, results, inside), options)
            return
        folder = file.path.with_name(_FOLDER)
        paths = sorted(folder.glob("*.json"))
        for path in paths:
            place = f"{Path(file.uri).parent.as_posix()}/{_FOLDER}/{path.name}"
            yield from super().read(_Simulations(path, place, results, None), options)
        if not paths:
            yield self.ignored(
                file, f"an index of simulations, and there is no folder {_FOLDER}/ beside it"
            )
            return
        there = {path.stem for path in paths}
        listed = document.get("simulation_index") or ()
        for name in (str(e.get("id")) for e in listed if isinstance(e, dict)):
            if name not in there:
                reason = f"the index names it, but {_FOLDER}/{name}.json is missing"
                yield Problem(source=file.uri, record=name, reason=reason)

    def convert(self, source: Source, record: Record, options: ImportOptions) -> Iterable[Item]:
        """One trajectory a simulation."""
        results = source.results if isinstance(source, _Simulations) else Results()
        value = record.value
        started, reason = moment(value["start_time"]), value["termination_reason"]
        judged = value.get("reward_info") or {}
        reward, steps = number(judged.get("reward")), _steps(value)
        if not steps and reward is None:
            raise ValueError("it has no message and no reward")
        domain = results.part("environment").get("domain_name")
        task = results.tasks.get(str(value["task_id"])) or {}
        inside = isinstance(source, _Simulations) and source.inside is not None
        yield Trajectory(
            trajectory_id=trajectory_id("tau2-bench", str(value["id"]), started),
            task_id=_task_id(domain or options.environment, value["task_id"]),
            attempt=whole(value.get("trial")),
            goal=_goal(task),
            source=self.name,
            source_uri=f"{source.uri}#{value['id']}" if inside else source.uri,
            environment=domain,
            environment_version=results.info.get("git_commit"),
            agent=results.part("agent").get("implementation"),
            model=results.part("agent").get("llm"),
            status=_STATUS.get(reason),
            error=reason if _STATUS.get(reason) == "error" else None,
            termination_reason=reason,
            success=None if reason in _NEVER_JUDGED else success_of(reward, options),
            reward=reward,
            rewards=_breakdown(judged),
            tools=json_text_or_none(results.part("environment").get("tool_defs")),
            cost_usd=number(value.get("agent_cost")),
            duration_s=number(value.get("duration")),
            started_at=started,
            ended_at=moment(value.get("end_time")),
            steps=steps,
            metadata=_metadata(value, results, task),
        )


def _is_results(source: Source) -> bool:
    """Whether the head of an object names what only a Results file has."""
    if source.shape != "object":
        return False
    keys = ('"info"', '"git_commit"', '"agent_info"', '"tasks"')
    if all(key in source.text_head for key in keys[:3]):
        return True
    value = source.first
    return isinstance(value, dict) and value.keys() >= {"info", "tasks", "simulations"}


def _results_beside(simulation: Path) -> Results:
    """The Results index above the folder of a simulation file; an empty one where there is none."""
    path = simulation.parent.with_name(_INDEX)
    if not path.is_file() or not _is_results(Source(path)):
        return Results()
    return Results.of(Source(path).document())


def _task_id(domain: str | None, task: Any) -> str:
    return "/".join(part for part in ("tau2-bench", domain, str(task)) if part)


def _steps(value: Mapping[str, Any]) -> tuple[Step, ...]:
    messages, ticks = value.get("messages"), value.get("ticks")
    if messages:
        return message_steps(messages)
    return tick_steps(ticks) if ticks else ()


def _goal(task: Mapping[str, Any]) -> str | None:
    """What the simulated user was told to want; the ticket where the task has no user."""
    said = (task.get("user_scenario") or {}).get("instructions")
    if isinstance(said, dict):
        names = ("reason_for_call", "known_info", "unknown_info", "task_instructions")
        said = "\n\n".join(str(said[name]) for name in names if said.get(name)) or None
    return said if isinstance(said, str) else task.get("ticket")


def _breakdown(judged: Mapping[str, Any]) -> dict[str, float]:
    parts = {k: number(v) for k, v in (judged.get("reward_breakdown") or {}).items()}
    return {k: v for k, v in parts.items() if v is not None}


def _metadata(value: Mapping[str, Any], results: Results, task: Mapping[str, Any]) -> str | None:
    environment, user = results.part("environment"), dict(results.part("user"))
    user.pop("global_simulation_guidelines", None)
    judged = {
        k: v
        for k, v in (value.get("reward_info") or {}).items()
        if k not in {"reward", "reward_breakdown"}
    }
    left = {
        **{k: v for k, v in value.items() if k not in _PLACED},
        "policy": value.get("policy") or environment.get("policy"),
        "reward_info": _given(judged),
        "task": _given(task),
        "user": _given(user),
        "agent_args": results.part("agent").get("llm_args"),
        "run": _given({k: v for k, v in results.info.items() if not k.endswith("_info")}),
    }
    return json_text_or_none(_given(left))


def _given(value: Mapping[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in value.items() if v not in (None, {}, [])}


IMPORTER = Tau2BenchImporter()
"""The importer, as the registry finds it."""
