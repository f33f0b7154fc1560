"""One process of ``test_distributed``: ``python -m tests.trainers.distributed_worker NAME OUT``.

Takes one optimiser step on seven examples and writes the loss, the norm of the gradient and the
weights.
"""

from __future__ import annotations

import gc
import json
import os
import sys
from pathlib import Path

from tests.trainers.conftest import make_tiny_model
from trajstore.trainers.jobs.processes import leave
from trajstore.trainers.metrics import read_metrics
from trajstore.trainers.trainer import METRICS_FILE, make_trainer


def main(name: str, out: Path) -> None:
    """Train one step."""
    import torch

    from tests.trainers.test_trainer import OBJECTIVES, arguments, examples_of, weights_of

    world = int(os.environ.get("WORLD_SIZE", "1"))
    objective, model = OBJECTIVES[name], make_tiny_model()
    examples = examples_of(objective, model)[:7]
    size = {1: 7, 2: 4}[world]
    options = {"ddp_backend": "gloo"} if world > 1 else {}
    trainer = make_trainer(
        model,
        examples,
        objective,
        arguments(out, per_device_train_batch_size=size, **options),
    )
    trainer.train()
    if trainer.is_world_process_zero():
        (told,) = (m for m in read_metrics(out / METRICS_FILE) if "loss" in m)
        told["world"] = world
        (out / "told.json").write_text(json.dumps(told))
        torch.save(weights_of(model), out / "weights.pt")
    trainer.kept = [trainer]  # as a callback may keep it
    del trainer
    leave()
    wrapped = torch.nn.parallel.DistributedDataParallel
    assert not any(type(found) is wrapped for found in gc.get_objects())


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
