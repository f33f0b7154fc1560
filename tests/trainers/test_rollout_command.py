"""``trajstore rollout`` with a model of transformers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from trajstore_cli.main import app
from typer.testing import CliRunner

from trajstore import open as open_store

pytest.importorskip("torch")
pytest.importorskip("transformers")


def test_a_model_in_a_folder_acts_and_its_tokens_are_stored(
    tmp_path: Path, tiny_model: Any, tokenizer: Any
) -> None:
    folder, store = tmp_path / "model", tmp_path / "pool"
    tiny_model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    options = ["--policy", "transformers", "--model", str(folder), "--template", "bare", "--json"]
    more = ["--tasks", "2", "--max-steps", "2", "--max-tokens", "4", "--policy-version", "v0"]
    ran = CliRunner().invoke(app, ["rollout", str(store), "--env", "calculator", *options, *more])
    assert json.loads(ran.stdout)["policies"][0]["errors"] == 0
    rows = open_store(store).sql(
        "select policy_version, count(*), min(len(completion_token_ids)), min(len(logprobs)) "
        "from steps join trajectories using (trajectory_id) where actor = 'agent' group by all"
    )
    ((version, steps, tokens, logprobs),) = rows.fetchall()
    assert (version, steps) == ("v0", 4)
    assert tokens == logprobs > 0
