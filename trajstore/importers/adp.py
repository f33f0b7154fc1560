"""Agent Data Protocol: the standard form, and the raw samples that it was made from."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

from trajstore.importers import swe_bench
from trajstore.importers.adp_steps import (
    chat_steps,
    executed,
    fenced,
    function_xml,
    split_ending,
    standard_steps,
    text_steps,
)
from trajstore.importers.building import number, rest
from trajstore.importers.importer import Importer, success_of, uri
from trajstore.importers.items import ImportOptions, Item
from trajstore.importers.plain import words
from trajstore.importers.source import Record, Source
from trajstore.importers.swe_agent import exit_state
from trajstore.schema import Step, Trajectory, digest, json_text_or_none, trajectory_id

_SMITH_RUN = re.compile(r"(?P<run>(?P<instance>.+\.[0-9a-f]{8}\..+)\.[a-z0-9]{8})(?:_\d+)?")
_NUMBERED = re.compile(r"(?P<instance>.+__.+-\d+)_(?P<attempt>\d+)")
_CODE_ACT = re.compile(r"[^/]+/(?P<task>.+)/(?P<model>[^/]+)/max\d+[^/]*")
_GYM_RUN = re.compile(r"(?P<model>.+?)_maxiter_\d+")
_CHAT = frozenset({"role", "content"})
_CONTENT = frozenset(
    {"content", "messages", "trajectory", "conversations", "tools", "available_tools"}
)
_JSON_TEXT = ("tools", "test_result", "available_tools", "messages", "target_tools")


class AdpImporter(Importer):
    """Reads standard records and raw samples of nebius, SWE-smith, SWE-Gym, CodeAct and Toucan.

    Identity: see :func:`adp_identity`; a raw record, its standard form, and the SFT and ATIF forms
    made from that all carry the same id. A raw record that was taken from its data set before ADP
    numbered the attempts has no such id: there the digest of the whole record stands for it.
    """

    name: ClassVar[str] = "adp"
    title: ClassVar[str] = "Agent Data Protocol (standard and raw samples)"
    reads: ClassVar[str] = (
        "actions and observations, tools, patch; success from 'resolved' or 'target' where given"
    )

    def detect(self, source: Source) -> float:
        """Sure of items with ``class_`` and of the field sets of the raw samples."""
        value = source.first
        return 0.0 if kind_of(value) is None else 0.95 if "content" in value else 0.9

    def convert(self, source: Source, record: Record, options: ImportOptions) -> Iterable[Item]:
        """One record."""
        value = record.value
        kind = kind_of(value)
        if kind is None:
            message = "the fields are those of no form of ADP"
            raise ValueError(message)
        steps, added = _steps(value, kind)
        if not steps:
            message = "there is no step in it"
            raise ValueError(message)
        yield _trajectory(value, kind, steps, added, uri(source, record), options)


def adp_identity(record_id: str, otherwise: str | None = None) -> str:
    """Trajectory id of an ADP record in any of its forms (raw, standard, SFT, ATIF).

    Args:
        record_id: the ``id`` of the standard record. SWE-smith numbers the renderings of one run
            (``RUN_0``, ``RUN_1``), which are one trajectory.
        otherwise: what tells records apart where the id is a bare number, which every data set
            has; such records have no common id in all forms.

    >>> adp_identity("os_17") == adp_identity("os_17", "any text")
    True
    >>> adp_identity("17", "one text") == adp_identity("17", "another")
    False
    """
    smith = _SMITH_RUN.fullmatch(record_id)
    if smith is not None:
        return trajectory_id("adp", smith["run"])
    if record_id.isdigit() or not record_id:
        return trajectory_id("adp", digest(record_id, otherwise))
    return trajectory_id("adp", record_id)


def kind_of(value: Any) -> str | None:
    """The form of a record: ``standard``, the name of a raw data set, or None."""
    if not isinstance(value, Mapping):
        return None
    if "id" in value and _first(value, "content").keys() >= {"class_"}:
        return "standard"
    if {"instance_id", "generated_patch"} <= value.keys():
        return "nebius" if _first(value, "trajectory").keys() >= {"role", "text"} else None
    if {"instance_id", "messages", "traj_id"} <= value.keys():
        return "swe-smith"
    if {"instance_id", "messages", "run_id", "test_result"} <= value.keys():
        return "swe-gym"
    if {"messages", "question", "target_tools"} <= value.keys():
        return "toucan"
    talk = value.get("conversations")
    if "id" in value and isinstance(talk, list) and _first(value, "conversations").keys() >= _CHAT:
        return "codeact" if any(_acts(m) for m in talk) else None
    return None


def _first(value: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    items = value.get(name)
    first = items[0] if isinstance(items, list) and items else None
    return first if isinstance(first, Mapping) else {}


def _acts(message: Any) -> bool:
    text = str(message.get("content")) if isinstance(message, Mapping) else ""
    return "<execute>" in text or "<solution>" in text


def _steps(value: Mapping[str, Any], kind: str) -> tuple[tuple[Step, ...], Sequence[Any]]:
    """The steps, and what the conversion to the standard form added to them."""
    if kind == "standard":
        content, added = split_ending(value["content"])
        return standard_steps(content), added
    messages = _parsed(value.get("messages", value.get("trajectory", value.get("conversations"))))
    messages = [m[0] if isinstance(m, list) and len(m) == 1 else m for m in messages]
    if kind in {"swe-gym", "toucan"}:
        return chat_steps(messages), ()
    acts = {"nebius": fenced, "swe-smith": function_xml, "codeact": executed}[kind]
    return text_steps(messages, acts, must_act=kind != "codeact"), ()


def _parsed(value: Any) -> Any:
    """The value of JSON text; other values, and text that is no JSON, as they are."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except ValueError:
        return value


