"""Trajectories to test and to measure with, and a check that two tables are equal.

:func:`sample_trajectory` and :func:`sample_trajectories` give small runs that fill every column,
with the traps that real logs hold. :func:`generate` gives any number of plain runs with the
structure that queries look for: agents that differ, tools that fail, tasks with several attempts.
"""

from __future__ import annotations

import itertools
import random
import struct
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa

from trajstore.schema import (
    Observation,
    Step,
    ToolCall,
    Trajectory,
    canonical_json,
    digest,
    finish,
    json_text,
    trajectory_id,
)

_START = datetime(2026, 3, 1, 12, 0, 0, 250_000, tzinfo=UTC)

TOOLS = json_text(
    [
        {
            "type": "function",
            "function": {
                "name": name,
                "description": description,
                "parameters": {
                    "type": "object",
                    "properties": {argument: {"type": "string"}},
                    "required": [argument],
                },
            },
        }
        for name, description, argument in (
            ("bash", "Run a command in the container.", "command"),
            ("search", "Search the repository.", "query"),
            ("open_file", "Show a file.", "path"),
            ("edit", "Change a file.", "patch"),
            ("submit", "Hand in the result.", "answer"),
        )
    ]
)
"""JSON text of the tool definitions that sample and generated trajectories offer."""

_SUMMED = {"n_steps", "n_agent_steps", "n_tool_calls", "n_tool_errors", "n_format_errors"}
_SUMMED |= {"size_bytes"}


def sample_trajectory(seed: int = 0, **changes: Any) -> Trajectory:
    """One finished run of ten steps in which every column of both tables has a value.

    It holds what real logs hold: null beside '', a repeated call id, a call without a result, a
    result without a call, arguments that are no JSON, an error, copied context, a context summary,
    an image, token ids with log-probabilities, and text beyond ASCII.

    Args:
        seed: another seed gives another run; ``seed % 5`` is its task, ``seed // 5`` the attempt.
            ``success`` goes through True, False and None.
        changes: fields of :class:`Trajectory` to set. Counts and sums are computed after the
            change, save those that are among ``changes``.

    >>> sample_trajectory().n_steps
    10
    """
    started = _START + timedelta(minutes=seed % 500_000)
    success = (True, False, None)[seed % 3]
    base = Trajectory(
        trajectory_id=trajectory_id("sample", str(seed), started),
        task_id=f"sample/repo-{seed % 5}",
        attempt=seed // 5,
        goal=f"Fix the failing test of parser № {seed % 5} — “naïve” dates",
        source="sample",
        source_uri=f"sample.jsonl#L{seed + 1}",
        environment="sample-repo",
        environment_version="2026.3",
        agent=("react", "planner")[seed % 2],
        model=("model-s", "model-l")[seed % 2],
        policy_version=f"iter-{seed % 4}",
        parent_id=trajectory_id("sample", f"parent of {seed}"),
        parent_step=2,
        relation="retry",
        status="truncated",
        error="step limit reached while the container was restarting",
        termination_reason="max_steps",
        success=success,
        reward=None if success is None else (0.25, 1.0)[success],
        rewards={"tests_passed": 0.5, "format": -1.0},
        tools=TOOLS,
        cost_usd=0.0125,
        duration_s=61.5,
        started_at=started,
        ended_at=started + timedelta(seconds=61.5),
        imported_at=started + timedelta(days=1),
        expires_at=started + timedelta(days=90),
        tags=("sample", "prüfung"),
        metadata=json_text({"seed": seed, "exit": None, "note": ""}),
        steps=_sample_steps(seed, started),
    )
    done = finish(replace(base, **changes))
    return replace(done, **{name: changes[name] for name in _SUMMED & changes.keys()})


def sample_trajectories(n: int, seed: int = 0) -> list[Trajectory]:
    """``n`` different sample runs; those of seed 1 differ from all of seed 0.

    >>> len({t.trajectory_id for t in sample_trajectories(20)})
    20
    """
    return [sample_trajectory(seed * 1_000_000 + i) for i in range(n)]


def _sample_steps(seed: int, started: datetime) -> tuple[Step, ...]:
    clock = itertools.count()

    def step(**values: Any) -> Step:
        return Step(timestamp=started + timedelta(seconds=next(clock)), **values)

    picture = [{"type": "text", "text": "see"}, {"type": "image_url", "image_url": {"url": "b:1"}}]
    return (
        step(actor="system", text="You repair code.\nCall one tool at a time."),
        step(actor="user", text=f"Task {seed}: see the picture", content=json_text(picture)),
        step(actor="agent", text="from the first attempt", is_copied=True, model="model-s"),
        _searching(seed, started + timedelta(seconds=next(clock))),
        step(actor="agent", text=None, format_error=True, metadata='{"raw":"<tool_call>{"}'),
        step(actor="user", text=""),
        step(
            actor="agent",
            text="",
            reasoning="Two calls, one id.",
            tool_calls=(
                ToolCall.of("bash", {"command": "pytest -q", "n": 1.0, "who": None}, "c1"),
                ToolCall.of("bash", "ls -la  {", "c1"),
            ),
            observations=(
                Observation(call_id="c1", text=_trace(seed, "dates.py"), is_error=True),
                Observation(call_id="c1", text="", is_error=False),
            ),
            reward=-0.5,
        ),
        step(actor="environment", text="Context condensed: 12 messages became one summary."),
        step(
            actor="agent",
            text="Handing in. 完了 ✅ \x1b[32mok\x1b[0m",
            tool_calls=(ToolCall.of("submit", '{"answer" : "é",  "done": true}', "c9"),),
        ),
        step(
            actor="agent",
            text="done",
            observations=(Observation(call_id="lost", text="nobody asked", content="[]"),),
        ),
    )


