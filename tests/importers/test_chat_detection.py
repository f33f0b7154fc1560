"""No input makes the detection of the chat formats raise, and no record breaks the reading."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from trajstore.importers import (
    anthropic_messages,
    hermes,
    jsonl,
    openai_chat,
    openai_responses,
    sharegpt,
    tables,
)
from trajstore.importers.items import ImportOptions, Item
from trajstore.importers.source import Source
from trajstore.schema import (
    Label,
    Trajectory,
    finish,
    labels_to_arrow,
    steps_to_arrow,
    trajectories_to_arrow,
    validate,
)

IMPORTERS = [
    m.IMPORTER
    for m in (
        anthropic_messages,
        hermes,
        jsonl,
        openai_chat,
        openai_responses,
        sharegpt,
        tables,
    )
]
_NAMES = """
messages conversations prompt completion chosen rejected input preferred_output id type role
non_preferred_output output system tools label content from value tool_calls text steps call_id
function_call function name arguments summary thinking actor images response choices message
object instructions usage status tool_use_id observations
"""
_WORDS = """
user assistant tool system gpt human function_call observation text tool_use tool_result reasoning
message function_call_output agent <tool_call> </tool_call> <think> <tool_response> { [ response
"""
NAMES = st.sampled_from(_NAMES.split())
WORDS = st.sampled_from(_WORDS.split())
SCALARS = st.none() | st.booleans() | st.integers(-1, 2) | WORDS
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=12,
)
TURNS = st.fixed_dictionaries(
    {},
    optional=dict.fromkeys(("role", "from", "type"), WORDS | VALUES)
    | dict.fromkeys(("content", "value", "tool_calls", "arguments", "call_id"), VALUES),
)
ROWS = st.dictionaries(NAMES, VALUES | st.lists(TURNS, max_size=3), max_size=4) | VALUES


def check(rows: list[Any]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for name, text in (
            ("x.jsonl", "\n".join(map(json.dumps, rows))),
            ("x.json", json.dumps(rows)),
        ):
            path = Path(folder) / name
            path.write_text(text)
            for importer in IMPORTERS:
                assert 0 <= importer.detect(Source(path)) <= 1
                fits_the_schema(list(importer.read(Source(path), ImportOptions())))


def fits_the_schema(items: list[Item]) -> None:
    runs = [finish(i) for i in items if isinstance(i, Trajectory)]
    labels = [i for i in items if isinstance(i, Label)]
    assert validate(trajectories_to_arrow(runs), "trajectories") == []
    assert validate(steps_to_arrow(runs), "steps") == []
    assert validate(labels_to_arrow(labels), "labels") == []
    for text in (t for run in runs for t in (run.metadata, run.tools) if t is not None):
        json.loads(text)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(ROWS, min_size=1, max_size=2))
def test_no_json_makes_detection_or_reading_raise(rows: list[Any]) -> None:
    check(rows)


@pytest.mark.parametrize(
    "row",
    [
        {"input": {}, "preferred_output": [], "non_preferred_output": [], "system": "s"},
        {"messages": [{"role": "user", "content": [{"type": ["x"]}]}]},
        {"output": [{"type": {"a": 1}}]},
        {"messages": [{"role": "assistant", "content": [{"type": {}, "text": "x"}]}]},
        {"conversations": [{"from": "gpt", "value": {"a": 1}}]},
        {"conversations": [{"from": ["gpt"], "value": "x"}]},
        {"messages": [{"role": "assistant", "content": "x", "tool_calls": 3}]},
        {"messages": [{"role": "assistant", "content": "x", "tool_calls": ["f"]}]},
        {"chosen": [{"role": "user", "content": "x"}], "rejected": "y"},
    ],
)
def test_known_traps_do_not_raise(row: dict[str, Any]) -> None:
    check([row])


@pytest.mark.parametrize("content", [b"", b"\x00\x01", b"{", b"[", b"PAR1", b"ARROW1", b"\xff" * 8])
def test_broken_files_do_not_raise(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x"
    path.write_bytes(content)
    for importer in IMPORTERS:
        assert importer.detect(Source(path)) < 0.5
        list(importer.read(Source(path), ImportOptions()))
