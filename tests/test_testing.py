from __future__ import annotations

import json
from collections import Counter, defaultdict
from dataclasses import fields
from itertools import islice

import pyarrow as pa
import pytest

from trajstore.schema import (
    STEP_SCHEMA,
    TRAJECTORY_SCHEMA,
    Step,
    Trajectory,
    finish,
    steps_to_arrow,
    trajectories_from_arrow,
    trajectories_to_arrow,
    validate,
)
from trajstore.testing import (
    TOOLS,
    assert_tables_equal,
    generate,
    sample_trajectories,
    sample_trajectory,
)


def test_the_same_seed_gives_the_same_run() -> None:
    assert sample_trajectory(3) == sample_trajectory(3)
    assert sample_trajectory(3) != sample_trajectory(4)


def test_every_trajectory_column_of_a_sample_has_a_value() -> None:
    table = trajectories_to_arrow([sample_trajectory()])
    empty = [n for n in TRAJECTORY_SCHEMA.names if table.column(n)[0].as_py() in (None, [], "")]
    assert empty == []


def test_every_step_column_of_a_sample_differs_from_its_default_somewhere() -> None:
    steps = sample_trajectory().steps
    default = Step(actor="system")
    same = [f.name for f in fields(Step) if all(_is_default(s, default, f.name) for s in steps)]
    assert same == []


def _is_default(step: Step, default: Step, name: str) -> bool:
    return bool(getattr(step, name) == getattr(default, name))


def test_samples_fit_the_schema_and_come_back_from_arrow_unchanged() -> None:
    samples = sample_trajectories(7, seed=2)
    rows, steps = trajectories_to_arrow(samples), steps_to_arrow(samples)
    assert validate(rows, "trajectories") == []
    assert validate(steps, "steps") == []
    assert trajectories_from_arrow(rows, steps) == samples


def test_a_sample_holds_the_traps_of_real_logs() -> None:
    steps = sample_trajectory().steps
    texts = {s.text for s in steps}
    ids = Counter(c.call_id for s in steps for c in s.tool_calls)
    asked = set(ids)
    answered = {o.call_id for s in steps for o in s.observations}
    assert {None, ""} <= texts
    assert ids["c1"] > 1
    assert asked - answered
    assert answered - asked
    assert any(c.arguments is None and c.arguments_raw for s in steps for c in s.tool_calls)
    assert any(not (s.text or "").isascii() for s in steps)


def test_the_counts_of_a_sample_are_those_read_off_its_steps() -> None:
    t = sample_trajectory()
    # Ten steps: two calls in step 6, one each in steps 3 and 8; step 2 is copied.
    assert (t.n_steps, t.n_agent_steps, t.n_tool_calls) == (10, 5, 4)
    assert (t.n_tool_errors, t.n_format_errors) == (1, 1)
    assert (t.prompt_tokens, t.completion_tokens, t.cached_tokens) == (900, 6, 512)


def test_changes_are_set_before_counting() -> None:
    t = sample_trajectory(1, steps=(Step(actor="agent", text="é"),), success=None, model="other")
    assert (t.n_steps, t.size_bytes, t.success, t.model) == (1, 2, None, "other")


def test_a_count_that_is_given_stays() -> None:
    assert sample_trajectory(n_steps=99).n_steps == 99


def test_an_unknown_field_is_refused() -> None:
    with pytest.raises(TypeError, match="colour"):
        sample_trajectory(colour="red")


def test_samples_of_different_seeds_share_no_id() -> None:
    runs = sample_trajectories(50, seed=0) + sample_trajectories(50, seed=1)
    assert len({t.trajectory_id for t in runs}) == 100


def test_samples_share_tasks_and_have_all_three_outcomes() -> None:
    runs = sample_trajectories(15)
    assert len({t.task_id for t in runs}) == 5
    assert {t.success for t in runs} == {True, False, None}
    assert len({(t.task_id, t.attempt) for t in runs}) == 15


def test_tools_are_openai_definitions() -> None:
    names = [t["function"]["name"] for t in json.loads(TOOLS)]
    called = {c.name for s in sample_trajectory().steps for c in s.tool_calls}
    called |= {c.name for t in generate(10) for s in t.steps for c in s.tool_calls}
    assert called <= set(names)


