"""A small model from nothing: a tokenizer trained on the store's text, and a Llama around it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from trajstore._optional import require
from trajstore.errors import TrainingError
from trajstore.rollouts.templates import ChatTemplate, render
from trajstore.schema import Trajectory
from trajstore.trainers.jobs.config import Scratch
from trajstore.trainers.jobs.models import quiet_transformers
from trajstore.trainers.tokenise import DEFAULT_OPTIONS, RowOptions, chat_of, tools_of

PAD, START, END = "<|pad|>", "<|im_start|>", "<|im_end|>"
"""Marks that are one token each: padding, and the borders of turns in ChatML."""


def train_tokenizer(texts: Iterable[str], vocabulary: int) -> Any:
    """A byte-level tokenizer of the texts, for transformers.

    Any text comes back as it was, since every byte has a token. Digits stand alone, so that a
    number is read and written one digit at a time. Beside that a token may span words up to the
    end of a line, as a small model of one environment reads the same phrases again and again, and
    pays for each token.

    Args:
        texts: what its words are learned from; the same texts give the same tokenizer.
        vocabulary: tokens at most.
    """
    tokenizers = require("tokenizers", extra="train", purpose="Training a tokenizer")
    transformers = require("transformers", extra="train", purpose="Training a tokenizer")
    before = tokenizers.pre_tokenizers
    raw = tokenizers.Tokenizer(tokenizers.models.BPE())
    raw.pre_tokenizer = before.Sequence(
        [
            before.Digits(individual_digits=True),
            before.Split("\n", "isolated"),
            before.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    raw.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=[PAD, START, END],
        initial_alphabet=sorted(before.ByteLevel.alphabet()),
        show_progress=False,
    )
    raw.train_from_iterator(texts, trainer)
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=raw, eos_token=END, pad_token=PAD, clean_up_tokenization_spaces=False
    )


def texts_of(
    runs: Iterable[Trajectory], template: ChatTemplate, options: RowOptions = DEFAULT_OPTIONS
) -> Iterator[str]:
    """What a model reads of runs, each as one text; those that the template refuses left out."""
    plain = _Plain()
    for run in runs:
        try:
            chat = chat_of(run, template, replace(options, media="mark"))
            yield render(plain, template, chat.messages, tools_of(run))
        except TrainingError:
            continue


class _Plain:
    """As much of a tokenizer as rendering needs, before there is one."""

    def apply_chat_template(self, messages: list[Any], **options: Any) -> str:
        module = require(
            "transformers.utils.chat_template_utils", extra="train", purpose="Rendering a template"
        )
        rendered, _ = module.render_jinja_template(
            conversations=[messages],
            tools=options["tools"],
            chat_template=options["chat_template"],
            add_generation_prompt=options["add_generation_prompt"],
            eos_token=END,
            pad_token=PAD,
        )
        text: str = rendered[0]
        return text


def make_scratch(
    scratch: Scratch,
    runs: Iterable[Trajectory],
    template: ChatTemplate,
    folder: Path,
    *,
    seed: int,
    options: RowOptions = DEFAULT_OPTIONS,
) -> None:
    """Write a model with random weights and its tokenizer to a folder, as transformers has them.

    Args:
        scratch: its size.
        runs: what the tokenizer learns its words from.
        template: how they become text; kept as the tokenizer's own.
        folder: where to.
        seed: of the weights.
        options: choices about rows, such as whether they hold reasoning.

    Raises:
        TrainingError: there is no text to learn from.
    """
    torch = require("torch", extra="train", purpose="Making a model")
    transformers = quiet_transformers()
    texts = list(texts_of(runs, template, options))
    if not texts:
        message = (
            "there is no run to train a tokenizer on; [data] where or selection must name some, "
            "as trajstore rollout and trajstore import bring them"
        )
        raise TrainingError(message)
    tokenizer = train_tokenizer(texts, scratch.vocabulary)
    tokenizer.chat_template = template.text
    torch.manual_seed(seed)
    model = transformers.LlamaForCausalLM(
        transformers.LlamaConfig(
            vocab_size=len(tokenizer),
            hidden_size=scratch.hidden,
            intermediate_size=4 * scratch.hidden,
            num_hidden_layers=scratch.layers,
            num_attention_heads=scratch.heads,
            max_position_embeddings=scratch.max_positions,
            tie_word_embeddings=True,
            pad_token_id=tokenizer.pad_token_id,
            eos_token_id=tokenizer.eos_token_id,
            bos_token_id=None,
        )
    )
    tokenizer.save_pretrained(folder)
    model.save_pretrained(folder)
