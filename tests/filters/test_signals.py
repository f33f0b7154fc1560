from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import trajstore
from tests.filters.rewards.tables import steps
from trajstore.errors import SelectionError
from trajstore.filters.rewards import read_input
from trajstore.filters.signals import next_state_signals

CORRECTION, REQUERY, THANKS = "correction", "re-query", "thanks"


def heard(*said: tuple[str, str | None]) -> list[tuple[int, str]]:
    found = next_state_signals(steps(*said)).to_pylist()
    return [(r["step_index"], r["name"]) for r in found]


def after_an_action(message: str, action: str = "I have cancelled it.") -> str | None:
    found = heard(("user", "Cancel my flight to Rome"), ("agent", action), ("user", message))
    assert all(step == 1 for step, _ in found)
    return found[0][1] if found else None


@pytest.mark.parametrize(
    "message",
    [
        "No, that is the other flight.",
        "no I said Rome, not Milan",
        "Nope, don't cancel it.",
        "That's not what I asked for.",
        "That isn't right, I fly on Monday.",
        "this is wrong",
        "Actually, I wanted the later one.",
        "Actually, my name is spelled with a K, it was in the mail.",
        "I meant the other reservation.",
        "You forgot the second passenger.",
        "you've misunderstood me",
        "You got the date wrong.",
        "I think there might be some mix-up here.",
        "There must be a mistake.",
        "I'm not asking for a refund.",
        "Undo that",
        "revert, please",
        "[Request interrupted by user for tool use]",
        "That\u2019s not right.",
    ],
)
def test_the_user_corrects(message: str) -> None:
    assert after_an_action(message) == CORRECTION


@pytest.mark.parametrize(
    "message",
    [
        "As I said, it is for two people.",
        "I already told you my user id.",
        "Could you please double-check that?",
        "Can you check again?",
        "Are you sure that there is no other way?",
        "We are going in circles here.",
        "It still doesn't work",
        "The tests are still failing",
        "the issue is still there",
        "that didn't work",
        "You didn't answer my question about the fee.",
        "Let me rephrase: which flights are left?",
    ],
)
def test_the_user_asks_again(message: str) -> None:
    assert after_an_action(message) == REQUERY


@pytest.mark.parametrize(
    "message",
    [
        "Thank you so much!",
        "Great, thanks for your help!",
        "Perfect.",
        "That works",
        "I really appreciate your help.",
        "nice work",
        "No, that's all. Thank you for your help!",
    ],
)
def test_the_user_is_content(message: str) -> None:
    assert after_an_action(message) == THANKS


@pytest.mark.parametrize(
    "message",
    [
        "My user id is anya_garcia_5901.",
        "Yes, please go ahead. Thank you!",
        "Thank you for your patience.",
        "Thanks in advance",
        "Thanks, but I wanted something else",
        "No, thanks.",
        "No problem.",
        "No, that's fine.",
        "I made a mistake with the booking.",
        "thanks to some digging I found the id",
        "Now add a goodbye function",
        "I need 3 checked bags",
        "Nobody told me about this fee",
        "the wrong() function is fine",
        "",
        "   ",
        "<command-name>/exit</command-name> thanks",
        '{"text": "thank you"}',
        "[image] thanks",
    ],
)
def test_the_user_says_nothing_of_the_step(message: str) -> None:
    assert after_an_action(message) is None


def test_no_is_an_answer_where_the_agent_asked() -> None:
    assert after_an_action("No, the other one.", "Is it the flight on Monday?") is None
    assert after_an_action("No, the other one.", "I chose the flight on Monday.") == CORRECTION


def test_a_correction_comes_before_a_re_query_and_that_before_thanks() -> None:
    assert after_an_action("I meant Rome. Can you check again? Thanks") == CORRECTION
    assert after_an_action("Thanks. Can you check again") == REQUERY


QUESTION = "Which nonstop flights leave for Rome on Monday?"


def test_the_same_question_in_other_order_is_asked_again() -> None:
    said = [
        ("user", QUESTION),
        ("agent", "Hello"),
        ("user", "On Monday which flights leave for Rome?"),
    ]
    assert heard(*said) == [(1, REQUERY)]
    found = next_state_signals(steps(*said))
    assert found.column("rationale").to_pylist() == ["the user repeats step 0"]


def test_another_question_is_not() -> None:
    assert (
        heard(("user", QUESTION), ("agent", "x"), ("user", "And how much is a checked bag?")) == []
    )


def test_a_second_yes_repeats_nothing() -> None:
    yes = "Yes, please go ahead with the change."
    assert heard(("user", yes), ("agent", "Done."), ("user", yes)) == []


def test_the_step_right_before_the_user_is_judged_past_events_between_them() -> None:
    said = [
        ("user", "hi"),
        ("agent", "a"),
        ("agent", "b"),
        ("environment", "event"),
        ("user", "Perfect."),
    ]
    assert heard(*said) == [(2, THANKS)]


def test_only_what_follows_the_agent_counts() -> None:
    assert heard(("system", "x"), ("user", "That is wrong"), ("user", "Thank you")) == []


def test_only_the_beginning_of_a_message_is_looked_at() -> None:
    assert after_an_action("x" * 300 + " that is wrong") is None


def test_the_words_that_gave_it_away_are_kept() -> None:
    found = next_state_signals(steps(("user", "a"), ("agent", "b"), ("user", "OK, great work!")))
    assert found.to_pylist() == [
        {
            "trajectory_id": "r0",
            "step_index": 1,
            "name": "thanks",
            "value": 0.25,
            "rationale": 'the user says "great work"',
        }
    ]


def test_values_are_weak_and_can_be_set() -> None:
    table = steps(
        ("user", "a"), ("agent", "b"), ("user", "undo"), ("agent", "c"), ("user", "thanks")
    )
    assert next_state_signals(table).column("value").to_pylist() == [-0.5, 0.25]
    found = next_state_signals(table, correction=-1, thanks=2)
    assert found.column("value").to_pylist() == [-1, 2]


def test_runs_do_not_answer_each_other() -> None:
    table = [steps(("agent", "x"), run="r0"), steps(("user", "thanks"), run="r1")]
    assert next_state_signals(pa.concat_tables(table)).num_rows == 0


def test_a_missing_column_is_named() -> None:
    with pytest.raises(SelectionError, match="lacks the columns actor"):
        next_state_signals(steps(("user", "a")).drop_columns("actor"))


@pytest.fixture(scope="module")
def tau_steps(real_data: Path, tmp_path_factory: pytest.TempPathFactory) -> pa.Table:
    store = trajstore.open(tmp_path_factory.mktemp("tau") / "pool", durable=False)
    store.import_files(real_data / "tau_bench")
    return read_input(lambda query: store.query(query).read_all(), "steps")


def test_the_signals_of_recorded_runs_that_were_read_one_by_one(tau_steps: pa.Table) -> None:
    """1,290 answers of users; all corrections and re-queries were read by eye."""
    found = next_state_signals(tau_steps)
    counts = found.group_by("name").aggregate([([], "count_all")]).sort_by("name").to_pylist()
    assert {r["name"]: r["count_all"] for r in counts} == {
        "correction": 13,
        "re-query": 35,
        "thanks": 165,
    }


def test_a_signal_is_about_a_step_of_the_agent(tau_steps: pa.Table) -> None:
    found = next_state_signals(tau_steps).select(["trajectory_id", "step_index"])
    agents = tau_steps.filter(pa.compute.equal(tau_steps["actor"], "agent"))
    kept = found.join(agents, keys=["trajectory_id", "step_index"], join_type="left semi")
    assert kept.num_rows == found.num_rows
