"""Loading against training: ``python -m benchmarks.loading``.

A batch of random runs is read from the store, tokenised, masked and padded; then a model takes one
step on that very batch, forward, backward and AdamW. Loading starves training if it takes longer
than the step, so the ratio is how many times faster batches come than they are used up. The small
model is the least that the guide trains; anything larger takes longer over a batch that costs the
same to load.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

if __package__ in {None, ""}:  # run as a file: python benchmarks/loading.py
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.measure import OURS, Row, Took, environment, timed, timed_rows
from benchmarks.report import tables
from benchmarks.tokenising import tokenizer_of
from trajstore.rollouts.templates import CHATML
from trajstore.store import Store
from trajstore.testing import generate
from trajstore.trainers import Sft, TokenRow, collate, token_logprobs, tokenise_all

WORK = "a batch"
TARGET = 1.0
"""Loading never takes longer than the step that it feeds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """A model to feed."""

    name: str
    """For the table."""
    layers: int
    """Number of layers."""
    hidden: int
    """Width."""
    batch: int
    """Runs of a step."""


SIZES = (
    Size(name="step, 2 layers of 96", layers=2, hidden=96, batch=4),
    Size(name="step, 12 layers of 384", layers=12, hidden=384, batch=1),
)
"""The guide's model from scratch, and one of 22 million weights."""


class Workload:
    """A store of generated runs, and a tokenizer trained on others of the kind."""

    def __init__(self, n: int, folder: Path, *, vocabulary: int = 2_000) -> None:
        """Store ``n`` runs in three commits and compact them, as a store in use is."""
        self.store = Store(folder / "pool", durable=False)
        runs = list(generate(n, mean_steps=6))
        for part in range(3):
            self.store.append(runs[part::3])
        self.store.compact()
        self.ids = sorted(run.trajectory_id for run in runs)
        self.tokenizer = tokenizer_of(vocabulary)
        self._random = Random(0)

    def load(self, count: int) -> dict[str, Any]:
        """A batch of random runs, from the store to padded tensors."""
        runs = self.store.reader().get_many(self._random.sample(self.ids, count))
        rows: list[TokenRow] = []
        for made in tokenise_all(runs, self.tokenizer, CHATML):
            rows += made if isinstance(made, list) else []
        return collate(rows, pad_token_id=self.tokenizer.pad_token_id)


class Trainee:
    """A model that takes steps."""

    def __init__(self, size: Size, vocabulary: int) -> None:
        """Random weights."""
        import torch
        from transformers import LlamaConfig, LlamaForCausalLM

        self._model = LlamaForCausalLM(
            LlamaConfig(
                vocab_size=vocabulary,
                hidden_size=size.hidden,
                intermediate_size=4 * size.hidden,
                num_hidden_layers=size.layers,
                num_attention_heads=size.hidden // 32,
                max_position_embeddings=65_536,
            )
        )
        self._optimizer = torch.optim.AdamW(self._model.parameters(), lr=1e-4)

    def step(self, batch: dict[str, Any]) -> float:
        """Forward, backward, AdamW; the loss."""
        objective = Sft()
        loss, _ = objective.loss(batch, token_logprobs(self._model, batch), objective.items(batch))
        loss.backward()
        self._optimizer.step()
        self._optimizer.zero_grad()
        return float(loss.detach())


def measure(workload: Workload, *, repeats: int, sizes: Sequence[Size] = SIZES) -> list[Row]:
    """Milliseconds to load a batch and to train on it, for each size of model."""
    rows: list[Row] = []
    for size in sizes:
        trainee = Trainee(size, len(workload.tokenizer))
        trainee.step(workload.load(1))
        loads: list[Took] = []
        steps: list[Took] = []
        tokens = 0
        for _ in range(repeats):
            took, batch = timed(lambda size=size: workload.load(size.batch))  # type: ignore[misc]
            loads.append(took)
            tokens += int(batch["attention_mask"].sum())
            took, _loss = timed(lambda batch=batch, trainee=trainee: trainee.step(batch))  # type: ignore[misc]
            steps.append(took)
        work = f"{WORK} of {size.batch} runs"
        rows += timed_rows(
            work,
            {OURS: tuple(loads), size.name: tuple(steps)},
            "ms",
            lambda seconds: seconds * 1e3,
            targets={(work, size.name): TARGET},
            notes={OURS: f"read, tokenised, masked, padded: {tokens // repeats:,} tokens"},
        )
    return rows


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; 1 if a step waits for its batch."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trajectories", type=int, default=1_000)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args(arguments)
    lacking = [n for n in ("torch", "transformers") if not importlib.util.find_spec(n)]
    if lacking:
        print(f"needs {', '.join(lacking)}: pip install -e '.[train]'", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as folder:
        rows = measure(Workload(options.trajectories, Path(folder)), repeats=options.repeats)
    about = environment(["python", "-m", "benchmarks.loading", *(arguments or sys.argv[1:])])
    print("\n".join(f"- {name}: {value}" for name, value in about.items()), end="\n\n")
    print(tables(rows))
    return int(any(r.met is False for r in rows))


if __name__ == "__main__":
    sys.exit(main())
