"""Harbor's own files around an ATIF trajectory: trial results (the outcome) and configurations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from trajstore.importers.atif_files import is_atif, referrer
from trajstore.importers.building import moment, number
from trajstore.importers.importer import success_of
from trajstore.importers.items import ImportOptions
from trajstore.importers.plain import words
from trajstore.importers.source import Source
from trajstore.schema import OUTCOME, Label, Status

EVALUATOR = "harbor"
"""Who speaks in the labels made from a trial result."""

RESULT_NAMES = ("result.json", "results.json")
"""What a trial result is called in its folder."""

_CONFIGS = ({"trial_name", "trials_dir"}, {"job_name", "jobs_dir"}, {"n_total_trials", "stats"})
_TRACE = {"conversations", "agent", "model", "episode", "trial_name"}
_LEVELS = 4


def is_trial(value: Any) -> bool:
    """Whether this is the result of one trial, of Harbor or (``is_resolved``) Terminal-Bench."""
    if not isinstance(value, Mapping) or "trial_name" not in value:
        return False
    if "is_resolved" in value:
        return True
    return "task_name" in value and bool(value.keys() & {"verifier_result", "agent_info"})


def is_config(value: Any) -> bool:
    """Whether this is a configuration of a trial or job, or the summary of a job."""
    return isinstance(value, Mapping) and any(keys <= value.keys() for keys in _CONFIGS)


def is_traces(value: Any) -> bool:
    """Whether this is a record of Harbor's traces export: one model call, whole prompt."""
    return isinstance(value, Mapping) and value.keys() >= _TRACE


def runs_of(result: Path) -> dict[Path, str | None]:
    """The trajectory files of a trial, by the step that each belongs to (None: no steps).

    They lie beside the result, in ``agent/``, or in ``steps/NAME/agent/``. In a folder with several
    candidates only ``trajectory.json`` is certain.
    """
    folder = result.parent
    runs: dict[Path, str | None] = dict.fromkeys(_mains(folder) + _mains(folder / "agent"))
    steps = folder / "steps"
    names = sorted(p.name for p in steps.iterdir() if p.is_dir()) if steps.is_dir() else []
    return {**runs, **{path: name for name in names for path in _mains(steps / name / "agent")}}


def _mains(folder: Path) -> list[Path]:
    if (folder / "trajectory.json").is_file():
        return [folder / "trajectory.json"]
    if not folder.is_dir():
        return []
    found = [p for p in sorted(folder.glob("*.json"))[:16] if is_atif(Source(p).first)]
    mains = [p for p in found if referrer(p) is None]
    return mains if len(mains) == 1 else []


def trial_of(run: Path) -> tuple[Mapping[str, Any], str | None] | None:
    """The trial result that a trajectory file belongs to, and its step name; None without one."""
    folder = run.parent
    for _ in range(_LEVELS):
        for name in RESULT_NAMES:
            path = folder / name
            if not path.is_file() or b'"trial_name"' not in Source(path).head:
                continue
            value = Source(path).first
            runs = runs_of(path) if is_trial(value) else {}
            if run in runs:
                return value, runs[run]
        if folder.parent == folder:
            break
        folder = folder.parent
    return None


def task_id(trial: Mapping[str, Any], step: str | None) -> str:
    """Group key: the data set (``harbor`` where it is not named), the task, and the step."""
    task = trial.get("task_name") or trial.get("task_id")
    return "/".join(
        [str(trial.get("source") or "harbor"), str(task), *([] if step is None else [step])]
    )


def labels(
    trial: Mapping[str, Any], step: str | None, trajectory_id: str, options: ImportOptions
) -> Iterator[Label]:
    """The verifier's word: an outcome, and a label for each further reward by name.

    Nothing comes where no verifier ran, or where Harbor itself calls its reward not valid.
    """
    if trial.get("reward_valid") is False:
        return
    judged = _part(trial, step)
    rewards = (judged.get("verifier_result") or {}).get("rewards")
    given = {k: number(v) for k, v in rewards.items()} if isinstance(rewards, Mapping) else {}
    main = "reward" if "reward" in given else next(iter(given), None)
    solved = trial.get("is_resolved") if step is None else None
    reward = None if main is None else given[main]
    if reward is None and isinstance(solved, bool):
        reward = float(solved)
    finished = moment(trial.get("finished_at") or trial.get("trial_ended_at"))
    if reward is not None:
        success = solved if isinstance(solved, bool) else success_of(reward, options)
        yield Label(
            trajectory_id=trajectory_id,
            evaluator=EVALUATOR,
            name=OUTCOME,
            value=reward,
            success=success,
            created_at=finished,
        )
    for name, value in given.items():
        if name != main and value is not None:
            yield Label(
                trajectory_id=trajectory_id,
                evaluator=EVALUATOR,
                name=name,
                value=value,
                created_at=finished,
            )


def _part(trial: Mapping[str, Any], step: str | None) -> Mapping[str, Any]:
    """The trial, or the entry of one of its steps."""
    if step is None:
        return trial
    entries = trial.get("step_results") or ()
    return next((e for e in entries if e.get("step_name") == step), {})


def run_fields(trial: Mapping[str, Any], step: str | None) -> dict[str, Any]:
    """What a trial result tells of the run: task, status, error, times, and the rest of it."""
    part = _part(trial, step)
    error = part.get("exception_info") or trial.get("exception_info")
    phase = part.get("agent_execution") or {}
    begun, done = moment(phase.get("started_at")), moment(phase.get("finished_at"))
    kept = {k: v for k, v in trial.items() if k not in {"agent_result", "step_results"} and v}
    return {
        "task_id": task_id(trial, step),
        "environment": words(trial.get("source")),
        "status": _status(error, trial),
        "error": _message(error),
        "termination_reason": words(error.get("exception_type"))
        if isinstance(error, Mapping)
        else None,
        "duration_s": (done - begun).total_seconds() if begun and done else None,
        "trial": {**kept, "agent_result": _without_rollouts(part.get("agent_result"))},
    }


def _without_rollouts(result: Any) -> Any:
    """The agent's result without token ids, which the trajectory has itself."""
    if not isinstance(result, Mapping):
        return result
    return {k: v for k, v in result.items() if k != "rollout_details" and v is not None} or None


def _status(error: Any, trial: Mapping[str, Any]) -> Status | None:
    if isinstance(error, Mapping):
        kind = str(error.get("exception_type"))
        return "truncated" if kind == "AgentTimeoutError" else "error"
    return "terminated" if trial.get("finished_at") or "is_resolved" in trial else None


def _message(error: Any) -> str | None:
    if not isinstance(error, Mapping):
        return None
    return f"{error.get('exception_type')}: {error.get('exception_message')}"
