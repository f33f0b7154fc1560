"""A conversation of the OpenHands SDK as a trajectory: counts, status and what is kept."""

from __future__ import annotations

import json
from typing import Any

import pytest

from trajstore.importers.openhands_sdk_events import Conversation
from trajstore.importers.openhands_sdk_runs import from_conversation, sampling_of
from trajstore.schema import Trajectory, finish


def event(kind: str, number: int = 1, **more: Any) -> dict[str, Any]:
    stamp = f"2026-01-02T03:04:{number:02}"
    return {"id": f"e{number}", "timestamp": stamp, "source": "agent", "kind": kind, **more}


def said(response: str, number: int = 1) -> dict[str, Any]:
    message = {"role": "assistant", "content": "ok"}
    return event("MessageEvent", number, llm_message=message, llm_response_id=response)


def asked(text: str = "Do it", number: int = 1) -> dict[str, Any]:
    message = {"role": "user", "content": text}
    return {**event("MessageEvent", number, llm_message=message), "source": "user"}


def metrics(*usages: tuple[str, int, int], cost: float = 0.5) -> dict[str, Any]:
    """Metrics of one usage id with these (response, prompt, completion) calls."""
    total = {
        "prompt_tokens": sum(u[1] for u in usages),
        "completion_tokens": sum(u[2] for u in usages),
        "cache_read_tokens": 1,
    }
    return {
        "model_name": "m",
        "accumulated_cost": cost,
        "accumulated_token_usage": total,
        "costs": [{"cost": cost}],
        "token_usages": [
            {"response_id": r, "prompt_tokens": p, "completion_tokens": c, "cache_read_tokens": 1}
            for r, p, c in usages
        ],
        "response_latencies": [{"response_id": u[0], "latency": 1.5} for u in usages],
    }


def run(*events: dict[str, Any], **state: Any) -> Trajectory:
    return finish(from_conversation(Conversation(state=state).read(events)))


def test_each_call_has_the_usage_of_its_response() -> None:
    found = run(
        said("r1"),
        said("r2", 2),
        stats={"usage_to_metrics": {"agent": metrics(("r2", 20, 2), ("r1", 10, 1))}},
    )
    assert [(s.prompt_tokens, s.completion_tokens, s.cached_tokens) for s in found.steps] == [
        (10, 1, 1),
        (20, 2, 1),
    ]
    assert [s.latency_s for s in found.steps] == [1.5, 1.5]


def test_totals_are_those_of_all_models_of_the_run() -> None:
    usage = {"agent": metrics(("r1", 10, 1)), "condenser": metrics(("x", 5, 2), cost=0.25)}
    found = run(said("r1"), stats={"usage_to_metrics": usage})
    assert (found.prompt_tokens, found.completion_tokens, found.cached_tokens) == (15, 3, 2)
    assert found.cost_usd == 0.75


def test_the_last_statistics_of_a_stream_are_the_total() -> None:
    updates = [
        event("ConversationStateUpdateEvent", n, key="stats", value={"usage_to_metrics": {"a": m}})
        for n, m in enumerate([metrics(("r1", 10, 1)), metrics(("r1", 10, 1), ("r2", 30, 2))])
    ]
    assert run(updates[0], said("r1"), updates[1]).prompt_tokens == 40


def test_without_statistics_the_total_is_unknown() -> None:
    found = run(said("r1"))
    assert (found.prompt_tokens, found.cost_usd, found.model) == (None, None, None)


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ("finished", "terminated"),
        ("error", "error"),
        ("stuck", "truncated"),
        ("paused", "running"),
        ("idle", None),
    ],
)
def test_the_execution_status_is_no_verdict(status: str, expected: str | None) -> None:
    found = run(said("r1"), execution_status=status)
    assert (found.status, found.termination_reason, found.success) == (expected, status, None)


def test_the_iteration_limit_truncates() -> None:
    error = event("ConversationErrorEvent", 2, code="MaxIterationsReached", detail="500 steps")
    found = run(said("r1"), error, execution_status="error")
    assert (found.status, found.error) == ("truncated", "500 steps")
    assert found.termination_reason == "MaxIterationsReached"


def test_conversations_about_the_same_question_share_their_task() -> None:
    first, again, other = (run(asked(t), id=t + n) for t, n in (("A", "1"), ("A", "2"), ("B", "")))
    assert first.task_id == again.task_id != other.task_id
    assert len({first.trajectory_id, again.trajectory_id}) == 2


def test_an_id_is_the_same_with_and_without_dashes() -> None:
    dashed = run(asked(), id="cd945624-03b9-487e-bdd4-018e3f531dfd")
    plain = run(asked(), id="cd94562403b9487ebdd4018e3f531dfd")
    assert dashed.trajectory_id == plain.trajectory_id


def test_state_is_kept_and_lists_of_calls_are_not() -> None:
    found = run(
        said("r1"),
        id="x",
        workspace={"working_dir": "/w"},
        stats={"usage_to_metrics": {"agent": metrics(("r1", 10, 1))}},
    )
    kept = json.loads(found.metadata or "")
    assert kept["workspace"] == {"working_dir": "/w"}
    assert kept["usage"]["agent"].keys() == {
        "model_name",
        "accumulated_cost",
        "accumulated_token_usage",
    }


def test_settings_of_the_model_stand_on_its_calls() -> None:
    agent = {"llm": {"model": "m", "temperature": 0.0, "top_p": None, "num_retries": 5}}
    found = run(asked(), said("r1", 2), agent=agent)
    assert [s.sampling for s in found.steps] == [None, '{"temperature":0.0}']
    assert found.model == "m"


def test_sampling_is_none_where_nothing_is_set() -> None:
    assert sampling_of({"model": "m", "temperature": None}) is None


def test_times_span_the_events() -> None:
    found = run(asked(number=5), said("r1", 20))
    assert found.duration_s == 15.0


def test_a_conversation_of_reports_alone_is_refused() -> None:
    report = event("ConversationStateUpdateEvent", key="execution_status", value="idle")
    with pytest.raises(ValueError, match="says anything"):
        run(report, id="x")