def _record_id(value: Mapping[str, Any]) -> str:
    return str(value.get("id") or value.get("traj_id") or value.get("instance_id") or "")


def _identity(value: Mapping[str, Any], kind: str) -> str:
    record_id = _record_id(value)
    if kind in {"nebius", "swe-gym"} and not _NUMBERED.fullmatch(record_id):
        return trajectory_id("adp", digest(value))
    return adp_identity(record_id, digest(value))


def _names(record_id: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Task, attempt, agent, model and environment, as far as an id and the fields tell them."""
    smith, code = _SMITH_RUN.fullmatch(record_id), _CODE_ACT.fullmatch(record_id)
    if smith is not None:
        return _named("SWE-agent", smith["instance"], model=words(fields.get("model")))
    if code is not None:
        task = f"codeact/{code['task']}"
        return {"task_id": task, "agent": "CodeAct", "model": code["model"]}
    numbered = _NUMBERED.fullmatch(record_id)
    instance = numbered["instance"] if numbered else record_id
    if swe_bench.benchmark_of(instance) is None:
        return {"model": words(fields.get("model_name") or fields.get("model"))}
    gym = _GYM_RUN.match(str(fields.get("run_id") or ""))
    agent = "OpenHands" if gym else "SWE-agent" if "generated_patch" in fields else None
    model = gym["model"] if gym else words(fields.get("model_name"))
    attempt = int(numbered["attempt"]) if numbered else None
    return {**_named(agent, instance, model=model), "attempt": attempt}


def _named(agent: str | None, instance: str, *, model: str | None) -> dict[str, Any]:
    return {
        "task_id": swe_bench.task_id(instance, "adp"),
        "environment": swe_bench.benchmark_of(instance),
        "agent": agent,
        "model": model or None,
    }


def _trajectory(
    value: Mapping[str, Any],
    kind: str,
    steps: tuple[Step, ...],
    added: Sequence[Any],
    where: str,
    options: ImportOptions,
) -> Trajectory:
    details = value.get("details")
    fields = {
        k: _parsed(v) if k in _JSON_TEXT else v
        for k, v in (details if isinstance(details, Mapping) else value).items()
    }
    record_id, reward = _record_id(value), number(fields.get("reward"))
    goal = next((s.text for s in steps if s.actor == "user"), None)
    status = fields.get("exit_status") or None
    anonymous = record_id.isdigit() or not record_id
    names = {
        "task_id": f"adp/{digest(goal)[:16] if anonymous else record_id}",
        **_names(record_id, fields),
    }
    return Trajectory(
        trajectory_id=_identity(value, kind),
        goal=swe_bench.issue_of(goal),
        source="adp",
        source_uri=where,
        status=exit_state(status),
        termination_reason=words(status),
        success=_success(fields, reward, options),
        reward=reward,
        tools=_tools(fields),
        steps=steps,
        metadata=_metadata(value, fields, added),
        **names,
    )


def _success(
    fields: Mapping[str, Any], reward: float | None, options: ImportOptions
) -> bool | None:
    """The data set's own verdict; of a bare reward only where the user named a threshold."""
    verdict = fields.get("resolved", fields.get("target"))
    if isinstance(verdict, str):
        verdict = {"true": True, "false": False}.get(verdict.lower())
    if isinstance(verdict, bool):
        return verdict
    return None if options.success_threshold is None else success_of(reward, options)


def _tools(fields: Mapping[str, Any]) -> str | None:
    given = fields.get("tools") or fields.get("available_tools")
    return json_text_or_none(given) if isinstance(given, list) else None


def _metadata(
    value: Mapping[str, Any], fields: Mapping[str, Any], added: Sequence[Any]
) -> str | None:
    """What has no column: the details or the raw fields, and the ending that ADP added."""
    kept = {k: v for k, v in value.items() if k not in {"content", "details"}}
    root = kept if "details" in value else {}
    hidden = _CONTENT if isinstance(fields.get("tools", []), list) else _CONTENT - {"tools"}
    return rest({**root, **fields, "added_by_adp": list(added) or None}, hidden)


IMPORTER = AdpImporter()
"""The importer of this module."""