def _searching(seed: int, when: datetime) -> Step:
    ids = tuple(range(seed % 97, seed % 97 + 6))
    return Step(
        actor="agent",
        text="I look for the parser.",
        reasoning="The test names `parse_date`, so…\n",
        tool_calls=(ToolCall.of("search", {"query": "parse_date", "k": seed}, "c1"),),
        observations=(Observation(call_id="c1", text=f"src/dates.py:{seed}: def parse_date():"),),
        reward=0.25,
        state=json_text({"cwd": "/repo", "open": None}),
        state_key=digest("sample", seed)[:32],
        model="model-l",
        prompt_tokens=900 + seed,
        completion_tokens=6,
        cached_tokens=512,
        latency_s=1.75,
        timestamp=when,
        prompt_token_ids=(1, 2, 3, *ids),
        completion_token_ids=ids,
        logprobs=tuple(-0.25 * i for i in range(6)),
        sampling='{"temperature":0.7,"top_p":1.0,"seed":7,"logprobs":"raw"}',
        metadata='{"finish_reason":"tool_calls"}',
    )


def _trace(seed: int, file: str) -> str:
    return (
        "Traceback (most recent call last):\n"
        f'  File "/repo/src/{file}", line {seed % 500 + 1}, in parse_date\n'
        "    return datetime.strptime(text, FORMAT)\n"
        f"ValueError: time data '{seed % 28 + 1:02d}.02.' does not match format '%d.%m.%Y'\n"
    )


def assert_tables_equal(a: pa.Table, b: pa.Table) -> None:
    """Check that two tables hold the same columns, types, nullability and rows in the same order.

    Chunks and schema metadata do not count; NaN equals NaN.

    Raises:
        AssertionError: they differ; the message names the first column and row that do.
    """
    left, right = a.schema.remove_metadata(), b.schema.remove_metadata()
    assert left.names == right.names, f"columns differ: {left.names} and {right.names}"
    for x, y in zip(left, right, strict=True):
        assert x.equals(y), f"column '{x.name}': {_declared(x)} and {_declared(y)}"
    assert a.num_rows == b.num_rows, f"rows differ: {a.num_rows} and {b.num_rows}"
    for name in left.names:
        if a.column(name).equals(b.column(name)):
            continue
        for row in range(a.num_rows):
            one, other = a.column(name)[row].as_py(), b.column(name)[row].as_py()
            assert repr(one) == repr(other), f"column '{name}', row {row}: {one!r} and {other!r}"


def _declared(field: pa.Field) -> str:
    return f"{field.type}{'' if field.nullable else ' not null'}"


def generate(n: int, seed: int = 0, *, mean_steps: int = 20) -> Iterator[Trajectory]:
    """``n`` finished runs for measurements, one at a time, about 1.5 KB of text a step.

    Words follow Zipf's law, arguments are JSON, failed calls answer with a stack trace. Eight runs
    in a row are attempts at one task. Success depends on the agent, the model and the task; one run
    in twenty has no known outcome. Run ``i`` depends on ``seed`` and ``i`` only, so a longer set
    begins with the shorter one. State keys are left out, as hashing them costs more than the rest.

    Args:
        n: number of runs.
        seed: another seed gives runs with other ids.
        mean_steps: steps of a run on average, at least 4.
    """
    words = _Words()
    for i in range(n):
        draw = random.Random(seed * 1_000_003 + i)  # noqa: S311 - test data, not a secret
        yield _generated(draw, words, seed, i, mean_steps)


_ATTEMPTS = 8
_AGENTS = {"react": 0.5, "planner": 0.3, "reflexion": 0.15, "one-shot": -0.1, "lats": 0.35}
_MODELS = {"model-s": -0.1, "model-m": 0.05, "model-l": 0.2}
_ENVIRONMENTS = ("repo-fix", "web-shop", "airline", "terminal")
_CALLS = ("bash", "search", "open_file", "edit")
_CALL_SHARES = (50, 25, 15, 10)
_ERROR_RATES = {"bash": 0.12, "search": 0.02, "open_file": 0.06, "edit": 0.2}


