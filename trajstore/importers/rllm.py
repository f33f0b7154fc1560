"""rLLM episodes and trajectories: steps that each repeat the whole chat."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar

from trajstore.importers.building import moment, number, text_of, whole
from trajstore.importers.importer import Importer, success_of, uri
from trajstore.importers.items import ImportOptions, Item
from trajstore.importers.rllm_steps import steps_of
from trajstore.importers.source import Record, Source
from trajstore.schema import Status, Step, Trajectory, digest, json_text_or_none, trajectory_id

_DEFAULT_NAMES = frozenset({"default_traj_name", "agent"})
_EPISODE_TAKEN = frozenset(
    {"trajectories", "task", "termination_reason", "is_correct", "training_step"}
)
_TRAJECTORY_TAKEN = frozenset({"steps", "task", "reward", "tool_calls_summary", "num_steps"})
_QUESTIONS = ("question", "problem", "problem_statement", "instruction", "prompt", "query", "goal")
_CUT = ("max_", "timeout", "length")


class RllmImporter(Importer):
    """Reads ``Episode`` and ``Trajectory`` objects of rLLM, also as its episode logger writes them.

    Identity: the trajectory's ``uid``; where an older file has none, the episode's id with its time
    and name, else the whole content. The trajectories of an episode (solver, judge, ...) share its
    verdict only where there is one of them; with several, each has its own reward.

    A bare trajectory without ``uid`` (the Strands example) has 0 as a reward that nobody set, so
    its success stays unknown unless a threshold is given.
    """

    name: ClassVar[str] = "rllm"
    title: ClassVar[str] = "rLLM episodes and trajectories (JSON, JSON Lines)"
    reads: ClassVar[str] = (
        "steps with token ids, log-probabilities, rewards and advantages; success from "
        "'is_correct', else from the trajectory's reward"
    )

    def detect(self, source: Source) -> float:
        """Sure of episodes, of trajectories with rLLM steps, and of the summary of a batch."""
        return 0.9 if any(_is_ours(v) for v in source.sample) else 0.0

    def convert(self, source: Source, record: Record, options: ImportOptions) -> Iterable[Item]:
        """The trajectories of an episode, or the one that the record is."""
        value = record.value
        if _is_summary(value):
            return [
                self.ignored(source, "the summary of a batch; its episodes are files beside it")
            ]
        if isinstance(value.get("trajectories"), list):
            return list(self._episode(source, record, options))
        if not _is_trajectory(value):
            raise TypeError("neither an episode nor a trajectory with steps")
        return [self._trajectory(value, {}, 1, uri(source, record), options)]

    def _episode(
        self, source: Source, record: Record, options: ImportOptions
    ) -> Iterator[Trajectory]:
        episode = record.value
        trajectories = episode["trajectories"]
        if not trajectories:
            raise ValueError("the episode has no trajectory")
        for i, trajectory in enumerate(trajectories):
            place = uri(source, record)
            if len(trajectories) > 1:
                place += f"{'/' if '#' in place else '#'}{i}"
            yield self._trajectory(trajectory, episode, len(trajectories), place, options)

    def _trajectory(
        self,
        value: Mapping[str, Any],
        episode: Mapping[str, Any],
        siblings: int,
        place: str,
        options: ImportOptions,
    ) -> Trajectory:
        steps = steps_of(value["steps"])
        about = _about(value)
        reward = number(value.get("reward"))
        task = value.get("task") if value.get("task") is not None else episode.get("task")
        name = value.get("name")
        version = episode.get("training_step")
        return Trajectory(
            trajectory_id=trajectory_id(self.name, _key(value, episode, steps)),
            task_id=f"{self.name}/{_task_key(episode, task)}",
            attempt=_attempt(episode),
            goal=_goal(task, steps),
            source=self.name,
            source_uri=place,
            agent=about.get("agent_type") or (None if name in _DEFAULT_NAMES else name),
            policy_version=None if version is None else str(version),
            status=_status(value, episode),
            termination_reason=_text(episode.get("termination_reason")),
            success=_success(value, episode, siblings, options),
            reward=reward,
            steps=steps,
            started_at=moment(about.get("timestamp")),
            metadata=_metadata(value, episode),
        )


def _is_ours(value: Any) -> bool:
    if not isinstance(value, Mapping):
        return False
    if _is_summary(value):
        return True
    inner = value.get("trajectories")
    if isinstance(inner, list) and inner:
        return "is_correct" in value and _is_trajectory(inner[0])
    return _is_trajectory(value)


def _is_trajectory(value: Any) -> bool:
    steps = value.get("steps") if isinstance(value, Mapping) else None
    if not isinstance(steps, list) or "reward" not in value:
        return False
    if not steps:
        return "uid" in value and "name" in value
    first = steps[0]
    return isinstance(first, Mapping) and {"chat_completions", "model_response"} <= first.keys()


def _is_summary(value: Any) -> bool:
    return isinstance(value, Mapping) and {"episode_files", "summary_stats"} <= value.keys()


def _about(value: Mapping[str, Any]) -> Mapping[str, Any]:
    found = value.get("metadata")
    return found if isinstance(found, Mapping) else {}


def _episode_id(episode: Mapping[str, Any]) -> str | None:
    return _text(episode.get("id") or episode.get("episode_id"))


def _key(value: Mapping[str, Any], episode: Mapping[str, Any], steps: tuple[Step, ...]) -> str:
    if value.get("uid"):
        return str(value["uid"])
    about = _about(value)
    episode_id = _episode_id(episode) or about.get("episode_id")
    if episode_id and about.get("timestamp"):
        return digest(episode_id, value.get("name"), about["timestamp"])
    content = [[s.actor, s.text, [c.arguments_raw for c in s.tool_calls]] for s in steps]
    return digest(episode_id, value.get("name"), content)


def _task_key(episode: Mapping[str, Any], task: Any) -> str:
    """The task part of the episode id ``task:rollout``, else a hash of the task itself."""
    episode_id = _episode_id(episode)
    if episode_id:
        return episode_id.rsplit(":", 1)[0]
    return digest(task)[:16]


def _attempt(episode: Mapping[str, Any]) -> int | None:
    episode_id = _episode_id(episode) or ""
    return whole(episode_id.rsplit(":", 1)[1]) if ":" in episode_id else None


def _goal(task: Any, steps: tuple[Step, ...]) -> str | None:
    if isinstance(task, str):
        return task
    if isinstance(task, Mapping):
        found = next((task[q] for q in _QUESTIONS if isinstance(task.get(q), str)), None)
        if found is not None:
            return str(found)
    return next((s.text for s in steps if s.actor == "user" and s.text), None)


def _status(value: Mapping[str, Any], episode: Mapping[str, Any]) -> Status | None:
    reason = str(episode.get("termination_reason") or "").lower()
    if reason == "error":
        return "error"
    if any(word in reason for word in _CUT):
        return "truncated"
    steps = value["steps"]
    ended = bool(reason and reason != "unknown") or bool(steps and steps[-1].get("done") is True)
    return "terminated" if ended else None


def _success(
    value: Mapping[str, Any], episode: Mapping[str, Any], siblings: int, options: ImportOptions
) -> bool | None:
    reward, verdict = number(value.get("reward")), episode.get("is_correct")
    if options.success_threshold is not None:
        return success_of(reward, options)
    if siblings == 1 and isinstance(verdict, bool):
        return verdict
    return success_of(reward, options) if value.get("uid") or episode else None


def _metadata(value: Mapping[str, Any], episode: Mapping[str, Any]) -> str | None:
    left = {k: v for k, v in value.items() if k not in _TRAJECTORY_TAKEN and v not in (None, {})}
    about = {k: v for k, v in episode.items() if k not in _EPISODE_TAKEN and v not in (None, {})}
    if episode.get("is_correct") is not None:
        about["is_correct"] = episode["is_correct"]
    if about:
        left["episode"] = about
    task = value.get("task") if value.get("task") is not None else episode.get("task")
    if isinstance(task, Mapping):
        left["task"] = task
    return json_text_or_none(left)


def _text(value: Any) -> str | None:
    return text_of(value) if isinstance(value, str) or value is None else str(value)


IMPORTER = RllmImporter()
