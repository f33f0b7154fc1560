"""Tokenise and mask beside TRL's own preparation: ``python -m benchmarks.tokenising``.

The same generated runs, the same tokenizer and the same chat template, which marks what the
assistant generated. TRL's side is the preparation that ``SFTTrainer`` does with
``assistant_only_loss``: it starts from messages that are ready, ours from trajectories, so ours
does more. Both must give the same tokens and the same mask, or the run ends with exit code 1.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
import tempfile
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

if __package__ in {None, ""}:  # run as a file: python benchmarks/tokenising.py
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.measure import OURS, DisagreementError, Row, environment, time_rounds, timed_rows
from benchmarks.report import tables
from trajstore.exports import SftOptions, SftRow, sft_rows
from trajstore.rollouts.templates import CHATML
from trajstore.schema import Trajectory
from trajstore.testing import generate
from trajstore.trainers.rows import TokenRow
from trajstore.trainers.tokenise import Refused, tokenise_all

TRL = "TRL SFTTrainer"
WORK = "tokenise and mask"
TARGET = 1.0
"""The design's: not slower than TRL."""

_SPECIAL = ["<|pad|>", "<|im_start|>", "<|im_end|>"]


class Workload:
    """Runs, a tokenizer trained on others of the kind, and TRL's trainer around the same rows."""

    def __init__(self, n: int, folder: Path, vocabulary: int = 8_000) -> None:
        """Generate ``n`` runs, keep those that TRL can mask, and train a tokenizer.

        TRL cannot leave one turn out of the loss, so runs with format errors are left out.
        """
        fit = [(r, rows) for r in generate(n) if (rows := _sft_rows(r))]
        self.runs: list[Trajectory] = [run for run, _ in fit]
        self._rows = [row for _, rows in fit for row in rows]
        self._folder = folder
        self.tokenizer = tokenizer_of(vocabulary)

    @cached_property
    def messages(self) -> Any:
        """A dataset of messages and tools, as TRL takes it."""
        from datasets import Dataset

        return Dataset.from_list([{"messages": r.messages, "tools": r.tools} for r in self._rows])

    @cached_property
    def trainer(self) -> Any:
        """TRL's trainer with a model of one narrow layer; made outside the clock."""
        from transformers import LlamaConfig, LlamaForCausalLM
        from trl import SFTConfig, SFTTrainer

        model = LlamaForCausalLM(
            LlamaConfig(
                vocab_size=len(self.tokenizer),
                hidden_size=32,
                intermediate_size=32,
                num_hidden_layers=1,
                num_attention_heads=1,
            )
        )
        arguments = SFTConfig(
            output_dir=str(self._folder),
            assistant_only_loss=True,
            max_length=None,
            use_cpu=True,
            bf16=False,
            report_to="none",
        )
        return SFTTrainer(
            model,
            args=arguments,
            train_dataset=self.messages.select(range(1)),
            processing_class=self.tokenizer,
        )

    def ours(self, _: int = 0) -> list[TokenRow]:
        """Rows of the trajectories."""
        made: list[TokenRow] = []
        for found in tokenise_all(self.runs, self.tokenizer, CHATML):
            if isinstance(found, Refused):
                raise DisagreementError(found.reason)
            made += found
        return made

    def theirs(self, _: int = 0) -> Any:
        """TRL's preparation of the messages, a dataset with labels."""
        trainer = self.trainer
        return trainer._prepare_dataset(  # noqa: SLF001 - what is measured
            self.messages,
            self.tokenizer,
            trainer.args,
            packing=False,
            formatting_func=None,
            dataset_name="train",
        )


def _sft_rows(run: Trajectory) -> list[SftRow]:
    """Arguments as they were written, so that both sides tokenise the same text."""
    rows = sft_rows([run], options=SftOptions(arguments="text"))
    return [row for row in rows if isinstance(row, SftRow)]


def tokenizer_of(vocabulary: int) -> Any:
    """Byte-level BPE, trained on runs that are not measured, with the template of ours."""
    import tokenizers
    from transformers import PreTrainedTokenizerFast

    byte_level = tokenizers.pre_tokenizers.ByteLevel
    raw = tokenizers.Tokenizer(tokenizers.models.BPE())
    raw.pre_tokenizer = byte_level(add_prefix_space=False)
    raw.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=_SPECIAL,
        initial_alphabet=byte_level.alphabet(),
        show_progress=False,
    )
    texts = (s.text or "" for t in generate(20, seed=1) for s in t.steps)
    raw.train_from_iterator(texts, trainer)
    made = PreTrainedTokenizerFast(
        tokenizer_object=raw, eos_token="<|im_end|>", pad_token="<|pad|>"
    )
    made.chat_template = CHATML.text
    return made


def agree(ours: Sequence[TokenRow], theirs: Any) -> None:
    """Check that both sides give the same tokens and masks.

    TRL keeps the messages behind the last turn of the agent, if there are any; a row of ours ends
    with its last trained turn. So only what it holds is compared, and nothing beyond may have loss.

    Raises:
        DisagreementError: they do not.
    """
    if len(ours) != len(theirs):
        raise DisagreementError(f"{len(ours)} rows against {len(theirs)} of TRL")
    for place, (row, other) in enumerate(zip(ours, theirs, strict=True)):
        length = len(row.token_ids)
        marks = [label != -100 for label in other["labels"]]
        same = other["input_ids"][:length] == row.token_ids.tolist()
        if not same or marks[:length] != row.action_mask.tolist() or any(marks[length:]):
            raise DisagreementError(f"row {place} differs from that of TRL")


def measure(workload: Workload, *, repeats: int, budget_s: float = 120.0) -> list[Row]:
    """Thousands of tokens a second, after a check that both sides agree."""
    first, second = workload.ours(), workload.theirs()
    agree(first, second)
    tokens = sum(len(row.token_ids) for row in first)
    runs = time_rounds(
        {OURS: workload.ours, TRL: workload.theirs}, repeats=repeats, budget_s=budget_s
    )
    return timed_rows(
        WORK,
        runs,
        "thousand tokens/s",
        lambda seconds: tokens / 1e3 / seconds,
        targets={(WORK, TRL): TARGET},
        notes={OURS: f"{len(first)} rows, {tokens:,} tokens, from trajectories"},
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; 1 if the target is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trajectories", type=int, default=200)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args(arguments)
    lacking = [n for n in ("trl", "transformers", "datasets") if not importlib.util.find_spec(n)]
    if lacking:
        print(f"needs {', '.join(lacking)}: pip install -e '.[test]'", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as folder:
        rows = measure(Workload(options.trajectories, Path(folder)), repeats=options.repeats)
    about = environment(["python", "-m", "benchmarks.tokenising", *(arguments or sys.argv[1:])])
    print("\n".join(f"- {name}: {value}" for name, value in about.items()), end="\n\n")
    print(tables(rows))
    return int(any(r.met is False for r in rows))


if __name__ == "__main__":
    sys.exit(main())
