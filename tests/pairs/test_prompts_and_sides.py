"""What both runs of a pair share, where each side is cut, and which sides are no pair."""

from __future__ import annotations

from dataclasses import replace

from tests.pairs.worlds import START, paired, run, sides, turn
from trajstore.schema import Observation, Step, ToolCall, Trajectory


def test_turns_that_differ_only_in_their_calls_are_not_the_same_prompt() -> None:
    """Case 2: text null on both sides, the calls differ; the prompt ends before them."""
    runs = [run("a", "get(1)", "end()", reward=1), run("b", "get(2)", "end()")]
    (row,) = paired(runs)[0].to_pylist()
    assert row["n_prompt_steps"] == 2


def test_results_of_other_tools_are_not_the_same_turn() -> None:
    """Case 2: which call a result answers is part of equality, ids of calls are not."""
    calls = (ToolCall.of("a", {}, "1"), ToolCall.of("b", {}, "2"))

    def answered(call_id: str) -> Step:
        return Step(
            actor="agent",
            tool_calls=calls,
            observations=(Observation(text="42", call_id=call_id),),
        )

    same = [run("x", answered("1"), "u(1)", reward=1), run("y", answered("1"), "v(1)")]
    other = [run("x", answered("1"), "u(1)", reward=1), run("y", answered("2"), "v(1)")]
    assert paired(same)[0].column("n_prompt_steps").to_pylist() == [3]
    assert paired(other)[0].column("n_prompt_steps").to_pylist() == [2]


def test_arguments_are_compared_as_values_not_as_text() -> None:
    def call(raw: str) -> Step:
        return Step(actor="agent", tool_calls=(ToolCall.of("f", raw),))

    runs = [
        run("a", call('{"a":1, "b":2}'), "u(1)", reward=1),
        run("b", call('{"b":2,"a":1}'), "v(1)"),
    ]
    assert paired(runs)[0].column("n_prompt_steps").to_pylist() == [3]


def test_a_shared_turn_belongs_to_the_prompt() -> None:
    runs = [
        run("a", turn("search(x)", "o1"), "open(a)", reward=1),
        run("b", turn("search(x)", "o1"), "open(b)"),
    ]
    assert paired(runs)[0].column("n_prompt_steps").to_pylist() == [3]


def test_the_longer_loser_is_cut_after_an_agent_turn() -> None:
    """Case 4: the cap is in turns, whatever messages lie between."""
    chatty = Step(actor="user", text="and?")
    loser = [step for i in range(6) for step in (turn(f"b({i})"), chatty)]
    runs = [run("a", "a(1)", reward=1), run("b", *loser)]
    (row,) = paired(runs, max_turns=3)[0].to_pylist()
    assert row["rejected_step"] == 6
    assert loser[row["rejected_step"] - 2].actor == "agent"


def test_eto_cuts_the_loser_to_the_winner_and_five() -> None:
    """B3: ETO keeps len(winner) + 5 rounds of the loser."""
    runs = [run("a", "a(1)", "a(2)", reward=1), run("b", *(f"b({i})" for i in range(12)))]
    (row,) = paired(runs, rejected_extra_turns=5)[0].to_pylist()
    assert row["rejected_step"] == 1 + 2 + 5


def test_a_loser_that_is_short_enough_is_not_cut() -> None:
    runs = [run("a", "a(1)", reward=1), run("b", "b(1)", "b(2)", "b(3)")]
    assert paired(runs, max_turns=3)[0].column("rejected_step").to_pylist() == [None]


def test_a_chosen_side_over_the_cap_is_dropped_and_counted() -> None:
    """Case 4."""
    runs = [run("a", "a(1)", "a(2)", "a(3)", reward=1), run("b", "b(1)")]
    pairs, report = paired(runs, max_turns=2)
    assert (pairs.num_rows, report.pairs_dropped) == (0, {"chosen-over-cap": 1})
    assert report.tasks_dropped == {"pairs-dropped": 1}


def test_sides_that_are_equal_once_cut_are_dropped_and_counted() -> None:
    """Case 4: the pair is lost to the cap."""
    runs = [run("a", turn("x(1)", "good"), reward=1), run("b", turn("x(1)", "bad"), "y(2)")]
    assert paired(runs, max_turns=1)[1].pairs_dropped == {"same-after-cap": 1}


def test_a_budget_drops_the_pair_and_never_half_of_it() -> None:
    """Case 5."""
    runs = [run("a", "a(1)", reward=1), run("b", turn("b(1)", "x" * 500))]
    pairs, report = paired(runs, max_side_bytes=400)
    assert (pairs.num_rows, report.pairs_dropped) == (0, {"side-too-large": 1})
    assert paired(runs, max_side_bytes=600)[0].num_rows == 1


def test_the_budget_counts_the_sides_and_not_the_prompt() -> None:
    start = (Step(actor="system", text="x" * 5000), *START)
    runs = [run("a", "a(1)", reward=1, start=start), run("b", "b(1)", start=start)]
    assert paired(runs, max_side_bytes=100)[0].num_rows == 1


