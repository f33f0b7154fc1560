"""Case 66: runs over the limit are split where their context was condensed, and never cut.

SWE-bench/SWE-smith#71 and neulab/agent-data-protocol#157: condensing changes the prefix, so a row
must begin with what the model saw.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from trajstore.errors import ExportError
from trajstore.exports import Refusal, SftOptions, SftRow, sft_rows
from trajstore.exports.splitting import UnclearCondensationError, context_windows
from trajstore.exports.token_counts import row_tokens, token_counter
from trajstore.importers import ImportOptions, Source, detect
from trajstore.schema import Step, ToolCall, Trajectory, json_text
from trajstore.testing import generate

Run = Callable[..., Trajectory]

SYSTEM = Step(actor="system", text="Be good.")
ASKED = Step(actor="user", text="Fix it.")
BOUNDARY = Step(
    actor="environment",
    text="Conversation compacted",
    metadata='{"subtype":"compact_boundary","compactMetadata":{"trigger":"auto"}}',
)
SUMMARY = Step(actor="environment", text="So far: a.", metadata='{"isCompactSummary":true}')


def said(text: str, event: int | None = None) -> Step:
    noted = None if event is None else json_text({"events": [{"id": event, "action": "message"}]})
    return Step(actor="agent", text=text, metadata=noted)


def condensed(summary: str | None, **event: Any) -> Step:
    noted = json_text({"events": [{"id": 90, "action": "condensation", **event}]})
    return Step(actor="environment", text=summary, metadata=noted)


def texts(window: Trajectory) -> list[str | None]:
    return [step.text for step in window.steps]


def split(*steps: Step) -> list[list[str | None]]:
    run = Trajectory(trajectory_id="t", task_id="t", source="s", steps=steps)
    return [texts(window) for window in context_windows(run)]


def outcome(run: Trajectory, **options: Any) -> Sequence[SftRow | Refusal]:
    return list(sft_rows([run], options=SftOptions(**options)))


def contents(row: SftRow | Refusal) -> list[str]:
    assert isinstance(row, SftRow), row
    return [m["content"] for m in row.messages]


LONG = "word " * 60
"""100 tokens by the estimate, 300 characters."""


@pytest.fixture
def compacted(run: Run) -> Trajectory:
    """Three turns of 100 tokens each; the context is compacted after the second."""
    return run(SYSTEM, ASKED, said(LONG), said(LONG), BOUNDARY, SUMMARY, said(LONG))


def test_each_row_begins_with_what_the_model_saw(compacted: Trajectory) -> None:
    first, second = outcome(compacted, max_tokens=300)
    assert contents(first) == ["Be good.", "Fix it.", LONG, LONG]
    assert contents(second) == ["Be good.", "So far: a.", LONG]
    assert isinstance(second, SftRow)
    assert [m["role"] for m in second.messages] == ["system", "user", "assistant"]


def test_every_turn_is_trained_on_once(compacted: Trajectory) -> None:
    rows = [r for r in outcome(compacted, max_tokens=300) if isinstance(r, SftRow)]
    assert sum(sum(row.trainable) for row in rows) == 3
    assert {row.trajectory_id for row in rows} == {"t"}


def test_the_split_is_counted_once(compacted: Trajectory) -> None:
    first, second = outcome(compacted, max_tokens=300)
    assert isinstance(first, SftRow)
    assert isinstance(second, SftRow)
    assert first.applied["split-at-condensation"] == 1
    assert second.applied == {}


@pytest.mark.parametrize("limit", [None, 400])
def test_a_run_within_the_limit_stays_whole(compacted: Trajectory, limit: int | None) -> None:
    (row,) = outcome(compacted, max_tokens=limit)
    assert contents(row).count(LONG) == 3


def test_a_row_of_exactly_the_limit_fits(run: Run) -> None:
    """Two messages, 8 tokens of marks each; 7 characters are 3 tokens, 300 are 100."""
    short = run(ASKED, said(LONG))
    (row,) = outcome(short, max_tokens=119)
    assert contents(row) == ["Fix it.", LONG]
    (refusal,) = outcome(short, max_tokens=118)
    assert isinstance(refusal, Refusal)


def test_a_long_run_without_condensation_is_refused_with_the_way_out(run: Run) -> None:
    (refusal,) = outcome(run(ASKED, said(LONG), said(LONG)), max_tokens=150)
    assert isinstance(refusal, Refusal)
    assert (refusal.trajectory_id, refusal.reason) == ("t", "too-long")
    assert refusal.detail.startswith("227 tokens of 150; no condensation is recorded. ")
    assert "allow more tokens" in refusal.detail


def test_a_context_that_is_too_long_itself_refuses_the_run(compacted: Trajectory) -> None:
    (refusal,) = outcome(compacted, max_tokens=150)
    assert isinstance(refusal, Refusal)
    assert "in one of 2 contexts" in refusal.detail


def test_a_boundary_without_its_summary_refuses_the_run(run: Run) -> None:
    (refusal,) = outcome(run(ASKED, said(LONG), BOUNDARY, said(LONG)), max_tokens=150)
    assert isinstance(refusal, Refusal)
    assert "the condensation at step 2 cannot be followed: its summary" in refusal.detail


def test_a_second_compaction_forgets_the_first_summary() -> None:
    again = replace(SUMMARY, text="So far: a, b.")
    found = split(
        SYSTEM, ASKED, said("a"), BOUNDARY, SUMMARY, said("b"), BOUNDARY, again, said("c")
    )
    assert found == [
        ["Be good.", "Fix it.", "a"],
        ["Be good.", "So far: a.", "b"],
        ["Be good.", "So far: a, b.", "c"],
    ]


def test_openhands_keeps_what_it_does_not_forget_and_puts_the_summary_at_its_place() -> None:
    """Events 1 and 2 go; the summary stands behind the first event that stays."""
    gone = condensed("Did 1, 2.", forgotten_event_ids=[1, 2], summary_offset=1)
    head = Step(actor="user", text="Fix it.", metadata='{"events":[{"id":0,"action":"message"}]}')
    found = split(head, said("one", 1), said("two", 2), said("three", 3), gone, said("four", 4))
    assert found == [
        ["Fix it.", "one", "two", "three"],
        ["Fix it.", "Did 1, 2.", "three", "four"],
    ]


def test_openhands_may_name_the_first_and_the_last_forgotten_event() -> None:
    gone = condensed(None, forgotten_events_start_id=1, forgotten_events_end_id=2)
    found = split(ASKED, said("one", 1), said("two", 2), said("three", 3), gone, said("four", 4))
    assert found[1] == ["Fix it.", "three", "four"]


def test_a_turn_that_stays_is_context_of_the_second_row(run: Run) -> None:
    gone = condensed("Did 1.", forgotten_event_ids=[1], summary_offset=1)
    long = run(ASKED, said(LONG, 1), said("two", 2), gone, said(LONG, 3))
    rows = [r for r in outcome(long, max_tokens=170, masked_turns="keep") if isinstance(r, SftRow)]
    assert contents(rows[1]) == ["Fix it.", "Did 1.", "two", LONG]
    assert [row.trainable for row in rows] == [[False, True, True], [False, False, False, True]]


def test_a_trainer_that_cannot_mask_gets_no_row_with_context_turns(run: Run) -> None:
    gone = condensed("Did 1.", forgotten_event_ids=[1], summary_offset=1)
    (refusal,) = outcome(
        run(ASKED, said(LONG, 1), said("two", 2), gone, said(LONG, 3)), max_tokens=170
    )
    assert isinstance(refusal, Refusal)
    assert refusal.reason == "masked-turn"


def test_prompt_completion_trains_on_each_turn_once(run: Run) -> None:
    gone = condensed("Did 1.", forgotten_event_ids=[1], summary_offset=1)
    long = run(ASKED, said(LONG, 1), said("two", 2), gone, said(LONG, 3))
    rows = outcome(long, max_tokens=170, layout="prompt-completion")
    records = [r.record("prompt-completion") for r in rows if isinstance(r, SftRow)]
    assert [[m["content"] for m in r["completion"]] for r in records] == [[LONG, "two"], [LONG]]
    assert [m["content"] for m in records[1]["prompt"]] == ["Fix it.", "Did 1.", "two"]


@pytest.mark.parametrize(
    ("step", "why"),
    [
        (Step(actor="environment", text="s", metadata='{"event":"compacted"}'), "Codex"),
        (Step(actor="environment", text="s", metadata='{"type":"compaction"}'), "which messages"),
        (condensed("s", forgotten_event_ids=[77]), "none of the events"),
        (condensed("s"), "what is forgotten"),
        (replace(SUMMARY, text=None), "its summary is empty"),
        (
            Step(
                actor="environment",
                metadata='{"extra":{"context_management":{"type":"compaction","boundary":"x"}}}',
            ),
            "its boundary is 'x'",
        ),
    ],
    ids=["codex", "pi", "unknown-events", "no-ids", "no-summary", "boundary"],
)
def test_a_condensation_that_leaves_the_context_open_is_named(step: Step, why: str) -> None:
    with pytest.raises(UnclearCondensationError, match=rf"at step 2 .*{why}"):
        split(ASKED, said("a", 1), step, said("b", 2))


def test_words_about_compaction_are_no_condensation() -> None:
    talk = Step(actor="environment", text="x", metadata='{"note":"isCompactSummary, Condensation"}')
    bad = Step(actor="environment", text="x", metadata="compact_boundary")
    assert len(split(ASKED, said("a"), talk, bad, said("b"))) == 1


def test_runs_without_condensation_are_their_own_window() -> None:
    for run in generate(10):
        assert context_windows(run) == [run]


def _recorded(path: Path) -> Trajectory:
    source = Source(path)
    importer = detect(source)
    assert importer is not None
    runs = [r for r in importer.read(source, ImportOptions()) if isinstance(r, Trajectory)]
    return runs[0]


def test_a_recorded_claude_code_session_is_split_at_its_summary(real_data: Path) -> None:
    run = _recorded(real_data / "claude_code" / "compacted.jsonl")
    before, after = context_windows(run)
    assert len(before.steps) == 12
    assert (after.steps[0].actor, len(after.steps)) == ("user", 7)
    assert (after.steps[0].text or "").startswith("This session is being continued from a previous")


def test_a_recorded_atif_run_goes_on_with_the_context_that_it_names(real_data: Path) -> None:
    name = "terminus_2_hello-world-context-summarization-linear-history.trajectory.json"
    before, after = context_windows(_recorded(real_data / "atif/harbor_golden_v17" / name))
    assert [len(w.steps) for w in (before, after)] == [4, 8]
    assert [s.is_copied for s in after.steps] == [True] * 4 + [False] * 4


@pytest.mark.parametrize("limit", [0, -5])
def test_a_limit_is_at_least_one(limit: int) -> None:
    with pytest.raises(ExportError, match=f"max_tokens is {limit}"):
        SftOptions(max_tokens=limit)


def test_calls_and_tools_count() -> None:
    """Marks 8, the name and arguments as JSON of 34 characters: 12, tools of 9 characters: 3."""
    call = ToolCall.of("add", '{"a":1}', "c")
    function = {"name": call.name, "arguments": call.arguments}
    assert len(json.dumps(function)) == 41
    message = {"role": "assistant", "content": "", "tool_calls": [{"function": function}]}
    assert row_tokens([message], "123456789", token_counter(None)) == 8 + 14 + 3


def test_a_tokenizer_that_is_not_there_is_named(run: Run, tmp_path: Path) -> None:
    with pytest.raises(ExportError, match="there is no tokenizer at"):
        outcome(run(ASKED, said("a")), max_tokens=9, tokenizer=str(tmp_path))


def test_tokens_are_counted_by_the_tokenizer(run: Run, tmp_path: Path) -> None:
    """One token a word: 60 words, 2 words, and 8 tokens of marks a message."""
    tokenizers = pytest.importorskip("tokenizers")
    words = tokenizers.Tokenizer(tokenizers.models.WordLevel({"?": 0}, unk_token="?"))
    words.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    words.save(str(tmp_path / "tokenizer.json"))
    short = run(ASKED, said(LONG))
    assert isinstance(outcome(short, max_tokens=78, tokenizer=str(tmp_path))[0], SftRow)
    (refusal,) = outcome(short, max_tokens=77, tokenizer=str(tmp_path))
    assert isinstance(refusal, Refusal)
    assert refusal.detail.startswith("78 tokens of 77; ")
