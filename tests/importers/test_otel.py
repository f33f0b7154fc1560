"""OpenTelemetry spans: the real files, whole exports, and traces spread over a file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.importers.otlp import chat, export, says, span, typed, weather
from tests.importers.reading import detail, document, jsonl, read, recognised
from trajstore.importers.items import ImportOptions
from trajstore.importers.otel import IMPORTER
from trajstore.importers.source import Source
from trajstore.schema import trajectory_id

REAL = (
    "openinference_client_span_tool_calls.json",
    "otel_genai_client_span_tool_calls.json",
    "otel_genai_deprecated_client_span_tool_calls.json",
)


def test_exactly_its_own_files_are_recognised(real_data: Path) -> None:
    folder = "otel/openinference"
    assert recognised(IMPORTER, real_data) == {
        *(f"{folder}/{name}" for name in REAL),
        f"{folder}/otel_genai_tool_execution_span.json",
        f"{folder}/genai_schemas/gen-ai-input-messages.json",
        f"{folder}/genai_schemas/gen-ai-output-messages.json",
    }


@pytest.mark.parametrize("name", REAL)
def test_real_span_gives_prompt_answer_and_tokens(real_data: Path, name: str) -> None:
    run = read(IMPORTER, real_data / "otel" / "openinference" / name).run
    assert [(s.actor, s.is_copied) for s in run.steps] == [
        ("user", False),
        ("agent", True),
        ("agent", False),
    ]
    assert run.goal == "Weather in Paris?"
    assert run.steps[1].tool_calls[0].arguments == '{"location":"Paris"}'
    assert run.steps[1].observations[0].text == "rainy, 57°F"
    assert (
        run.steps[2].text == "The weather in Paris is currently rainy with a temperature of 57°F."
    )
    assert (run.prompt_tokens, run.completion_tokens, run.model) == (97, 52, "gpt-4-0613")
    assert run.success is None


def test_one_call_in_three_conventions_is_one_run(real_data: Path) -> None:
    runs = [read(IMPORTER, real_data / "otel" / "openinference" / n).run for n in REAL]
    assert len({r.trajectory_id for r in runs}) == 1
    assert len({r.task_id for r in runs}) == 1


def test_sampling_parameters_are_the_same_in_both_conventions(real_data: Path) -> None:
    runs = [read(IMPORTER, real_data / "otel" / "openinference" / n).run for n in REAL[:2]]
    sampling = [detail(r.steps[-1].sampling) for r in runs]
    assert sampling[0]["temperature"] == sampling[1]["temperature"] == 0.5
    assert sampling[0]["top_p"] == sampling[1]["top_p"] == 0.9


def test_real_tool_span_alone_is_one_call_with_its_result(real_data: Path) -> None:
    path = real_data / "otel" / "openinference" / "otel_genai_tool_execution_span.json"
    (step,) = read(IMPORTER, path).run.steps
    assert (step.tool_calls[0].name, step.tool_calls[0].call_id) == ("get_weather", "1234")
    assert step.tool_calls[0].arguments == '{"city":"New York"}'
    assert (step.observations[0].text or "").startswith('{"status": "success"')


@pytest.mark.parametrize("name", ["input", "output"])
def test_schema_files_are_ignored(real_data: Path, name: str) -> None:
    folder = real_data / "otel" / "openinference" / "genai_schemas"
    found = read(IMPORTER, folder / f"gen-ai-{name}-messages.json")
    assert found.runs == []
    assert [p.kind for p in found.problems] == ["ignored"]


def test_export_with_typed_values_is_one_run(tmp_path: Path) -> None:
    run = read(IMPORTER, document(tmp_path, export(*weather()))).run
    assert [(s.actor, s.text) for s in run.steps] == [
        ("user", "weather?"),
        ("agent", None),
        ("agent", "Sunny."),
    ]
    assert (run.n_tool_calls, len(run.steps[1].observations)) == (1, 1)
    assert (run.prompt_tokens, run.completion_tokens) == (10, 4)
    assert (run.agent, run.model, run.status) == ("bot", "m", "terminated")
    assert run.trajectory_id == trajectory_id("otel", "aa" * 16)
    assert (run.duration_s, run.termination_reason) == (4.0, None)


def test_snake_case_export_gives_the_same_run(tmp_path: Path) -> None:
    plain = json.dumps(export(*weather()))
    for camel, snake in (
        ("resourceSpans", "resource_spans"),
        ("scopeSpans", "scope_spans"),
        ("traceId", "trace_id"),
        ("spanId", "span_id"),
        ("parentSpanId", "parent_span_id"),
        ("startTimeUnixNano", "start_time_unix_nano"),
        ("endTimeUnixNano", "end_time_unix_nano"),
        ("stringValue", "string_value"),
        ("intValue", "int_value"),
    ):
        plain = plain.replace(f'"{camel}"', f'"{snake}"')
    run = read(IMPORTER, document(tmp_path, json.loads(plain))).run
    other = read(IMPORTER, document(tmp_path, export(*weather()))).run
    assert (run.trajectory_id, run.steps) == (other.trajectory_id, other.steps)


def test_two_traces_in_one_export_are_two_runs(tmp_path: Path) -> None:
    path = document(tmp_path, export(*weather(), *weather("bb" * 16)))
    assert len({r.trajectory_id for r in read(IMPORTER, path).runs}) == 2


def test_trace_spread_over_lines_is_put_together(tmp_path: Path) -> None:
    one, two = weather(), weather("bb" * 16)
    lines = [export(x, y) for x, y in zip(one, two, strict=True)]
    whole = read(IMPORTER, document(tmp_path, export(*one))).run
    found = read(IMPORTER, jsonl(tmp_path, *lines))
    assert len(found.runs) == 2
    assert found.runs[0].trajectory_id == whole.trajectory_id
    assert [s.text for s in found.runs[0].steps] == [s.text for s in whole.steps]


def test_order_of_spans_in_the_file_does_not_matter(tmp_path: Path) -> None:
    path = document(tmp_path, export(*reversed(weather())))
    run = read(IMPORTER, path).run
    assert [s.text for s in run.steps] == ["weather?", None, "Sunny."]


def test_longer_snapshot_of_a_trace_has_the_same_id(tmp_path: Path) -> None:
    short = read(IMPORTER, document(tmp_path, export(*weather()[1:3]))).run
    long = read(IMPORTER, document(tmp_path, export(*weather()))).run
    assert short.trajectory_id == long.trajectory_id
    assert short.n_agent_steps < long.n_agent_steps


def test_traces_of_one_conversation_are_one_run(tmp_path: Path) -> None:
    first = [says("hi")]
    second = [*first, says("hello", "assistant"), says("bye")]
    lines = [
        export(
            chat(
                "01",
                first,
                [says("hello", "assistant")],
                trace="aa" * 16,
                gen_ai__conversation__id="k",
            )
        ),
        export(
            chat(
                "02",
                second,
                [says("ciao", "assistant")],
                trace="bb" * 16,
                at=60,
                gen_ai__conversation__id="k",
            )
        ),
    ]
    run = read(IMPORTER, jsonl(tmp_path, *lines)).run
    assert [(s.text, s.is_copied) for s in run.steps] == [
        ("hi", False),
        ("hello", False),
        ("bye", False),
        ("ciao", False),
    ]
    assert run.trajectory_id == trajectory_id("otel", "k")
    assert detail(run.metadata)["trace_ids"] == ["aa" * 16, "bb" * 16]


def test_conversation_id_on_some_model_calls_only_is_none(tmp_path: Path) -> None:
    spans = weather()
    spans[3]["attributes"].append({"key": "gen_ai.conversation.id", "value": typed("resp_1")})
    run = read(IMPORTER, document(tmp_path, export(*spans))).run
    assert run.trajectory_id == trajectory_id("otel", "aa" * 16)


def test_session_id_does_not_join_traces(tmp_path: Path) -> None:
    spans = [
        chat(f"0{i}", [says("q")], [says("a", "assistant")], trace=t * 16, session__id="demo")
        for i, t in enumerate(("aa", "bb"))
    ]
    assert len(read(IMPORTER, document(tmp_path, export(*spans))).runs) == 2


def test_wrapping_spans_never_double_tokens(tmp_path: Path) -> None:
    spans = weather()
    spans[0]["attributes"] += [
        {"key": "gen_ai.usage.input_tokens", "value": typed(99)},
        {"key": "gen_ai.request.model", "value": typed("m")},
    ]
    outer = chat(
        "0a", [says("weather?")], [says("x", "assistant")], at=0, gen_ai__usage__input_tokens=99
    )
    spans = [outer, *({**s, "parentSpanId": s["parentSpanId"] or "0a"} for s in spans[1:])]
    spans = [
        {**s, "parentSpanId": "0a" if s["parentSpanId"] == "01" else s["parentSpanId"]}
        for s in spans
    ]
    assert read(IMPORTER, document(tmp_path, export(*spans))).run.prompt_tokens == 10


def test_sub_agent_is_a_trajectory_of_its_own(tmp_path: Path) -> None:
    main = weather()
    inner = [
        span(
            "0a", "03", at=2, gen_ai__operation__name="invoke_agent", gen_ai__agent__name="helper"
        ),
        chat(
            "0b",
            [says("sub-task")],
            [says("done", "assistant")],
            "0a",
            at=2,
            gen_ai__usage__input_tokens=500,
        ),
    ]
    found = read(IMPORTER, document(tmp_path, export(*main, *inner)))
    parent, child = found.runs
    assert parent.prompt_tokens == 10
    assert (child.relation, child.parent_id, child.parent_step) == (
        "sub-agent",
        parent.trajectory_id,
        1,
    )
    assert (child.agent, child.goal, child.prompt_tokens) == ("helper", "sub-task", 500)
    assert len({parent.trajectory_id, child.trajectory_id}) == 2


def test_resource_is_kept_once(tmp_path: Path) -> None:
    path = document(tmp_path, export(*weather(), resource={"service.name": "shop"}))
    run = read(IMPORTER, path).run
    assert detail(run.metadata)["resource"] == {"service.name": "shop"}
    assert "shop" not in (run.steps[1].metadata or "")


def test_evaluation_event_becomes_a_label_on_its_step(tmp_path: Path) -> None:
    spans = weather()
    values = {
        "gen_ai.evaluation.name": "relevance",
        "gen_ai.evaluation.score.value": 0.5,
        "gen_ai.evaluation.explanation": "so so",
    }
    attributes = [{"key": k, "value": typed(v)} for k, v in values.items()]
    spans[3]["events"] = [{"name": "gen_ai.evaluation.result", "attributes": attributes}]
    found = read(IMPORTER, document(tmp_path, export(*spans)))
    (label,) = found.labels
    assert (label.name, label.value, label.rationale, label.step_index) == (
        "relevance",
        0.5,
        "so so",
        2,
    )
    assert label.trajectory_id == found.run.trajectory_id
    assert found.run.success is None


def test_failed_root_is_an_error_and_no_verdict(tmp_path: Path) -> None:
    spans = weather()
    spans[0]["status"] = {"code": 2, "message": "boom"}
    run = read(IMPORTER, document(tmp_path, export(*spans))).run
    assert (run.status, run.error, run.success) == ("error", "boom", None)


def test_unended_root_is_running(tmp_path: Path) -> None:
    spans = weather()
    del spans[0]["endTimeUnixNano"]
    assert read(IMPORTER, document(tmp_path, export(*spans))).run.status == "running"


def test_answer_cut_by_length_is_truncated(tmp_path: Path) -> None:
    answer = {**says("Sun", "assistant"), "finish_reason": "length"}
    path = document(tmp_path, export(chat("01", [says("q")], [answer])))
    run = read(IMPORTER, path).run
    assert (run.status, run.termination_reason) == ("truncated", "length")


def test_traces_of_web_requests_are_ignored_with_their_number(tmp_path: Path) -> None:
    web = span("01", trace="cc" * 16, http__method="GET")
    found = read(IMPORTER, jsonl(tmp_path, export(web), export(*weather())))
    assert len(found.runs) == 1
    assert [(p.kind, p.reason) for p in found.problems] == [
        ("ignored", "1 traces hold no model, tool or agent span")
    ]


def test_broken_lines_cost_no_other(tmp_path: Path) -> None:
    path = jsonl(tmp_path, export(*weather()), "{broken", {"hello": 1}, export(*weather("bb" * 16)))
    found = read(IMPORTER, path)
    assert len(found.runs) == 2
    assert sorted(p.line or 0 for p in found.problems) == [2, 3]


def test_spans_without_model_attributes_are_half_sure(tmp_path: Path) -> None:
    assert (
        IMPORTER.detect(Source(document(tmp_path, export(span("01", http__method="GET"))))) == 0.5
    )
    assert IMPORTER.detect(Source(document(tmp_path, {"messages": []}))) == 0


def test_broken_span_in_an_export_costs_no_other(tmp_path: Path) -> None:
    spans = weather()
    spans[2]["attributes"] = [{"key": "n", "value": {"intValue": "many"}}]
    found = read(IMPORTER, document(tmp_path, export(*spans)))
    assert [s.text for s in found.run.steps] == ["weather?", None, "Sunny."]
    (problem,) = found.problems
    assert problem.reason.startswith("span 2 of its scope")


def test_export_without_spans_is_ignored(tmp_path: Path) -> None:
    found = read(IMPORTER, document(tmp_path, export()))
    assert [(p.kind, p.reason) for p in found.problems] == [("ignored", "there is no span in it")]


def test_traces_are_given_as_soon_as_they_end(tmp_path: Path) -> None:
    first, second = weather(), weather("bb" * 16)
    lines = [export(*first[:2], *second[:1]), export(*first[2:]), export(*second[1:])]
    items = IMPORTER.read(Source(jsonl(tmp_path, *lines, "{cut")), ImportOptions())
    order = [getattr(item, "trajectory_id", "problem") for item in items]
    assert order == [
        trajectory_id("otel", "aa" * 16),
        trajectory_id("otel", "bb" * 16),
        "problem",
    ]


def test_span_without_an_id_in_an_export_is_a_problem(tmp_path: Path) -> None:
    nameless = {**weather()[1], "spanId": None}
    found = read(IMPORTER, document(tmp_path, export(*weather(), nameless)))
    assert len(found.runs) == 1
    assert "no trace id or no span id" in found.problems[0].reason


def test_a_tool_span_with_an_error_type_gives_a_failed_result(tmp_path: Path) -> None:
    spans = weather()
    spans[2]["attributes"].append({"key": "error.type", "value": typed("timeout")})
    run = read(IMPORTER, document(tmp_path, export(*spans))).run
    (result,) = [o for step in run.steps for o in step.observations]
    assert result.is_error is True
