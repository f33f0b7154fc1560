from __future__ import annotations

from dataclasses import replace

from trajstore import Observation, Step, ToolCall, Trajectory
from trajstore.schema import content_digest, finish

CALL = ToolCall.of("search", {"q": "ü"})


def run(*steps: Step, **changes: object) -> Trajectory:
    values = {"trajectory_id": "a", "task_id": "t", "source": "s"} | changes
    return finish(Trajectory(**values, steps=steps))  # type: ignore[arg-type]


def agent(**values: object) -> Step:
    return Step(actor="agent", **values)  # type: ignore[arg-type]


def test_counts_are_of_the_agents_own_steps() -> None:
    error = Observation(text="no", is_error=True)
    done = run(
        Step(actor="user", text="go", tool_calls=(CALL,), observations=(error,)),
        agent(tool_calls=(CALL, CALL), observations=(error, Observation(text="ok"))),
        agent(tool_calls=(CALL,), observations=(error,), is_copied=True),
        agent(text="{broken", format_error=True),
    )
    assert (done.n_steps, done.n_agent_steps, done.n_tool_calls) == (4, 2, 2)
    assert (done.n_tool_errors, done.n_format_errors) == (1, 1)


def test_tokens_are_summed_over_counted_steps_and_unknown_stays_unknown() -> None:
    done = run(
        agent(prompt_tokens=10, completion_tokens=2),
        agent(prompt_tokens=5),
        agent(prompt_tokens=100, completion_tokens=100, is_copied=True),
    )
    assert (done.prompt_tokens, done.completion_tokens, done.cached_tokens) == (15, 2, None)


def test_a_total_that_the_source_gave_is_kept() -> None:
    assert run(agent(prompt_tokens=10), prompt_tokens=77).prompt_tokens == 77


def test_size_counts_utf8_bytes_of_all_text() -> None:
    done = run(
        agent(text="ü", reasoning="ab", tool_calls=(CALL,), observations=(Observation(text="x"),))
    )
    assert done.size_bytes == 2 + 2 + len('{"q":"ü"}'.encode()) + 1


def test_the_digest_is_of_what_was_said_and_not_of_where_it_lay() -> None:
    first = run(agent(text="x"), source_uri="a.json")
    assert first.source_digest == run(agent(text="x"), source_uri="b.json").source_digest
    assert first.source_digest != run(agent(text="y")).source_digest
    assert content_digest(first) != content_digest(replace(first, steps=()))


def test_text_that_moves_from_one_step_to_the_next_changes_the_digest() -> None:
    assert (
        run(agent(text="a"), agent(text="b")).source_digest
        != run(agent(text="ab"), agent(text="")).source_digest
    )


def keys(*steps: Step) -> list[str | None]:
    return [s.state_key for s in run(*steps).steps if s.actor == "agent"]


def test_equal_histories_have_equal_state_keys_whatever_the_agent_does_next() -> None:
    user = Step(actor="user", text="go")
    assert keys(user, agent(text="a")) == keys(user, agent(text="b"))


def test_another_observation_leads_to_another_state() -> None:
    first = agent(tool_calls=(CALL,), observations=(Observation(text="1"),))
    second = replace(first, observations=(Observation(text="2"),))
    assert keys(first, agent())[1] != keys(second, agent())[1]


def test_the_same_action_said_with_other_words_leads_to_the_same_state() -> None:
    first = agent(text="let me see", tool_calls=(CALL,))
    second = agent(text="searching", reasoning="hm", tool_calls=(CALL,))
    assert keys(first, agent())[1] == keys(second, agent())[1]


def test_volatile_values_do_not_make_a_state() -> None:
    early = Step(actor="user", text="it is 2026-01-01T10:00:00Z")
    late = Step(actor="user", text="it is 2026-02-03T11:12:13Z")
    assert keys(early, agent()) == keys(late, agent())


def test_a_state_beside_the_messages_counts() -> None:
    assert keys(agent(state='{"cwd":"/a"}')) != keys(agent(state='{"cwd":"/b"}'))


def test_a_given_state_key_is_kept() -> None:
    assert keys(agent(state_key="mine")) == ["mine"]


def test_a_first_step_of_which_nothing_is_known_has_no_key() -> None:
    assert keys(agent(text="a"))[0] is None
    with_goal = [run(agent(text="a"), goal=g).steps[0].state_key for g in ("x", "y", "x")]
    assert with_goal[0] == with_goal[2] != with_goal[1]
