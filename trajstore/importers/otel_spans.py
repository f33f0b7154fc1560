"""Spans as files hold them: OTLP JSON, SDK dumps, data-frame rows, bare attributes."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from trajstore.importers.building import moment
from trajstore.importers.framework_messages import decoded
from trajstore.importers.record_by_record import UNFIT
from trajstore.importers.span_attributes import MARKERS, Events, fill
from trajstore.importers.spans import Span

_HEXADECIMAL = re.compile(r"(?:0x)?[0-9a-fA-F]+")
_NESTED = ("llm", "retrieval", "embedding", "reranker", "document")


def is_export(value: Any) -> bool:
    """Whether a value is an OTLP export: ``resourceSpans`` in either spelling."""
    return isinstance(value, Mapping) and any(
        isinstance(value.get(k), list) for k in ("resourceSpans", "resource_spans")
    )


def is_span(value: Any) -> bool:
    """Whether a value is one span with ids and attributes, in a known layout."""
    if not isinstance(value, Mapping):
        return False
    has_attributes = isinstance(value.get("attributes"), Mapping | list) or any(
        k.startswith("attributes.") for k in value
    )
    return has_attributes and _ids(value)[0] is not None and _ids(value)[1] is not None


def is_bare(value: Any) -> bool:
    """Whether a value is nothing but the attributes of one span."""
    if not isinstance(value, Mapping) or "attributes" in value:
        return False
    return any(
        k.startswith(("gen_ai.", "openinference.span.", "llm.input_messages", "traceloop.span."))
        for k in value
    )


def speaks_of_models(value: Any) -> bool:
    """Whether a span or export has any attribute of a model, tool or agent."""
    text = str(value)
    return any(marker in text for marker in MARKERS)


@dataclass(frozen=True, slots=True)
class BadSpan:
    """A span of an export that could not be read; the others beside it could."""

    reason: str
    """What was wrong with it."""


def spans_in(value: Mapping[str, Any]) -> Iterator[Span | BadSpan]:
    """The spans of an export, or the one span that the value is.

    Raises:
        TypeError: it is neither.
    """
    if is_export(value):
        yield from _exported(value)
    elif is_span(value):
        yield _flat(value)
    else:
        message = "neither an OTLP export nor a span with trace id, span id and attributes"
        raise TypeError(message)


def bare_span(value: Mapping[str, Any]) -> Span:
    """A span from attributes alone: it has no id, no time and no parent."""
    return fill(Span(span_id="span", trace_id=""), flattened(value), [])


def _get(value: Mapping[str, Any], *names: str) -> Any:
    return next((value[n] for n in names if value.get(n) is not None), None)


def _exported(export: Mapping[str, Any]) -> Iterator[Span | BadSpan]:
    for resource in _get(export, "resourceSpans", "resource_spans") or ():
        about = typed_attributes((resource.get("resource") or {}).get("attributes"))
        names = ("scopeSpans", "scope_spans", "instrumentationLibrarySpans")
        for scope in _get(resource, *names) or ():
            library = _get(scope, "scope", "instrumentationLibrary") or {}
            for number, raw in enumerate(scope.get("spans") or ()):
                try:
                    span = _flat(raw)
                except UNFIT as error:
                    yield BadSpan(f"span {number} of its scope: {error!r}")
                    continue
                if about:
                    span.extra["resource"] = about
                if library.get("name"):
                    span.extra["scope"] = library["name"]
                yield span


def _ids(value: Mapping[str, Any]) -> tuple[Any, Any]:
    context = value.get("context") if isinstance(value.get("context"), Mapping) else {}
    context = context or {}
    trace = _get(value, "traceId", "trace_id", "context.trace_id") or _get(
        context, "trace_id", "traceId"
    )
    span = _get(value, "spanId", "span_id", "context.span_id") or _get(context, "span_id", "spanId")
    if span is None and trace is not None and "parentId" in value:
        span = value.get("id")
    return trace, span


def _flat(value: Mapping[str, Any]) -> Span:
    trace, span_id = _ids(value)
    if trace is None or span_id is None:
        raise TypeError("it has no trace id or no span id")
    parent = _get(value, "parentSpanId", "parent_span_id", "parent_id", "parentId")
    if isinstance(value.get("parent"), Mapping) and parent is None:
        parent = _get(value["parent"], "span_id", "spanId")
    span = Span(
        span_id=_identifier(span_id),
        trace_id=_identifier(trace),
        parent_id=_identifier(parent) or None,
        name=None if value.get("name") is None else str(value["name"]),
        started=_time(
            _get(value, "startTimeUnixNano", "start_time_unix_nano", "start_time", "startTime")
        ),
        ended=_time(_get(value, "endTimeUnixNano", "end_time_unix_nano", "end_time", "endTime")),
    )
    attributes = _attributes(value)
    if value.get("span_kind"):
        attributes.setdefault("openinference.span.kind", value["span_kind"])
    fill(span, attributes, _events(value))
    _status(span, value, attributes.get("error.type"))
    _lightning(span, value, attributes)
    return span


def _identifier(value: Any) -> str:
    """An id as hexadecimal text; the protobuf form of OTLP JSON writes base64."""
    text = "" if value is None else str(value)
    if not text or _HEXADECIMAL.fullmatch(text):
        return text.removeprefix("0x").lower()
    try:
        raw = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return text
    return raw.hex() if len(raw) in {8, 16} else text


def _time(value: Any) -> Any:
    """A time; JavaScript SDKs write ``[seconds, nanoseconds]``, OTLP nanoseconds as text."""
    if isinstance(value, list) and len(value) == 2:
        value = float(value[0]) + float(value[1]) / 1e9
    if isinstance(value, str) and value.isdigit():
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool) and value > 10**17:
        return moment(value / 1e9)
    return moment(value)


def typed_attributes(given: Any) -> dict[str, Any]:
    """OTLP attributes (a list of key and typed value, or an object) as a plain dict."""
    if isinstance(given, Mapping):
        return dict(given)
    return {a["key"]: typed_value(a.get("value")) for a in given or () if "key" in a}


def typed_value(value: Any) -> Any:
    """The plain value behind an OTLP ``AnyValue`` such as ``{"intValue": "5"}``."""
    if not isinstance(value, Mapping) or len(value) != 1:
        return value
    ((name, inner),) = value.items()
    kind = name.replace("_", "").lower()
    if kind == "intvalue":
        return int(inner)
    if kind == "doublevalue":
        return float(inner)
    if kind == "arrayvalue":
        return [typed_value(v) for v in (inner or {}).get("values") or ()]
    if kind == "kvlistvalue":
        return typed_attributes((inner or {}).get("values"))
    return inner if kind in {"stringvalue", "boolvalue", "bytesvalue"} else value


def _attributes(value: Mapping[str, Any]) -> dict[str, Any]:
    given = flattened(typed_attributes(value.get("attributes")))
    prefixed = {
        k.removeprefix("attributes."): v
        for k, v in value.items()
        if k.startswith("attributes.") and v is not None
    }
    return {**given, **flattened(prefixed)}


def flattened(values: Mapping[str, Any]) -> dict[str, Any]:
    """Dotted names for nested objects, and for lists where OpenInference nests them."""
    flat: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, Mapping) and value:
            flat |= flattened({f"{name}.{k}": v for k, v in value.items()})
        elif _is_nested_list(name, value):
            flat |= flattened({f"{name}.{i}": v for i, v in enumerate(value)})
        else:
            flat[name] = value
    return flat


def _is_nested_list(name: str, value: Any) -> bool:
    nested = name.split(".", 1)[0] in _NESTED
    return nested and isinstance(value, list) and any(isinstance(v, Mapping) for v in value)


def _events(value: Mapping[str, Any]) -> Events:
    given = decoded(value.get("events")) or ()
    return [
        (str(e.get("name") or ""), typed_attributes(e.get("attributes")))
        for e in given
        if isinstance(e, Mapping)
    ]


def _status(span: Span, value: Mapping[str, Any], kind: Any) -> None:
    """Whether the span failed: by its status, else by ``error.type``, which only failures have."""
    status = value.get("status") if isinstance(value.get("status"), Mapping) else {}
    status = status or {}
    code = str(_get(status, "code", "status_code") or value.get("status_code") or "")
    code = code.upper().removeprefix("STATUS_CODE_").removeprefix("STATUSCODE.")
    message = _get(status, "message", "description") or value.get("status_message")
    if code in {"2", "ERROR"}:
        span.failed = True
        span.error = str(message) if message else span.error or "the span has status ERROR"
    elif code in {"1", "OK"}:
        span.failed = False
    elif kind:
        span.failed = True
        span.error = str(message) if message else span.error or str(kind)


def _lightning(span: Span, value: Mapping[str, Any], attributes: Mapping[str, Any]) -> None:
    """Ids and rewards of Agent-lightning spans."""
    ids = {k: value[k] for k in ("rollout_id", "attempt_id", "sequence_id") if value.get(k)}
    span.extra.update(ids)
    values = {
        k: v
        for k, v in attributes.items()
        if k == "reward" or (k.startswith("agentlightning.reward.") and k.endswith(".value"))
    }
    said = decoded(attributes.get("agentops.entity.output", attributes.get("agentops.task.output")))
    if isinstance(said, dict) and said.get("type") == "reward":
        values["reward"] = said.get("value")
    numbers = {
        str(attributes.get(k.replace(".value", ".name"), "reward")): float(v)
        for k, v in values.items()
        if isinstance(v, int | float)
    }
    if numbers:
        span.reward = next(iter(numbers.values()))
        span.rewards = numbers