def test_equal_tables_pass_whatever_their_chunks_and_metadata() -> None:
    a = pa.table({"x": pa.chunked_array([[1.0], [float("nan"), None]])})
    b = pa.table({"x": [1.0, float("nan"), None]}).replace_schema_metadata({"k": "v"})
    assert_tables_equal(a, b)


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (pa.table({"y": [1, 2]}), "columns differ"),
        (pa.table({"x": [1.0, 2.0]}), "column 'x': int64 and double"),
        (pa.table({"x": [1]}), "rows differ: 2 and 1"),
        (pa.table({"x": [1, None]}), "column 'x', row 1: 2 and None"),
        (
            pa.table({"x": [1, 2]}, schema=pa.schema([pa.field("x", pa.int64(), nullable=False)])),
            "column 'x': int64 and int64 not null",
        ),
    ],
)
def test_a_difference_is_named(other: pa.Table, message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        assert_tables_equal(pa.table({"x": [1, 2]}), other)


def test_null_and_empty_text_are_different_tables() -> None:
    with pytest.raises(AssertionError, match="row 0: '' and None"):
        assert_tables_equal(
            pa.table({"x": pa.array([""])}), pa.table({"x": pa.array([None], pa.string())})
        )


def test_generated_runs_do_not_depend_on_how_many_are_asked_for() -> None:
    assert list(generate(20, seed=5))[:7] == list(generate(7, seed=5))


def test_generated_runs_of_another_seed_are_other_runs() -> None:
    ids = {t.trajectory_id for t in generate(30, seed=1)}
    assert not ids & {t.trajectory_id for t in generate(30, seed=2)}


def test_generating_is_lazy() -> None:
    assert len(list(islice(generate(10**9), 2))) == 2


def test_generated_runs_fit_the_schema_and_are_finished() -> None:
    runs = list(generate(20))
    assert validate(trajectories_to_arrow(runs), "trajectories") == []
    table = steps_to_arrow(runs)
    assert validate(table, "steps") == []
    assert table.schema == STEP_SCHEMA
    assert [finish(t, state_keys=False) for t in runs] == runs


def test_generated_steps_have_the_promised_size() -> None:
    runs = list(generate(200, seed=3))
    steps = sum(t.n_steps for t in runs)
    assert steps / len(runs) == pytest.approx(20, rel=0.1)
    assert sum(t.size_bytes for t in runs) / steps == pytest.approx(1500, rel=0.1)


@pytest.mark.parametrize("mean", [4, 8, 60])
def test_the_mean_number_of_steps_is_an_argument(mean: int) -> None:
    runs = list(generate(120, mean_steps=mean))
    assert sum(t.n_steps for t in runs) / len(runs) == pytest.approx(mean, rel=0.25)
    assert min(t.n_steps for t in runs) >= 4


def _success_rates(runs: list[Trajectory]) -> dict[str | None, float]:
    outcomes = defaultdict(list)
    for t in runs:
        if t.success is not None:
            outcomes[t.agent].append(t.success)
    return {agent: sum(known) / len(known) for agent, known in outcomes.items()}


def test_success_of_generated_runs_depends_on_the_agent() -> None:
    runs = list(generate(600, mean_steps=4))
    rates = _success_rates(runs)
    assert len(rates) == 5
    assert rates["react"] > rates["reflexion"] > rates["one-shot"]
    assert 0.01 < sum(t.success is None for t in runs) / len(runs) < 0.1


def test_eight_generated_runs_are_attempts_at_one_task_from_one_start() -> None:
    runs = list(generate(16))
    assert [t.attempt for t in runs] == [*range(8), *range(8)]
    assert len({t.task_id for t in runs}) == 2
    assert len({(t.task_id, t.goal, t.steps[0].text, t.steps[1].text) for t in runs}) == 2


def test_failed_calls_of_generated_runs_answer_with_a_stack_trace() -> None:
    seen = [o for t in generate(40) for s in t.steps for o in s.observations]
    failed = [o for o in seen if o.is_error]
    assert failed
    assert all("Traceback" in (o.text or "") for o in failed)
    assert not any("Traceback" in (o.text or "") for o in seen if not o.is_error)


def test_words_of_generated_runs_follow_zipf() -> None:
    words = Counter(
        w for t in generate(60) for s in t.steps for w in (s.reasoning or "").split()
    ).most_common()
    total = sum(n for _, n in words)
    assert len(words) > 1000
    assert words[0][1] > 5 * words[30][1]
    assert 0.2 < sum(n for _, n in words[:30]) / total < 0.6
