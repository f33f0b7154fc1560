from __future__ import annotations

import pyarrow as pa

from tests.filters.rewards.tables import ACTIONS, rows
from trajstore.filters.rewards import efficiency, place_on_steps


def test_the_last_action_carries_the_reward_of_the_run_and_the_others_their_own_or_none() -> None:
    """Step reward = the environment's or 0; the last step carries R = 1 - 0.01 * 4."""
    made = [("r0", 1, None), ("r0", 4, 0.25), ("r0", 6, 0.5)]
    table = pa.Table.from_pylist([dict(zip(ACTIONS.names, a, strict=True)) for a in made], ACTIONS)
    placed = place_on_steps(table, efficiency(rows({"n_tool_calls": 4})))
    assert [(r["step_index"], r["value"]) for r in placed.to_pylist()] == [
        (1, 0.0),
        (4, 0.25),
        (6, 0.96),
    ]


def test_a_run_without_a_reward_has_no_step_rewards() -> None:
    table = pa.Table.from_pylist([{"trajectory_id": "r0", "step_index": 0}], ACTIONS)
    assert place_on_steps(table, efficiency(rows({"success": None}))).num_rows == 0
