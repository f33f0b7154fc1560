"""References of an Inspect sample: attachments at any depth, message pools, old names."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from trajstore.importers.inspect_ai_sample import resolved

TEXTS = {"h1": "long text", "h2": "data:image/png;base64,AA"}


def sample(**more: Any) -> dict[str, Any]:
    return {"id": 1, "epoch": 1, "attachments": TEXTS, **more}


def test_references_are_filled_in_everywhere() -> None:
    found = resolved(
        sample(
            input="attachment://h1",
            messages=[{"content": [{"type": "image", "image": "attachment://h2"}]}],
            scores={"s": {"explanation": "attachment://h1"}},
            store={"a": {"b": ["attachment://h1"]}},
            output={"completion": "attachment://h1"},
            events=[{"event": "model", "call": {"response": {"x": ["attachment://h1"]}}}],
        )
    )
    assert found["input"] == "long text"
    assert found["messages"][0]["content"][0]["image"] == TEXTS["h2"]
    assert found["scores"]["s"]["explanation"] == "long text"
    assert found["store"] == {"a": {"b": ["long text"]}}
    assert found["output"]["completion"] == "long text"
    assert found["events"][0]["call"]["response"] == {"x": ["long text"]}
    assert "attachments" not in found


def test_a_reference_without_its_text_stays() -> None:
    found = resolved(sample(input="attachment://gone", target="see attachment://h1"))
    assert (found["input"], found["target"]) == ("attachment://gone", "see attachment://h1")


def test_references_by_index_are_filled_in() -> None:
    found = resolved({"id": 1, "input": "attachment://1", "attachments": {"1": "second"}})
    assert found["input"] == "second"


def test_the_transcript_of_old_logs_becomes_events() -> None:
    transcript = {"events": [{"event": "info", "data": "tc://h1"}], "content": TEXTS}
    found = resolved({"id": 1, "epoch": 1, "input": "tc://h1", "transcript": transcript})
    assert found["events"] == [{"event": "info", "data": "long text"}]
    assert found["input"] == "long text"
    assert "transcript" not in found


def test_the_single_score_of_old_logs_becomes_scores() -> None:
    assert resolved(sample(score={"value": "C"}))["scores"] == {"score": {"value": "C"}}


POOL = [{"role": "user", "content": c} for c in ("attachment://h1", "b", "c", "d")]


def test_pooled_prompts_are_put_back_with_their_texts() -> None:
    event = {"event": "model", "input": [], "input_refs": [[0, 1], [2, 4]]}
    for pools in ({"message_pool": POOL}, {"events_data": {"messages": POOL, "calls": []}}):
        (found,) = resolved(sample(events=[event], **pools))["events"]
        assert [m["content"] for m in found["input"]] == ["long text", "c", "d"]
        assert "input_refs" not in found


def test_an_empty_list_of_ranges_is_an_empty_prompt() -> None:
    event = {"event": "model", "input": ["stale"], "input_refs": []}
    (found,) = resolved(sample(events=[event], message_pool=POOL))["events"]
    assert found["input"] == []


def test_pooled_calls_are_put_back_under_their_key() -> None:
    call = {"request": {"model": "m"}, "call_refs": [[1, 2]], "call_key": "contents"}
    event = {"event": "model", "input": [], "call": call}
    pools = {"events_data": {"messages": [], "calls": ["x", {"text": "attachment://h1"}]}}
    (found,) = resolved(sample(events=[event], **pools))["events"]
    assert found["call"] == {"request": {"model": "m", "contents": [{"text": "long text"}]}}


def test_the_sample_itself_is_left_as_it_is() -> None:
    before = sample(input="attachment://h1", score={"value": 1}, events=[])
    resolved(before)
    assert before == sample(input="attachment://h1", score={"value": 1}, events=[])


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=10,
)


@given(JSON)
def test_values_without_references_come_through(value: Any) -> None:
    assert resolved(sample(store=value))["store"] == value
