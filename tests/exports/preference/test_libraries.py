"""The trainers' own code reads the rows, where it is installed."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.exports.preference.pairs import pair_of, runs_of
from trajstore.exports.preference import export_pairs
from trajstore.schema import Step, ToolCall, Trajectory

Run = Callable[..., Trajectory]

pytestmark = pytest.mark.filterwarnings("ignore")


def _template(messages: Any, *, add_generation_prompt: bool = False, **_: Any) -> str:
    """Text of a chat: what a template with no surprise renders."""
    said = "".join(f"<{m['role']}>{m['content']}</>" for m in messages)
    return said + ("<assistant>" if add_generation_prompt else "")


def _answers(run: Run, **changes: Any) -> tuple[Any, Any]:
    question = (Step(actor="system", text="Add."), Step(actor="user", text="2+3?"))
    good, bad = (
        run(*question, Step(actor="agent", text=t, **changes), trajectory_id=t)
        for t in ("five", "four")
    )
    return pair_of(good, bad, n_prompt_steps=2), runs_of(good, bad)


def _row(given: tuple[Any, Any], **how: Any) -> dict[str, Any]:
    stream = io.StringIO()
    export_pairs(*given, stream, format="jsonl", **how)
    return dict(json.loads(stream.getvalue()))


def test_openrlhf_finds_the_answers_behind_the_prompt(run: Run) -> None:
    module = pytest.importorskip("openrlhf.datasets.reward_dataset")
    row = _row(_answers(run), to="openrlhf")
    keys = {"prompt_key": "prompt", "apply_chat_template": _template, "is_dpo": True}
    found = module.preprocess_data(row, **keys)
    prompt = "<system>Add.</><user>2+3?</><assistant>"
    assert found == (prompt, "five</>", "four</>", 0)


def test_openrlhf_scores_whole_conversations(run: Run) -> None:
    module = pytest.importorskip("openrlhf.datasets.reward_dataset")
    row = _row(_answers(run), to="openrlhf", kind="reward")
    prompt, chosen, rejected, _ = module.preprocess_data(row, apply_chat_template=_template)
    before = "<system>Add.</><user>2+3?</><assistant>"
    assert (prompt, chosen, rejected) == ("", f"{before}five</>", f"{before}four</>")


def test_llama_factory_takes_calls_on_both_sides(tmp_path: Path, run: Run) -> None:
    converter = pytest.importorskip("llamafactory.data.converter")
    parser = pytest.importorskip("llamafactory.data.parser")
    given = _answers(run, tool_calls=(ToolCall.of("add", {"a": 2}, "c1"),))
    export_pairs(*given, tmp_path, to="llama-factory")
    (about,) = parser.get_dataset_list(["trajstore"], str(tmp_path))
    assert about.ranking is True
    row = json.loads((tmp_path / "train.jsonl").read_text())
    out = converter.SharegptDatasetConverter(about, None)(row)
    assert [m["role"] for m in out["_prompt"]] == ["user"]
    assert [m["role"] for m in out["_response"]] == ["function", "function"]
    assert [m["content"][:4] for m in out["_response"]] == ["five", "four"]


def test_axolotl_takes_the_content_of_both_sides(run: Run) -> None:
    module = pytest.importorskip("axolotl.prompt_strategies.dpo.chat_template")

    class Tokenizer:
        chat_template = "given"

        def apply_chat_template(self, messages: Any, **options: Any) -> str:
            shown = options.get("add_generation_prompt", False)
            return _template(messages, add_generation_prompt=shown)

    config = {"datasets": [{"type": "chat_template.default"}], "chat_template": None}
    transform, _ = module.default(_Config(config))
    out = transform(_row(_answers(run), to="axolotl"), tokenizer=Tokenizer())
    assert out["prompt"] == "<system>Add.</><user>2+3?</><assistant>"
    assert (out["chosen"], out["rejected"]) == ("five</>", "four</>")


class _Config(dict[str, Any]):
    """A dictionary whose entries are attributes too, as axolotl's is."""

    def __getattr__(self, name: str) -> Any:
        return self.get(name)
