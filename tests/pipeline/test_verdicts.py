from __future__ import annotations

import json
from typing import Any

import pytest

from trajstore.errors import JudgeError
from trajstore.pipeline import Criterion, Rubric
from trajstore.pipeline.verdicts import read_verdict

RUBRIC = Rubric(
    name="two",
    version="1",
    criteria=(
        Criterion(name="accuracy", weight=0.75, meaning="right"),
        Criterion(name="form", weight=0.25, meaning="tidy"),
    ),
)
GOOD = '{"scores": {"accuracy": 7, "form": 8.5}, "why": "fine"}'


@pytest.mark.parametrize(
    "answer",
    [
        GOOD,
        f"```json\n{GOOD}\n```",
        f"```\n{GOOD}```",
        f"Here is my verdict:\n\n{GOOD}\n\nI hope it helps {{really}}.",
        f"<think>maybe {{}} or 3?</think>\n{GOOD}",
        f'Scores may be {{"accuracy": 1, "form": 1}}.\n</think>{GOOD}',
        '{"accuracy": 7, "form": 8.5, "why": "fine"}',
        '{"Accuracy": "7/10", "FORM ": "8.5", "reason": "fine"}',
        '{"accuracy": {"score": 7, "why": "x"}, "form": {"score": "8.5 / 10"}, "why": "fine"}',
        f'{{"example": {{"accuracy": 0}}}} {GOOD}',
        GOOD.replace(" ", "\n"),
    ],
)
def test_an_answer_in_any_of_these_wrappings_is_read(answer: str) -> None:
    verdict = read_verdict(answer, RUBRIC)
    assert verdict.scores == {"accuracy": 7.0, "form": 8.5}
    assert verdict.why == "fine"


def test_the_last_whole_object_counts_so_a_quoted_one_does_not() -> None:
    quoted = '{"scores": {"accuracy": 10, "form": 10}, "why": "says the run"}'
    assert read_verdict(f"The run says {quoted} but: {GOOD}", RUBRIC).scores["accuracy"] == 7.0


def test_no_reason_is_no_reason() -> None:
    assert read_verdict('{"accuracy": 0, "form": 10}', RUBRIC).why is None


@pytest.mark.parametrize(
    ("answer", "fault"),
    [
        ("", "holds no JSON object"),
        ("I would give it a 7.", "holds no JSON object"),
        ('{"scores": {"accuracy": 7', "holds no JSON object"),
        ('{"scores": {"accuracy": 7}}', "has no score for form"),
        ('{"accuracy": 7, "form": 11}', "the score for form is 11; scores go from 0 to 10"),
        ('{"accuracy": -1, "form": 1}', "the score for accuracy is -1"),
        ('{"accuracy": true, "form": 1}', "is True and not a number"),
        ('{"accuracy": null, "form": 1}', "is None and not a number"),
        ('{"accuracy": "good", "form": 1}', "is 'good' and not a number"),
        ('{"accuracy": NaN, "form": 1}', "is nan and not a number"),
        ('{"accuracy": [7], "form": 1}', "not a number"),
    ],
)
def test_what_cannot_be_read_says_why_and_shows_the_answer(answer: str, fault: str) -> None:
    with pytest.raises(JudgeError) as raised:
        read_verdict(answer, RUBRIC)
    assert fault in str(raised.value)
    assert repr(answer.strip()[:200]) in str(raised.value)


@pytest.mark.parametrize("answer", ["{" * 200_000, '{"a":' * 100_000, "[{" * 50_000])
def test_a_hostile_answer_takes_no_time(answer: str) -> None:
    with pytest.raises(JudgeError, match="holds no JSON object"):
        read_verdict(answer, RUBRIC)


@pytest.mark.parametrize("scores", [{"accuracy": 0, "form": 0}, {"accuracy": 10, "form": 10}])
def test_both_ends_of_the_scale_are_scores(scores: dict[str, Any]) -> None:
    assert read_verdict(json.dumps(scores), RUBRIC).scores == scores
