"""Images, videos and sounds that lie in columns beside the messages that show them."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from trajstore.schema import Step, json_text

_MARKER = re.compile(r"<(image|video|audio)>")
_COLUMNS = {"images": "image", "videos": "video", "audios": "audio"}
_MAGIC = (
    (b"\x89PNG", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
    (b"ID3", "audio/mpeg"),
)


def with_media(
    steps: Sequence[Step], row: Mapping[str, Any]
) -> tuple[tuple[Step, ...], frozenset[str]]:
    """Steps whose ``<image>``, ``<video>`` and ``<audio>`` markers have become content parts.

    Markers stand for the entries of ``images``, ``videos`` and ``audios`` in order; the text keeps
    them. Where their numbers differ, all media are put on the first user step.

    Args:
        steps: the steps of one conversation.
        row: the record, with paths, URLs or ``{"bytes", "path"}`` in those columns.

    Returns:
        The steps and the names of the columns that went into them.
    """
    media = {k: list(row[c]) for c, k in _COLUMNS.items() if _is_list(row.get(c))}
    if not media:
        return tuple(steps), frozenset()
    used = frozenset(c for c, kind in _COLUMNS.items() if kind in media)
    marked = [m for s in steps for m in _MARKER.findall(s.text or "")]
    if all(marked.count(kind) == len(values) for kind, values in media.items()):
        queues = {kind: iter(values) for kind, values in media.items()}
        return tuple(_placed(s, queues) for s in steps), used
    return _on_first_user(steps, media), used


def _is_list(value: Any) -> bool:
    return isinstance(value, list) and bool(value)


def _placed(step: Step, queues: Mapping[str, Iterator[Any]]) -> Step:
    text = step.text or ""
    if not any(kind in queues for kind in _MARKER.findall(text)):
        return step
    parts: list[dict[str, Any]] = []
    for i, piece in enumerate(_MARKER.split(text)):
        if i % 2 and piece in queues:
            parts.append(_part(piece, next(queues[piece])))
        elif piece:
            parts.append({"type": "text", "text": f"<{piece}>" if i % 2 else piece})
    return replace(step, content=json_text(parts))


def _on_first_user(steps: Sequence[Step], media: Mapping[str, list[Any]]) -> tuple[Step, ...]:
    parts = [_part(kind, value) for kind, values in media.items() for value in values]
    at = next((i for i, s in enumerate(steps) if s.actor == "user"), 0)
    here = steps[at]
    if here.content is not None:
        before = json.loads(here.content)
    else:
        before = [] if here.text is None else [{"type": "text", "text": here.text}]
    shown = replace(here, content=json_text([*before, *parts]))
    return (*steps[:at], shown, *steps[at + 1 :])


def _part(kind: str, value: Any) -> dict[str, Any]:
    name = f"{kind}_url"
    return {"type": name, name: {"url": _url(value)}}


def _url(value: Any) -> Any:
    if isinstance(value, Mapping):
        value = value.get("bytes") or value.get("path") or value.get("url") or dict(value)
    return data_url(value) if isinstance(value, bytes) else value


def data_url(raw: bytes) -> str:
    """Bytes as a ``data:`` URL, the media type seen from the first bytes."""
    kind = next((k for magic, k in _MAGIC if raw.startswith(magic)), "application/octet-stream")
    if raw.startswith(b"RIFF"):
        kind = "image/webp" if raw[8:12] == b"WEBP" else "audio/wav"
    return f"data:{kind};base64,{base64.b64encode(raw).decode()}"