class _Words:
    """A vocabulary under Zipf's law; every tenth word or so ends a line."""

    _SIZE = 8_000
    _SHARES = 2**16

    def __init__(self) -> None:
        draw = random.Random(7)  # noqa: S311 - test data, not a secret
        parts = [c + v for c in "bcdfghklmnprstvz" for v in ("a", "e", "i", "o", "u", "ar", "en")]
        names = {"".join(draw.choices(parts, k=draw.randint(1, 4))) for _ in range(self._SIZE * 2)}
        ranked = draw.sample(sorted(names), self._SIZE)
        words = [w + "\n" if rank % 10 == 3 else w for rank, w in enumerate(ranked)]
        weights = [1 / (rank + 3) for rank in range(self._SIZE)]
        self._table = draw.choices(words, weights, k=self._SHARES)

    def text(self, draw: random.Random, count: int) -> str:
        """That many words: two random bytes choose each, which is faster than ``choices``."""
        picks = struct.unpack(f"<{count}H", draw.randbytes(2 * count))
        return " ".join([self._table[pick] for pick in picks])


@dataclass(frozen=True, slots=True)
class _Run:
    """What the steps of one generated run share."""

    draw: random.Random
    words: _Words
    model: str
    started: datetime


def _generated(
    draw: random.Random, words: _Words, seed: int, i: int, mean_steps: int
) -> Trajectory:
    task = i // _ATTEMPTS
    agent, model = draw.choice(list(_AGENTS)), draw.choice(list(_MODELS))
    started = _START + timedelta(seconds=97 * i + draw.random())
    count = max(4, round(draw.gammavariate(4, mean_steps / 4)))
    asked = random.Random(task)  # noqa: S311 - test data, not a secret
    rules, goal = words.text(asked, 60), words.text(asked, 40)
    run = _Run(draw, words, model, started)
    steps = _generated_steps(run, count, rules, goal)
    difficulty = (task * 2_654_435_761 % 1000) / 1000
    solved = draw.random() < _AGENTS[agent] + _MODELS[model] + 0.6 * (1 - difficulty)
    known = draw.random() >= 0.05
    environment = _ENVIRONMENTS[task % len(_ENVIRONMENTS)]
    prompt, completion = (sum(s.prompt_tokens or 0 for s in steps), 110 * len(steps))
    return finish(
        Trajectory(
            trajectory_id=trajectory_id("generated", f"{seed}/{i}", started),
            task_id=f"{environment}/{task}",
            attempt=i % _ATTEMPTS,
            goal=goal,
            source="generated",
            source_uri=f"generated#{i}",
            environment=environment,
            environment_version="1",
            agent=agent,
            model=model,
            policy_version=f"iter-{i % 5}",
            status="terminated" if solved or draw.random() < 0.7 else "truncated",
            success=solved if known else None,
            reward=(1.0 if solved else round(draw.random() * 0.8, 3)) if known else None,
            tools=TOOLS,
            cost_usd=round(prompt * 1e-6 + completion * 4e-6, 6),
            duration_s=2.5 * len(steps),
            started_at=started,
            ended_at=started + timedelta(seconds=2.5 * len(steps)),
            tags=("generated",),
            metadata=f'{{"run":{i}}}',
            steps=steps,
        ),
        state_keys=False,
    )


def _generated_steps(run: _Run, count: int, rules: str, goal: str) -> tuple[Step, ...]:
    head = (Step(actor="system", text=rules), Step(actor="user", text=goal))
    middle = (
        Step(actor="user", text=run.words.text(run.draw, 15))
        if run.draw.random() < 0.04
        else _acting(run, index)
        for index in range(2, count - 1)
    )
    answer = {"answer": run.words.text(run.draw, 25)}
    last = Step(
        actor="agent",
        text=run.words.text(run.draw, 30),
        tool_calls=(_call("submit", answer, "call_end"),),
        model=run.model,
        prompt_tokens=400 * count,
        completion_tokens=60,
        timestamp=run.started + timedelta(seconds=2.5 * count),
    )
    return (*head, *middle, last)


def _acting(run: _Run, index: int) -> Step:
    draw, text = run.draw, run.words.text
    tool = draw.choices(_CALLS, weights=_CALL_SHARES)[0]
    path = f"/repo/src/{text(draw, 1).strip()}/{text(draw, 1).strip()}.py"
    failed = draw.random() < _ERROR_RATES[tool]
    result = text(draw, draw.randint(60, 260))
    return Step(
        actor="agent",
        text=text(draw, 12),
        reasoning=text(draw, 30),
        tool_calls=(
            _call(tool, {"path": path, "query": text(draw, 4), "line": index}, f"call_{index}"),
        ),
        observations=(
            Observation(
                call_id=f"call_{index}",
                text=f"{result}\n{_trace(draw.randrange(500), path)}" if failed else result,
                is_error=failed,
            ),
        ),
        format_error=draw.random() < 0.01,
        model=run.model,
        prompt_tokens=400 * index,
        completion_tokens=draw.randint(40, 180),
        latency_s=draw.randint(2, 40) / 8,
        timestamp=run.started + timedelta(seconds=2.5 * index),
    )


def _call(name: str, arguments: dict[str, Any], call_id: str) -> ToolCall:
    return ToolCall(
        name=name,
        arguments=canonical_json(arguments),
        arguments_raw=json_text(arguments),
        call_id=call_id,
    )
