"""Langfuse exports: seven frameworks as they were recorded, and small ones for the rest."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.importers.otlp import export, weather
from tests.importers.reading import Found, detail, document, jsonl, read, recognised
from trajstore.importers import otel
from trajstore.importers.langfuse import IMPORTER
from trajstore.importers.source import Source
from trajstore.schema import Trajectory, trajectory_id

NAMES = {
    "claude": "claude-agent-2025-12-22",
    "google": "google-adk-2025-08-28",
    "langgraph": "langgraph-python-2025-08-22",
    "microsoft": "microsoft-agent-2025-12-17",
    "openai": "openai-agents-2025-09-30",
    "pydantic": "pydantic-ai-tools-2025-12-04",
    "vercel": "vercel-aisdk-2025-11-17",
}
FOLDER = "otel/langfuse_export"


def of(real_data: Path, framework: str) -> Found:
    return read(IMPORTER, real_data / FOLDER / f"{NAMES[framework]}.trace.json")


def stated(real_data: Path, framework: str) -> dict[str, tuple[int, int]]:
    """Tokens of each observation as the file states them, by observation id."""
    path = real_data / FOLDER / f"{NAMES[framework]}.trace.json"
    observations = json.loads(path.read_text())["observations"]
    return {
        o["id"]: (o["usageDetails"]["input"], o["usageDetails"]["output"])
        for o in observations
        if o["usageDetails"]
    }


def shape(run: Trajectory) -> list[tuple[str, int, int]]:
    return [(s.actor, len(s.tool_calls), len(s.observations)) for s in run.steps]


def observation(name: str, kind: str = "GENERATION", **changes: Any) -> dict[str, Any]:
    second = changes.pop("at", 0)
    return {
        "id": name,
        "traceId": "t1",
        "parentObservationId": None,
        "type": kind,
        "name": name,
        "startTime": f"2026-01-01T00:00:0{second}.000Z",
        "endTime": f"2026-01-01T00:00:0{second}.500Z",
        "level": "DEFAULT",
    } | changes


def trace(*observations: dict[str, Any], **changes: Any) -> dict[str, Any]:
    about = {"id": "t1", "projectId": "p", "name": "run", "sessionId": "s1"} | changes
    return {"trace": about, "observations": list(observations)}


def test_exactly_its_own_files_are_recognised(real_data: Path) -> None:
    assert recognised(IMPORTER, real_data) == {
        f"{FOLDER}/{name}.{kind}.json" for name in NAMES.values() for kind in ("trace", "chatml")
    }


@pytest.mark.parametrize("framework", NAMES)
def test_one_trace_is_one_run_without_problems(real_data: Path, framework: str) -> None:
    found = of(real_data, framework)
    assert found.problems == []
    assert found.run.status == "terminated"
    assert found.run.success is None


@pytest.mark.parametrize("framework", NAMES)
def test_chat_rendering_beside_is_ignored(real_data: Path, framework: str) -> None:
    found = read(IMPORTER, real_data / FOLDER / f"{NAMES[framework]}.chatml.json")
    assert found.runs == []
    assert [p.kind for p in found.problems] == ["ignored"]


@pytest.mark.parametrize(
    ("framework", "read_", "written"),
    [
        ("claude", 34, 232),
        ("google", 67, 9),
        ("langgraph", 168, 66),
        ("openai", 140, 44),
        ("pydantic", 1315, 209),
    ],
)
def test_tokens_are_those_of_the_file(
    real_data: Path, framework: str, read_: int, written: int
) -> None:
    run = of(real_data, framework).run
    assert (run.prompt_tokens, run.completion_tokens) == (read_, written)


@pytest.mark.parametrize(
    ("framework", "everything", "wrapper", "once"),
    [
        ("microsoft", (337, 286), (44, 180), (293, 106)),
        ("vercel", (76, 128), (14, 43), (62, 85)),
    ],
)
def test_tokens_of_wrappers_are_not_counted(
    real_data: Path,
    framework: str,
    everything: tuple[int, int],
    wrapper: tuple[int, int],
    once: tuple[int, int],
) -> None:
    each = list(stated(real_data, framework).values())
    assert (sum(i for i, _ in each), sum(o for _, o in each)) == everything
    assert wrapper in each
    run = of(real_data, framework).run
    assert (run.prompt_tokens, run.completion_tokens) == once


@pytest.mark.parametrize(
    ("framework", "expected"),
    [
        (
            "claude",
            [
                ("system", 0, 0),
                ("user", 0, 0),
                ("agent", 0, 0),
                ("agent", 1, 1),
                ("agent", 1, 1),
                ("agent", 0, 0),
            ],
        ),
        ("google", [("system", 0, 0), ("user", 0, 0), ("agent", 1, 1), ("agent", 0, 0)]),
        ("langgraph", [("user", 0, 0), ("user", 0, 0), ("agent", 1, 1), ("agent", 0, 0)]),
        ("microsoft", [("system", 0, 0), ("user", 0, 0), ("agent", 1, 1), ("agent", 0, 0)]),
        ("openai", [("system", 0, 0), ("user", 0, 0), ("agent", 1, 1), ("agent", 0, 0)]),
        (
            "pydantic",
            [
                ("system", 0, 0),
                ("user", 0, 0),
                ("agent", 3, 3),
                ("agent", 0, 0),
                ("user", 0, 0),
                ("agent", 0, 0),
                ("system", 0, 0),
                ("user", 0, 0),
                ("agent", 1, 0),
            ],
        ),
        ("vercel", [("user", 0, 0), ("agent", 1, 1)]),
    ],
)
def test_steps_of_each_framework(
    real_data: Path, framework: str, expected: list[tuple[str, int, int]]
) -> None:
    run = of(real_data, framework).run
    assert shape(run) == expected
    assert not any(s.is_copied for s in run.steps)


@pytest.mark.parametrize(
    ("framework", "goal"),
    [
        ("claude", "What's the weather like in Berlin and New York?"),
        ("google", "hi"),
        ("langgraph", "Be helpful!"),
        ("microsoft", "What's the weather in Tokyo?"),
        ("openai", "What's the weather in Tokyo?"),
        ("vercel", "What is the weather like today in San Francisco?"),
    ],
)
def test_goals(real_data: Path, framework: str, goal: str) -> None:
    assert of(real_data, framework).run.goal == goal


def test_bogus_input_of_the_claude_exporter_is_no_message(real_data: Path) -> None:
    run = of(real_data, "claude").run
    assert "role" not in [s.text for s in run.steps]
    assert [o.text for s in run.steps for o in s.observations] == [
        "Weather in Berlin: Cloudy, 59°F",
        "Weather in New York: Sunny, 75°F",
    ]
    assert [s.tool_calls[0].arguments for s in run.steps if s.tool_calls] == [
        '{"city":"Berlin"}',
        '{"city":"New York"}',
    ]


def test_result_as_the_model_saw_it_is_taken_for_the_empty_tool_output(real_data: Path) -> None:
    step = of(real_data, "google").run.steps[2]
    assert step.observations[0].text == '{"greeting": "Hello Langfuse 👋"}'


def test_tools_offered_are_kept(real_data: Path) -> None:
    for framework in ("google", "langgraph", "microsoft", "openai", "vercel"):
        assert detail(of(real_data, framework).run.tools), framework


def test_scores_are_labels_and_no_outcome(real_data: Path) -> None:
    found = of(real_data, "claude")
    assert {(m.name, m.value) for m in found.labels} == {
        ("correctness", 0.0),
        ("hallucination", 1.0),
        ("toxicity", 0.0),
    }
    assert {m.evaluator for m in found.labels} == {"langfuse/eval"}
    assert all(m.created_at is not None and m.rationale for m in found.labels)


def test_second_import_gives_the_same_ids_and_labels(real_data: Path) -> None:
    first, second = of(real_data, "openai"), of(real_data, "openai")
    assert first.run.trajectory_id == second.run.trajectory_id
    assert first.labels == second.labels


def test_same_trace_from_langfuse_and_otlp_is_one_run(tmp_path: Path) -> None:
    exported = trace(observation("a", input="hi", output="yes"), id="aa" * 16)
    langfuse = read(IMPORTER, document(tmp_path, exported)).run
    spans = read(otel.IMPORTER, document(tmp_path, export(*weather()))).run
    assert langfuse.trajectory_id == spans.trajectory_id == trajectory_id("otel", "aa" * 16)


def test_trace_of_the_public_api_is_read(tmp_path: Path) -> None:
    value = {
        "id": "t1",
        "projectId": "p",
        "observations": [observation("a", input="q", output="x")],
    }
    run = read(IMPORTER, document(tmp_path, value)).run
    assert [(s.actor, s.text) for s in run.steps] == [("user", "q"), ("agent", "x")]


def test_traces_line_by_line_with_a_broken_one(tmp_path: Path) -> None:
    one, two = (trace(observation("a", input="q", output="x"), id=i) for i in ("t1", "t2"))
    bad = {"trace": {"id": "t3"}, "observations": [{"parentObservationId": None}]}
    found = read(IMPORTER, jsonl(tmp_path, one, bad, "{", two))
    assert len({r.trajectory_id for r in found.runs}) == 2
    assert [p.line for p in found.problems] == [2, 3]


def test_trace_without_observations_is_a_problem(tmp_path: Path) -> None:
    path = document(tmp_path, trace())
    assert IMPORTER.detect(Source(path)) > 0
    assert "no observations" in read(IMPORTER, path).problems[0].reason


def test_failed_tool_is_an_error_with_its_message(tmp_path: Path) -> None:
    asks = {"role": "assistant", "tool_calls": [{"id": "c", "function": {"name": "w"}}]}
    failed = observation("w", "TOOL", at=1, level="ERROR", statusMessage="no network", input="{}")
    call = observation("a", input="q", output=asks)
    run = read(IMPORTER, document(tmp_path, trace(call, failed))).run
    (result,) = run.steps[1].observations
    assert (result.text, result.is_error) == ("no network", True)
    assert run.n_tool_errors == 1


def test_usage_parts_add_up_where_the_total_says_so(tmp_path: Path) -> None:
    split = {"input": 10, "input_cached_tokens": 90, "output": 5, "total": 105}
    repeated = {"input": 100, "input_cache_read": 90, "output": 5, "total": 105}
    for usage in (split, repeated):
        value = trace(observation("a", input="q", output="x", usageDetails=usage))
        run = read(IMPORTER, document(tmp_path, value)).run
        assert (run.prompt_tokens, run.completion_tokens, run.cached_tokens) == (100, 5, 90)


def test_session_user_and_tags_are_kept(tmp_path: Path) -> None:
    value = trace(observation("a", input="q", output="x"), tags=["prod"], userId="u")
    run = read(IMPORTER, document(tmp_path, value)).run
    assert run.tags == ("prod",)
    told = detail(run.metadata)
    assert (told["sessionId"], told["userId"]) == ("s1", "u")


def test_boolean_score_on_an_observation_is_a_verdict_on_its_step(tmp_path: Path) -> None:
    score = {
        "name": "outcome",
        "value": 1,
        "dataType": "BOOLEAN",
        "source": "ANNOTATION",
        "observationId": "a",
        "timestamp": "2026-01-02T00:00:00Z",
    }
    value = trace(observation("a", input="q", output="x"), scores=[score])
    (label,) = read(IMPORTER, document(tmp_path, value)).labels
    assert (label.name, label.success, label.step_index) == ("outcome", True, 1)
    assert label.evaluator == "langfuse/annotation"


def test_sub_agent_below_a_tool_is_a_child(tmp_path: Path) -> None:
    asks = {"role": "assistant", "tool_calls": [{"id": "c", "function": {"name": "helper"}}]}
    value = trace(
        observation("a", input="q", output=asks, usageDetails={"input": 3, "output": 1}),
        observation("helper", "TOOL", at=1, output="done"),
        observation("agent", "AGENT", at=2, parentObservationId="helper"),
        observation(
            "inner",
            at=3,
            parentObservationId="agent",
            input="sub",
            output="done",
            usageDetails={"input": 50, "output": 9},
        ),
    )
    main, child = read(IMPORTER, document(tmp_path, value)).runs
    assert (main.prompt_tokens, child.prompt_tokens) == (3, 50)
    assert (child.parent_id, child.parent_step) == (main.trajectory_id, 1)


def test_broken_observation_costs_no_other(tmp_path: Path) -> None:
    good = observation("a", input="q", output="x")
    broken = observation("b", at=1, usageDetails=5)
    found = read(IMPORTER, document(tmp_path, trace(good, broken)))
    assert [s.text for s in found.run.steps] == ["q", "x"]
    (problem,) = found.problems
    assert problem.reason.startswith("observation 1 cannot be read")
