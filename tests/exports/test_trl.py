"""An export goes through TRL's own trainer: the text it renders and the tokens it trains on.

The oracle is the template applied to the messages in Python, before any file was written, and the
assistant turns written out by hand. The tokenizer has one token a byte and the model two layers, so
the test needs no download.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from trajstore.exports import SftOptions, SftRow, export_sft, sft_rows
from trajstore.schema import Observation, Step, ToolCall, Trajectory
from trajstore.testing import generate

trl = pytest.importorskip("trl")
tokenizers = pytest.importorskip("tokenizers")
datasets = pytest.importorskip("datasets")
transformers = pytest.importorskip("transformers")

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

Run = Callable[..., Trajectory]

_NONE_LEAKS = (
    "{% for k in m %}{% if m[k] is none %}{{ raise_exception('null ' ~ k) }}{% endif %}{% endfor %}"
)

TEMPLATE = (
    "{% if tools %}{{ '<|im_start|>system\n<tools>' }}"
    "{% for t in tools %}{{ '\n' ~ (t | tojson) }}{% endfor %}"
    "{{ '\n</tools><|im_end|>\n' }}{% endif %}"
    "{% for m in messages %}" + _NONE_LEAKS + "{{ '<|im_start|>' ~ m.role ~ '\n' }}"
    "{% if m.role == 'assistant' %}{% generation %}"
    "{% if m.reasoning_content is defined %}{{ '<think>' ~ m.reasoning_content ~ '</think>' }}"
    "{% endif %}{{ m.content }}{% if 'tool_calls' in m %}{% for c in m.tool_calls %}"
    "{{ '<tool_call>' ~ c.function.name ~ ' ' ~ (c.function.arguments if c.function.arguments is "
    "string else c.function.arguments | tojson) ~ '</tool_call>' }}"
    "{% endfor %}{% endif %}{{ '<|im_end|>' }}{% endgeneration %}"
    "{% else %}{{ m.content ~ '<|im_end|>' }}{% endif %}{{ '\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
"""ChatML with tools; fails on a message that has any null."""


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    """One token a byte, and the template above."""
    byte_level = tokenizers.pre_tokenizers.ByteLevel
    vocabulary = {letter: i for i, letter in enumerate(sorted(byte_level.alphabet()))}
    raw = tokenizers.Tokenizer(tokenizers.models.BPE(vocab=vocabulary, merges=[]))
    raw.pre_tokenizer = byte_level(add_prefix_space=False, use_regex=False)
    raw.decoder = tokenizers.decoders.ByteLevel()
    made = transformers.PreTrainedTokenizerFast(
        tokenizer_object=raw, eos_token="<|im_end|>", pad_token="<|pad|>"
    )
    made.chat_template = TEMPLATE
    return made


def _trained(folder: Path, tokenizer: Any, **config: Any) -> list[tuple[str, str]]:
    """Text of each row as TRL prepared it, and the part of it that carries loss."""
    rows = datasets.load_dataset(
        str(folder / "set"), split="train", cache_dir=str(folder / "cache")
    )
    model = transformers.LlamaForCausalLM(
        transformers.LlamaConfig(
            vocab_size=len(tokenizer),
            hidden_size=32,
            intermediate_size=32,
            num_hidden_layers=1,
            num_attention_heads=1,
        )
    )
    arguments = trl.SFTConfig(
        output_dir=str(folder / "out"),
        assistant_only_loss=True,
        max_length=None,
        use_cpu=True,
        bf16=False,
        report_to="none",
        max_steps=1,
        per_device_train_batch_size=1,
        **config,
    )
    trainer = trl.SFTTrainer(model, args=arguments, train_dataset=rows, processing_class=tokenizer)
    found = []
    for row in trainer.train_dataset:
        labels = trainer.data_collator([row])["labels"][0].tolist()
        found.append(
            (
                tokenizer.decode(row["input_ids"]),
                tokenizer.decode([t for t in labels if t != -100]),
            )
        )
    trainer.train()
    return found


def _rendered(row: SftRow, tokenizer: Any) -> str:
    tools = None if row.tools is None else json.loads(row.tools)
    return str(tokenizer.apply_chat_template(row.messages, tools=tools, tokenize=False))


@pytest.mark.parametrize("format_", ["parquet", "jsonl"])
def test_trl_renders_what_our_messages_render(
    tmp_path: Path, tokenizer: Any, sum_run: Trajectory, format_: Any
) -> None:
    runs = [sum_run, *generate(6, mean_steps=5)]
    export_sft(runs, tmp_path / "set", format=format_)
    rows = [r for r in sft_rows(runs) if isinstance(r, SftRow)]
    found = _trained(tmp_path, tokenizer)
    assert [text for text, _ in found] == [_rendered(r, tokenizer) for r in rows]


def test_loss_falls_on_the_turns_of_the_agent_and_on_nothing_else(
    tmp_path: Path, tokenizer: Any, sum_run: Trajectory
) -> None:
    export_sft([sum_run], tmp_path / "set")
    ((_, trained),) = _trained(tmp_path, tokenizer)
    call = '<tool_call>add {"a": 2, "b": 3, "note": null}</tool_call>'
    assert trained == f"<think>I should add.</think>{call}<|im_end|>5<|im_end|>"


def test_prompts_and_completions_train_on_each_own_turn_once(
    tmp_path: Path, tokenizer: Any, run: Run
) -> None:
    whole = run(
        Step(actor="user", text="q"),
        Step(actor="agent", text="copied", is_copied=True),
        Step(
            actor="agent",
            text="one",
            tool_calls=(ToolCall.of("f", {"x": 1}, "c"),),
            observations=(Observation(call_id="c", text="result"),),
        ),
        Step(actor="agent", text="two"),
        Step(actor="agent", text="broken", format_error=True),
        Step(actor="user", text="again"),
        Step(actor="agent", text="three"),
    )
    options = SftOptions(layout="prompt-completion")
    export_sft([whole], tmp_path / "set", options=options)
    found = _trained(tmp_path, tokenizer)
    assert [trained for _, trained in found] == [
        'one<tool_call>f {"x": 1}</tool_call><|im_end|>two<|im_end|>',
        "three<|im_end|>",
    ]


def test_kept_masked_turns_are_trained_on_by_trl(tmp_path: Path, tokenizer: Any, run: Run) -> None:
    """Why they are refused unless asked for."""
    steps = (Step(actor="agent", text="bad", format_error=True), Step(actor="agent", text="ok"))
    export_sft([run(*steps)], tmp_path / "set", options=SftOptions(masked_turns="keep"))
    ((_, trained),) = _trained(tmp_path, tokenizer)
    assert trained == "bad<|im_end|>ok<|im_end|>"


def test_arguments_as_text_reach_the_template_byte_for_byte(
    tmp_path: Path, tokenizer: Any, sum_run: Trajectory
) -> None:
    export_sft([sum_run], tmp_path / "set", options=SftOptions(arguments="text"))
    ((text, _),) = _trained(tmp_path, tokenizer)
    assert '<tool_call>add {"a": 2, "b": 3, "note": null}</tool_call>' in text
