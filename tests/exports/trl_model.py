"""A tokenizer of one token a byte and a model of one layer, for TRL's trainers without a download.

The chat template is ChatML with tools. It fails on a message that has any null, and marks what the
assistant generated.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

TEMPLATE = (
    "{% if tools %}{{ '<|im_start|>system\n<tools>' }}"
    "{% for t in tools %}{{ '\n' ~ (t | tojson) }}{% endfor %}"
    "{{ '\n</tools><|im_end|>\n' }}{% endif %}"
    "{% for m in messages %}"
    "{% for k in m %}{% if m[k] is none %}{{ raise_exception('null ' ~ k) }}{% endif %}{% endfor %}"
    "{{ '<|im_start|>' ~ m.role ~ '\n' }}"
    "{% if m.role == 'assistant' %}{% generation %}"
    "{{ m.content }}{% if 'tool_calls' in m %}{% for c in m.tool_calls %}"
    "{{ '<tool_call>' ~ c.function.name ~ ' ' ~ (c.function.arguments | tojson) "
    "~ '</tool_call>' }}{% endfor %}{% endif %}{{ '<|im_end|>' }}{% endgeneration %}"
    "{% else %}{{ m.content ~ '<|im_end|>' }}{% endif %}{{ '\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


def byte_tokenizer() -> Any:
    """One token a byte, and the template above."""
    import tokenizers
    import transformers

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


def tiny_config(tokenizer: Any) -> Any:
    """Random weights, one layer."""
    import transformers

    return transformers.LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=32,
        num_hidden_layers=1,
        num_attention_heads=1,
        num_labels=1,
        pad_token_id=tokenizer.pad_token_id,
    )


def module_of(path: Path) -> ModuleType:
    """A module from a file that an export wrote."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made
