"""The SQL of the step rules against plain loops over the same calls."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.filters.rewards.tables import CALLS, NO_SCORES, NO_STEPS, rows
from trajstore.filters.rewards import dense_tool_agent, judged_calls, process_counts

CALL = st.fixed_dictionaries(
    {
        "trajectory_id": st.sampled_from(["r0", "r1"]),
        "name": st.sampled_from(["edit", "look"]),
        "arguments": st.sampled_from(["1", "2", None]),
        "observation": st.sampled_from(["ok", "Error: x", None]),
        "is_error": st.sampled_from([True, False, None]),
    }
)


def table(made: list[dict[str, Any]]) -> pa.Table:
    """Calls in order; every third begins a new step."""
    placed = [c | {"step_index": n // 3, "call_index": n % 3} for n, c in enumerate(made)]
    return pa.Table.from_pylist(placed, schema=CALLS)


def failed(call: dict[str, Any]) -> bool | None:
    if call["is_error"] is not None:
        return bool(call["is_error"])
    return None if call["observation"] is None else call["observation"].startswith("Error")


def action(call: dict[str, Any]) -> tuple[str, str]:
    return call["name"], call["arguments"] or ""


def told(made: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What became of each call, by looking back over the calls of its run."""
    found = []
    for place, call in enumerate(made):
        earlier = [c for c in made[:place] if c["trajectory_id"] == call["trajectory_id"]]
        same_tool = [c for c in earlier if c["name"] == call["name"]]
        last = same_tool[-1] if same_tool else None
        found.append(
            {
                "run": call["trajectory_id"],
                "failed": failed(call),
                "repeats": bool(earlier) and action(earlier[-1]) == action(call),
                "recovers": failed(call) is False
                and last is not None
                and failed(last) is True
                and action(last) != action(call),
                "starts_failing": failed(call) is True
                and not (last is not None and failed(last) is True),
            }
        )
    return found


@settings(deadline=None, max_examples=60)
@given(st.lists(CALL, max_size=12))
def test_what_became_of_each_call(made: list[dict[str, Any]]) -> None:
    result = judged_calls(table(made)).to_pylist()
    names = ("failed", "repeats", "recovers", "starts_failing")
    for run in ("r0", "r1"):
        expected = [{n: t[n] for n in names} for t in told(made) if t["run"] == run]
        assert [{n: r[n] for n in names} for r in result if r["trajectory_id"] == run] == expected


@settings(deadline=None, max_examples=40)
@given(st.lists(CALL, max_size=12))
def test_counts_of_a_run(made: list[dict[str, Any]]) -> None:
    counts = process_counts(rows({}, {}), table(made)).to_pylist()
    for run, count in zip(("r0", "r1"), counts, strict=True):
        own = [t for t in told(made) if t["run"] == run]
        assert count == {
            "n_calls": len(own),
            "n_effective": sum(t["failed"] is not True for t in own),
            "n_repeats": sum(t["repeats"] for t in own),
            "n_faults": sum(t["starts_failing"] for t in own),
            "n_recovered": sum(t["recovers"] for t in own),
        }


@settings(deadline=None, max_examples=40)
@given(st.lists(CALL, max_size=12))
def test_the_rules_that_fire(made: list[dict[str, Any]]) -> None:
    expected = set()
    for place, (call, fate) in enumerate(zip(made, told(made), strict=True)):
        at = (call["trajectory_id"], place // 3)
        expected |= {(*at, "successful-call")} if fate["failed"] is False else set()
        expected |= {(*at, "error")} if fate["failed"] else set()
        expected |= {(*at, "repeated-action")} if fate["repeats"] else set()
        expected |= {(*at, "recovery")} if fate["recovers"] else set()
    found = dense_tool_agent(table(made), NO_STEPS, NO_SCORES).to_pylist()
    assert {(r["trajectory_id"], r["step_index"], r["name"]) for r in found} == expected
    assert len(found) == len(expected)
