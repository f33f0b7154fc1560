"""Stable ids: the same run, label, skill or reflection has the same id on every machine."""

from __future__ import annotations

import hashlib
import re
import uuid
from datetime import UTC, datetime

from trajstore.schema.jsontext import canonical_json
from trajstore.schema.label import Label
from trajstore.schema.memory import Insight, Reflection, Skill, Use, Workflow

_SEPARATOR = "\x1f"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def digest(*parts: object) -> str:
    """SHA-256 in hexadecimal over the parts, None and '' kept apart."""
    return hashlib.sha256(canonical_json(list(parts)).encode()).hexdigest()


def trajectory_id(source: str, key: str, started_at: datetime | None = None) -> str:
    """A UUIDv8 for one run (RFC 9562): time-ordered where the start is known, else by hash.

    The first 48 bits are the run's own start in milliseconds since 1970 (zero if unknown), the rest
    is a hash of ``source`` and ``key``.

    Args:
        source: family of formats the run comes from; two renderings of one run share it.
        key: what identifies the run inside that family, taken from the content and never from the
            folder it lies in.
        started_at: the run's own start; pass None unless every rendering of the run carries it.

    >>> trajectory_id("tau-bench", "airline/0/1")
    '00000000-0000-8e37-bb40-36a4482ea248'
    """
    tail = hashlib.sha256(f"{source}{_SEPARATOR}{key}".encode("utf-8", "backslashreplace")).digest()
    ms = (
        0 if started_at is None else max(0, int((_utc(started_at) - _EPOCH).total_seconds() * 1000))
    )
    raw = bytearray((ms & (2**48 - 1)).to_bytes(6, "big") + tail[:10])
    raw[6] = (raw[6] & 0x0F) | 0x80
    raw[8] = (raw[8] & 0x3F) | 0x80
    return str(uuid.UUID(bytes=bytes(raw)))


def _utc(moment: datetime) -> datetime:
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


def label_id(label: Label) -> str:
    """Hash of everything a label says, its time left out: the same word is kept once."""
    return digest(
        label.trajectory_id,
        label.step_index,
        label.name,
        label.value,
        label.success,
        label.rationale,
        label.evaluator,
        label.evaluator_version,
    )[:32]


def skill_id(skill: Skill) -> str:
    """``name@hash`` of the language and the code."""
    return f"{skill.name}@{digest(skill.language, skill.code)[:12]}"


def reflection_id(reflection: Reflection) -> str:
    """Hash of the task, the trial and the text."""
    return digest(reflection.task_id, reflection.trial, reflection.text)[:32]


def workflow_id(workflow: Workflow) -> str:
    """Hash of the name and the steps."""
    return digest(workflow.name, workflow.steps)[:32]


def insight_id(insight: Insight) -> str:
    """Its own id, else a hash of what its first text says and where it holds."""
    if insight.insight_id is not None:
        return insight.insight_id
    place = (insight.task_id, insight.environment, insight.observation)
    return digest(insight.kind, insight.level, insight.title, insight.text, *place)[:16]


def use_id(use: Use) -> str:
    """Hash of the run, the kind and the item."""
    return digest(use.trajectory_id, use.kind, use.item_id)[:32]


def canonical_action(name: str, arguments: str | None) -> str:
    r"""Tool name, U+001F, canonical arguments: equal actions have equal text.

    >>> canonical_action("search", '{"a":[1,2],"b":1}')
    'search\x1f{"a":[1,2],"b":1}'
    """
    return f"{name}{_SEPARATOR}{arguments or ''}"


_UUID = re.compile(
    r"\b[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}\b", re.ASCII
)
_TIME = re.compile(
    r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?", re.ASCII
)
_TEMPORARY = re.compile(r"/(?:tmp|var/folders)/[\w.+-]+")
_ADDRESS = re.compile(r"\b0x[0-9a-fA-F]{6,16}\b", re.ASCII)
_UUID_SIGN = re.compile(r"-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-", re.ASCII)
_TIME_SIGN = re.compile(r"-\d\d[T ]\d\d:\d\d", re.ASCII)


def mask_volatile(text: str) -> str:
    """Replace what differs from run to run (UUIDs, times, temporary paths, addresses) by its kind.

    >>> mask_volatile("at 2026-01-02T03:04:05Z in /tmp/abc1/x")
    'at <time> in <tmp>/x'
    """
    # A search for a sign that starts with one fixed character costs a tenth of the full pattern.
    if _UUID_SIGN.search(text):
        text = _UUID.sub("<uuid>", text)
    if _TIME_SIGN.search(text):
        text = _TIME.sub("<time>", text)
    if "/tmp/" in text or "/var/folders/" in text:  # noqa: S108  text of logs, no file here
        text = _TEMPORARY.sub("<tmp>", text)
    if "0x" in text:
        text = _ADDRESS.sub("<address>", text)
    return text
