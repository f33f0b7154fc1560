from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.exports.conftest import run, sum_run
from trajstore.testing import generate

__all__ = ["run", "sum_run"]

SPECIAL = [
    *("<|pad|>", "<|im_start|>", "<|im_end|>", "<|begin_of_text|>", "<|eot_id|>", "<s>", "</s>"),
    *("<|start_header_id|>", "<|end_header_id|>", "[INST]", "[/INST]", "[TOOL_CALLS]"),
    *("[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]", "[TOOL_RESULTS]", "[/TOOL_RESULTS]"),
]

MakeTokenizer = Callable[..., Any]


@pytest.fixture(scope="session")
def make_tokenizer() -> MakeTokenizer:
    """Tokenizers of one vocabulary of 600 tokens, with a chat template and its special tokens."""
    tokenizers = pytest.importorskip("tokenizers")
    transformers = pytest.importorskip("transformers")
    byte_level = tokenizers.pre_tokenizers.ByteLevel
    raw = tokenizers.Tokenizer(tokenizers.models.BPE())
    raw.pre_tokenizer = byte_level(add_prefix_space=False)
    raw.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=600,
        special_tokens=SPECIAL,
        initial_alphabet=byte_level.alphabet(),
        show_progress=False,
    )
    texts = [s.text or "" for t in generate(3, mean_steps=5) for s in t.steps]
    raw.train_from_iterator(texts, trainer)
    text = raw.to_str()

    def make(template: str | None = None, eos: str = "<|im_end|>", bos: str = "<s>") -> Any:
        made = transformers.PreTrainedTokenizerFast(
            tokenizer_object=tokenizers.Tokenizer.from_str(text),
            eos_token=eos,
            bos_token=bos,
            pad_token="<|pad|>",
        )
        made.chat_template = template
        return made

    return make


@pytest.fixture(scope="session")
def tokenizer(make_tokenizer: MakeTokenizer) -> Any:
    """One without a chat template of its own."""
    return make_tokenizer()


@pytest.fixture
def tiny_model() -> Any:
    """Two layers, float32, the same weights each time; no dropout."""
    return make_tiny_model()


def make_tiny_model(seed: int = 0) -> Any:
    """Two layers, float32, the same weights for a seed."""
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(seed)
    return transformers.LlamaForCausalLM(
        transformers.LlamaConfig(
            vocab_size=600,
            hidden_size=32,
            intermediate_size=64,
            num_hidden_layers=2,
            num_attention_heads=2,
            max_position_embeddings=2048,
        )
    )