def test_sides_with_the_same_actions_are_dropped() -> None:
    """Case 5: only what came back differs, so there is nothing to prefer."""
    runs = [run("a", turn("x(1)", "good"), reward=1), run("b", turn("x(1)", "bad"))]
    assert paired(runs)[1].pairs_dropped == {"same-actions": 1}


def test_equal_sides_under_unlike_digests_are_dropped() -> None:
    """Case 5: the digest of the source may differ where the turns do not."""
    runs = [
        run("a", "x(1)", reward=1),
        replace(run("b", "x(1)"), source_digest="said otherwise"),
    ]
    assert paired(runs)[1].pairs_dropped == {"identical-sides": 1}


def test_a_run_that_is_the_beginning_of_the_other_leaves_an_empty_side() -> None:
    """Case 5."""
    runs = [run("a", "x(1)", "y(2)", reward=1), run("b", "x(1)")]
    assert paired(runs)[1].pairs_dropped == {"empty-side": 1}


def test_swapping_the_sides_gives_another_pair_id() -> None:
    """Case 5: the id is a digest of the content and of which side is which."""
    one, other = run("a", "x(1)", reward=1), run("b", "y(2)")
    straight, _ = paired([one, other])
    swapped, _ = paired(
        [replace(one, reward=0.0, success=False), replace(other, reward=1.0, success=True)]
    )
    assert straight.column("pair_id") != swapped.column("pair_id")
    assert straight.column("prompt_digest") == swapped.column("prompt_digest")


def test_the_pair_id_depends_on_content_and_not_on_ids() -> None:
    first, _ = paired([run("a", "x(1)", reward=1), run("b", "y(2)")])
    second, _ = paired([run("other", "x(1)", reward=1), run("names", "y(2)")])
    assert first.column("pair_id") == second.column("pair_id")


SIMULATED = Step(actor="user", text="Yes, please.")


def greeted(name: str, words: str, reward: float) -> Trajectory:
    """A run with a simulated user who opens in words of their own and speaks again later."""
    start = (START[0], Step(actor="user", text=words))
    return run(name, f"a({name})", SIMULATED, f"b({name})", reward=reward, start=start)


def test_a_simulated_user_who_opens_differently_leaves_the_system_message_as_prompt() -> None:
    """Case 6: the pair is marked."""
    pairs, report = paired([greeted("a", "Hi!", 1), greeted("b", "Hello.", 0)])
    (row,) = pairs.to_pylist()
    assert (row["n_prompt_steps"], row["same_start"]) == (1, False)
    assert report.other_start == 1


def test_asking_for_the_same_start_drops_the_others() -> None:
    """Case 6."""
    runs = [greeted("a", "Hi!", 1), greeted("b", "Hello.", 0)]
    assert paired(runs, same_start=True)[1].pairs_dropped == {"start-differs": 1}


def test_a_question_in_other_words_is_another_prompt_where_the_user_speaks_once() -> None:
    """Case 6: same task id, another prompt."""
    other = (START[0], Step(actor="user", text="Do that."))
    pairs, report = paired([run("a", "x(1)", reward=1), run("b", "y(1)", start=other)])
    assert (pairs.num_rows, report.tasks_dropped) == (0, {"prompts-differ": 1})


def test_a_reflection_makes_another_prompt() -> None:
    reflected = (*START, Step(actor="environment", text="Last time I forgot to look."))
    later = [run("c", "x(2)", reward=1, start=reflected), run("d", "y(2)", start=reflected)]
    runs = [run("a", "x(1)"), *later]
    assert sides(paired(runs, policy="all_margin")[0]) == [("c", "d")]


def test_other_tools_are_another_prompt() -> None:
    runs = [run("a", "x(1)", reward=1, tools='[{"name":"x"}]'), run("b", "y(1)", tools="[]")]
    assert paired(runs)[1].tasks_dropped == {"prompts-differ": 1}


def test_runs_without_any_shared_step_need_the_same_goal() -> None:
    def bare(goal: str | None) -> list[Trajectory]:
        return [
            run("a", "x(1)", reward=1, start=(), goal=goal),
            run("b", "y(1)", start=(), goal=goal),
        ]

    assert paired(bare("Fix it."))[0].column("n_prompt_steps").to_pylist() == [0]
    assert paired(bare(None))[1].pairs_dropped == {"no-shared-prompt": 1}


def test_other_goals_are_other_prompts_where_no_user_speaks() -> None:
    runs = [
        run("a", "x(1)", reward=1, start=(), goal="Fix it."),
        run("b", "y(1)", start=(), goal="Break it."),
    ]
    assert paired(runs)[1].tasks_dropped == {"prompts-differ": 1}


def test_volatile_values_may_be_told_to_count_as_equal() -> None:
    def dated(text: str) -> tuple[Step, ...]:
        return (Step(actor="system", text=f"It is {text}."), START[1])

    runs = [
        run("a", "x(1)", reward=1, start=dated("2026-01-01T10:00:00Z")),
        run("b", "y(1)", start=dated("2026-01-02T11:30:00Z")),
    ]
    assert paired(runs)[1].tasks_dropped == {"prompts-differ": 1}
    assert paired(runs, prefix="observed")[0].column("n_prompt_steps").to_pylist() == [2]
